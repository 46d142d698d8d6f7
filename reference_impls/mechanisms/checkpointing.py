"""Periodic, uncoordinated checkpoints (StreamMine3G, section 3.7.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from ...harness.core.errors import OwnFailure
from ...harness.core.events import Event, Value
from ...harness.core.proper import proper
from ...harness.core.quantities import Events
from ...harness.protocol.channels import InputChannel
from ...harness.protocol.effects import Durable, Persist
from ...harness.protocol.mechanism import CHECKPOINT_EVERY, AtWork, Mechanism
from ...harness.protocol.messages import CheckpointId, Tie
from ...harness.protocol.operator import STATE, OperatorSlice
from ...harness.recording.records import CheckpointDurable


class AcknowledgeAt(StrEnum):
    """When a slice tells upstream that it will not ask again for what a checkpoint covers."""

    DURABLE = "durable"
    TAKEN = "taken"
    """Before it is durable. Unsafe: the mutants `...-acknowledging-before-durable`."""
    NEVER = "never"


@dataclass(frozen=True)
class Checkpointing(Mechanism):
    """One is taken whenever `every` events have been taken since the last. While it is not durable the slice goes on,
    but takes no further one: when the next is due it waits. So at most 2 x `every` events are ever unprotected. Where
    other replicas keep checkpoints and there is none, there is nothing to be checkpointed to, and the slice goes on
    alone.
    """

    every: Events
    without: frozenset[str] = frozenset()
    """The parts of a slice that are left out."""
    acknowledge: AcknowledgeAt = AcknowledgeAt.DURABLE

    def __post_init__(self) -> None:
        proper(self.every, Events, "the interval of checkpoints", "a number of events, as in events(500)")
        proper(self.without, frozenset, "what a checkpoint leaves out", "a frozenset of names of parts")
        proper(self.acknowledge, AcknowledgeAt, "when a checkpoint is acknowledged", "an AcknowledgeAt")

    @property
    def checkpoint_every(self) -> Events:
        return self.every

    @property
    def checkpoints_hold_state(self) -> bool:
        return STATE not in self.without

    def scaled(self, size: Callable[[Events], Events]) -> Checkpointing:
        return replace(self, every=size(self.every))

    def attach(self, machine: OperatorSlice) -> AtWork:
        return _Checkpointing(machine, self)


class Taking(AtWork):
    """Takes a checkpoint whenever so much has been counted since the last, one at a time, and acknowledges what it
    covers; what is counted is for others to say."""

    machine: OperatorSlice

    def __init__(
        self,
        machine: OperatorSlice,
        every: int,
        without: frozenset[str] = frozenset(),
        acknowledge: AcknowledgeAt = AcknowledgeAt.DURABLE,
    ) -> None:
        super().__init__(machine)
        self.every = every
        self.since = 0
        """Counted since the last checkpoint."""
        self._without = without
        self._acknowledge_at = acknowledge
        self._pending: CheckpointId | None = None
        self._marks: dict[str, int] = {}
        """The timestamp vector of the pending checkpoint."""

    def count(self, more: int) -> None:
        self.since += more
        self.take_if_due()

    def take_if_due(self) -> None:
        if self.since >= self.every and self._pending is None:
            self.since = 0
            self._take()

    def _take(self) -> None:
        machine, keeper = self.machine, self.machine.keeper
        if keeper is not None and not keeper.anybody():
            return
        checkpoint = machine.snapshot(self._without)
        self._pending = checkpoint.id
        self._marks = {up: channel.mark for up, channel in machine.inputs.items()}
        if keeper is None:
            machine.effects.append(Persist(checkpoint))
        else:
            keeper.keep(checkpoint, machine.became_durable, self._give_up)
        if self._acknowledge_at is AcknowledgeAt.TAKEN:
            self._acknowledge()

    def durable(self, given: Durable) -> None:
        machine = self.machine
        if self._pending is None or given.id != self._pending:
            raise OwnFailure(f"{machine.spec.slice_id} did not wait for {given.id}, but it became durable")
        self._pending = None
        machine.note(CheckpointDurable(machine.spec.slice_id, given.id.incarnation, given.id.number))
        if self._acknowledge_at is AcknowledgeAt.DURABLE:
            self._acknowledge()
        self.take_if_due()
        machine.work()

    def _give_up(self) -> None:
        """Whoever was to keep it is gone."""
        self._pending = None
        self.machine.work()

    def _acknowledge(self) -> None:
        for up, mark in self._marks.items():
            if mark:
                self.machine.acknowledge(up, mark)


class _Checkpointing(Taking):
    def __init__(self, machine: OperatorSlice, policy: Checkpointing) -> None:
        super().__init__(machine, policy.every.count, policy.without, policy.acknowledge)
        self._declared = policy.every

    def changed(self, settings: Mapping[str, Value]) -> None:
        """Raises InvalidScenario for what is no interval."""
        self.every = Events(settings.get(CHECKPOINT_EVERY, self._declared.count)).count

    def left(self) -> int:
        return self.every - self.since

    def room(self) -> int:
        self.take_if_due()
        return max(0, self.left())

    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        self.count(len(events))
