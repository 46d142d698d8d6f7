"""Replicas of a slice: how one joins the others, stands by, is promoted, and shares its state (StreamMine3G, sections
3.7.3, 3.7.6 and 7.3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Any

from ...harness.core.proper import proper, switch
from ...harness.protocol.effects import Durable, Gone, Promote, Start
from ...harness.protocol.mechanism import AtWork, Keeper, Mechanism
from ...harness.protocol.messages import Checkpoint, Flow, Message
from ...harness.protocol.operator import LISTENERS, VECTOR, OperatorSlice, Vector
from ...harness.recording.records import Promoted, Restored


class Standby(StrEnum):
    """What the secondary replicas of a slice do while the primary is active (section 7.3.1)."""

    SILENT = "silent"
    """They take all input, and send nothing: active standby."""
    QUEUING = "queuing"
    """They are sent all input, and keep what is newer than the state that they hold: passive standby, hot."""
    HOLDING = "holding"
    """They hold the primary's last state and are sent nothing else: passive standby, cold."""
    LOADED = "loaded"
    """They are there and blank, and read the newest checkpoint when they are needed: deployed."""


class Fetch(Message, frozen=True, tag="fetch", array_like=True, gc=False):
    """A replica that joins asks a peer for its state."""

    flow = Flow.FELLOWS


class Sync(Message, frozen=True, tag="sync", array_like=True, gc=True):
    """A replica's checkpoint, for a peer to hold or to go on from."""

    flow = Flow.FELLOWS

    checkpoint: Checkpoint

    @property
    def identity(self) -> str:
        return f"sync@{self.checkpoint.id.number}"


class Synced(Message, frozen=True, tag="synced", array_like=True, gc=False):
    """The peer has checkpoint `number`."""

    flow = Flow.FELLOWS

    number: int


class Trim(Message, frozen=True, tag="trim", array_like=True, gc=False):
    """The primary passes on what a receiver has acknowledged."""

    flow = Flow.FELLOWS

    downstream: str
    upto: int


@dataclass(frozen=True)
class Replicas(Mechanism):
    """Several replicas of each slice. Named after the output log, whose trimming a secondary hears of by it."""

    messages = (Fetch, Sync, Synced, Trim)

    standby: Standby | None = None
    """What secondaries do; None: there are none, all replicas are at work and active."""
    keep_checkpoints: bool = False
    """The other replicas keep checkpoints in their memory: state synchronization (section 7.3.1). Durable is what all
    of them have."""

    def __post_init__(self) -> None:
        proper(self.standby, Standby | None, "standby", "a Standby, or None")
        switch(self.keep_checkpoints, "keep_checkpoints")

    @property
    def all_active(self) -> bool:
        return self.standby is None

    @property
    def replicas_take_all(self) -> bool:
        return self.standby in (None, Standby.SILENT)

    @property
    def promoted_from_store(self) -> bool:
        return self.standby is Standby.LOADED

    @property
    def peers_keep_checkpoints(self) -> bool:
        return self.keep_checkpoints

    def attach(self, machine: OperatorSlice) -> AtWork:
        return _Replicas(machine, self)


class _Phase(Enum):
    JOINING = auto()
    """It takes in, and waits for the state that this belongs to."""
    STANDING_BY = auto()
    """It waits to be promoted."""
    AT_WORK = auto()


