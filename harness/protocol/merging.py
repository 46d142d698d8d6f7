"""In which order a slice takes what comes in on its channels: what a merge is made of.

A merge is deterministic when that order follows from the events alone, and not from when they arrive. So replicas of a
slice, and a slice that is restored and given its input again, take the same in the same order.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar, runtime_checkable

from ..core.errors import OwnFailure
from ..core.events import Event, Value
from ..core.slice_names import operator_of
from .messages import Tie, after

Setting = TypeVar("Setting")

ALWAYS = sys.maxsize
"""The event time of a channel that has ended."""


class Order(StrEnum):
    """How much of the order in which a slice takes several channels follows from the events alone."""

    TOTAL = "total"
    PER_EPOCH = "per epoch"
    """One epoch after the other; within one they are taken as they come."""
    FREE = "free"


def epoch_of(time: int, size: int) -> int:
    """The epoch of an event: e holds what is later than e x size, up to (e + 1) x size. The first begins below 0."""
    return max(0, (time - 1) // size)


def end_of(epoch: int, size: int) -> int:
    """The last time of an epoch."""
    return (epoch + 1) * size


def of_slice(settings: Mapping[str, Setting], slice_id: str) -> Setting | None:
    """What is set for a slice, or for its operator; None where neither is named."""
    return settings.get(slice_id, settings.get(operator_of(slice_id)))


@runtime_checkable
class Merge(Protocol):
    """A declared order, as data; where channels meet, every slice that declares it takes its input so. One that knows
    epochs is declared for a single channel too, since epochs end there as well."""

    @property
    def order(self) -> Order: ...

    @property
    def by_time(self) -> bool:
        """Whether it waits for event time to pass on a channel, so that an idle one has to say how far it has come."""

    @property
    def named(self) -> tuple[str, ...]:
        """The operators and slices that it has settings of their own for."""

    def epoch(self, slice_id: str) -> int | None:
        """How many milliseconds of event time a slice takes as an epoch; None: it knows none."""

    def sequencer(self, slice_id: str, channels: int) -> Sequencer:
        """What holds the input of a slice with so many channels, two or more where there are no epochs. Raises
        InvalidTopology where it does not fit."""


@dataclass(slots=True)
class ChannelRun:
    """Consecutive events of one channel."""

    channel: int
    incarnation: int
    """Whose copy of them this is."""
    events: list[Event]
    ties: list[Tie] | None = None

    def split(self, most: int) -> tuple[ChannelRun, ChannelRun | None]:
        """The first events, at most so many, and the rest."""
        return (self, None) if len(self.events) <= most else self.cut(most)

    def cut(self, most: int) -> tuple[ChannelRun, ChannelRun]:
        """The first events, so many of more, and the rest."""
        channel, incarnation, events, ties = self.channel, self.incarnation, self.events, self.ties
        return (
            ChannelRun(channel, incarnation, events[:most], None if ties is None else ties[:most]),
            ChannelRun(channel, incarnation, events[most:], None if ties is None else ties[most:]),
        )

    def above(self, seq: int) -> ChannelRun:
        """Without what is numbered up to this."""
        return ChannelRun(self.channel, self.incarnation, after(self.events, seq))


class Sequencer(Protocol):
    """Holds what has come in and was not taken yet. Channels go by their place among the slice's inputs."""

    turn: tuple[int, int]
    """Where it stands, as far as marks do not tell: of a merge by turns the channel, and how many events of it were
    taken in this turn; of epochs the one that is being taken."""

    def put(self, run: ChannelRun) -> None: ...

    def next(self, most: int) -> ChannelRun | None:
        """The events to be taken next, all of one channel and at most so many; None: none can be taken yet."""

    def closing(self) -> int | None:
        """The epoch that ends now: all of it has been taken."""

    def advance(self) -> None:
        """That epoch has been closed."""

    def changed(self, settings: Mapping[str, Value]) -> None:
        """What is taken from now on is taken by these settings; what is not named is as it was declared. What is taken
        next follows from them, from `turn` and from what has come in, and not from when they came."""

    def end(self, channel: int, ended: bool, time: int = -1) -> None:
        """Whether no more is known to come on a channel, and how far event time had come then."""

    def silence(self, channel: int, time: int) -> None:
        """No event up to this time follows on a channel."""

    def drop(self, channel: int, upto: int) -> None:
        """Drop what is numbered up to this on a channel: it was taken by whoever's state was taken over."""

    @property
    def progress(self) -> int:
        """The event time up to which nothing is still to be taken."""

    @property
    def empty(self) -> bool: ...


