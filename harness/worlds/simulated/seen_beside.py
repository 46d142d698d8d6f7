"""What no record of a run says, and who looked on has seen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...core.wording import numbers_said

_Kept = Mapping[str, str]
"""Downstream slice -> what is kept for it, in words."""


@dataclass(frozen=True)
class SentWhileWaiting:
    """Events that came to a slice while it took none, as one that stands by does."""

    at: int
    """In microseconds."""
    slice_id: str
    incarnation: int
    upstream: str
    upstream_incarnation: int
    numbers: tuple[int, ...]
    kept: tuple[int, ...]
    """Those of them that are in the slice now; the others have passed it."""

    @property
    def passed(self) -> tuple[int, ...]:
        return tuple(number for number in self.numbers if number not in self.kept)


class SeenBeside:
    """By slice and incarnation, what its log held after each record of it; and what was sent to those who waited."""

    def __init__(self) -> None:
        self._logs: dict[tuple[str, int], tuple[list[int], list[_Kept]]] = {}
        self.sent: list[SentWhileWaiting] = []
        """In the order of their times."""

    def note_log(self, who: tuple[str, int], at: int, kept: Mapping[str, Sequence[int]]) -> None:
        times, all_kept = self._logs.setdefault(who, ([], []))
        times.append(at)
        all_kept.append({to: numbers_said(numbers) for to, numbers in kept.items()})

    def held(self, slice_id: str, incarnation: int, at: int) -> Iterator[tuple[str, str]]:
        """What its log held at a time, in microseconds: labels and what they say."""
        times, all_kept = self._logs.get((slice_id, incarnation), ([], []))
        place = bisect_right(times, at)
        for to, numbers in all_kept[place - 1].items() if place else ():
            yield f"log for {to}", numbers
