"""One replica of a slice of an operator: how it joins its fellows, stands by, is promoted, and shares its state."""

from __future__ import annotations

from enum import Enum, auto

from ..recording.records import Promoted, Restored
from .components import Keeper, Part, Standby
from .effects import Durable, Effect, Gone, Note, Promote, Ready, Reroute, Send, Start
from .machine import SliceSpec
from .messages import (
    Acknowledge,
    Checkpoint,
    Fetch,
    Internal,
    Open,
    ReplayStop,
    Sync,
    Synced,
    Trim,
)
from .working import WorkingSlice


class _Phase(Enum):
    JOINING = auto()
    """It takes in, and waits for the state that this belongs to."""
    STANDING_BY = auto()
    """It waits to be promoted."""
    AT_WORK = auto()


class OperatorSlice(WorkingSlice):
    """An operator at work, beside the other replicas of its slice."""

    def __init__(self, spec: SliceSpec) -> None:
        super().__init__(spec)
        self._phase = _Phase.AT_WORK
        self._sync: Sync | None = None
        """The pending checkpoint, where fellows keep it."""
        self._awaited: set[int] = set()
        """The fellows that have not confirmed it."""
        self._confirmed: set[int] = set()
        """Those that have."""
        self._fellows: set[int] = set()
        """Other replicas of this slice that we are in touch with."""
        self._asked: int | None = None
        """The fellow that was asked for its state."""
        self._askers: list[int] = []
        self._held: Checkpoint | None = None
        """The primary's last state, for when we are promoted."""
        self._in_step = False
        self._early: list[tuple[str, Open | Acknowledge | ReplayStop]] = []
        """What receivers have said before we had what they ask for."""

    # Life

    def _start(self, given: Start, effects: list[Effect]) -> None:
        super()._start(given, effects)
        standby = self.spec.components.standby
        if not given.founder:
            joins = standby is None or standby is Standby.SILENT
            self._enter(_Phase.JOINING if joins else _Phase.STANDING_BY)
        if given.founder or standby is Standby.LOADED:
            self._step_in(effects)

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._working = phase is _Phase.AT_WORK

    def _step_in(self, effects: list[Effect]) -> None:
        if not self._in_step:
            self._in_step = True
            effects.append(Ready())

    def _take_over(self, checkpoint: Checkpoint, effects: list[Effect]) -> None:
        """Go on from the state of a fellow, or of one that was before us."""
        self._restore(checkpoint)
        taken = (checkpoint.id.incarnation, checkpoint.id.number)
        effects.append(Note(Restored(self.spec.slice_id, self.incarnation, taken, self._seq + 1)))

    def _set_to_work(self, effects: list[Effect]) -> None:
        """We have all that we shall get from others."""
        self._enter(_Phase.AT_WORK)
        early, self._early = self._early, []
        for peer, message in early:
            if isinstance(message, Open):
                self._open(peer, message, effects)
            else:
                self._from_downstream(peer, message, effects)
        self._answer_askers(effects)

    def _promote(self, given: Promote, effects: list[Effect]) -> None:
        checkpoint = given.checkpoint or self._held
        standing_by = self._phase is _Phase.STANDING_BY
        if standing_by and checkpoint is not None:
            self._take_over(checkpoint, effects)
        self._held = None
        effects.append(Note(Promoted(self.spec.slice_id, self.incarnation)))
        # Whatever it has is the state of its slice from now on.
        self._step_in(effects)
        self._set_to_work(effects)
        if standing_by and self.spec.components.standby is not Standby.QUEUING:
            for up, channel in self._inputs.items():
                for incarnation in channel.links:
                    self._open_at(up, incarnation, effects)
        self._work(effects)

    def _reroute(self, given: Reroute, effects: list[Effect]) -> None:
        if given.peer != self.spec.slice_id:
            super()._reroute(given, effects)
        elif (given.peer, given.incarnation) not in self._gone:
            self._meet(given.incarnation, effects)

    def _open_at(self, peer: str, incarnation: int, effects: list[Effect]) -> None:
        listens = self._phase is not _Phase.STANDING_BY or self.spec.components.standby is Standby.QUEUING
        if listens:
            super()._open_at(peer, incarnation, effects)

    def _lose(self, given: Gone, effects: list[Effect]) -> None:
        super()._lose(given, effects)
        if given.peer == self.spec.slice_id:
            self._fellows.discard(given.incarnation)
            self._awaited.discard(given.incarnation)
            self._confirmed.discard(given.incarnation)
            if self._asked == given.incarnation:
                self._asked = None
                self._fetch(effects)
            self._find_confirmed(effects)

    # What has to wait until it is at work

    def _open(self, peer: str, message: Open, effects: list[Effect]) -> None:
        if self._working:
            super()._open(peer, message, effects)
        else:
            self._early.append((peer, message))

    def _from_downstream(self, peer: str, message: Acknowledge | ReplayStop, effects: list[Effect]) -> None:
        if self._working:
            super()._from_downstream(peer, message, effects)
        else:
            self._early.append((peer, message))

    # Among replicas

    def _meet(self, fellow: int, effects: list[Effect]) -> None:
        """What was on its way to a fellow that we knew before is lost: say it again."""
        self._fellows.add(fellow)
        if self._pending is not None and fellow in self._awaited:
            assert self._sync is not None
            effects.append(Send(self.spec.slice_id, fellow, self._sync))
        if self._asked == fellow:
            self._asked = None
        self._fetch(effects)

    def _from_fellow(self, peer: str, message: Internal, effects: list[Effect]) -> None:
        if (peer, message.incarnation) in self._gone:
            self._refuse(peer, message, effects)
            return
        if message.incarnation not in self._fellows:
            # It heard of us before we heard of it.
            self._meet(message.incarnation, effects)
        if isinstance(message, Fetch):
            if message.incarnation not in self._askers:
                self._askers.append(message.incarnation)
            self._answer_askers(effects)
            if message.incarnation == self._asked:
                self._asked = None
                self._fetch(effects)
        elif isinstance(message, Sync):
            self._synchronize(message, effects)
        elif isinstance(message, Synced):
            if self._pending is not None and message.number == self._pending.number:
                self._awaited.discard(message.incarnation)
                self._confirmed.add(message.incarnation)
                self._find_confirmed(effects)
        else:
            self._outputs[message.downstream].trim(message.upto)

    def _fetch(self, effects: list[Effect]) -> None:
        """Ask a fellow for its state, once we cannot miss anything that comes after it. One that asks us has none."""
        needs = self._phase is _Phase.JOINING or (
            self._phase is _Phase.STANDING_BY and self.spec.components.standby is not Standby.LOADED
        )
        helpful = self._fellows.difference(self._askers)
        if not needs or self._in_step or self._asked is not None or not helpful:
            return
        if self._listens and not self._hears_all:
            return
        self._asked = min(helpful)
        effects.append(Send(self.spec.slice_id, self._asked, Fetch(self.incarnation)))

    @property
    def _listens(self) -> bool:
        return self._phase is not _Phase.STANDING_BY or self.spec.components.standby is Standby.QUEUING

    @property
    def _hears_all(self) -> bool:
        """Whether somebody speaks on every channel, and we have what was logged there."""
        return all(any(not link.replaying for link in channel.links.values()) for channel in self._inputs.values())

    def _replayed(self, effects: list[Effect]) -> None:
        self._fetch(effects)
        self._answer_askers(effects)

    def _answer_askers(self, effects: list[Effect]) -> None:
        """Not before those upstream know us: what a fellow acknowledges that is ahead of us, they would drop."""
        if not self._working or not self._hears_all:
            return
        for asker in self._askers:
            if asker in self._fellows:
                sync = Sync(self.incarnation, self._snapshot(frozenset(Part), effects))
                effects.append(Send(self.spec.slice_id, asker, sync))
        self._askers.clear()

    def _synchronize(self, message: Sync, effects: list[Effect]) -> None:
        checkpoint = message.checkpoint
        if self._phase is _Phase.JOINING:
            self._take_over(checkpoint, effects)
            for to, listeners in checkpoint.listeners.items():
                for receiver, upto in listeners.items():
                    if (to, receiver) not in self._gone:
                        self._outputs[to].expect(receiver, upto)
            self._step_in(effects)
            self._set_to_work(effects)
            self._work(effects)
        elif self._phase is _Phase.STANDING_BY:
            self._held = checkpoint
            effects.append(
                Send(self.spec.slice_id, message.incarnation, Synced(self.incarnation, checkpoint.id.number))
            )
            if self.spec.components.standby is Standby.QUEUING:
                for up, mark in checkpoint.vector.items():
                    self._waiting.drop(self._inputs[up].place, mark)
                    if mark:
                        self._acknowledge(up, mark, effects)
            self._step_in(effects)

    # What fellows keep

    @property
    def _kept(self) -> bool:
        return self._policy is None or self._policy.keeper is Keeper.STORE or bool(self._fellows)

    def _keep(self, checkpoint: Checkpoint, effects: list[Effect]) -> None:
        if self._policy is None or self._policy.keeper is Keeper.STORE:
            super()._keep(checkpoint, effects)
            return
        self._awaited, self._confirmed = set(self._fellows), set()
        self._sync = Sync(self.incarnation, checkpoint)
        effects += [Send(self.spec.slice_id, fellow, self._sync) for fellow in sorted(self._fellows)]

    def _acknowledged(self, to: str, upto: int, effects: list[Effect]) -> None:
        """By nothing else may the log of a secondary be trimmed, and it hears of it from nobody else."""
        if self.spec.components.standby is Standby.SILENT:
            trim = Trim(self.incarnation, to, upto)
            effects += [Send(self.spec.slice_id, fellow, trim) for fellow in sorted(self._fellows)]
        super()._acknowledged(to, upto, effects)

    def _find_confirmed(self, effects: list[Effect]) -> None:
        """Durable is what all fellows have; nothing is, if none is left that has confirmed."""
        policy = self._policy
        if policy is None or policy.keeper is not Keeper.FELLOWS or self._pending is None or self._awaited:
            return
        self._sync = None
        if self._confirmed:
            self._durable(Durable(self._pending), effects)
        else:
            self._pending = None
            self._work(effects)
