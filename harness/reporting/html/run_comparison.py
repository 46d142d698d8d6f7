"""Two runs side by side: their verdicts, what was at work, the way back from each fault, throughput and latency."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...recording.folder import Description
from ...recording.history import History
from ...recording.records import Delivered, Offered
from ...running.judgement import Judgement
from ..runs import view_of_run
from ..view import RunView, ShownVerdict
from .comparison import (
    Circumstances,
    ComparedBars,
    ComparedRow,
    ComparedSection,
    ComparedSide,
    SideBySide,
    circumstance_rows,
    count_row,
    paired,
    rate_row,
    same_or_not,
    settings_row,
    span_row,
)
from .curves import PERCENTILES, latencies_in_order
from .faults_drawn import RecoveryBar
from .run_page import bars_of


@dataclass(frozen=True)
class ComparedRun:
    """One of two runs, judged."""

    name: str
    description: Description
    history: History
    judgement: Judgement
    folder: Path
    not_judged: str = ""
    """Why it could not be judged again, so that its verdicts are those on record; empty where it was."""

    def view(self) -> RunView:
        return view_of_run(self.description, self.history, self.judgement, self.folder)


def compared_runs(left: ComparedRun, right: ComparedRun) -> SideBySide:
    """Everything from the records."""
    views = left.view(), right.view()
    return SideBySide(
        _side(left, views[0]),
        _side(right, views[1]),
        (
            ComparedSection("What was run", tuple(_what_was_run(left, right))),
            ComparedSection("Verdicts", tuple(_verdicts(*views))),
            ComparedSection("Faults", tuple(_faults(left, right))),
            ComparedSection("What was at work", tuple(_at_work(left, right)), "How often, as far as records tell."),
            ComparedSection(
                "Throughput and latency",
                tuple(_pace(left, right)),
                "From the first event that was offered to the last output; latency from when an input was offered "
                "until its output was delivered. About the same: no more than a tenth apart.",
            ),
        ),
        tuple(_bars(_recovered(left), _recovered(right))),
        tuple(
            f"The verdicts of {one.name} are those on record, since it could not be judged again: {one.not_judged}"
            for one in (left, right)
            if one.not_judged
        ),
    )


def _side(run: ComparedRun, view: RunView) -> ComparedSide:
    return ComparedSide(run.name, view.head.subject, view.head.circumstances, str(run.folder))


def _what_was_run(left: ComparedRun, right: ComparedRun) -> Iterator[ComparedRow]:
    ours, theirs = left.description, right.description
    yield same_or_not("subject", str(ours.subject.get("name")), str(theirs.subject.get("name")))
    yield same_or_not("kind", str(ours.subject.get("kind")), str(theirs.subject.get("kind")))
    yield settings_row("all its settings", ours.subject, theirs.subject)
    sides = (Circumstances(d.subject, d.cluster, d.workload, d.seed, d.versions) for d in (ours, theirs))
    yield from circumstance_rows(*sides)
    yield same_or_not("history", left.judgement.digest[:12], right.judgement.digest[:12])


def _verdicts(left: RunView, right: RunView) -> Iterator[ComparedRow]:
    ours, theirs = ({one.claim: one for one in view.verdicts} for view in (left, right))
    for claim in paired(ours, theirs):
        mine, other = ours.get(claim), theirs.get(claim)
        said = [
            "not claimed" if one is None else f"{one.status}{': ' if one.summary else ''}{one.summary}"
            for one in (mine, other)
        ]
        status = [None if one is None else one.status for one in (mine, other)]
        yield ComparedRow(claim, said[0], said[1], "" if status[0] == status[1] else "the verdict differs")
        anomalies = [_anomalies(one) for one in (mine, other)]
        for anomaly in paired(*anomalies):
            yield same_or_not(f"{claim}: {anomaly}", *(one.get(anomaly, "none") for one in anomalies))
    yield same_or_not("strongest guarantee seen", left.strongest, right.strongest)


def _anomalies(verdict: ShownVerdict | None) -> dict[str, str]:
    """Name -> how often, of each place where it was looked for."""
    found: dict[str, list[str]] = {}
    for finding in () if verdict is None else verdict.findings:
        name, _, count = finding.text.partition(" × ")
        found.setdefault(name, []).append(count)
    return {name: " and ".join(counts) for name, counts in found.items()}


def _faults(left: ComparedRun, right: ComparedRun) -> Iterator[ComparedRow]:
    ours, theirs = ([str(fault) for fault in run.description.schedule] for run in (left, right))
    struck = [{e.number: e.bite.bit for e in run.history.struck()} for run in (left, right)]
    for number in range(max(len(ours), len(theirs))):
        said = [faults[number] if number < len(faults) else "" for faults in (ours, theirs)]
        yield same_or_not(f"fault {number + 1}", said[0], said[1])
        bit = ["bit" if one.get(number) else "did not bite" for one in struck]
        yield same_or_not(f"fault {number + 1} bit", *(b if s else "" for b, s in zip(bit, said, strict=True)))


def _at_work(left: ComparedRun, right: ComparedRun) -> Iterator[ComparedRow]:
    ours, theirs = left.judgement.exercised, right.judgement.exercised
    if ours is None or theirs is None:
        return
    for what in paired(ours, theirs):
        counts = [next((count for name, count in one.items() if name == what), 0) for one in (ours, theirs)]
        if any(counts):
            yield count_row(str(what), *counts)


@dataclass(frozen=True)
class _Pace:
    offered: int
    delivered: int
    span: int
    """From the first event that was offered to the last output, microseconds."""
    latencies: Sequence[float]
    """By `PERCENTILES`, in microseconds; empty where nothing says which input an output is of."""


def _pace_of(run: ComparedRun) -> _Pace:
    offered = [(s.at, len(s.record.events)) for s in run.history.of(Offered) if isinstance(s.record, Offered)]
    delivered = [(s.at, len(s.record.rows)) for s in run.history.of(Delivered) if isinstance(s.record, Delivered)]
    rerun = run.judgement.collation.reexecution
    took = [] if rerun is None else latencies_in_order(rerun)[1]
    moments = [at for at, _ in (*offered, *delivered)]
    return _Pace(
        sum(count for _, count in offered),
        sum(count for _, count in delivered),
        max(moments) - min(moments) if moments else 0,
        [float(one) for one in np.percentile(took, PERCENTILES)] if took else [],
    )


def _pace(left: ComparedRun, right: ComparedRun) -> Iterator[ComparedRow]:
    ours, theirs = _pace_of(left), _pace_of(right)
    yield count_row("events offered", ours.offered, theirs.offered)
    yield count_row("rows delivered", ours.delivered, theirs.delivered)
    yield span_row("from first to last", ours.span, theirs.span)
    yield rate_row("delivered", *(one.delivered / one.span * 1e6 if one.span else None for one in (ours, theirs)))
    for place, percent in enumerate(PERCENTILES):
        amounts = [round(one.latencies[place]) if one.latencies else None for one in (ours, theirs)]
        yield span_row(f"latency of {percent} of 100", *amounts)


def _recovered(run: ComparedRun) -> list[RecoveryBar]:
    return bars_of(run.description, run.history, run.judgement)


def _bars(left: Sequence[RecoveryBar], right: Sequence[RecoveryBar]) -> Iterator[ComparedBars]:
    ours, theirs = ({f"{bar.actor}, after fault {bar.fault}": bar for bar in bars} for bars in (left, right))
    for name in paired(ours, theirs):
        yield ComparedBars(name, ours.get(name), theirs.get(name))
