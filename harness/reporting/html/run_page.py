"""The page of a run: its verdicts, then everything that happened, on one axis of time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...contracts.query import KIND as QUERY
from ...core.errors import DamagedHistory, InvalidScenario
from ...core.verdicts import Status, Tally
from ...core.wording import counted
from ...judging.reexecution import Reexecution
from ...recording.folder import Description
from ...recording.history import (
    Aborted,
    Drained,
    FaultHealed,
    FaultMissed,
    FaultStruck,
    History,
    IncarnationFailed,
    NodeGone,
    NodeUp,
    Placed,
    Remembered,
    Stalled,
    TimelineEntry,
)
from ...recording.records import Delivered, Offered, Taken
from ...running.judgement import Judgement
from ...worlds.simulated.seen_beside import SeenBeside
from ..runs import back_unmeasured, evidence, titles_of, view_of_run
from ..view import RunView, ShownVerdict
from .affected import harmed_inputs
from .axis import TimeAxis
from .batches import ROWS as BATCHES
from .batches import BatchTimes, ShownBatch, batch_lane, batch_times, batches_of
from .curves import CurvePanel, latencies_over_time, rates
from .document import render, shell_word
from .faults_drawn import FaultBand, RecoveryBar, bands, recovery_bars
from .journey import Station, numbered_in, ways
from .lanes import ActorLane, lanes_of, replays
from .spacetime import around, spacetime
from .spacetime_drawing import Drawing, drawing

HAPPENINGS: Final = 400
"""Entries of the timeline that are listed."""
NOT_EXECUTED: Final = "There is no diagram of space and time: nothing was executed again."
DIAGRAMS: Final = 3
"""Faults around which a diagram is drawn."""


@dataclass(frozen=True)
class PieceOfEvidence:
    """One line, and the moments that it speaks of."""

    text: str
    at: tuple[int, ...]
    way: tuple[Station, ...] = ()
    """Where the input that it names was, and when."""


@dataclass(frozen=True)
class FindingOnPage:
    text: str
    pieces: tuple[PieceOfEvidence, ...]


@dataclass(frozen=True)
class VerdictOnPage:
    verdict: ShownVerdict
    findings: tuple[FindingOnPage, ...]


@dataclass(frozen=True)
class Happening:
    """An entry of the timeline."""

    at: int
    said: str


@dataclass(frozen=True)
class FaultDiagram:
    """What happened around a fault."""

    title: str
    drawing: Drawing


@dataclass(frozen=True)
class RunPage:
    """All that the page of a run shows."""

    view: RunView
    description: Description
    verdicts: tuple[VerdictOnPage, ...]
    axis: TimeAxis
    bands: tuple[FaultBand, ...]
    panels: tuple[CurvePanel, ...]
    lanes: tuple[ActorLane, ...]
    bars: tuple[RecoveryBar, ...]
    happenings: tuple[Happening, ...]
    unlisted: int
    """Entries of the timeline that are left out."""
    no_latency: str
    """Why no latency is drawn; empty where it is."""
    diagrams: tuple[FaultDiagram, ...]
    undrawn: str
    """What is not drawn, and why; empty where there is nothing to say."""
    remark: str
    """Why the verdicts are not what it was judged to be for this page; empty where they are."""
    digest: str
    batches: tuple[ShownBatch, ...] = ()
    """Of a query."""
    unlisted_batches: int = 0
    times: tuple[BatchTimes, ...] = ()

    @property
    def longest(self) -> int:
        """Of the recoveries."""
        return max((bar.total for bar in self.bars), default=1) or 1


def run_page(
    description: Description,
    history: History,
    judgement: Judgement,
    folder: Path,
    remark: str = "",
    beside: SeenBeside | None = None,
) -> RunPage:
    """Everything from the record, and from what it comes to when it is judged. `remark`: that it was not, and why the
    judgement rests on no execution. `beside`: what is not on record."""
    view = view_of_run(description, history, judgement, folder)
    axis = _axis(history)
    rerun = judgement.collation.reexecution
    latency = None if rerun is None else latencies_over_time(history, rerun, axis)
    try:
        schedule = [fault.fault() for fault in description.schedule]
    except InvalidScenario as error:
        raise DamagedHistory(f"{folder / 'scenario.json'} cannot be read: {error}") from error
    diagrams, undrawn = ([], NOT_EXECUTED) if remark else diagrams_of(history, judgement, beside)
    happenings = [Happening(entry.stamp.at, said) for entry in history.timeline for said in [_said(entry)] if said]
    happenings.sort(key=lambda one: one.at)
    several = len(description.schedule) > 1
    batches = batches_of(history) if description.subject.get("kind") == QUERY else []
    lane = batch_lane(batches)
    return RunPage(
        view,
        description,
        tuple(
            VerdictOnPage(shown, tuple(findings_on_page(verdict.anomalies, several, rerun)))
            for shown, verdict in zip(view.verdicts, (*judgement.verdicts, *judgement.broken), strict=True)
        ),
        axis,
        tuple(bands(history, schedule, judgement.recoveries, axis.ends)),
        tuple(panel for panel in (rates(history, axis), latency) if panel is not None),
        (*lanes_of(history, axis.ends, judgement.recoveries), *([] if lane is None else [lane])),
        tuple(bars_of(description, history, judgement)),
        tuple(happenings[:HAPPENINGS]),
        max(0, len(happenings) - HAPPENINGS),
        _no_latency(rerun is None, latency is None, bool(remark)),
        tuple(diagrams),
        undrawn,
        remark,
        judgement.digest,
        tuple(batches[:BATCHES]),
        max(0, len(batches) - BATCHES),
        tuple(batch_times(history)),
    )


def bars_of(description: Description, history: History, judgement: Judgement) -> list[RecoveryBar]:
    """Of a query that is back, though its record does not say when, there is none: it would look as if it were not."""
    bars = recovery_bars(history, judgement.recoveries, replays(history))
    return [bar for bar in bars if bar.whole or not back_unmeasured(description, history)]


def diagrams_of(history: History, judgement: Judgement, beside: SeenBeside | None) -> tuple[list[FaultDiagram], str]:
    """Of a scheme's run: what happened around each of the first faults, or at the beginning where there was none."""
    collation = judgement.collation
    if collation.reexecution is None or collation.wanted is None:
        return [], "Of a query there is no diagram of space and time: nothing says what happened inside it."
    if next(history.of(Taken), None) is None:
        return [], "There is no diagram of space and time: no slice has taken anything."
    struck: dict[int, tuple[int, str]] = {}
    for entry in history.struck():
        struck.setdefault(entry.number, (entry.stamp.at, entry.fault))
    # Two that strike at once have a diagram each.
    moments = sorted(struck.values(), key=lambda one: one[0])[:DIAGRAMS] or [(0, "")]
    harmed = harmed_inputs(collation.reexecution, collation.wanted, _anomaly(judgement))
    found = []
    for at, fault in moments:
        title = f"Around {fault}" if fault else "The beginning"
        diagram = spacetime(history, collation.reexecution, *around(history, at), beside)
        found.append(FaultDiagram(title, drawing(diagram, harmed)))
    left = len(struck) - len(found)
    return found, f"{counted(left, 'fault')} more are not drawn as diagrams." if left > 0 else ""


