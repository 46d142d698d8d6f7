"""Merges: in which order a slice takes what comes in on its channels (StreamMine3G, section 3.6.4).

A merge is deterministic when that order follows from the events alone, and not from when they arrive. So replicas of a
slice, and a slice that is restored and given its input again, take the same in the same order.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..errors import InvalidTopology, OwnFailure
from ..model import Event, operator_of
from ..proper import positive, proper
from .messages import Anchor, after

ALWAYS = sys.maxsize
"""The event time of a channel that has ended."""


@dataclass(frozen=True)
class RoundRobin:
    """So many events of each channel in turn (listing 3.5), in the order of the channels; `weights` None: one each. A
    channel that has ended is passed over.

    Where slices have different numbers of channels, `weights` maps an operator, or one of its slices, to its weights;
    what it does not name takes one each.
    """

    weights: tuple[int, ...] | Mapping[str, tuple[int, ...]] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        """Raises InvalidTopology for a weight that lets no event of its channel through."""
        given = () if self.weights is None else self.weights
        for weights in given.values() if isinstance(given, Mapping) else (given,):
            wanted = "a tuple of whole numbers from 1 up, or a mapping from operators to such tuples"
            proper(weights, tuple, "weights", wanted, InvalidTopology)
            for weight in weights:
                positive(weight, f"one of the weights {weights}", InvalidTopology)

    @property
    def named(self) -> tuple[str, ...]:
        """The operators and slices that have weights of their own."""
        return tuple(self.weights) if isinstance(self.weights, Mapping) else ()

    def of(self, slice_id: str) -> RoundRobin:
        """The merge of one slice."""
        if not isinstance(self.weights, Mapping):
            return self
        return RoundRobin(self.weights.get(slice_id, self.weights.get(operator_of(slice_id))))


@dataclass(frozen=True)
class ByTime:
    """The lowest event time first, channels in their order where times are equal (listing 3.6). A channel that may
    still bring a lower one is waited for, until it brings another, is silent, or ends."""


Merge = RoundRobin | ByTime


@dataclass(slots=True)
class Run:
    """Consecutive events of one channel."""

    channel: int
    incarnation: int
    """Whose copy of them this is."""
    events: list[Event]
    anchors: list[Anchor] | None = None

    def split(self, most: int) -> tuple[Run, Run | None]:
        """The first events, at most so many, and the rest."""
        if len(self.events) <= most:
            return self, None
        tied = self.anchors
        return (
            Run(self.channel, self.incarnation, self.events[:most], None if tied is None else tied[:most]),
            Run(self.channel, self.incarnation, self.events[most:], None if tied is None else tied[most:]),
        )


class Sequencer(Protocol):
    """Holds what has come in and was not taken yet. Channels go by their place among the slice's inputs."""

    turn: tuple[int, int]
    """Where a merge by turns stands: the channel, and how many events of it were taken in this turn."""

    def put(self, run: Run) -> None: ...

    def next(self, most: int) -> Run | None:
        """The events to be taken next, all of one channel and at most so many; None: none can be taken yet."""

    def end(self, channel: int, ended: bool) -> None:
        """Whether no more is known to come on a channel."""

    def silence(self, channel: int, time: int) -> None:
        """No event up to this time follows on a channel."""

    def drop(self, channel: int, upto: int) -> None:
        """Drop what is numbered up to this on a channel: it was taken by whoever's state was taken over."""

    @property
    def progress(self) -> int:
        """The event time up to which nothing is still to be taken."""

    @property
    def empty(self) -> bool: ...


def sequencer(merge: Merge | None, channels: int) -> Sequencer:
    """With a single channel there is nothing to merge. Raises InvalidTopology for weights that do not fit."""
    match merge:
        case RoundRobin(weights=weights) if channels > 1:
            if isinstance(weights, Mapping):
                raise OwnFailure(f"weights of several slices, {weights}, for one of them")
            if weights is not None and len(weights) != channels:
                raise InvalidTopology(
                    f"a slice with {channels} input channels needs as many weights, not {weights}; weights for each "
                    "operator: RoundRobin({'count': (2, 1)})"
                )
            return _ByTurns(weights or (1,) * channels)
        case ByTime() if channels > 1:
            return _ByTimes(channels)
    return _AsTheyCome(channels)