class _Replicas(AtWork, Keeper):
    machine: OperatorSlice

    def __init__(self, machine: OperatorSlice, settings: Replicas) -> None:
        super().__init__(machine)
        self._standby = settings.standby
        if settings.keep_checkpoints:
            machine.keeper = self
        self._phase = _Phase.AT_WORK
        self._sync: Sync | None = None
        """The pending checkpoint, where peers keep it."""
        self._kept: Callable[[Durable], None] | None = None
        self._given_up: Callable[[], None] | None = None
        """Who waits for it."""
        self._awaited: set[int] = set()
        """The peers that have not confirmed it."""
        self._confirmed: set[int] = set()
        """Those that have."""
        self._peers: set[int] = set()
        """Other replicas of this slice that we are in touch with."""
        self._asked: int | None = None
        """The peer that was asked for its state."""
        self._askers: list[int] = []
        self._held: Checkpoint | None = None
        """The primary's last state, for when we are promoted."""
        self._in_sync = False

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        return dict.fromkeys(Replicas.messages, self._from_peer)

    # Life cycle

    def started(self, given: Start) -> None:
        if not given.initial:
            joins = self._standby is None or self._standby is Standby.SILENT
            self._enter(_Phase.JOINING if joins else _Phase.STANDING_BY)
        if given.initial or self._standby is Standby.LOADED:
            self._get_in_sync()

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self.machine.working = phase is _Phase.AT_WORK

    def _get_in_sync(self) -> None:
        if not self._in_sync:
            self._in_sync = True
            self.machine.ready()

    def _take_over(self, checkpoint: Checkpoint) -> None:
        """Go on from the state of a peer, or of one that was before us."""
        machine = self.machine
        machine.restore(checkpoint)
        taken = (checkpoint.id.incarnation, checkpoint.id.number)
        machine.note(Restored(machine.spec.slice_id, machine.incarnation, taken, machine.seq + 1))

    def _set_to_work(self) -> None:
        """We have all that we shall get from others."""
        self._phase = _Phase.AT_WORK
        self.machine.set_to_work()
        self._answer_askers()

    def promoted(self, given: Promote) -> None:
        machine = self.machine
        checkpoint = given.checkpoint or self._held
        standing_by = self._phase is _Phase.STANDING_BY
        if standing_by and checkpoint is not None:
            self._take_over(checkpoint)
        self._held = None
        machine.note(Promoted(machine.spec.slice_id, machine.incarnation))
        # Whatever it has is the state of its slice from now on.
        self._get_in_sync()
        self._set_to_work()
        if standing_by and self._standby is not Standby.QUEUING:
            for up, channel in machine.inputs.items():
                for incarnation in channel.links:
                    machine.open_at(up, incarnation)
        machine.work()

    def listens(self) -> bool:
        return self._phase is not _Phase.STANDING_BY or self._standby is Standby.QUEUING

    def lost(self, given: Gone) -> None:
        if given.neighbour == self.machine.spec.slice_id:
            self._peers.discard(given.incarnation)
            self._awaited.discard(given.incarnation)
            self._confirmed.discard(given.incarnation)
            if self._asked == given.incarnation:
                self._asked = None
                self._fetch()
            self._find_confirmed()

    # Among replicas

    def met(self, peer: int) -> None:
        """What was on its way to a peer that we knew before is lost: say it again."""
        self._peers.add(peer)
        if self._sync is not None and peer in self._awaited:
            self._tell(peer, self._sync)
        if self._asked == peer:
            self._asked = None
        self._fetch()

    def _tell(self, peer: int, message: Message) -> None:
        self.machine.send(self.machine.spec.slice_id, peer, message)

    def _from_peer(self, sender: str, message: Fetch | Sync | Synced | Trim) -> None:
        machine, peer = self.machine, message.incarnation
        if (sender, peer) in machine.gone:
            machine.refuse(sender, message)
            return
        if peer not in self._peers:
            # It heard of us before we heard of it.
            self.met(peer)
        if isinstance(message, Fetch):
            if peer not in self._askers:
                self._askers.append(peer)
            self._answer_askers()
            if peer == self._asked:
                self._asked = None
                self._fetch()
        elif isinstance(message, Sync):
            self._synchronize(message)
        elif isinstance(message, Synced):
            if self._sync is not None and message.number == self._sync.checkpoint.id.number:
                self._awaited.discard(peer)
                self._confirmed.add(peer)
                self._find_confirmed()
        elif machine.log is not None:
            machine.log.trim(message.downstream, message.upto)

    def _fetch(self) -> None:
        """Ask a peer for its state, once we cannot miss anything that comes after it. One that asks us has none."""
        needs = self._phase is _Phase.JOINING or (
            self._phase is _Phase.STANDING_BY and self._standby is not Standby.LOADED
        )
        helpful = self._peers.difference(self._askers)
        if not needs or self._in_sync or self._asked is not None or not helpful:
            return
        if self.listens() and not self._hears_all:
            return
        self._asked = min(helpful)
        self._tell(self._asked, Fetch(self.machine.incarnation))

    @property
    def _hears_all(self) -> bool:
        """Whether somebody is active on every channel, and we have what was logged there."""
        channels = self.machine.inputs.values()
        return all(any(not link.replaying for link in channel.links.values()) for channel in channels)

    def replayed(self) -> None:
        self._fetch()
        self._answer_askers()

    def _answer_askers(self) -> None:
        """Not before those upstream know us: what a peer acknowledges that is ahead of us, they would drop."""
        if not self.machine.working or not self._hears_all:
            return
        for asker in self._askers:
            if asker in self._peers:
                self._tell(asker, Sync(self.machine.incarnation, self.machine.snapshot()))
        self._askers.clear()

    def _synchronize(self, message: Sync) -> None:
        machine, checkpoint = self.machine, message.checkpoint
        if self._phase is _Phase.JOINING:
            self._take_over(checkpoint)
            known = checkpoint.part(LISTENERS, dict) or {}
            for to, listeners in known.items():
                for receiver, upto in listeners.items():
                    if (to, receiver) not in machine.gone:
                        machine.outputs[to].expect(receiver, upto)
            self._get_in_sync()
            self._set_to_work()
            machine.work()
        elif self._phase is _Phase.STANDING_BY:
            self._held = checkpoint
            self._tell(message.incarnation, Synced(machine.incarnation, checkpoint.id.number))
            if self._standby is Standby.QUEUING:
                for up, mark in (checkpoint.part(VECTOR, Vector) or Vector()).marks.items():
                    machine.waiting.drop(machine.inputs[up].place, mark)
                    if mark:
                        machine.acknowledge(up, mark)
            self._get_in_sync()

    def acknowledged(self, to: str, upto: int) -> None:
        """By nothing else may the log of a secondary be trimmed, and it hears of it from nobody else."""
        if self._standby is Standby.SILENT:
            for peer in sorted(self._peers):
                self._tell(peer, Trim(self.machine.incarnation, to, upto))

    # What peers keep

    def anybody(self) -> bool:
        return bool(self._peers)

    def keep(self, checkpoint: Checkpoint, kept: Callable[[Durable], None], given_up: Callable[[], None]) -> None:
        self._awaited, self._confirmed = set(self._peers), set()
        self._sync = Sync(self.machine.incarnation, checkpoint)
        self._kept, self._given_up = kept, given_up
        for peer in sorted(self._peers):
            self._tell(peer, self._sync)

    def _find_confirmed(self) -> None:
        """Durable is what all peers have; nothing is, if none is left that has confirmed."""
        if self._sync is None or self._awaited:
            return
        assert self._kept is not None
        assert self._given_up is not None
        sync, self._sync = self._sync, None
        if self._confirmed:
            self._kept(Durable(sync.checkpoint.id))
        else:
            self._given_up()
