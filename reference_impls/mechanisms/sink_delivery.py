"""How a sink delivers that can be lost with its node: at once, or in transactions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...harness.core.errors import OwnFailure
from ...harness.core.events import Event
from ...harness.core.proper import proper
from ...harness.core.quantities import Events
from ...harness.protocol.channels import InputChannel
from ...harness.protocol.effects import Durable, Persist
from ...harness.protocol.mechanism import AtWork, Mechanism
from ...harness.protocol.messages import Checkpoint, CheckpointId, Tie
from ...harness.protocol.sink import SinkSlice
from ...harness.recording.records import CheckpointDurable, Delivered


@dataclass(frozen=True)
class DeliverAtOnce(Mechanism):
    """What is taken is delivered then and there, and the sink remembers nothing of it: once it was started again, it
    takes and delivers whatever its senders send again."""

    @property
    def in_fault_domain(self) -> bool:
        return True

    def attach(self, machine: SinkSlice) -> AtWork:
        return AtWork(machine)


@dataclass(frozen=True)
class DeliverInTransactions(Mechanism):
    """What is taken is delivered by a transaction: one checkpoint, written in one step, of the outputs since the last,
    and of the vector that says up to where each channel is in it. There is one whenever `every` outputs have been taken
    since the last, one at a time, and one of the rest at the end of the input. Only what is durable is delivered, and
    acknowledged upstream; a sink that is started again goes on from the newest vector, and has the rest sent again.
    """

    every: Events

    def __post_init__(self) -> None:
        proper(self.every, Events, "the interval of transactions", "a number of events, as in events(100)")

    @property
    def in_fault_domain(self) -> bool:
        return True

    @property
    def checkpoint_every(self) -> Events:
        return self.every

    def scaled(self, size: Callable[[Events], Events]) -> DeliverInTransactions:
        return replace(self, every=size(self.every))

    def attach(self, machine: SinkSlice) -> AtWork:
        return InTransactions(machine, self.every.count)


class InTransactions(AtWork):
    """Collects what is to be delivered, and commits it."""

    machine: SinkSlice

    def __init__(self, machine: SinkSlice, every: int) -> None:
        super().__init__(machine)
        self._every = every
        self._outputs: list[Delivered] = []
        """Taken since the last transaction began, in that order."""
        self._since = 0
        """How many these are."""
        self._pending: CheckpointId | None = None
        self._marks: dict[str, int] = {}
        """The vector of the pending transaction."""

    def delivers(self, up: str, sender: int, events: list[Event]) -> bool:
        self._outputs.append(self.machine.delivery(up, sender, events))
        self._since += len(events)
        return True

    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        self.commit(self._every)

    def input_over(self) -> None:
        self.commit(1)

    def unfinished(self) -> bool:
        return self._pending is not None or bool(self._outputs)

    def commit(self, least: int) -> None:
        """Begin a transaction, if so many outputs wait for one, and none is under way."""
        if self._since < least or self._pending is not None:
            return
        outputs, self._outputs, self._since = self._outputs, [], 0
        checkpoint = self.transaction(outputs)
        self._pending = checkpoint.id
        self._marks = {up: channel.mark for up, channel in self.machine.inputs.items()}
        self.machine.effects.append(Persist(checkpoint))

    def transaction(self, outputs: list[Delivered]) -> Checkpoint:
        """What delivers these outputs, and says that they are delivered."""
        return self.machine.snapshot(outputs)

    def durable(self, given: Durable) -> None:
        machine = self.machine
        if given.id != self._pending:
            raise OwnFailure(f"{machine.spec.slice_id} did not wait for {given.id}, but it became durable")
        self._pending = None
        machine.note(CheckpointDurable(machine.spec.slice_id, given.id.incarnation, given.id.number))
        self.acknowledge()
        self.commit(self._every)
        machine.find_end()

    def acknowledge(self) -> None:
        """Nothing that a durable transaction has delivered is asked for again."""
        for up, mark in self._marks.items():
            if mark:
                self.machine.acknowledge(up, mark)