def merges(merge: Merge | None, slice_id: str, channels: int) -> bool:
    """Whether a slice with so many channels takes them by a merge: with a single one there is nothing to merge, unless
    epochs end there."""
    return merge is not None and (channels > 1 or merge.epoch(slice_id) is not None)


def sequencer(merge: Merge | None, slice_id: str, channels: int) -> Sequencer:
    """What holds the input of a slice. Raises InvalidTopology where a merge does not fit."""
    if merge is None or not merges(merge, slice_id, channels):
        return AsTheyCome(channels)
    return merge.sequencer(slice_id, channels)


class _WithoutEpochs:
    """What never closes anything, and has nothing that changes."""

    def closing(self) -> int | None:
        return None

    def advance(self) -> None:
        raise OwnFailure("what knows no epochs closes none")

    def changed(self, settings: Mapping[str, Value]) -> None:
        """Nothing here goes by settings."""


class AsTheyCome(_WithoutEpochs):
    """In the order of arrival."""

    def __init__(self, channels: int) -> None:
        self.turn = (0, 0)
        self._queue: deque[ChannelRun] = deque()
        self._clocks = [Clock() for _ in range(channels)]

    def put(self, run: ChannelRun) -> None:
        self._queue.append(run)

    def next(self, most: int) -> ChannelRun | None:
        queue = self._queue
        if not queue:
            return None
        run = queue.popleft()
        if len(run.events) > most:
            run, rest = run.cut(most)
            queue.appendleft(rest)
        self._clocks[run.channel].took(run)
        return run

    def end(self, channel: int, ended: bool, time: int = -1) -> None:
        self._clocks[channel].ended = ended

    def silence(self, channel: int, time: int) -> None:
        self._clocks[channel].silent(time)

    def drop(self, channel: int, upto: int) -> None:
        rest = (run.above(upto) if run.channel == channel else run for run in self._queue)
        self._queue = deque(run for run in rest if run.events)

    @property
    def progress(self) -> int:
        over = min(clock.over for clock in self._clocks)
        return min(over, *(run.events[0].time - 1 for run in self._queue)) if self._queue else over

    @property
    def empty(self) -> bool:
        return not self._queue


@dataclass(slots=True)
class Clock:
    """How far event time has come on a channel."""

    ended: bool = False
    _over: int = -1

    def took(self, run: ChannelRun) -> None:
        """An event tells that none before its time follows; another of the same time may. What comes again after all,
        because its source did not hear that it had come, takes time back."""
        self._over = run.events[-1].time - 1

    def silent(self, time: int) -> None:
        if time > self._over:
            self._over = time

    @property
    def over(self) -> int:
        """The event time up to which nothing more comes."""
        return ALWAYS if self.ended else self._over


class Queues(_WithoutEpochs):
    """A queue for each channel: what a merge is built on, which says which of them is taken from next."""

    def __init__(self, channels: int) -> None:
        self.turn = (0, 0)
        self.queues: list[deque[ChannelRun]] = [deque() for _ in range(channels)]
        self.clocks = [Clock() for _ in range(channels)]

    def put(self, run: ChannelRun) -> None:
        self.queues[run.channel].append(run)

    def take(self, channel: int, most: int) -> ChannelRun:
        run, rest = self.queues[channel].popleft().split(most)
        if rest is not None:
            self.queues[channel].appendleft(rest)
        self.clocks[channel].took(run)
        return run

    def over(self, channel: int) -> int:
        """The event time up to which nothing of a channel is still to be taken."""
        queue = self.queues[channel]
        return queue[0].events[0].time - 1 if queue else self.clocks[channel].over

    def end(self, channel: int, ended: bool, time: int = -1) -> None:
        self.clocks[channel].ended = ended

    def silence(self, channel: int, time: int) -> None:
        self.clocks[channel].silent(time)

    def drop(self, channel: int, upto: int) -> None:
        rest = (run.above(upto) for run in self.queues[channel])
        self.queues[channel] = deque(run for run in rest if run.events)

    @property
    def progress(self) -> int:
        return min(self.over(channel) for channel in range(len(self.queues)))

    @property
    def empty(self) -> bool:
        return not any(self.queues)