def _anomaly(judgement: Judgement) -> str:
    """The first that breaks a claim, or else what was expected to break."""
    for verdict in (*judgement.verdicts, *judgement.broken):
        if verdict.status is Status.VIOLATED and verdict.anomalies:
            return verdict.anomalies[0].anomaly
    return ""


def run_html(page: RunPage) -> str:
    """The page itself."""
    folder = shell_word(page.view.folder)
    return render(
        "run.html.jinja",
        page=page,
        title=f"{page.view.head.subject}: {_in_short(page.view)}",
        curves=_curves(page.panels),
        commands=(
            ("judge it again", f"streamproof judge {folder}"),
            ("run it again", f"streamproof replay {folder}"),
            ("draw it again", f"streamproof report {folder}"),
        ),
        versions=page.description.versions,
        machine=page.description.machine,
    )


def _in_short(view: RunView) -> str:
    return ", ".join(f"{verdict.claim} {verdict.status}" for verdict in view.verdicts) or "nothing claimed"


def _curves(panels: Sequence[CurvePanel]) -> list[dict[str, Any]]:
    """For whoever hovers."""
    return [
        {
            "begins": panel.begins,
            "width": panel.width,
            "unit": panel.unit,
            "curves": [{"name": curve.name, "values": curve.values} for curve in panel.curves],
        }
        for panel in panels
    ]


