"""Epochs: slices wait for one another once an epoch, and not once an event (StreamMine3G, chapters 4 and 5).

Epoch e of size s holds the events with e s < time <= (e + 1) s; the first begins below 0. A channel has passed it when
an event, a silence or the end says that no more of it comes. It closes when all channels have passed it, whether or not
there were events in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...harness.core.errors import InvalidTopology
from ...harness.core.proper import positive
from ...harness.protocol.mechanism import NO_LIMIT, AtWork, Mechanism
from ...harness.protocol.merging import ALWAYS, ChannelRun, Order, Queues, Sequencer, end_of, epoch_of, of_slice
from ...harness.protocol.operator import OperatorSlice
from .checkpointing import Taking

Size = int | Mapping[str, int]
"""Milliseconds of event time; for each operator, or one of its slices, where they differ."""


@dataclass(frozen=True)
class Epochs:
    """Any event of the current epoch at once, in whatever order they come; those of later epochs wait (listing 4.1)."""

    size: Size = field(hash=False)

    def __post_init__(self) -> None:
        """Raises InvalidTopology for a size that is none."""
        for size in self.size.values() if isinstance(self.size, Mapping) else (self.size,):
            positive(size, "the size of an epoch, in milliseconds,", InvalidTopology)

    @property
    def order(self) -> Order:
        return Order.PER_EPOCH

    @property
    def by_time(self) -> bool:
        return True

    @property
    def named(self) -> tuple[str, ...]:
        return tuple(self.size) if isinstance(self.size, Mapping) else ()

    def epoch(self, slice_id: str) -> int | None:
        return of_slice(self.size, slice_id) if isinstance(self.size, Mapping) else self.size

    def sequencer(self, slice_id: str, channels: int) -> Sequencer:
        return InEpochs(channels, self._size(slice_id))

    def _size(self, slice_id: str) -> int:
        size = self.epoch(slice_id)
        if size is None:
            raise InvalidTopology(
                f"{slice_id} has several input channels, and no epochs; give it a size, as in Epochs(20)"
            )
        return size


@dataclass(frozen=True)
class EpochBags(Epochs):
    """Nothing of an epoch before it closes; then the events of one channel after those of another (listing 5.1)."""

    @property
    def order(self) -> Order:
        return Order.TOTAL

    def sequencer(self, slice_id: str, channels: int) -> Sequencer:
        return Bags(channels, self._size(slice_id))


class InEpochs(Queues):
    """What has come in, and how far each channel has passed. `turn` is the current epoch."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__(channels)
        self.size = size
        self._passed = [0] * channels
        """The event time up to which no more comes on each channel."""
        self._ended = [False] * channels
        self._last = -1
        """The last epoch in which anything came, or in which the input was over."""

    @property
    def current(self) -> int:
        return self.turn[0]

    @property
    def upper(self) -> int:
        """The last time of the current epoch."""
        return end_of(self.current, self.size)

    def put(self, run: ChannelRun) -> None:
        super().put(run)
        epoch = epoch_of(run.events[-1].time, self.size)
        self._last = max(self._last, epoch)
        # Others of its epoch may follow, earlier ones too.
        self.pass_to(run.channel, epoch * self.size)

    def pass_to(self, channel: int, time: int) -> None:
        self._passed[channel] = max(self._passed[channel], time)

    def end(self, channel: int, ended: bool, time: int = -1) -> None:
        self._ended[channel] = ended
        if ended and time >= 0:
            self._last = max(self._last, epoch_of(time, self.size))

    def silence(self, channel: int, time: int) -> None:
        self.pass_to(channel, time)

    def has_passed(self, channel: int) -> bool:
        """Whether no more of the current epoch comes on a channel."""
        return self._ended[channel] or self._passed[channel] >= self.upper

    @property
    def passed(self) -> bool:
        return all(map(self.has_passed, range(len(self.queues))))

    @property
    def finished(self) -> bool:
        """Whether all input is over, and the last of its epochs has been closed."""
        return self.current > self._last and all(
            ended or passed == ALWAYS for ended, passed in zip(self._ended, self._passed, strict=True)
        )

    def waits(self, channel: int) -> int:
        """How many of the first run that waits on a channel are of the current epoch. What has come late is as well."""
        queue, upper = self.queues[channel], self.upper
        if not queue:
            return 0
        events = queue[0].events
        if events[-1].time <= upper:
            return len(events)
        return next(count for count, event in enumerate(events) if event.time > upper)

    def next(self, most: int) -> ChannelRun | None:
        for channel in range(len(self.queues)):
            count = self.waits(channel)
            if count:
                return self.take(channel, min(most, count))
        return None

    def closing(self) -> int | None:
        if self.finished or not self.passed or any(map(self.waits, range(len(self.queues)))):
            return None
        return self.current

    def advance(self) -> None:
        self.turn = (self.current + 1, 0)

    @property
    def progress(self) -> int:
        return ALWAYS if self.finished else self.current * self.size

    @property
    def empty(self) -> bool:
        return super().empty and self.closing() is None


class Bags(InEpochs):
    """A bag is what waits of a channel up to the end of the current epoch."""

    def next(self, most: int) -> ChannelRun | None:
        return super().next(most) if self.passed else None


@dataclass(frozen=True)
class CheckpointEpochs(Mechanism):
    """A checkpoint whenever so many epochs have closed since the last, once what they made was sent. At such a boundary
    the events taken of each channel are a prefix of it. While the last one is not durable the slice goes on, up to the
    boundary at which the next is due."""

    every: int = 1

    def __post_init__(self) -> None:
        positive(self.every, "the interval of checkpoints, in epochs,")

    @property
    def takes_checkpoints(self) -> bool:
        return True

    def attach(self, machine: OperatorSlice) -> AtWork:
        return AtBoundaries(machine, self.every)


class AtBoundaries(Taking):
    """Epochs that have closed are counted."""

    def room(self) -> int:
        return NO_LIMIT if self.since < self.every else 0

    def closed(self, epoch: int) -> None:
        self.count(1)
