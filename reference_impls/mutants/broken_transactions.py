"""Transactions of a sink that break a rule, each put in place of those of a subject that says it keeps it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from ...harness.core.topology import Role
from ...harness.protocol.effects import Durable
from ...harness.protocol.mechanism import AtWork, Mechanism
from ...harness.protocol.messages import Checkpoint
from ...harness.protocol.operator import VECTOR, Vector
from ...harness.protocol.sink import SinkSlice
from ...harness.protocol.spec import Setup
from ...harness.recording.records import Delivered
from ..mechanisms.sink_delivery import DeliverInTransactions, InTransactions
from .mutant import Build, changing


class Tear(StrEnum):
    """What is not done in one step, or left out."""

    VECTOR_FIRST = "vector-first"
    OUTPUTS_FIRST = "outputs-first"
    ONE_CHANNEL_LESS = "one-channel-less"
    ACKNOWLEDGED_EARLY = "acknowledged-early"
    REST_LEFT = "rest-left"


class _VectorFirst(InTransactions):
    """The vector is saved, and what it says is delivered once that is durable."""

    def __init__(self, machine: SinkSlice, every: int) -> None:
        super().__init__(machine, every)
        self._undelivered: list[Delivered] = []

    def transaction(self, outputs: list[Delivered]) -> Checkpoint:
        self._undelivered = outputs
        return self.machine.snapshot()

    def durable(self, given: Durable) -> None:
        for one in self._undelivered:
            self.machine.note(one)
        super().durable(given)


class _OutputsFirst(InTransactions):
    """Outputs are delivered, and the vector that says so is saved after that."""

    def transaction(self, outputs: list[Delivered]) -> Checkpoint:
        for one in outputs:
            self.machine.note(one)
        return self.machine.snapshot()


class _OneChannelLess(InTransactions):
    """The vector says nothing of the first channel."""

    def transaction(self, outputs: list[Delivered]) -> Checkpoint:
        checkpoint = self.machine.snapshot(outputs)
        vector = checkpoint.part(VECTOR, Vector) or Vector()
        marks = {up: mark for up, mark in vector.marks.items() if up != self.machine.spec.upstream[0]}
        return msgspec.structs.replace(checkpoint, parts=checkpoint.parts | {VECTOR: Vector(marks)})


class _AcknowledgedEarly(InTransactions):
    """What a transaction holds is acknowledged when it begins."""

    def commit(self, least: int) -> None:
        pending = self._pending
        super().commit(least)
        if self._pending != pending:
            self.acknowledge()


class _RestLeft(InTransactions):
    """At the end of the input, what is short of a whole transaction is not committed."""

    def input_over(self) -> None:
        self.commit(self._every)

    def unfinished(self) -> bool:
        return self._pending is not None


_AT_WORK: dict[Tear, Callable[[SinkSlice, int], AtWork]] = {
    Tear.VECTOR_FIRST: _VectorFirst,
    Tear.OUTPUTS_FIRST: _OutputsFirst,
    Tear.ONE_CHANNEL_LESS: _OneChannelLess,
    Tear.ACKNOWLEDGED_EARLY: _AcknowledgedEarly,
    Tear.REST_LEFT: _RestLeft,
}


@dataclass(frozen=True)
class TornTransactions(DeliverInTransactions):
    """Transactions that are none."""

    tear: Tear = Tear.VECTOR_FIRST

    def attach(self, machine: SinkSlice) -> AtWork:
        return _AT_WORK[self.tear](machine, self.every.count)


def delivering(build: Build, *instead: Mechanism) -> Build:
    """With other mechanisms in place of a sink's transactions."""

    def other(setup: Setup) -> Setup:
        kept = tuple(one for one in setup.mechanisms if not isinstance(one, DeliverInTransactions))
        return replace(setup, mechanisms=(*kept, *instead))

    return changing(build, other, Role.SINK)


def torn(build: Build, tear: Tear) -> Build:
    """With transactions that break a rule."""
    return lambda topology, every: delivering(build, TornTransactions(every, tear))(topology, every)
