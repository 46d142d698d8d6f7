"""What is fed to a subject: numbered events in batches, from a seed, the same on every cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from .errors import InvalidScenario
from .model import PLAIN, Event, carried

Draw = Callable[[int, int], Iterator[tuple[str, object]]]
"""(number of events, seed) -> that many (key, value)."""


@dataclass(frozen=True)
class Workload:
    """`events` events of a named kind, offered in batches of `batch`."""

    name: str
    events: int
    batch: int
    draw: Draw
    seed: int = 7
    rate: int | None = None
    """Events/s that a source offers; None: as fast as they are taken (in the simulator: as its options say)."""

    def __post_init__(self) -> None:
        for field in ("events", "batch") if self.rate is None else ("events", "batch", "rate"):
            amount = getattr(self, field)
            if not isinstance(amount, int) or isinstance(amount, bool) or amount < 1:
                raise InvalidScenario(f"workload {self.name!r}: {field}={amount!r} needs a positive whole number")

    @property
    def interval(self) -> int:
        """Microseconds between two batches; 0 without a rate."""
        return 0 if self.rate is None else round(self.batch / self.rate * 1e6)

    def batches(self, source: str) -> list[list[Event]]:
        """The whole input of the source slice `source`. Event time is 1 ms an event.

        The same objects each time: nobody changes them, and a search asks for them at every schedule.
        """
        return _batches(self, source)

    def check(self) -> None:
        """Raises InvalidScenario when the input cannot be drawn."""
        self.batches("source-0")

    def _drawn(self, source: str) -> list[list[Event]]:
        """Raises InvalidScenario for what `draw` does wrong."""
        drawn: list[Event] = []
        try:
            for seq, (key, value) in enumerate(self.draw(self.events, self.seed), start=1):
                if not isinstance(key, str):
                    raise TypeError(f"key {key!r} of event {seq} is not a str")
                drawn.append(Event(source, seq, key, value if type(value) in PLAIN else carried(value), seq))
        except Exception as error:
            raise InvalidScenario(f"workload {self.name!r} cannot be drawn: {type(error).__name__}: {error}") from error
        if len(drawn) != self.events:
            raise InvalidScenario(f"workload {self.name!r} draws {len(drawn):,} events instead of {self.events:,}")
        return [drawn[i : i + self.batch] for i in range(0, len(drawn), self.batch)]


@lru_cache(maxsize=16)
def _batches(workload: Workload, source: str) -> list[list[Event]]:
    return workload._drawn(source)
