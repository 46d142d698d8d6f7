"""Where the labels of arrows stand, so that none lies on another."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor
from typing import Final

ALONG: Final = (0.38, 0.26, 0.5, 0.62, 0.16, 0.74, 0.86)
"""Where on its arrow a label may stand, from the tail: the first place that is free."""
BESIDE: Final = 4
"""Pixels between an arrow and its label."""
CHARACTER: Final = 5.5
"""The width of a character of a label, in pixels."""
HEIGHT: Final = 9
_CELL: Final = 3
"""What is taken is kept in squares of so many pixels."""

Cell = tuple[int, int]


class LabelsPlaced:
    """Places labels one after another; which comes first has the first choice."""

    def __init__(self) -> None:
        self._taken: set[Cell] = set()

    def take(self, x: float, y: float, radius: float) -> None:
        """A sign stands here."""
        self._taken.update(_cells(x - radius, y - radius, x + radius, y + radius))

    def place(self, said: str, x1: float, y1: float, x2: float, y2: float) -> tuple[float, float] | None:
        """Where `said` begins, and the middle of its height, beside the arrow from (x1, y1) to (x2, y2), in pixels.
        None: it would lie on something wherever it stands."""
        for share in ALONG:
            x, y = x1 + (x2 - x1) * share + BESIDE, y1 + (y2 - y1) * share
            cells = set(_cells(x, y - HEIGHT / 2, x + len(said) * CHARACTER, y + HEIGHT / 2))
            if self._taken.isdisjoint(cells):
                self._taken |= cells
                return x, y
        return None


def _cells(left: float, top: float, right: float, bottom: float) -> Iterator[Cell]:
    rows = range(floor(top / _CELL), ceil(bottom / _CELL))
    columns = range(floor(left / _CELL), ceil(right / _CELL))
    return ((row, column) for row in rows for column in columns)
