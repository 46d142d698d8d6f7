"""Two certificates side by side: verdicts, what each covered and what not, and where their crash points came to another
end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from ..core.wording import counted
from ..reporting.html.comparison import (
    Circumstances,
    ComparedRow,
    ComparedSection,
    ComparedSide,
    SideBySide,
    circumstance_rows,
    count_row,
    paired,
    same_or_not,
    settings_row,
    span_row,
)
from .certificate import Certificate
from .drawing import outcomes_by_place
from .page import not_covered_said, sample_said
from .telling import view_of_certificate

PLACES = 60
"""Crash points with another outcome that are listed."""


def compared_certificates(left_folder: Path, left: Certificate, right_folder: Path, right: Certificate) -> SideBySide:
    """By what the two say."""
    ours, theirs = outcomes_by_place(left), outcomes_by_place(right)
    places = list(_places(ours, theirs))
    more = f" {len(places) - PLACES:,} more are not listed." if len(places) > PLACES else ""
    same = len({*ours, *theirs}) - len(places)
    return SideBySide(
        _side("A", left, left_folder),
        _side("B", right, right_folder),
        (
            ComparedSection("What was certified", tuple(_what_was_certified(left, right))),
            ComparedSection("Verdicts", tuple(_verdicts(left, right))),
            ComparedSection("What was covered", tuple(_covered(left, right))),
            ComparedSection("Not covered", tuple(_not_covered(left, right))),
            ComparedSection(
                "Crash points with another outcome",
                tuple(places[:PLACES]),
                f"{counted(same, 'place')} had the same.{more} Of crashes planned at one place, the worst outcome "
                "counts.",
            ),
            ComparedSection("Time", tuple(_time(left, right)), "About the same: no more than a tenth apart."),
        ),
    )


def _side(name: str, certificate: Certificate, folder: Path) -> ComparedSide:
    head = view_of_certificate(certificate, folder).head
    return ComparedSide(name, head.subject, head.circumstances, str(folder))


def _what_was_certified(left: Certificate, right: Certificate) -> Iterator[ComparedRow]:
    ours, theirs = left.subject, right.subject
    yield same_or_not("query", str(ours.get("name")), str(theirs.get("name")))
    yield settings_row("all that it says of itself", ours, theirs)
    sides = (Circumstances(c.subject, c.cluster, c.workload, c.seed, c.versions) for c in (left, right))
    yield from circumstance_rows(*sides)


def _verdicts(left: Certificate, right: Certificate) -> Iterator[ComparedRow]:
    ours, theirs = ({one.claim: one for one in certificate.verdicts} for certificate in (left, right))
    for claim in paired(ours, theirs):
        both = ours.get(claim), theirs.get(claim)
        said = ["not claimed" if one is None else f"{one.status}: {one.summary}" for one in both]
        status = {None if one is None else one.status for one in both}
        yield ComparedRow(claim, said[0], said[1], "" if len(status) == 1 else "the verdict differs")
    anomalies = ["" if one.counterexample is None else one.counterexample.anomaly for one in (left, right)]
    yield same_or_not("how it is violated", *anomalies)
    samples = [list(sample_said(one.draw, one.bounds)) or ["none was drawn"] for one in (left, right)]
    for place, (mine, other) in enumerate(zip_longest(*samples, fillvalue="")):
        yield same_or_not("" if place else "sample", mine, other)


def _covered(left: Certificate, right: Certificate) -> Iterator[ComparedRow]:
    yield count_row("crashes planned", len(left.coverage), len(right.coverage))
    for claim in paired(*([str(claim) for claim in one.claims] for one in (left, right))):
        passed = [sum(claim in line.passed for line in one.coverage) for one in (left, right)]
        yield count_row(f"of them passed: {claim}", *passed)
    hows = [Counter(str(trial.how) for trial in one.trials) for one in (left, right)]
    for how in paired(*hows):
        yield count_row(f"trials: {how}", hows[0][how], hows[1][how])
    for kind in paired(left.batches, right.batches):
        yield count_row(f"batches: {kind}", left.batches.get(kind, 0), right.batches.get(kind, 0))


def _not_covered(left: Certificate, right: Certificate) -> Iterator[ComparedRow]:
    ours, theirs = list(not_covered_said(left)), list(not_covered_said(right))
    for said in paired(ours, theirs):
        only = "" if said in ours and said in theirs else "only in A" if said in ours else "only in B"
        yield ComparedRow(said, "not covered" if said in ours else "–", "not covered" if said in theirs else "–", only)


def _places(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[ComparedRow]:
    for place in paired(ours, theirs):
        mine, other = ours.get(place, "not planned"), theirs.get(place, "not planned")
        if mine != other:
            yield ComparedRow(place, mine, other, "differs")


def _time(left: Certificate, right: Certificate) -> Iterator[ComparedRow]:
    for part in paired(left.durations, right.durations):
        spans = [round(one.durations[part] * 1e6) if part in one.durations else None for one in (left, right)]
        yield span_row(part, *spans)
