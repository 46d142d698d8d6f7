"""A sink that can be lost, and whose senders keep an output until it is received (AF-Stream, sections 3.4.2 and 3.4.3;
there a sink does not fail)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...harness.core.events import Event
from ...harness.protocol.channels import InputChannel
from ...harness.protocol.mechanism import AtWork
from ...harness.protocol.messages import Checkpoint, Message
from ...harness.protocol.sink import SinkSlice
from ...harness.recording.records import Delivered
from .receipt import NumbersSeen, Received, Settled
from .sink_delivery import DeliverInTransactions, InTransactions


@dataclass(frozen=True)
class ReceiveInTransactions(DeliverInTransactions):
    """An output is received once the transaction is durable that delivers it. Which numbers were seen is part of the
    transaction."""

    messages = (Received, Settled)

    def attach(self, machine: SinkSlice) -> AtWork:
        return Receiving(machine, self.every.count)


class Receiving(InTransactions):
    """Tells senders what of theirs was delivered."""

    part = "seen"

    def __init__(self, machine: SinkSlice, every: int) -> None:
        super().__init__(machine, every)
        self._seen = NumbersSeen(machine)
        self._came: dict[str, tuple[int, int]] = {}
        """Upstream slice -> who sent what came last, and the number of that."""
        self._committed: dict[str, tuple[int, int]] = {}
        """The same when the pending transaction began."""

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        return {Settled: self._settled}

    def _settled(self, peer: str, message: Settled) -> None:
        self._seen.settle(self.machine.inputs[peer].place, message.incarnation, message.upto)

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        machine = self.machine
        self._came[machine.spec.upstream[channel.place]] = (channel.sender, events[-1].seq)
        fresh = self._seen.unseen(channel, events)
        if not fresh and self._pending is None:
            self.acknowledge()
        return fresh

    def transaction(self, outputs: list[Delivered]) -> Checkpoint:
        self._committed = dict(self._came)
        return super().transaction(outputs)

    def acknowledge(self) -> None:
        """Where nothing waits, all that came was delivered."""
        machine = self.machine
        for up, (sender, upto) in (self._committed if self._outputs else self._came).items():
            if sender in machine.inputs[up].links:
                machine.send(up, sender, Received(machine.incarnation, upto))

    def save(self) -> dict[int, list[tuple[int, int]]]:
        return self._seen.save(())

    def restore(self, checkpoint: Checkpoint) -> None:
        self._seen.restore(checkpoint.part(self.part, dict) or {})