class _AsTheyCome:
    def __init__(self, channels: int) -> None:
        self.turn = (0, 0)
        self._queue: deque[Run] = deque()
        self._clocks = [_Clock() for _ in range(channels)]

    def put(self, run: Run) -> None:
        self._queue.append(run)

    def next(self, most: int) -> Run | None:
        if not self._queue:
            return None
        run, rest = self._queue.popleft().split(most)
        if rest is not None:
            self._queue.appendleft(rest)
        self._clocks[run.channel].took(run)
        return run

    def end(self, channel: int, ended: bool) -> None:
        self._clocks[channel].ended = ended

    def silence(self, channel: int, time: int) -> None:
        self._clocks[channel].silent(time)

    def drop(self, channel: int, upto: int) -> None:
        rest = (_above(run, upto) if run.channel == channel else run for run in self._queue)
        self._queue = deque(run for run in rest if run.events)

    @property
    def progress(self) -> int:
        over = min(clock.over for clock in self._clocks)
        return min(over, *(run.events[0].time - 1 for run in self._queue)) if self._queue else over

    @property
    def empty(self) -> bool:
        return not self._queue


@dataclass(slots=True)
class _Clock:
    """How far event time has come on a channel."""

    ended: bool = False
    _over: int = -1

    def took(self, run: Run) -> None:
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


class _Channels:
    """A queue for each channel."""

    def __init__(self, channels: int) -> None:
        self.turn = (0, 0)
        self.queues: list[deque[Run]] = [deque() for _ in range(channels)]
        self.clocks = [_Clock() for _ in range(channels)]

    def put(self, run: Run) -> None:
        self.queues[run.channel].append(run)

    def take(self, channel: int, most: int) -> Run:
        run, rest = self.queues[channel].popleft().split(most)
        if rest is not None:
            self.queues[channel].appendleft(rest)
        self.clocks[channel].took(run)
        return run

    def over(self, channel: int) -> int:
        """The event time up to which nothing of a channel is still to be taken."""
        queue = self.queues[channel]
        return queue[0].events[0].time - 1 if queue else self.clocks[channel].over

    def end(self, channel: int, ended: bool) -> None:
        self.clocks[channel].ended = ended

    def silence(self, channel: int, time: int) -> None:
        self.clocks[channel].silent(time)

    def drop(self, channel: int, upto: int) -> None:
        rest = (_above(run, upto) for run in self.queues[channel])
        self.queues[channel] = deque(run for run in rest if run.events)

    @property
    def progress(self) -> int:
        return min(self.over(channel) for channel in range(len(self.queues)))

    @property
    def empty(self) -> bool:
        return not any(self.queues)


class _ByTurns(_Channels):
    """Whose turn it is does not depend on time."""

    def __init__(self, weights: Sequence[int]) -> None:
        super().__init__(len(weights))
        self._weights = weights

    def next(self, most: int) -> Run | None:
        if self.empty:
            return None
        while True:
            channel, taken = self.turn
            left = self._weights[channel] - taken
            if left and self.queues[channel]:
                run = self.take(channel, min(most, left))
                self.turn = (channel, taken + len(run.events))
                return run
            if left and not self.clocks[channel].ended:
                return None
            self.turn = ((channel + 1) % len(self._weights), 0)


class _ByTimes(_Channels):
    def next(self, most: int) -> Run | None:
        """Up to where another channel may bring what comes first."""
        (_, first), limit = sorted((self.over(channel) + 1, channel) for channel in range(len(self.queues)))[:2]
        queue = self.queues[first]
        if not queue:
            return None
        events = queue[0].events
        count = 0
        while count < min(most, len(events)) and (events[count].time, first) < limit:
            count += 1
        return self.take(first, count)


def _above(run: Run, seq: int) -> Run:
    return Run(run.channel, run.incarnation, after(run.events, seq))
