"""What goes up and down during a run: how much was offered and delivered, and how long it took.

However many events a run has, a curve has some hundred points: they are counted here, and not in the page.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor, log10
from typing import Final

import numpy as np

from ...judging.reexecution import Reexecution
from ...recording.history import History
from ...recording.records import Delivered, Offered
from .axis import TimeAxis, round_step

BINS: Final = 300
"""So many points has a curve, at most."""
PERCENTILES: Final = (50, 95, 99)
LEAST: Final = 0.001
"""Where a scale by powers begins, at the least."""


@dataclass(frozen=True)
class Curve:
    """Values one after the other, each of as long a time; None where there is none."""

    name: str
    style: str
    """The class that says how it is drawn."""
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class CurvePanel:
    """Curves that share a scale."""

    title: str
    unit: str
    begins: int
    """Where the first value begins."""
    width: int
    """How long a time each value is of, in microseconds."""
    curves: tuple[Curve, ...]
    note: str = ""
    """What one has to know to read it."""
    by_powers: bool = False
    """Whether its scale goes by powers of ten, so that what usually happens can be seen beside what a failure does."""

    @cached_property
    def _values(self) -> tuple[float, ...]:
        return tuple(value for curve in self.curves for value in curve.values if value is not None)

    @cached_property
    def top(self) -> float:
        """The end of its scale."""
        most = max(self._values, default=0.0)
        if self.by_powers:
            return float(10.0 ** ceil(log10(max(most, LEAST))))
        return float(round_step(most * 1000)) / 1000 if most else 1.0

    @cached_property
    def bottom(self) -> float:
        """The beginning of its scale."""
        if not self.by_powers:
            return 0.0
        least = min((value for value in self._values if value > 0), default=LEAST)
        return min(float(10.0 ** floor(log10(max(least, LEAST)))), self.top / 10)

    def height(self, value: float) -> float:
        """How far up it stands, from 0 to 100."""
        if not self.by_powers:
            return 100 * value / self.top
        return 100 * log10(max(value, self.bottom) / self.bottom) / log10(self.top / self.bottom)

    def levels(self) -> Iterator[tuple[float, float]]:
        """Values that a line shows, and how far up each is."""
        if self.by_powers:
            lowest, highest = round(log10(self.bottom)), round(log10(self.top))
            for power in range(lowest, highest + 1, 1 if highest - lowest < 4 else 2):
                yield 10.0**power, self.height(10.0**power)
        else:
            yield from ((self.top * part / 2, 50.0 * part) for part in range(3))

    def path(self, curve: Curve) -> str:
        """An SVG path: across in microseconds, and up from 100 to 0."""
        parts: list[str] = []
        on = False
        for place, value in enumerate(curve.values):
            if value is None:
                on = False
                continue
            begins, height = self.begins + place * self.width, 100 - self.height(value)
            parts.append(f"{'L' if on else 'M'}{begins} {height:.1f}H{begins + self.width}")
            on = True
        return "".join(parts)


def rates(history: History, axis: TimeAxis) -> CurvePanel:
    """Events a second that were offered, and rows that were delivered."""
    offered = [(s.at, len(s.record.events)) for s in history.of(Offered) if isinstance(s.record, Offered)]
    delivered = [(s.at, len(s.record.rows)) for s in history.of(Delivered) if isinstance(s.record, Delivered)]
    width = _width(axis, [at for at, _ in offered], [at for at, _ in delivered])
    curves = tuple(
        Curve(name, style, tuple(float(value) for value in _summed(found, axis, width) * (1e6 / width)))
        for name, style, found in (("offered", "offered", offered), ("delivered", "delivered", delivered))
    )
    return CurvePanel("Throughput", "a second", axis.begins, width, curves, "events offered, rows delivered")


def latencies_in_order(rerun: Reexecution) -> tuple[list[int], list[int]]:
    """When each output was delivered, and how long after the input at its root was offered; again, where it was
    delivered again. Those that can be told to be of no input are left out."""
    since = {
        (event.source, event.seq): at
        for source, events in rerun.offered.items()
        for event, at in zip(events, rerun.offered_at[source], strict=True)
    }
    at: list[int] = []
    took: list[int] = []
    for deliveries in rerun.deliveries.values():
        heads, _, derivations = deliveries.columns()
        place = iter(derivations)
        for when, _, _, count in heads:
            for _ in range(count):
                derivation = next(place)
                begun = None if derivation is None else since.get((derivation[0], derivation[1]))
                if begun is not None:
                    at.append(when)
                    took.append(when - begun)
    return at, took


def latencies_over_time(history: History, rerun: Reexecution, axis: TimeAxis) -> CurvePanel | None:
    """None where nothing that was delivered can be told to be of an input."""
    at, took = latencies_in_order(rerun)
    if not at:
        return None
    width = _width(axis, at)
    bins = (np.asarray(at, dtype=np.int64) - axis.begins) // width
    order = np.argsort(bins, kind="stable")
    bins, sorted_took = bins[order], np.asarray(took, dtype=np.float64)[order] / 1e3
    count = _count(axis, width)
    edges = np.searchsorted(bins, np.arange(count + 1))
    values: dict[int, list[float | None]] = {one: [] for one in PERCENTILES}
    for begin, end in itertools.pairwise(edges):
        here = sorted_took[begin:end]
        for one in PERCENTILES:
            values[one].append(round(float(np.percentile(here, one)), 3) if len(here) else None)
    curves = tuple(Curve(f"{one} %", f"p{one}", tuple(values[one])) for one in reversed(PERCENTILES))
    note = "from offered to delivered, of what was delivered then; repeated outputs count again"
    return CurvePanel("Latency", "ms", axis.begins, width, curves, note, by_powers=True)


def _width(axis: TimeAxis, *times: Sequence[int]) -> int:
    """Of a bin: such that each holds several of what is counted, where it comes at a steady pace."""
    gaps = [float(np.median(np.diff(np.unique(some)))) for some in times if len(set(some)) > 2]
    return round_step(max(axis.length / BINS, 3 * max(gaps, default=0.0)))


def _count(axis: TimeAxis, width: int) -> int:
    return int(axis.length // width) + 1


def _summed(
    found: Iterable[tuple[int, int]], axis: TimeAxis, width: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    sums = np.zeros(_count(axis, width), dtype=np.float64)
    for at, count in found:
        place = (at - axis.begins) // width
        if 0 <= place < len(sums):
            sums[place] += count
    return sums
