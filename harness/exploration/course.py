"""The course of a search: how what was covered and found has grown, for whoever wants to see whether it still grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from ..core.verdicts import Status

if TYPE_CHECKING:
    from .search import SearchFindings

POINTS: Final = 240
"""That are kept at most, however long the search."""
_Count = Annotated[int, msgspec.Meta(ge=0)]
_Seconds = Annotated[float, msgspec.Meta(ge=0)]


class CoursePoint(msgspec.Struct, frozen=True):
    """How far a search had come."""

    schedules: _Count
    seconds: _Seconds
    struck: _Count
    """Addresses of the run without failures at which a fault has struck by then."""
    beyond: _Count
    """Addresses that only recoveries pass, at which one has."""
    violated: _Count
    """Schedules."""
    kinds: _Count
    """Of violations."""
    situations: _Count = 0
    """Of protocols, that recoveries came to (see `novelty`); 0 where the search was not guided by them."""


class SearchCourse:
    """Points at even distances, which double whenever there are too many."""

    def __init__(self) -> None:
        self._points: list[CoursePoint] = []
        self._every = 1

    def note(self, findings: SearchFindings) -> None:
        """After each schedule."""
        if findings.tried % self._every:
            return
        self._points.append(_point(findings))
        if len(self._points) > POINTS:
            # Those that stand at a multiple of the distance that is to come.
            self._points = self._points[1::2]
            self._every *= 2

    def points(self, findings: SearchFindings) -> tuple[CoursePoint, ...]:
        """Up to where it has come now."""
        last = _point(findings)
        rest = tuple(point for point in self._points if point.schedules < last.schedules)
        return (*rest, last) if last.schedules else ()


def _point(findings: SearchFindings) -> CoursePoint:
    return CoursePoint(
        findings.tried,
        round(findings.seconds, 3),
        findings.covered,
        findings.beyond,
        findings.statuses[Status.VIOLATED],
        len(findings.kinds),
        len(findings.situations),
    )
