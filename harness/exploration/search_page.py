"""The page of a search: what was violated and how, what was covered as it went on, and what that is worth."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..contracts.registry import SCALED, Registry
from ..core.errors import UserMistake
from ..core.wording import counted
from ..reporting.html.document import render
from ..reporting.html.run_page import VerdictOnPage, findings_on_page
from ..reporting.html.spacetime_drawing import Drawing
from .counterexample import Counterexample, ReplayedCounterexample, counterexample_in, replay_in_simulator
from .course import CoursePoint
from .pages import UNDRAWN, counterexample_drawing
from .search_document import SearchDocument
from .telling import view_of_replay

DRAWN_KINDS: Final = 8
"""Counterexamples of which there is a diagram."""
ROWS: Final = 24
"""Of the course, in words."""
_ELSEWHERE: Final = frozenset({"exercised", "untried", "violated", "bound"})
"""Labels of what is said in a section of its own."""
_HEIGHT: Final = 100


@dataclass(frozen=True)
class ShownKind:
    """A kind of violation, with the smallest schedule that was found to show it."""

    title: str
    how_often: str
    found: str
    schedule: tuple[tuple[str, str], ...]
    verdicts: tuple[VerdictOnPage, ...]
    compared: str
    drawing: Drawing | None
    undrawn: str
    """Why there is no diagram."""
    command: str


@dataclass(frozen=True)
class CourseCurve:
    """One thing that grew."""

    name: str
    style: str
    path: str
    """As SVG: across in schedules, up from 100 to 0."""
    last: str


@dataclass(frozen=True)
class ExercisedRow:
    """How many of the schedules had something at work."""

    name: str
    schedules: int
    share: float


def search_html(document: SearchDocument, file: Path, registry: Registry) -> str:
    """What a search has printed, as a page; its counterexamples are run again, each in the world that it was found in.
    Raises InvalidCounterexample, and InvalidOperator as `spacetime` does."""
    named = shlex.quote(str(file))
    found = [counterexample_in(file, one) for one in document.counterexamples]
    saved = [str(one.get("file") or "") for one in document.counterexamples]
    kinds = [
        _shown(document, one, saved[place], file, registry, place < DRAWN_KINDS) for place, one in enumerate(found)
    ]
    shown = {(one.kind.guarantee, one.kind.anomaly) for one in found}
    return render(
        "search.html.jinja",
        title=f"{document.head.subject}: a search of {counted(document.schedules, 'schedule')}",
        document=document,
        kinds=kinds,
        unkept=[one for one in document.violated if (one.guarantee, one.anomaly) not in shown],
        facts=list(_facts(document)),
        curves=list(_curves(document.course, document.addresses.exist)),
        rows=_thinned(document.course),
        situations=document.course[-1].situations if document.course else 0,
        exercised=_exercised(document),
        bound=[fact.text for fact in document.said if fact.label == "bound"],
        commands=(
            ("search again", f"streamproof explore {shlex.quote(_asked(document))} --seed {document.seed}"),
            *([] if document.goes_on else [("draw it again", f"streamproof report {named}")]),
        ),
    )


def _asked(document: SearchDocument) -> str:
    """What was to be searched, which `explore` scales down itself."""
    return re.sub(rf"^{SCALED}[\d/]+@", "", document.origin)


def _shown(
    document: SearchDocument, found: Counterexample, saved: str, file: Path, registry: Registry, draws: bool
) -> ShownKind:
    kind = found.kind
    often = sum(
        one.schedules for one in document.violated if (one.guarantee, one.anomaly) == (kind.guarantee, kind.anomaly)
    )
    replayed: ReplayedCounterexample | None = None
    undrawn = "" if draws else f"The first {DRAWN_KINDS} kinds of violation are drawn."
    try:
        if draws:
            replayed = replay_in_simulator(file, found, registry)
    except UserMistake as error:
        undrawn = f"It cannot be run again to be drawn: {error}"
    drawn = None if replayed is None else counterexample_drawing(replayed)
    schedule = [fault.fault() for fault in found.faults]
    return ShownKind(
        f"{kind.guarantee}: {kind.anomaly}",
        f"{often:,} of {counted(document.schedules, 'schedule')}",
        f"found at schedule {found.found.schedule:,}, shrunk from {counted(found.found.faults, 'fault')} and "
        f"{counted(found.found.events, 'event')} to {counted(len(found.faults), 'fault')} and "
        f"{counted(found.workload.events, 'event')}",
        tuple((fault.what, fault.when) for fault in schedule),
        ()
        if replayed is None
        else (
            VerdictOnPage(view_of_replay(replayed).verdict, tuple(findings_on_page(replayed.verdict.anomalies, True))),
        ),
        found.evidence if replayed is None else view_of_replay(replayed).compared,
        drawn,
        undrawn or UNDRAWN,
        f"streamproof replay {shlex.quote(saved)}" if saved else "",
    )


def _facts(document: SearchDocument) -> Iterator[dict[str, str]]:
    """Without what stands elsewhere, and what continues it."""
    left_out = False
    for fact in document.said:
        left_out = fact.label in _ELSEWHERE if fact.label else left_out
        if not left_out:
            yield {"label": fact.label, "text": fact.text, "tone": fact.tone}


def _curves(course: Sequence[CoursePoint], exist: int) -> Iterator[CourseCurve]:
    """On one scale, of all addresses that the run without failures has, or that recoveries passed."""
    if len(course) < 2:
        return
    top = max([exist, 1, *(point.beyond for point in course)])
    for name, style, values in (
        ("of the run without failures", "delivered", [point.struck for point in course]),
        ("of recoveries", "p95", [point.beyond for point in course]),
    ):
        steps = [
            f"{point.schedules} {_HEIGHT * (1 - value / top):.2f}" for point, value in zip(course, values, strict=True)
        ]
        yield CourseCurve(name, style, f"M0 {_HEIGHT}L" + "L".join(steps), f"{values[-1]:,}")


def _thinned(course: Sequence[CoursePoint]) -> list[CoursePoint]:
    if len(course) <= ROWS:
        return list(course)
    return [course[round(place * (len(course) - 1) / (ROWS - 1))] for place in range(ROWS)]


def _exercised(document: SearchDocument) -> list[ExercisedRow]:
    most = max(1, document.schedules)
    return [ExercisedRow(name, count, 100 * count / most) for name, count in document.exercised.items() if count]
