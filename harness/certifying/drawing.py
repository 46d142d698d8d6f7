"""The page of a certificate to look at: the verdicts, the map of crash points by kinds of batch, and every trial."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from ..core.verdicts import Status
from ..core.wording import counted
from ..reporting.html.document import render, write_page
from ..reporting.view import Fact, Tone
from .certificate import LOOK, Certificate
from .conclusion import Covered, Planned, lines_of
from .page import MEANINGS, kinds_in_order, row_of_map
from .plan import CrashTrial, How
from .so_far import go_on_command
from .telling import view_of_certificate

TRIALS: Final = 2_000
"""So many are listed."""
_HOW: Final = {
    How.CRASH_STATE: "crash state",
    How.KILL: "real kill",
    How.POWER_LOSS: "loss of power",
    How.SPLIT_BRAIN: "split brain",
}
_PASSED: Final = {point: place for place, point in enumerate(MEANINGS)}
"""In the order in which a batch passes them."""
_OUTCOMES: Final = ("violated", "unclear", "untried", "passed")
"""The worst first."""
_SIGNS: Final = {"violated": "✕", "unclear": "?", "untried": "–", "passed": "✓"}


@dataclass(frozen=True)
class MapCell:
    """The planned crashes at one place, in batches of one kind."""

    outcome: str
    """The worst of theirs."""
    sign: str
    planned: int
    tried: int
    said: str


@dataclass(frozen=True)
class StruckTrial:
    """One of those that struck at a place."""

    number: int
    outcome: str
    listed: bool


@dataclass(frozen=True)
class MapRow:
    """A place where something dies."""

    number: int
    where: str
    dies: str
    cells: tuple[MapCell | None, ...]
    trials: tuple[StruckTrial, ...]
    """Those that struck there, the worst first."""


@dataclass(frozen=True)
class ShownTrial:
    """A trial as the page shows it."""

    number: int
    schedule: str
    how: str
    outcome: str
    verdicts: str
    reason: str
    folder: str
    sampled: bool


def certificate_html(certificate: Certificate, folder: Path, beside: str | None = None, *, ended: bool = True) -> str:
    """The page. `beside`: how the certificate's folder is called from where the page lies; None where it cannot be
    reached from there, and nothing is linked. `ended`: whether the campaign has come to its end."""
    view = view_of_certificate(certificate, folder)
    named = shlex.quote(str(folder))
    kinds = kinds_in_order({kind for line in certificate.coverage for kind in line.planned.crash.kinds})
    trials = [_shown(number, trial) for number, trial in enumerate(certificate.trials, start=1)]
    replay = [("replay the violation", certificate.counterexample.command)] if certificate.counterexample else []
    more = [("go on with it", view.more)] if view.more else []
    again = ("judge it again", f"streamproof judge {named}")
    if not ended and certificate.asked is not None and certificate.asked.origin:
        again = ("where it was interrupted, go on with it", go_on_command(folder))
    elif not ended:
        again = ("draw it again", f"streamproof report {named}")
    what = "Certificate of" if ended else "A campaign without an end so far, on"
    return render(
        "certificate.html.jinja",
        title=f"{what} {view.head.subject}: {view.in_short}",
        heading=f"{what} {view.head.subject}",
        ended=ended,
        view=view,
        kinds=kinds,
        rows=list(_rows(certificate, kinds)),
        trials=trials[:TRIALS],
        unlisted=max(0, len(trials) - TRIALS),
        beside=beside,
        facts=[
            *(Fact("covered", said) for said in view.covered),
            *(Fact("error", said) for said in view.errors),
            *(Fact("sample", said) for said in view.sample),
        ],
        not_covered=[Fact("", said, Tone.OPEN) for said in view.not_covered] or [Fact("", "nothing that was planned")],
        meanings=[
            (str(point), said)
            for point, said in MEANINGS.items()
            if any(line.planned.crash.point is point for line in certificate.coverage)
        ],
        signs=[(_SIGNS[one], one) for one in _OUTCOMES],
        wrong=certificate.counterexample,
        commands=(again, *replay, *more),
        versions=certificate.versions,
        machine=certificate.machine,
        began=certificate.began,
        seal=certificate.seal,
    )


def write_look(folder: Path, certificate: Certificate) -> None:
    """Put the page into a folder that is about to be sealed: what the certificate lists is all that lies there by
    then. Raises StorageFailed."""
    write_page(folder / LOOK, certificate_html(msgspec.structs.replace(certificate, seal=""), folder, "."))


def _rows(certificate: Certificate, kinds: Sequence[str]) -> Iterator[MapRow]:
    """In the order in which a batch passes the places."""
    by_place: dict[tuple[str, str], list[Covered]] = {}
    for line in sorted(certificate.coverage, key=_order):
        _, where, dies = row_of_map(line.planned)
        by_place.setdefault((where.replace("`", ""), dies), []).append(line)
    struck: dict[Planned, list[int]] = {}
    for number, trial in enumerate(certificate.trials, start=1):
        for planned in lines_of(trial):
            struck.setdefault(planned, []).append(number)
    for number, ((where, dies), lines) in enumerate(by_place.items(), start=1):
        numbers = sorted({one for line in lines for one in struck.get(line.planned, ())})
        trials = [StruckTrial(one, _came_to(certificate.trials[one - 1]), one <= TRIALS) for one in numbers]
        trials.sort(key=lambda one: _OUTCOMES.index(one.outcome))
        cells = tuple(_cell([line for line in lines if kind in line.planned.crash.kinds]) for kind in kinds)
        yield MapRow(number, where, dies, cells, tuple(trials))


def outcomes_by_place(certificate: Certificate) -> dict[str, str]:
    """Place, what dies and kind of batch, in words -> the worst that came of it there."""
    kinds = kinds_in_order({kind for line in certificate.coverage for kind in line.planned.crash.kinds})
    return {
        f"{row.where}: {row.dies}, {kind} batches": cell.outcome
        for row in _rows(certificate, kinds)
        for kind, cell in zip(kinds, row.cells, strict=True)
        if cell is not None
    }


def _order(line: Covered) -> tuple[int, tuple[object, ...]]:
    point = line.planned.crash.point
    return _PASSED.get(point, len(_PASSED)), row_of_map(line.planned)[0]


def _cell(lines: Sequence[Covered]) -> MapCell | None:
    if not lines:
        return None
    outcomes = [_outcome(line) for line in lines]
    worst = next(one for one in _OUTCOMES if one in outcomes)
    tried = sum(line.states + line.kills for line in lines)
    counts = ", ".join(f"{outcomes.count(one)} {one}" for one in _OUTCOMES if one in outcomes)
    said = f"{counted(len(lines), 'planned crash', 'planned crashes')}: {counts}; {counted(tried, 'trial')}"
    return MapCell(worst, _SIGNS[worst], len(lines), tried, said)


def _outcome(line: Covered) -> str:
    if any(Status.VIOLATED in found for found in line.verdicts.values()):
        return "violated"
    if not line.states and not line.kills:
        return "untried"
    return "passed" if line.verdicts and all(claim in line.passed for claim in line.verdicts) else "unclear"


def _shown(number: int, trial: CrashTrial) -> ShownTrial:
    return ShownTrial(
        number,
        "; then ".join(map(str, trial.crashes)),
        _HOW[trial.how],
        _came_to(trial),
        _said(trial.verdicts),
        trial.reason,
        trial.folder,
        trial.sampled,
    )


def _came_to(trial: CrashTrial) -> str:
    found = set(trial.verdicts.values())
    if Status.VIOLATED in found:
        return "violated"
    return "passed" if found == {Status.HOLDS} and not trial.missed else "unclear"


def _said(verdicts: Mapping[str, Status]) -> str:
    return ", ".join(f"{claim} {status}" for claim, status in verdicts.items())
