"""What is fed to a subject: numbered events in batches, from a seed, the same on every cluster."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice, repeat
from typing import Any, Final, NamedTuple

import msgspec

from .errors import InvalidScenario, UnknownName, UsersCodeFailed
from .events import Event, Value, recordable
from .proper import proper
from .unchanged import Unchanged

_encode = msgspec.msgpack.Encoder().encode
_DRAWN_AGAIN: Final = 10_000
"""Events of a source that are drawn a second time, to see whether they are the same."""
DrawEvents = Callable[[int, int], Iterator[tuple[str, object]]]
"""(number of events, seed) -> that many (key, value)."""

SIZES: Final = ("events", "batch", "seed", "rate", "spacing", "tick")
"""The fields of a workload that are plain amounts."""
USUAL_SOURCES = ("source-0", "source")
"""The source of a topology that does not name its own, and that of a query. They draw with the workload's own seed."""


@dataclass(frozen=True)
class Workload:
    """`events` events of a named kind, offered in batches of `batch`, by each source.

    Every source draws events of its own, from the seed and its name.
    """

    name: str
    events: int
    batch: int
    draw: DrawEvents
    seed: int = 7
    rate: int | None = None
    """Events/s that a source offers; None: as fast as they are taken (in the simulator: as its options say). A
    search that brings the input down leaves it aside."""
    spacing: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Source slice -> milliseconds of event time from each of its events to the next; 1 for those not named. A source
    with 10 offers a tenth of `events`, in step with the others: its channels are idle for nine milliseconds in ten."""
    tick: int = 1
    """What a millisecond of event time stands for here: all times of events are multiplied by it."""

    def __post_init__(self) -> None:
        proper(self.name, str, "the name of a workload", "a text")
        proper(self.spacing, Mapping, f"workload {self.name!r}: spacing", "a mapping from sources to milliseconds")
        proper(self.seed, int, f"workload {self.name!r}: seed", "a whole number")
        if not callable(self.draw):
            raise InvalidScenario(f"workload {self.name!r}: draw={self.draw!r} needs a function of a number and a seed")
        amounts = {"events": self.events, "batch": self.batch, "rate": 1 if self.rate is None else self.rate}
        amounts["tick"] = self.tick
        amounts |= {f"spacing[{source!r}]": amount for source, amount in self.spacing.items()}
        for name, amount in amounts.items():
            if not isinstance(amount, int) or isinstance(amount, bool) or amount < 1:
                raise InvalidScenario(f"workload {self.name!r}: {name}={amount!r} needs a positive whole number")

    @property
    def sizes(self) -> dict[str, Any]:
        """What a run may have otherwise than its scenario, by the names of the fields: it can be of fewer events, or at
        another pace."""
        return {name: getattr(self, name) for name in SIZES} | {"spacing": dict(self.spacing)}

    @property
    def interval(self) -> int:
        """Microseconds between two batches; 0 without a rate."""
        return 0 if self.rate is None else round(self.batch / self.rate * 1e6)

    @property
    def stretch(self) -> int:
        """Milliseconds of event time that a batch stands for."""
        return self.batch * self.tick

    def batches(self, source: str) -> list[list[Event]]:
        """The whole input of the source slice `source`. Event time is 1 ms an event, unless `spacing` says otherwise.

        Batch n holds the events of the same stretch of event time for every source, so it can be empty where events are
        spaced. The same objects each time: nobody changes them, and a search asks for them at every schedule.
        """
        return _drawn(self, source).batches

    def require_unchanged(self, source: str) -> None:
        """Make sure that all of the input of a source is as it was drawn. It is drawn anew where it is not. Raises
        UsersCodeFailed."""
        spoilt = _drawn(self, source).events.spoilt()
        if spoilt:
            _drawn.cache_clear()
            raise UsersCodeFailed(
                f"an operator or a mechanism changes an event that it was given: {spoilt}. Whoever sent it may send it "
                "again, and others may have it: take a copy"
            )

    def check(self, sources: Sequence[str] = ("source-0",)) -> None:
        """Raises InvalidScenario when the input of one of the sources cannot be drawn, UnknownName when `spacing` names
        another."""
        for source in self.spacing:
            if source not in sources:
                raise UnknownName("source", source, list(sources))
        for source in sources:
            self.batches(source)

    def _drawn(self, source: str) -> list[list[Event]]:
        """Raises InvalidScenario for what `draw` does wrong."""
        drawn: list[Event] = []
        spacing = self.spacing.get(source, 1)
        count = self.events // spacing
        differs = ""
        try:
            for seq, (key, taken) in enumerate(self._pairs(source, count), start=1):
                drawn.append(Event(source, seq, key, taken, seq * spacing * self.tick))
            if len(drawn) == count:
                differs = _difference(drawn, islice(self._pairs(source, count), _DRAWN_AGAIN))
        except Exception as error:
            raise InvalidScenario(f"workload {self.name!r} cannot be drawn: {type(error).__name__}: {error}") from error
        if len(drawn) != count:
            raise InvalidScenario(f"workload {self.name!r} draws {len(drawn):,} events instead of {count:,}")
        if differs:
            raise InvalidScenario(
                f"workload {self.name!r} does not draw the same every time: {differs}. Nobody could judge by it what a "
                "run was fed: let draw go by its number and its seed alone, as with a Random(seed) of its own"
            )
        return [drawn[time // spacing : (time + self.batch) // spacing] for time in range(0, self.events, self.batch)]

    def _pairs(self, source: str, count: int) -> Iterator[tuple[str, Value]]:
        """What `draw` gives, as it is fed."""
        for seq, (key, value) in enumerate(self.draw(count, self._seed_of(source)), start=1):
            yield recordable(key, value, f"event {seq}")

    def _seed_of(self, source: str) -> int:
        return self.seed if source in USUAL_SOURCES else zlib.crc32(f"{self.seed} {source}".encode())


def _difference(drawn: Sequence[Event], again: Iterator[tuple[str, Value]]) -> str:
    """How what is drawn again begins otherwise; empty where it does not."""
    ends = object()
    for event, other in zip(drawn[:_DRAWN_AGAIN], chain(again, repeat(ends)), strict=False):
        if other is ends:
            return f"it drew {len(drawn):,} events, and {event.seq - 1:,} another time"
        first = event.key, event.value
        if _encode(first) != _encode(other):
            return f"event {event.seq:,} was {first!r}, and {other!r} another time"
    return ""


class _Drawn(NamedTuple):
    """The input of a source."""

    batches: list[list[Event]]
    events: Unchanged
    """All of these."""


@lru_cache(maxsize=16)
def _drawn(workload: Workload, source: str) -> _Drawn:
    batches = workload._drawn(source)
    return _Drawn(batches, Unchanged(chain.from_iterable(batches)))
