"""Deterministic merges: in which order a slice takes its channels where several meet (StreamMine3G, section 3.6.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...harness.core.errors import InvalidScenario, InvalidTopology
from ...harness.core.events import Value
from ...harness.core.proper import positive, proper
from ...harness.protocol.merging import ChannelRun, Order, Queues, Sequencer, of_slice

WEIGHTS = "weights"
"""The setting that changes those of `RoundRobin` while a run goes on: one for each channel of the slice."""


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
    def order(self) -> Order:
        return Order.TOTAL

    @property
    def by_time(self) -> bool:
        return False

    @property
    def named(self) -> tuple[str, ...]:
        return tuple(self.weights) if isinstance(self.weights, Mapping) else ()

    def epoch(self, slice_id: str) -> None:
        return None

    def sequencer(self, slice_id: str, channels: int) -> Sequencer:
        weights = self.weights
        if isinstance(weights, Mapping):
            weights = of_slice(weights, slice_id)
        if weights is not None and len(weights) != channels:
            raise InvalidTopology(
                f"{slice_id} with {channels} input channels needs as many weights, not {weights}; weights for each "
                "operator: RoundRobin({'count': (2, 1)})"
            )
        return _ByTurns(weights or (1,) * channels)


@dataclass(frozen=True)
class ByTime:
    """The lowest event time first, channels in their order where times are equal (listing 3.6). A channel that may
    still bring a lower one is waited for, until it brings another, is silent, or ends."""

    @property
    def order(self) -> Order:
        return Order.TOTAL

    @property
    def by_time(self) -> bool:
        return True

    @property
    def named(self) -> tuple[str, ...]:
        return ()

    def epoch(self, slice_id: str) -> None:
        return None

    def sequencer(self, slice_id: str, channels: int) -> Sequencer:
        return _ByTimes(channels)


class _ByTurns(Queues):
    """Whose turn it is does not depend on time."""

    def __init__(self, weights: Sequence[int]) -> None:
        super().__init__(len(weights))
        self._declared = self._weights = weights

    def changed(self, settings: Mapping[str, Value]) -> None:
        """Raises InvalidScenario for weights that do not fit. A turn that has had more than it has by them is over."""
        weights = settings.get(WEIGHTS, self._declared)
        if len(weights) != len(self.queues) or not all(isinstance(one, int) and one > 0 for one in weights):
            raise InvalidScenario(
                f"the weights of {len(self.queues)} channels are changed to {weights!r}; each of them needs a whole "
                "number from 1 up"
            )
        self._weights = tuple(weights)

    def next(self, most: int) -> ChannelRun | None:
        if self.empty:
            return None
        while True:
            channel, taken = self.turn
            left = self._weights[channel] - taken
            if left > 0 and self.queues[channel]:
                run = self.take(channel, min(most, left))
                # At once, so that nothing hangs on whether it was asked for more before the weights changed.
                over = len(run.events) == left
                self.turn = self._next(channel) if over else (channel, taken + len(run.events))
                return run
            if left > 0 and not self.clocks[channel].ended:
                return None
            self.turn = self._next(channel)

    def _next(self, channel: int) -> tuple[int, int]:
        return (channel + 1) % len(self._weights), 0


class _ByTimes(Queues):
    def next(self, most: int) -> ChannelRun | None:
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
