"""Two of a kind side by side: what is compared, a row each, and which rows differ, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..runs import input_said
from .document import render, said_span
from .faults_drawn import RecoveryBar

ALIKE: Final = 0.1
"""Share by which amounts on a real clock may be apart and still be called about the same."""


@dataclass(frozen=True)
class ComparedRow:
    """One thing of both."""

    label: str
    left: str
    right: str
    differs: str = ""
    """How, in a few words; empty where it does not."""


@dataclass(frozen=True)
class ComparedSection:
    """Rows that belong together."""

    title: str
    rows: tuple[ComparedRow, ...]
    note: str = ""

    @property
    def differing(self) -> int:
        return sum(bool(row.differs) for row in self.rows)


@dataclass(frozen=True)
class ComparedBars:
    """The way back from one fault, of both."""

    label: str
    left: RecoveryBar | None
    right: RecoveryBar | None

    @property
    def said(self) -> str:
        if self.left is None or self.right is None:
            return "only in B" if self.left is None else "only in A"
        if self.left.whole != self.right.whole:
            return "only B came back" if self.right.whole else "only A came back"
        return ratio_said(self.left.total, self.right.total)


@dataclass(frozen=True)
class ComparedSide:
    """One of the two."""

    name: str
    subject: str
    circumstances: str
    folder: str


@dataclass(frozen=True)
class SideBySide:
    """Two of a kind."""

    left: ComparedSide
    right: ComparedSide
    sections: tuple[ComparedSection, ...]
    bars: tuple[ComparedBars, ...] = ()
    not_compared: tuple[str, ...] = ()
    """What is not, a sentence each."""

    @property
    def longest(self) -> int:
        """Of the recoveries: all bars are drawn on one scale."""
        return max((bar.total for one in self.bars for bar in (one.left, one.right) if bar is not None), default=1) or 1

    @property
    def differing(self) -> tuple[str, ...]:
        """The sections in which something differs."""
        found = [one.title for one in self.sections if one.differing]
        return (*found, *(["Recoveries"] if any(one.said for one in self.bars) else []))


def same_or_not(label: str, left: str, right: str) -> ComparedRow:
    """Of what is the same, or is not."""
    return ComparedRow(label, left or "–", right or "–", "" if left == right else "differs")


def count_row(label: str, left: int, right: int) -> ComparedRow:
    """Of what is counted, and comes out the same where the same was done."""
    return ComparedRow(label, f"{left:,}", f"{right:,}", "" if left == right else f"B {right - left:+,}")


def span_row(label: str, left: int | None, right: int | None) -> ComparedRow:
    """Of times, which are never quite the same."""
    said = ["–" if one is None else said_span(one) for one in (left, right)]
    return ComparedRow(label, said[0], said[1], _amounts(left, right))


def rate_row(label: str, left: float | None, right: float | None) -> ComparedRow:
    """Of amounts a second."""
    said = ["–" if one is None else f"{one:,.4g} a second" for one in (left, right)]
    return ComparedRow(label, said[0], said[1], _amounts(left, right))


def _amounts(left: float | None, right: float | None) -> str:
    if left is None or right is None:
        return "" if left is right else "only in B" if left is None else "only in A"
    return ratio_said(left, right)


def ratio_said(left: float, right: float) -> str:
    """Empty where they are about the same."""
    if abs(left - right) <= ALIKE * max(abs(left), abs(right)):
        return ""
    if not left or not right:
        return "only B is more than 0" if right else "only A is more than 0"
    return f"B is {right / left:,.2f} × A"


@dataclass(frozen=True)
class Circumstances:
    """On what, and with what, something was done, as it is on record."""

    subject: Mapping[str, Any]
    cluster: Mapping[str, object]
    workload: Mapping[str, Any]
    seed: int
    versions: Mapping[str, str]


def circumstance_rows(left: Circumstances, right: Circumstances) -> Iterator[ComparedRow]:
    yield same_or_not("cluster", str(left.cluster.get("cluster")), str(right.cluster.get("cluster")))
    yield same_or_not("input", *(input_said(side.subject, side.workload) for side in (left, right)))
    yield same_or_not("seed", str(left.seed), str(right.seed))
    for name in paired(left.versions, right.versions):
        yield same_or_not(name, left.versions.get(name, ""), right.versions.get(name, ""))


def settings_row(label: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> ComparedRow:
    """Of what is too long to be shown."""
    return ComparedRow(label, "as recorded", "as recorded", "" if left == right else "differs")


def paired(left: Iterable[str], right: Iterable[str]) -> list[str]:
    """The names of both, those of the first in their order before those that only the second has."""
    return list(dict.fromkeys([*left, *right]))


def comparison_html(found: SideBySide, commands: Sequence[tuple[str, str]]) -> str:
    """The page."""
    return render(
        "comparison.html.jinja",
        found=found,
        title=f"{found.left.subject} and {found.right.subject}"
        if found.left.subject != found.right.subject
        else f"Two of {found.left.subject}",
        commands=commands,
    )
