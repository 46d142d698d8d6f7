"""What is shown of a search, and of a counterexample that was run again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from ..contracts.scaling import scaled_down
from ..core.errors import ExitStatus
from ..core.verdicts import Status
from ..core.wording import counted
from ..judging.exercised import NEVER, Activity, said_never, unexercised
from ..reporting.view import TONES, Fact, FoundView, Head, ReplayView, SearchView, ShownFinding, ShownVerdict, Tone
from .as_stated import AsStated
from .corpus import CorpusGrowth
from .counterexample import ReplayedCounterexample
from .exhausting import PLAINLY, not_covered, statements
from .exploring import Explored, KeptViolation
from .largest_errors import LargestErrors, largest_said
from .plans import DRAWN
from .search import SearchFindings, Succession

EVIDENCE: Final = 3
SHOWN_ERRORS: Final = 5
"""Amounts that are bounded and shown, the largest first; `--json` has all."""


def view_of_search(explored: Explored) -> SearchView:
    """What it has come to, and what of it was kept."""
    scenario = explored.scenario
    return SearchView(
        found=tuple(map(_found, explored.kept)),
        head=Head(
            f"{scenario.subject.name} under {scenario.subject.kind}",
            f"simulator, {counted(len(explored.bench.cluster.places.workers), 'node')} · "
            f"{counted(scenario.workload.events, 'event')} of {scenario.workload.name} · seed {explored.bench.seed}",
        ),
        facts=tuple(_facts(explored)),
    )


def _found(kept: KeptViolation) -> FoundView:
    content = kept.content
    before = f"{counted(content.found.faults, 'fault')} and {counted(content.found.events, 'event')}"
    shrunk = f"shrunk from {before} to" if kept.shrunk.runs else f"not made smaller, with {before}:"
    return FoundView(
        how=f"{content.claim}: {content.anomaly}, found at schedule {kept.violation.number:,}, {shrunk}",
        schedule=tuple((fault.what, fault.when) for fault in kept.shrunk.trial.schedule),
        evidence=content.evidence,
        input=counted(content.workload.events, "event"),
        command="" if kept.unkept else f"streamproof replay {shlex.quote(str(kept.file))}",
        unkept=kept.unkept,
    )


def _going_on(explored: Explored) -> str:
    """How to, after an interruption: what a search has tried so far is not kept, since a seed gives the same again."""
    seed = explored.bench.seed
    kept = "what was found is kept, and " if any(not one.unkept for one in explored.kept) else ""
    return (
        f"{kept}the same command with --seed {seed} tries the same again and goes on from there; --seed {seed + 1} "
        "draws others at random"
    )


def _facts(explored: Explored) -> Iterator[Fact]:
    findings, scenario = explored.findings, explored.scenario
    if explored.own is not None and (scaled := ", ".join(scaled_down(explored.own, scenario))):
        yield Fact("scaled", f"{scaled} (--own-sizes keeps them)")
    if explored.stated is not None:
        yield Fact("as stated", str(explored.stated), _tone_of(explored.stated))
    rate = findings.tried / findings.seconds if findings.seconds else 0
    ended = ", interrupted" if findings.interrupted else ", all there are" if findings.exhausted else ""
    if explored.goes_on:
        ended = " so far"
    where = (
        f"{counted(findings.jobs, 'core')} of {findings.master}" if findings.master else counted(findings.jobs, "job")
    )
    yield Fact("schedules", f"{findings.tried:,}{ended}, in {findings.seconds:.1f} s on {where} ({rate:,.0f}/s)")
    yield from _losses(findings)
    if findings.interrupted:
        yield Fact("go on", _going_on(explored))
    yield Fact("claims", ", ".join(map(str, explored.bench.claims)))
    yield Fact("verdicts", ", ".join(f"{findings.statuses[status]:,} {status}" for status in Status))
    yield Fact(
        "judged",
        f"{findings.judged:,} of {findings.tried:,} plainly"
        + (", which is too few to say that the claims hold" if explored.few else ""),
        Tone.OPEN if explored.few else Tone.PLAIN,
    )
    if explored.exit_status is ExitStatus.HOLDS:
        power = explored.power
        yield Fact("power", f"not measured: {power}" if isinstance(power, str) else str(power))
    yield Fact("exercised", _at_work(findings))
    nowhere = unexercised(explored.untried, findings.exercised)
    if nowhere:
        yield Fact("untried", f"{said_never(nowhere)}: UNKNOWN", Tone.OPEN)
    if elsewhere := [one for one in explored.untried if one not in nowhere]:
        yield Fact("untried", f"{PLAINLY}, {said_never(elsewhere)}: UNKNOWN", Tone.OPEN)
    if explored.kinds != ("crash",):
        bitten = [f"{kind} in {explored.findings.bitten[kind]:,}" for kind in sorted(explored.findings.bitten)]
        yield Fact("bitten", " · ".join(bitten) or "nothing")
    if explored.unbitten:
        yield Fact("untried", f"no {' and no '.join(explored.unbitten)} has bitten: UNKNOWN", Tone.OPEN)
    if explored.unasked:
        never = ", ".join(NEVER[one] for one in explored.unasked)
        yield Fact("unasked", f"{never}; by what the scheme says, no claim rests on that", Tone.OPEN)
    for kind, count in findings.kinds.most_common():
        yield Fact("violated", f"{count:,} × {kind.guarantee}: {kind.anomaly}", Tone.BAD)
    for reason, count in findings.reasons.most_common():
        yield Fact("unknown", f"{count:,} × {reason}", Tone.OPEN)
    yield from _largest_error(explored.errors)
    for guarantee in explored.bench.not_judged:
        yield Fact("not judged", f"{guarantee}: the simulator has no real clock")
    beyond = f", and {findings.beyond:,} others, in recoveries" if findings.beyond else ""
    stood_for = sum(map(len, findings.alike.values()))
    alike = f" ({stood_for:,} by others, which leave the same world behind)" if stood_for else ""
    yield Fact(
        "struck",
        f"{findings.covered:,} of the {len(findings.addresses):,} addresses of a run without failures{alike}{beyond}",
    )
    if passed := explored.bench.passed_again:
        yield Fact(
            "passed again",
            f"{len(passed):,} of these addresses come more than once, as {passed[0].address} does {passed[0].times:,} "
            "times: no crash is tried at any but the first",
            Tone.OPEN,
        )
    if findings.pairs is not None and not explored.exhaust:
        yield Fact("pairs", _pairs(findings.pairs))
    if explored.corpus is not None:
        grown = explored.corpus
        added = f"and {grown.added:,} added that exercised something new"
        yield Fact("corpus", f"{_tried_again(grown, findings.tried)}, {grown.trouble or added}")
    if findings.whole_runs:
        yield Fact("whole runs", f"each schedule was run from the beginning: {findings.whole_runs}", Tone.OPEN)
    if explored.bench.not_looked_at:
        yield Fact("not looked at", explored.bench.not_looked_at, Tone.OPEN)
    if explored.bench.idle:
        yield Fact(
            "idle", f"nothing comes to {', '.join(explored.bench.idle)}: what happens there is not tried", Tone.OPEN
        )
    if explored.exhaust:
        yield from _exhausted(explored)
    if findings.bound is not None:
        yield Fact(
            "bound",
            f"none of {findings.random_held:,} random schedules whose faults bit, within what is claimed, violates"
            + (f", and of {findings.random_unknown:,} more it is unknown" if findings.random_unknown else "")
            + f": at most {_percent(findings.bound)} of the schedules that are drawn so do, with 95 % confidence; "
            + f"drawn so: {DRAWN}",
        )


def _tone_of(stated: AsStated) -> Tone:
    if stated.failed:
        return Tone.BAD
    tones = {Status.HOLDS: Tone.PLAIN, Status.VIOLATED: Tone.BAD}
    return Tone.OPEN if stated.outcome is None else tones.get(stated.outcome.status, Tone.OPEN)


def _largest_error(found: LargestErrors | None) -> Iterator[Fact]:
    """How close failures came to a bound, and by which schedule."""
    if found is None:
        return
    sought = (
        f"{counted(found.tried, 'schedule')} sought it{', until that was interrupted' if found.interrupted else ''}"
    )
    if found.failed is not None:
        yield Fact("errors", f"the code fails under a schedule that was to seek the largest: {found.failed}", Tone.BAD)
    if not found.calls or not found.ratio:
        yield Fact("errors", f"largest error / bound: {largest_said(found)}; {sought}")
        return
    events = counted(found.bench.scenario.workload.events, "event")
    yield Fact("errors", f"largest error / bound: {largest_said(found)}, with {events}, by this schedule; {sought}")
    for number, fault in enumerate(found.schedule, start=1):
        yield Fact("", f"{number}  {fault}")
    for call in found.calls[1:SHOWN_ERRORS]:
        yield Fact("", f"{call.measured.ratio:.2f} ({call.measured})")


def _exhausted(explored: Explored) -> Iterator[Fact]:
    for number, statement in enumerate(statements(explored.bench, explored.findings)):
        yield Fact("" if number else "exhausted", statement.text)
    for number, what in enumerate(not_covered(explored.bench.seed)):
        yield Fact("" if number else "left out", what)


def _at_work(findings: SearchFindings) -> str:
    """In how many schedules each mechanism was at work."""
    found = [f"{mechanism} in {findings.exercised[mechanism]:,}" for mechanism in Activity]
    return " · ".join(one for one in found if not one.endswith(" in 0")) or "nothing of what the subject is made of"


def _losses(findings: SearchFindings) -> Iterator[Fact]:
    """What a cluster has cost the search."""
    if findings.losses:
        why = ", ".join(f"{count:,} × {why}" for why, count in findings.losses.most_common())
        lost = f"{counted(findings.lost, 'schedule')} lost with a worker" if findings.lost else "tried again, all of it"
        yield Fact("lost", f"{lost} ({why})", Tone.OPEN if findings.lost else Tone.PLAIN)
    if findings.cut_short:
        yield Fact("cut short", findings.cut_short, Tone.OPEN)


def _tried_again(grown: CorpusGrowth, tried: int) -> str:
    """They come first, and all that there are are varied after that."""
    if not grown.had:
        return "no schedule yet"
    again, had = min(tried, grown.again), counted(grown.had, "schedule")
    if again < grown.again:
        return f"{again:,} of {had} tried again"
    return f"{had} tried again and varied" if again == grown.had else f"{again:,} of {had} tried again, all varied"


def _pairs(pairs: Succession) -> str:
    if pairs.exact:
        return f"all {pairs.tried:,} that leave different worlds behind"
    exist = "" if pairs.exist is None else f" of about {pairs.exist:,}"
    return f"{pairs.tried:,}{exist}, all that begin at {pairs.through:,} of {pairs.pieces:,} addresses among them"


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %"


def view_of_replay(replayed: ReplayedCounterexample) -> ReplayView:
    """How it compares with what was found."""
    found, verdict, scenario = replayed.counterexample, replayed.verdict, replayed.scenario
    return ReplayView(
        head=Head(
            f"{scenario.subject.name} under {scenario.subject.kind}",
            f"{replayed.cluster} · {counted(scenario.workload.events, 'event')} of {scenario.workload.name} · "
            f"seed {found.seed}",
        ),
        faults=tuple(Fact(f"fault {number}", str(fault)) for number, fault in enumerate(scenario.faults, start=1)),
        verdict=ShownVerdict(
            str(verdict.guarantee),
            verdict.status,
            TONES[verdict.status],
            verdict.reason or verdict.summary,
            tuple(
                ShownFinding(f"{tally.anomaly}: {piece.where}: {piece.what}")
                for tally in verdict.anomalies
                for piece in tally.sample[:EVIDENCE]
            ),
        ),
        compared=_compared(replayed),
        folder=replayed.folder,
    )


def _compared(replayed: ReplayedCounterexample) -> str:
    found = replayed.counterexample
    if replayed.exact:
        return "the very history that was found"
    if replayed.reproduced:
        return f"{found.anomaly} as it was found" + (
            "" if replayed.cluster != "simulated" else ", in another history: the code has changed since"
        )
    return f"{found.claim} was violated by {found.anomaly} when it was found, and is not so now"
