"""Two certificates side by side: verdicts, what each covered and what not, and where their crash points came to another
end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..core.wording import counted
from ..reporting.html.comparison import (
    ComparedRow,
    ComparedSection,
    ComparedSide,
    SideBySide,
    count_row,
    paired,
    same_or_not,
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
    places = list(_places(left, right))
    more = f" {len(places) - PLACES:,} more are not listed." if len(places) > PLACES else ""
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
                f"{_unchanged(left, right, places)}{more} Of crashes planned at one place, the worst outcome counts.",
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
    yield ComparedRow("all that it says of itself", "as recorded", "as recorded", "" if ours == theirs else "differs")
    yield same_or_not("cluster", str(left.cluster.get("cluster")), str(right.cluster.get("cluster")))
    yield same_or_not("workload", str(left.workload.get("name")), str(right.workload.get("name")))
    yield count_row("events", int(left.workload.get("events", 0)), int(right.workload.get("events", 0)))
    yield same_or_not("seed", str(left.seed), str(right.seed))
    for name in paired(left.versions, right.versions):
        yield same_or_not(name, left.versions.get(name, ""), right.versions.get(name, ""))


def _verdicts(left: Certificate, right: Certificate) -> Iterator[ComparedRow]:
    ours, theirs = ({one.claim: one for one in certificate.verdicts} for certificate in (left, right))
    for claim in paired(ours, theirs):
        both = ours.get(claim), theirs.get(claim)
        said = ["not claimed" if one is None else f"{one.status}: {one.summary}" for one in both]
        status = {None if one is None else one.status for one in both}
        yield ComparedRow(claim, said[0], said[1], "" if len(status) == 1 else "the verdict differs")
    anomalies = ["" if one.counterexample is None else one.counterexample.anomaly for one in (left, right)]
    yield same_or_not("how it is violated", *anomalies)
    for place, (mine, other) in enumerate(zip(*(_samples(one) for one in (left, right)), strict=False), start=1):
        yield same_or_not("sample" if place == 1 else "", mine, other)


def _samples(certificate: Certificate) -> list[str]:
    return list(sample_said(certificate.draw, certificate.bounds)) or ["none was drawn"]


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


def _places(left: Certificate, right: Certificate) -> Iterator[ComparedRow]:
    ours, theirs = outcomes_by_place(left), outcomes_by_place(right)
    for place in paired(ours, theirs):
        mine, other = ours.get(place, "not planned"), theirs.get(place, "not planned")
        if mine != other:
            yield ComparedRow(place, mine, other, "differs")


def _unchanged(left: Certificate, right: Certificate, places: list[ComparedRow]) -> str:
    same = len({*outcomes_by_place(left), *outcomes_by_place(right)}) - len(places)
    return f"{counted(same, 'place')} had the same."


def _time(left: Certificate, right: Certificate) -> Iterator[ComparedRow]:
    for part in paired(left.durations, right.durations):
        spans = [round(one.durations[part] * 1e6) if part in one.durations else None for one in (left, right)]
        yield span_row(part, *spans)
