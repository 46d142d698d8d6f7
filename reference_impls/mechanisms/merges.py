"""Deterministic merges: in which order a slice takes its channels where several meet (StreamMine3G, section 3.6.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...harness.errors import InvalidTopology
from ...harness.slices.merging import Queues, Run, Sequencer


@dataclass(frozen=True)
class RoundRobin:
    """So many events of each channel in turn (listing 3.5), in the order of the channels; `weights` None: one each. A
    channel that has ended is passed over."""

    weights: tuple[int, ...] | None = None

    @property
    def by_time(self) -> bool:
        return False

    def sequencer(self, slice_id: str, channels: int) -> Sequencer:
        weights = self.weights
        if weights is not None and (len(weights) != channels or min(weights) < 1):
            raise InvalidTopology(
                f"a slice with {channels} input channels needs as many weights from 1 up, not {weights}"
            )
        return _ByTurns(weights or (1,) * channels)


@dataclass(frozen=True)
class ByTime:
    """The lowest event time first, channels in their order where times are equal (listing 3.6). A channel that may
    still bring a lower one is waited for, until it brings another, is silent, or ends."""

    @property
    def by_time(self) -> bool:
        return True

    def sequencer(self, slice_id: str, channels: int) -> Sequencer:
        return _ByTimes(channels)


class _ByTurns(Queues):
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


class _ByTimes(Queues):
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
