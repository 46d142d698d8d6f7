"""Puts a diagram of space and time on paper: as SVG, by itself or within a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import hypot
from typing import Any, Final

from .affected import HarmedInput, Root
from .document import render
from .labels_placed import LabelsPlaced
from .spacetime import DiagramStep, IncarnationLine, MessageArrow, SpaceTime

ROW: Final = 48
TOP: Final = 34
FOOT: Final = 26
_WIDTHS: Final = ((16, 62), (24, 44), (40, 34), (90, 26), (250, 18), (600, 12))
"""Up to so many steps, so wide a column."""
_NARROW: Final = 8
_LABELS: Final = 64
"""Between two times that are written above."""
NUMBERED_ARROWS: Final = 120
"""Arrows up to which each says what it carries."""
_CHARACTER: Final = 7.2
_SIGN: Final = 4
"""The radius of what a label must leave free around a step."""
_SHORT: Final = 12
"""How far from what let it pass an arrow ends."""
_LISTED: Final = 40
"""Harmed inputs that can be chosen one by one."""


@dataclass(frozen=True)
class DrawnArrow:
    """From where to where."""

    arrow: MessageArrow
    x1: float
    y1: float
    x2: float
    y2: float
    style: str
    harmed: str
    """The numbers of the harmed inputs that it carries."""
    label: tuple[float, float] | None = None
    """Where the numbers of what it carries stand; None: there is no room for them, and its title says them."""


@dataclass(frozen=True)
class DrawnStep:
    step: DiagramStep
    number: int
    x: float
    y: float
    harmed: str
    from_x: float | None
    from_y: float | None


@dataclass(frozen=True)
class DrawnLine:
    line: IncarnationLine
    place: int
    y: float
    x1: float
    x2: float
    placed: float | None


@dataclass(frozen=True)
class Drawing:
    """A diagram with its measures."""

    diagram: SpaceTime
    harmed: tuple[HarmedInput, ...]
    gutter: float
    """For the names of the lines, at the left."""
    column: int

    @cached_property
    def _numbers(self) -> Mapping[Root, int]:
        return {one.root: number for number, one in enumerate(self.harmed)}

    def drawn_harm(self) -> list[tuple[int, HarmedInput]]:
        """The first of those harmed inputs of which something is drawn, with their numbers."""
        drawn = {root for arrow in self.diagram.arrows for root in arrow.roots}
        found = [(number, one) for number, one in enumerate(self.harmed) if one.root in drawn]
        return found[:_LISTED]

    @property
    def width(self) -> float:
        return self.x(len(self.diagram.steps)) + 24

    @property
    def height(self) -> float:
        return TOP + ROW * len(self.diagram.lines) + FOOT

    @property
    def foot(self) -> float:
        """Where what happens to no slice stands: a node is missed, a coordinator has decided."""
        return self.height - FOOT / 2

    @property
    def foot_name(self) -> str:
        """Empty where nothing stands there."""
        return _foot_name(self.diagram)

    def x(self, step: int) -> float:
        return self.gutter + 14 + (max(step, -1) + 1) * self.column

    def y(self, line: int) -> float:
        return TOP + ROW * line + ROW / 2

    def lines(self) -> Iterator[DrawnLine]:
        last = len(self.diagram.steps)
        for place, line in enumerate(self.diagram.lines):
            ends = self.x(last if line.ends is None else line.ends)
            placed = None if line.placed is None or line.placed < 0 else self.x(line.placed)
            yield DrawnLine(line, place, self.y(place), self.x(line.begins), ends, placed)

    def steps(self) -> Iterator[DrawnStep]:
        for number, step in enumerate(self.diagram.steps):
            if step.line is None:
                yield DrawnStep(step, number, self.x(number), self.foot, "", None, None)
                continue
            source = None if step.from_step is None or step.from_step < 0 else self.diagram.steps[step.from_step]
            from_y = None if source is None or source.line is None else self.y(source.line)
            from_x = None if from_y is None or step.from_step is None else self.x(step.from_step)
            harmed = self._harmed(step.roots)
            yield DrawnStep(step, number, self.x(number), self.y(step.line), harmed, from_x, from_y)

    def arrows(self) -> list[DrawnArrow]:
        """Those that carry harmed inputs last, since they lie above the others; their labels have the first choice."""
        several = len(self.diagram.arrows) > NUMBERED_ARROWS
        labels = LabelsPlaced()
        for step in self.steps():
            labels.take(step.x, step.y, _SIGN)
        drawn = []
        for one in sorted(self._arrows(), key=lambda one: not one.harmed):
            wanted = one.arrow.numbers if one.harmed or not several else ""
            label = labels.place(wanted, one.x1, one.y1, one.x2, one.y2) if wanted else None
            drawn.append(replace(one, label=label))
        return drawn[::-1]

    def _arrows(self) -> Iterator[DrawnArrow]:
        for arrow in self.diagram.arrows:
            harmed = self._harmed(arrow.roots)
            x1, y1 = self.x(arrow.departs), self.y(arrow.sender)
            y2 = self.y(arrow.receiver)
            if arrow.arrives is None:
                # It ends on the way.
                x2, y2 = x1 + self.column * 0.9, y1 + (y2 - y1) * 0.45
            else:
                x2 = self.x(arrow.arrives)
            if arrow.passed:
                # Its cross is seen before what it comes to.
                short = _SHORT / max(hypot(x2 - x1, y2 - y1), _SHORT)
                x2, y2 = x2 - (x2 - x1) * short, y2 - (y2 - y1) * short
            style = " ".join(
                word
                for word, said in (
                    ("again", arrow.again),
                    ("lost", arrow.arrives is None or arrow.passed),
                    ("instead", arrow.instead),
                    ("harmed", bool(harmed)),
                )
                if said
            )
            yield DrawnArrow(arrow, x1, y1, x2, y2, style, harmed)

    def times(self) -> Iterator[tuple[float, str]]:
        """What is written above: when, in a column now and then."""
        before = -_LABELS * 2.0
        digits = 3 if self.diagram.steps and self.diagram.steps[-1].at < 10_000_000 else 2
        for number, step in enumerate(self.diagram.steps):
            x = self.x(number)
            if x - before >= _LABELS:
                before = x
                yield x, _clock(step.at, digits, self.diagram)

    def _harmed(self, roots: frozenset[Root]) -> str:
        return " ".join(str(number) for number in sorted(self._numbers[root] for root in roots & self._numbers.keys()))

    def to_step(self) -> dict[str, Any]:
        """For whoever goes through it step by step."""
        return {
            "steps": [
                {
                    "at": step.at,
                    "said": step.said,
                    "line": step.line,
                    "x": round(self.x(number), 1),
                    "holds": step.holds,
                }
                for number, step in enumerate(self.diagram.steps)
            ],
            "lines": [{"name": line.name, "ends": line.ends} for line in self.diagram.lines],
        }


def _clock(at: int, digits: int, diagram: SpaceTime) -> str:
    length = diagram.steps[-1].at - diagram.steps[0].at
    return f"{at / 1e3:,.2f} ms" if length < 1_000_000 and at < 1_000_000 else f"{at / 1e6:.{digits}f} s"


def _foot_name(diagram: SpaceTime) -> str:
    return "beside" if any(step.line is None for step in diagram.steps) else ""


def drawing(diagram: SpaceTime, harmed: Sequence[HarmedInput] = ()) -> Drawing:
    count = len(diagram.steps)
    column = next((width for upto, width in _WIDTHS if count <= upto), _NARROW)
    longest = max(map(len, (_foot_name(diagram), *(line.name for line in diagram.lines))))
    return Drawing(diagram, tuple(harmed), longest * _CHARACTER + 16, column)


def drawing_svg(drawn: Drawing, title: str) -> str:
    """By itself, with its styles in it."""
    return render("spacetime.svg.jinja", drawing=drawn, title=title, alone=True)
