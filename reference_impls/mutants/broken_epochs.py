"""Sequencers that break a rule of epochs, each put into the machines of a subject that says it keeps it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ...harness.model import Role, Topology
from ...harness.quantities import Events
from ...harness.slices.machine import Slice
from ...harness.slices.operator import OperatorSlice
from ...harness.subject import SchemeSubject
from ..mechanisms.epochs import AsTheyComeInEpochs, InEpochs
from .mutant import Build

Make = Callable[[int, int], InEpochs]
"""(number of channels, size of an epoch) -> a sequencer."""


def sequencing(build: Build, make: Make) -> Build:
    """With another sequencer than the merge makes, which goes on saying what it said."""

    def broken(topology: Topology, every: Events) -> SchemeSubject:
        return replace(build(topology, every), wraps={Role.OPERATOR: partial(_with_sequencer, make)})

    return broken


def _with_sequencer(make: Make, machine: Slice) -> Slice:
    assert isinstance(machine, OperatorSlice)
    assert machine.spec.epoch is not None
    machine.waiting = make(len(machine.spec.upstream), machine.spec.epoch)
    return machine


class TakenEarly(AsTheyComeInEpochs):
    """What belongs to the next epoch is taken as well."""

    @property
    def upper(self) -> int:
        return super().upper + self.size

    def has_passed(self, channel: int) -> bool:
        return self._ended[channel] or self._passed[channel] >= super().upper


class OnePasses(AsTheyComeInEpochs):
    """An epoch closes when one channel has passed it."""

    @property
    def passed(self) -> bool:
        return any(map(self.has_passed, range(len(self.queues))))


class LowerInclusive(AsTheyComeInEpochs):
    """What comes at the end of an epoch is taken for the beginning of the next."""

    @property
    def upper(self) -> int:
        return super().upper - 1
