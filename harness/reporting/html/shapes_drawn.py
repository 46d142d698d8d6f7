"""The few shapes of a diagram, as SVG paths."""

from __future__ import annotations

from math import atan2, cos, pi, sin
from typing import Final, Protocol

_HEAD: Final = 7
_ANGLE: Final = 0.42

SIGNS: Final = {
    "dot": "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0",
    "placed": "M-2 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0",
    "start": "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0",
    "checkpoint-taken": "M0 -7L7 0L0 7L-7 0Z",
    "checkpoint-durable": "M0 -7L7 0L0 7L-7 0Z",
    "crash": "M-7 -7L7 7M-7 7L7 -7",
    "noticed": "M-4 -4H4V4H-4Z",
    "word": "M-3 -3H3V3H-3Z",
}


class Straight(Protocol):
    """From one point to another."""

    @property
    def x1(self) -> float: ...
    @property
    def y1(self) -> float: ...
    @property
    def x2(self) -> float: ...
    @property
    def y2(self) -> float: ...
    @property
    def style(self) -> str: ...


def sign_path(sign: str) -> str:
    return SIGNS[sign]


def arrow_path(one: Straight) -> str:
    """With a head; with a cross where nobody took it."""
    line = f"M{one.x1:.1f} {one.y1:.1f}L{one.x2:.1f} {one.y2:.1f}"
    if "lost" in one.style.split():
        return line + "".join(
            f"M{one.x2 + dx:.1f} {one.y2 - 4:.1f}L{one.x2 - dx:.1f} {one.y2 + 4:.1f}" for dx in (-4, 4)
        )
    direction = atan2(one.y2 - one.y1, one.x2 - one.x1)
    # It ends at the edge of the dot.
    x, y = one.x2 - 3 * cos(direction), one.y2 - 3 * sin(direction)
    head = (
        f"M{x + _HEAD * cos(direction + pi + turn):.1f} {y + _HEAD * sin(direction + pi + turn):.1f}L{x:.1f} {y:.1f}"
        for turn in (-_ANGLE, _ANGLE)
    )
    return line + "".join(head)
