"""What `explore` says, and `replay` of what it has saved."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, TextIO

import msgspec
from rich.text import Text

from ..contracts.scaling import scaled_down
from ..core.errors import ExitStatus
from ..core.verdicts import Status
from ..exploration.counterexample import ReplayedCounterexample
from ..exploration.exploring import Explored, KeptViolation
from ..exploration.mutants import TriedMutant
from ..exploration.search import SearchBudget, SearchFindings, TriedPairs
from ..judging.exercised import Activity, said_never
from ..running.run import verdict_document
from .progress_line import LiveLine

_EVERY: Final = 0.1


class SearchLine(LiveLine):
    """That of a search."""

    def __init__(self, stream: TextIO, budget: SearchBudget) -> None:
        super().__init__(stream, "starting the search")
        self._budget = budget
        self._next = 0.0

    def show(self, findings: SearchFindings) -> None:
        if not self._shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY
        parts = [f"{findings.tried:,} schedules"]
        if self._budget.schedules is not None:
            parts[0] = f"{findings.tried:,} of {self._budget.schedules:,} schedules"
        if self._budget.seconds is not None:
            parts.append(f"{max(0.0, self._budget.seconds - findings.seconds):.0f} s left")
        parts += [f"{findings.statuses[status]:,} {status}" for status in Status]
        self._draw(" · ".join(parts))

    def say(self, what: str) -> None:
        self._draw(what)


def mutants_table(tried: Sequence[TriedMutant], all_of_them: int) -> Iterator[Text]:
    """What `explore --mutants` says."""
    name = max((len(one.mutant.name) for one in tried), default=0)
    anomaly = max((len(one.mutant.anomaly) for one in tried), default=0)
    head = f"  {'mutant':<{name}}  {'must show':<{anomaly}}  found  by      schedules  faults  events  breaks"
    yield Text(head, "bold")
    for one in tried:
        shrunk = one.shrunk
        faults = "" if shrunk is None else str(len(shrunk.trial.schedule))
        events = "" if shrunk is None else str(shrunk.events)
        yield Text.assemble(
            f"  {one.mutant.name:<{name}}  {one.mutant.anomaly:<{anomaly}}  ",
            ("no   ", "bold red") if shrunk is None else ("yes  ", "green"),
            f"  {one.by:<6}  {one.schedules:>9,}  {faults:>6}  {events:>6}  {one.mutant.breaks}",
        )
    yield Text()
    lives = sum(one.shrunk is None for one in tried)
    missing = all_of_them - len(tried)
    yield Text(
        f"  {all_of_them} mutants, {len(tried) - lives} found"
        + (f", {lives} live" if lives else "")
        + (f", {missing} not tried" if missing else "")
    )


def mutants_document(tried: Sequence[TriedMutant]) -> list[dict[str, Any]]:
    return [
        {
            "mutant": one.mutant.name,
            "breaks": one.mutant.breaks,
            "anomaly": str(one.mutant.anomaly),
            "found": one.shrunk is not None,
            "schedules": one.schedules,
            "by": one.by or None,
            "shrunk": None
            if one.shrunk is None
            else {"events": one.shrunk.events, "faults": [str(fault) for fault in one.shrunk.trial.schedule]},
        }
        for one in tried
    ]


# What is said


def end_of_search(explored: Explored) -> Iterator[Text]:
    """The screen after a search."""
    for kept in explored.kept:
        yield from _kept(kept, explored.findings)
    findings, scenario = explored.findings, explored.scenario
    yield Text.assemble(
        (f"{scenario.subject.name} under {scenario.subject.kind}", "bold"),
        f"     simulator, {len(explored.bench.cluster.places.workers)} nodes · {scenario.workload.events:,} events of "
        f"{scenario.workload.name} · seed {explored.bench.seed}",
    )
    yield Text()
    if explored.own is not None:
        yield _row("scaled", f"{', '.join(scaled_down(explored.own, scenario))} (--own-sizes keeps them)")
    rate = findings.tried / findings.seconds if findings.seconds else 0
    ended = ", interrupted" if findings.interrupted else ", all there are" if findings.exhausted else ""
    where = f"{_count(findings.jobs, 'core')} of {findings.master}" if findings.master else _count(findings.jobs, "job")
    yield _row("schedules", f"{findings.tried:,}{ended}, in {findings.seconds:.1f} s on {where} ({rate:,.0f}/s)")
    yield from _losses(findings)
    yield _row("claims", ", ".join(map(str, explored.bench.claims)))
    yield _row("verdicts", ", ".join(f"{findings.statuses[status]:,} {status}" for status in Status))
    yield _row(
        "judged",
        f"{findings.judged:,} of {findings.tried:,} plainly"
        + (", which is too few to say that the claims hold" if explored.few else ""),
        "yellow" if explored.few else "",
    )
    yield _row("exercised", _at_work(findings))
    if explored.untried:
        yield _row("untried", f"{said_never(explored.untried)}: UNKNOWN", "yellow")
    for kind, count in findings.kinds.most_common():
        yield _row("violated", f"{count:,} × {kind.guarantee}: {kind.anomaly}", "red")
    for reason, count in findings.reasons.most_common():
        yield _row("unknown", f"{count:,} × {reason}", "yellow")
    for guarantee in explored.bench.not_judged:
        yield _row("not judged", f"{guarantee}: the simulator has no real clock")
    beyond = f", and {findings.beyond:,} others, in recoveries" if findings.beyond else ""
    yield _row(
        "struck", f"{findings.covered:,} of the {len(findings.addresses):,} addresses of a run without failures{beyond}"
    )
    if findings.pairs is not None:
        yield _row("pairs", _pairs(findings.pairs))
    if findings.bound is not None:
        yield _row(
            "bound",
            f"none of {findings.random_held:,} random schedules whose faults bit, within what is claimed, violates"
            + (f", and of {findings.random_unknown:,} more it is unknown" if findings.random_unknown else "")
            + f": at most {percent(findings.bound)} of such schedules do, with 95 % confidence",
        )


def _at_work(findings: SearchFindings) -> str:
    """In how many schedules each mechanism was at work."""
    found = [f"{mechanism} in {findings.exercised[mechanism]:,}" for mechanism in Activity]
    return " · ".join(one for one in found if not one.endswith(" in 0")) or "nothing of what the subject is made of"


def _losses(findings: SearchFindings) -> Iterator[Text]:
    """What a cluster has cost the search."""
    if findings.losses:
        why = ", ".join(f"{count:,} × {why}" for why, count in findings.losses.most_common())
        lost = f"{_count(findings.lost, 'schedule')} lost with a worker" if findings.lost else "tried again, all of it"
        yield _row("lost", f"{lost} ({why})", "yellow" if findings.lost else "")
    if findings.cut_short:
        yield _row("cut short", findings.cut_short, "yellow")


def _pairs(pairs: TriedPairs) -> str:
    if pairs.exact:
        return f"all {pairs.tried:,} that leave different worlds behind"
    exist = "" if pairs.exist is None else f" of about {pairs.exist:,}"
    return f"{pairs.tried:,}{exist}, all that begin at {pairs.through:,} of {pairs.firsts:,} addresses among them"


def percent(share: float) -> str:
    return f"{share * 100:.2g} %"


def _row(label: str, text: str, style: str = "") -> Text:
    return Text.assemble(f"  {label:<11}", (text, style))


def _kept(kept: KeptViolation, findings: SearchFindings) -> Iterator[Text]:
    content = kept.content
    faults, events = content.found["faults"], content.found["events"]
    yield Text.assemble(
        ("VIOLATED", "bold red"),
        f"   {content.claim}: {content.anomaly}, found at schedule {kept.violation.number:,}, shrunk from "
        f"{_count(faults, 'fault')} and {_count(events, 'event')} to",
    )
    yield Text()
    schedule = kept.shrunk.trial.schedule
    width = max(len(fault.what) for fault in schedule)
    for number, fault in enumerate(schedule, start=1):
        yield Text(f"  {number}  {fault.what:<{width}}   {fault.when}")
    yield Text()
    if content.evidence:
        yield Text(f"  {content.evidence}")
    yield Text.assemble(
        f"  with {_count(content.workload['events'], 'event')}. ",
        f"streamproof replay {shlex.quote(str(kept.file))}",
        ("  (also with --cluster embedded)", "dim"),
    )
    yield Text()


def _count(amount: int, what: str) -> str:
    return f"{amount:,} {what}" if amount == 1 else f"{amount:,} {what}s"


def search_document(explored: Explored) -> dict[str, Any]:
    """What `explore --json` prints."""
    findings = explored.findings
    return {
        "scenario": explored.named.name,
        "origin": explored.named.origin,
        "seed": explored.bench.seed,
        "events": explored.scenario.workload.events,
        "scaled": None if explored.own is None else list(scaled_down(explored.own, explored.scenario)),
        "claims": [str(guarantee) for guarantee in explored.bench.claims],
        "not_judged": [str(guarantee) for guarantee in explored.bench.not_judged],
        "schedules": findings.tried,
        "exhausted": findings.exhausted,
        "interrupted": findings.interrupted,
        "seconds": round(findings.seconds, 3),
        "jobs": findings.jobs,
        "spark_master": findings.master or None,
        "lost": {"schedules": findings.lost, "workers": dict(findings.losses.most_common())},
        "cut_short": findings.cut_short or None,
        "verdicts": {str(status): findings.statuses[status] for status in Status},
        "violated": [
            {"guarantee": kind.guarantee, "anomaly": kind.anomaly, "schedules": count}
            for kind, count in findings.kinds.most_common()
        ],
        "judged_plainly": findings.judged,
        "exercised": {str(mechanism): findings.exercised[mechanism] for mechanism in Activity},
        "untried": [str(mechanism) for mechanism in explored.untried],
        "unknown": dict(findings.reasons.most_common()),
        "addresses": {"exist": len(findings.addresses), "struck": findings.covered, "beyond": findings.beyond},
        "pairs": None
        if findings.pairs is None
        else {"tried": findings.pairs.tried, "exist": findings.pairs.exist, "exact": findings.pairs.exact},
        "random": {
            "held": findings.random_held,
            "violated": findings.random_violated,
            "unknown": findings.random_unknown,
            "at_most": findings.bound,
            "confidence": 0.95,
        },
        "counterexamples": [
            {"file": str(kept.file), "runs": kept.shrunk.runs, **msgspec.to_builtins(kept.content)}
            for kept in explored.kept
        ],
        "exit_status": None if explored.exit_status is None else int(explored.exit_status),
    }


def replay_status(replayed: ReplayedCounterexample) -> ExitStatus:
    return {
        Status.VIOLATED: ExitStatus.VIOLATED,
        Status.UNKNOWN: ExitStatus.UNKNOWN,
        Status.HOLDS: ExitStatus.HOLDS,
    }[replayed.verdict.status]


def end_of_replay(replayed: ReplayedCounterexample) -> Iterator[Text]:
    """The screen after a replay."""
    found, verdict = replayed.counterexample, replayed.verdict
    scenario = replayed.scenario
    yield Text.assemble(
        (f"{scenario.subject.name} under {scenario.subject.kind}", "bold"),
        f"     {replayed.cluster} · {_count(scenario.workload.events, 'event')} of {scenario.workload.name} · "
        f"seed {found.seed}",
    )
    yield Text()
    for number, fault in enumerate(scenario.faults, start=1):
        yield _row(f"fault {number}", str(fault))
    styles = {Status.HOLDS: "bold green", Status.VIOLATED: "bold red", Status.UNKNOWN: "bold yellow"}
    line = Text.assemble(f"  {verdict.guarantee}   ", (str(verdict.status), styles[verdict.status]))
    yield line.append(f"   {verdict.reason or verdict.summary}")
    for tally in verdict.anomalies:
        for piece in tally.sample[:3]:
            yield Text(f"      {tally.anomaly}: {piece.where}: {piece.what}")
    yield Text()
    yield Text(f"  {_compared(replayed)}")
    if replayed.folder is not None:
        yield Text(f"  run {replayed.folder}")


def _compared(replayed: ReplayedCounterexample) -> str:
    found = replayed.counterexample
    if replayed.exact:
        return "the very history that was found"
    if replayed.reproduced:
        return f"{found.anomaly} as it was found" + (
            "" if replayed.cluster != "simulated" else ", in another history: the code has changed since"
        )
    return f"{found.claim} was violated by {found.anomaly} when it was found, and is not so now"


def replay_document(replayed: ReplayedCounterexample) -> dict[str, Any]:
    """What `replay --json` prints."""
    found = replayed.counterexample
    return {
        "scenario": found.scenario,
        "cluster": replayed.cluster,
        "verdict": verdict_document(replayed.verdict),
        "expected": {"guarantee": str(found.claim), "anomaly": found.anomaly},
        "reproduced": replayed.reproduced,
        "exact": replayed.exact,
        "digest": replayed.judgement.digest,
        "folder": None if replayed.folder is None else str(replayed.folder),
        "exit_status": int(replay_status(replayed)),
    }
