"""Sequencers that break a rule of epochs, each put into the machines of a subject that says it keeps it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.quantities import Events
from ...harness.core.topology import Role, Topology
from ...harness.protocol.machine import Slice
from ...harness.protocol.merging import ChannelRun, epoch_of
from ...harness.protocol.operator import OperatorSlice
from ..mechanisms.epochs import Bags, InEpochs
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


class TakenEarly(InEpochs):
    """What belongs to the next epoch is taken as well."""

    @property
    def upper(self) -> int:
        return super().upper + self.size

    def has_passed(self, channel: int) -> bool:
        return self._ended[channel] or self._passed[channel] >= super().upper


class OnePasses(InEpochs):
    """An epoch closes when one channel has passed it."""

    @property
    def passed(self) -> bool:
        return any(map(self.has_passed, range(len(self.queues))))


class LowerInclusive(InEpochs):
    """What comes at the end of an epoch is taken for the beginning of the next."""

    @property
    def upper(self) -> int:
        return super().upper - 1


class ByArrival(Bags):
    """That channel comes first whose bag began first."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__(channels, size)
        self._arrived: list[int] = []

    def put(self, run: ChannelRun) -> None:
        super().put(run)
        self._arrived.append(run.channel)

    def next(self, most: int) -> ChannelRun | None:
        if not self.passed:
            return None
        for channel in self._arrived:
            count = self.waits(channel)
            if count:
                return self.take(channel, min(most, count))
        self._arrived = [channel for channel in self._arrived if self.queues[channel]]
        return None


class ByPosition(Bags):
    """The next bag of each channel, of whichever epoch it is: bags are counted, and there are no empty ones."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__(channels, size)
        self._bags: list[int | None] = [None] * channels
        """The epoch of the bag that is being taken of each channel."""

    def _epoch(self, channel: int) -> int | None:
        queue = self.queues[channel]
        return epoch_of(queue[0].events[0].time, self.size) if queue else None

    @property
    def passed(self) -> bool:
        """Whether there is a whole bag on each channel."""
        if all(bag is None for bag in self._bags):
            if any(not self._whole(channel) for channel in range(len(self.queues))):
                return False
            self._bags = [self._epoch(channel) for channel in range(len(self.queues))]
        return True

    def _whole(self, channel: int) -> bool:
        epoch = self._epoch(channel)
        return self._ended[channel] or (epoch is not None and self._passed[channel] > epoch * self.size)

    def waits(self, channel: int) -> int:
        bag, queue = self._bags[channel], self.queues[channel]
        if bag is None or not queue:
            return 0
        return sum(epoch_of(event.time, self.size) == bag for event in queue[0].events)

    def advance(self) -> None:
        super().advance()
        self._bags = [None] * len(self.queues)


class OnlyEventsPass(Bags):
    """Neither silence nor an end tells how far a channel has come."""

    def silence(self, channel: int, time: int) -> None:
        pass

    def has_passed(self, channel: int) -> bool:
        return self._passed[channel] >= self.upper