def _axis(history: History) -> TimeAxis:
    """From a little before anything was placed or offered to a little after the last that is told."""
    begun = [entry.stamp.at for entry in history.timeline if isinstance(entry, Placed)]
    begun += [stamped.at for stamped in history.of(Offered)][:1]
    over = [entry.stamp.at for entry in history.timeline]
    over += [stamped.at for stamped in history.of(Offered, Delivered)]
    if not over:
        return TimeAxis(0, 1)
    begins, ends = min(begun, default=0), max(over)
    margin = max(1, (ends - begins) // 50)
    return TimeAxis(max(0, begins - margin), ends + margin)


def findings_on_page(
    anomalies: Sequence[Tally], several: bool, rerun: Reexecution | None = None
) -> Iterator[FindingOnPage]:
    """What a verdict rests on. `several`: whether the schedule has more faults than one. `rerun`: says where the inputs
    were that the evidence names."""
    named = {piece.what: numbered_in(piece.what) for tally in anomalies for piece in tally.sample}
    found = {} if rerun is None else ways(rerun, filter(None, named.values()))
    for title, tally in zip(titles_of(anomalies), anomalies, strict=True):
        yield FindingOnPage(
            title,
            tuple(
                PieceOfEvidence(
                    evidence(piece, several), piece.at, () if (one := named[piece.what]) is None else found.get(one, ())
                )
                for piece in tally.sample
            ),
        )


def _no_latency(black_box: bool, none: bool, not_executed: bool) -> str:
    if not_executed:
        return "Latency is not drawn: nothing was executed again, which says what an output was made of."
    if black_box:
        return "Latency is not drawn: of a black box, nothing says which input an output is of."
    return "Latency is not drawn: nothing that was delivered is made of an input alone." if none else ""


def _said(entry: TimelineEntry) -> str:
    """An entry of the timeline, in a sentence."""
    match entry:
        case FaultStruck():
            bite = entry.bite
            return f"{entry.fault}: " + (
                f"bit {bite.target} on {bite.node}" if bite.bit else f"no bite: {bite.why_not}"
            )
        case FaultHealed():
            return f"{entry.fault} has healed for {entry.target} ({entry.proof})"
        case FaultMissed():
            return f"{entry.fault}: its trigger never came"
        case NodeGone():
            why = f" (the harness has ended it: {entry.ended_for})" if entry.ended_for else ""
            return f"the loss of {entry.node} is detected{why}"
        case NodeUp():
            return f"{entry.node} is up"
        case Placed():
            return f"{entry.actor}#{entry.incarnation} is placed on {entry.node}"
        case IncarnationFailed():
            return f"{entry.actor}#{entry.incarnation} failed: {entry.why}"
        case Drained():
            return "drained: the end of the input has passed through everything"
        case Stalled():
            return f"stalled: waiting for {entry.waiting_for}"
        case Aborted():
            return f"given up: {entry.why}"
        case Remembered():
            return f"the simulator's crashes may not have taken all: {entry.what or entry.not_looked_at}"
    return ""
