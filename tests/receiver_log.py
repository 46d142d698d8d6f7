"""A scheme as a user would bring it, of a kind that is not among streamproof's: each receiver logs what comes in, and
processes it once that is durable. Whoever starts again takes its own log from the beginning, or from where a checkpoint
has come to; so the order in which channels came is in the log, and no merge has to give it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from streamproof.harness.contracts.claims import Claim
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import precise_recovery
from streamproof.harness.core.quantities import Events, events
from streamproof.harness.core.topology import Role, Topology
from streamproof.harness.judging.exercised import Activity
from streamproof.harness.protocol.channels import InputChannel
from streamproof.harness.protocol.effects import Durable, Persist, PersistItems, Start
from streamproof.harness.protocol.mechanism import NO_LIMIT, AtWork, Mechanism
from streamproof.harness.protocol.merging import ChannelRun
from streamproof.harness.protocol.messages import Checkpoint, CheckpointId, Items, Tie
from streamproof.harness.protocol.operator import OperatorSlice
from streamproof.harness.protocol.spec import Numbering, Setup
from streamproof.harness.recording.records import CheckpointDurable
from streamproof.reference_impls.mechanisms.acknowledging import AcknowledgeEvery
from streamproof.reference_impls.mechanisms.duplicate_filter import DuplicateFilter
from streamproof.reference_impls.mechanisms.output_log import PART, OutputLog


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """Of a log: an input."""

    number: int
    """In the order in which inputs came."""
    upstream: str
    sender: int
    event: Event


@dataclass(frozen=True)
class LogInputs(Mechanism):
    """`broken` is the rule that is not kept."""

    every: Events
    broken: str = ""

    @property
    def checkpoint_every(self) -> Events:
        return self.every

    def scaled(self, size: Callable[[Events], Events]) -> LogInputs:
        return replace(self, every=size(self.every))

    def attach(self, machine: OperatorSlice) -> AtWork:
        return _LogInputs(machine, self)


class _LogInputs(AtWork):
    machine: OperatorSlice

    def __init__(self, machine: OperatorSlice, settings: LogInputs) -> None:
        super().__init__(machine)
        self._broken = settings.broken
        self._every = settings.every.count
        self._number = self._safe = self._done = 0
        """Of the input that came in last, that is durable, and that was taken."""
        self._fresh: list[Entry] = []
        self._saving: tuple[CheckpointId, list[Entry]] | None = None
        self._pending: CheckpointId | None = None
        self._since = 0
        self._replay: list[Entry] = []

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        up = self.machine.spec.upstream[channel.place]
        numbered = enumerate(events, self._number + 1)
        self._fresh += [Entry(number, up, channel.sender, event) for number, event in numbered]
        self._number += len(events)
        if self._broken == "acknowledged once durable":
            self.machine.acknowledge(up, events[-1].seq)
        return events

    def left(self) -> int:
        if self._broken == "taken once durable" or self._number == self._done:
            return NO_LIMIT
        return min(self._safe - self._done, self._every - self._since)

    def room(self) -> int:
        self._checkpoint()
        return max(0, self.left())

    def handled(self) -> None:
        if self._saving is None and self._fresh:
            id_, entries = self.machine.next_id(), self._fresh
            self._saving, self._fresh = (id_, entries), []
            logged = entries[:-1] if self._broken == "all of it is logged" and entries[1:] else entries
            items = Items(self.machine.spec.slice_id, id_, logged[-1].number, list(logged))
            self.machine.effects.append(PersistItems(items))

    def durable(self, given: Durable) -> None:
        machine = self.machine
        if self._saving is not None and given.id == self._saving[0]:
            entries, self._saving = self._saving[1], None
            self._safe = entries[-1].number
            upto = {one.upstream: one.event.seq for one in entries}
            for up, seq in upto.items():
                machine.acknowledge(up, seq + (self._broken == "acknowledged up to what is durable"))
        else:
            self._pending = None
            machine.note(CheckpointDurable(machine.spec.slice_id, given.id.incarnation, given.id.number))
        machine.work()

    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        self._done += len(events)
        self._since += len(events)
        self._checkpoint()

    def _checkpoint(self) -> None:
        if self._since < self._every or self._pending is not None:
            return
        self._since = 0
        covers = self._number if self._broken == "a checkpoint covers what was taken" else self._done
        without: set[str] = {PART} if self._broken == "outputs are part of a checkpoint" else set()
        checkpoint = msgspec.structs.replace(self.machine.snapshot(without), covers=covers)
        self._pending = checkpoint.id
        self.machine.effects.append(Persist(checkpoint))

    def completed(self, checkpoint: Checkpoint | None, kept: Sequence[Items]) -> Checkpoint | None:
        found: list[Any] = [item for one in kept for item in one.items]
        entries = [one if isinstance(one, Entry) else msgspec.convert(one, Entry) for one in found]
        covered = 0 if checkpoint is None else checkpoint.covers
        beyond = 0 if self._broken == "what a checkpoint covers is not replayed" else covered
        self._replay = sorted((one for one in entries if one.number > beyond), key=lambda one: one.number)
        if self._broken == "replayed in their order":
            self._replay.reverse()
        self._done = beyond
        self._number = self._safe = max([covered, *(one.number for one in entries)])
        return checkpoint

    def started(self, given: Start) -> None:
        machine = self.machine
        for one in self._replay:
            channel = machine.inputs[one.upstream]
            if self._broken != "what is logged has come in":
                channel.seen = max(channel.seen, one.event.seq)
            machine.waiting.put(ChannelRun(channel.place, one.sender, [one.event]))
        self._replay = []
        machine.work()


RULES = (
    "acknowledged once durable",
    "acknowledged up to what is durable",
    "taken once durable",
    "all of it is logged",
    "a checkpoint covers what was taken",
    "outputs are part of a checkpoint",
    "what a checkpoint covers is not replayed",
    "replayed in their order",
    "what is logged has come in",
)


def receiver_log(topology: Topology, *, every: Events = events(8), broken: str = "") -> SchemeSubject:
    """Claims precise recovery, for any number of failures, while what is durable survives and the source replays."""
    rests_on = (Activity.CHECKPOINT, Activity.RESTORE, Activity.REPLAY, Activity.FILTER, Activity.TRIM)
    return SchemeSubject(
        kind="receiver-log",
        topology=topology,
        setups={
            Role.SOURCE: Setup((OutputLog(),), Numbering.CONTINUED),
            Role.OPERATOR: Setup((OutputLog(), DuplicateFilter(), LogInputs(every, broken)), Numbering.CONTINUED),
            Role.SINK: Setup((DuplicateFilter(), AcknowledgeEvery(events(4)))),
        },
        claims=(Claim(precise_recovery(), rests_on=rests_on),),
    )
