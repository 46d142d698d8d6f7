"""The one axis of time that everything in a page about a run shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Final

TICKS: Final = 8
"""So many at most."""
_STEPS: Final = (1, 2, 5, 10)


def round_step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, ... that is no less."""
    if least <= 1:
        return 1
    power = 10 ** floor(log10(least))
    return int(next(step * power for step in _STEPS if step * power >= least * (1 - 1e-9)))


@dataclass(frozen=True)
class TimeAxis:
    """From where to where, in microseconds since the run began."""

    begins: int
    ends: int

    @property
    def length(self) -> int:
        return max(1, self.ends - self.begins)

    def ticks(self) -> Iterator[tuple[int, str]]:
        """Where a line is, and what stands at it."""
        step = round_step(self.length / TICKS)
        for number in range(ceil(self.begins / step), self.ends // step + 1):
            yield number * step, _said(number * step, step)


def _said(at: int, step: int) -> str:
    """With as many digits as tell it from the next."""
    if step >= 100_000:
        return f"{at / 1e6:.{0 if step >= 1_000_000 else 1}f} s"
    if step >= 1_000:
        return f"{at / 1e3:,.0f} ms"
    return f"{at / 1e3:,.{1 if step >= 100 else 2 if step >= 10 else 3}f} ms"
