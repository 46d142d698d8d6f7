"""What is printed: the end of a run, a plan, a library, a diagnosis. Nothing here decides anything, or prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from ..contracts.query import KIND as QUERY
from ..core.library import List
from ..core.verdicts import Evidence, Measured, Status, Tally, Verdict
from ..judging.exercised import Activity, Exercised, unexercised
from ..judging.recovery import Recovery
from ..recording.folder import Description
from ..recording.history import FaultMissed, FaultStruck, History
from ..recording.records import CheckpointTaken, Started, Taken
from ..running.judgement import Judgement
from .doctor import Diagnosis
from .planning import Plan

EVIDENCE: Final = 3
"""Lines of evidence for each anomaly."""
MEASURED: Final = 12
"""Amounts beside their bounds that are shown of a verdict."""
STYLES: Final = {Status.HOLDS: "bold green", Status.VIOLATED: "bold red", Status.UNKNOWN: "bold yellow"}
_CLUSTERS: Final = {"embedded": "embedded Spark", "simulated": "simulator", "docker": "Spark in containers"}
_LABEL: Final = 11


def end_of_run(description: Description, history: History, judgement: Judgement, folder: Path) -> Iterator[Text]:
    """The screen after a run, and after its folder was judged again."""
    virtual = description.cluster.get("cluster") == "simulated"
    yield _header(description)
    yield Text()
    yield from _faults(description, history, judgement.recoveries)
    yield from _recoveries(judgement.recoveries, virtual)
    if description.schedule:
        yield Text()
    yield from _verdicts(judgement, several=len(description.schedule) > 1)
    if judgement.exercised is not None:
        yield _row("exercised", at_work(judgement.exercised))
    strongest = ", ".join(map(str, judgement.strongest)) or "none"
    yield Text(f"  strongest guarantee seen   {strongest}")
    if judgement.unchecked:
        yield Text(f"  the operators are taken at their word: {judgement.unchecked}", style="yellow")
    yield Text()
    yield Text.assemble(
        "  run ", str(folder), ("     judge it again: ", "dim"), f"streamproof judge {shlex.quote(str(folder))}"
    )


def _header(description: Description) -> Text:
    subject, workload = description.subject, description.workload
    where = place(description.cluster)
    return Text.assemble(
        (_tested(str(subject.get("name")), str(subject.get("kind"))), "bold"),
        f"     {where} · {workload.get('events', 0):,} events of {workload.get('name')} · seed {description.seed}",
    )


def _tested(name: str, kind: str) -> str:
    """A subject, in words: a scheme is on a topology, and a query is one."""
    return f"{name}, a Structured Streaming query" if kind == QUERY else f"{name} under {kind}"


def place(cluster: Mapping[str, Any]) -> str:
    """A cluster's description in a few words."""
    name = str(cluster.get("cluster"))
    nodes = cluster.get("nodes", cluster.get("workers"))
    served = cluster.get("warm", {}).get("served", 0)
    warm = f", warm after {served} run{'s' if served > 1 else ''}" if served else ""
    return _CLUSTERS.get(name, name) + ("" if nodes is None else f", {nodes} nodes") + warm


# Faults and recoveries


def _row(label: str, text: str, style: str = "") -> Text:
    return Text.assemble(f"  {label:<{_LABEL}}", (text, style))


def _faults(description: Description, history: History, recovered: Sequence[Recovery]) -> Iterator[Text]:
    """Every planned fault, with what came of it."""
    struck = {number: list(group) for number, group in groupby(history.struck(), key=lambda entry: entry.number)}
    missed = {entry.number for entry in history.timeline if isinstance(entry, FaultMissed)}
    several = len(description.schedule) > 1
    for number, fault in enumerate(description.schedule):
        yield _row(f"fault {number + 1}" if several else "fault", str(fault))
        for entry in struck.get(number, ()):
            bit = entry.bite.bit
            # A query's checkpoints are Spark's own.
            slices = () if description.subject.get("kind") == QUERY else recovered
            yield _row("bit" if bit else "no bite", _bite(entry, history, slices), "" if bit else "yellow")
        if number in missed:
            yield _row("no bite", "its trigger never came", "yellow")
        elif number not in struck:
            yield _row("no bite", "the run ended before its trigger came", "yellow")


def _bite(entry: FaultStruck, history: History, recovered: Sequence[Recovery]) -> str:
    bite = entry.bite
    if not bite.bit:
        return bite.why_not
    who = ", ".join(bite.actors) or bite.target
    if bite.gone is None:
        where = bite.target if bite.node == bite.target else f"{who} on {bite.node}"
        return f"{where}: {bite.proof}"
    proof = f"{who}: " if who == bite.node else f"{who} on {bite.node}: "
    if bite.pids:
        more = f" and {len(bite.pids) - 1} more" if len(bite.pids) > 1 else ""
        proof += f"pid {bite.pids[0]}{more} gone"
    else:
        proof += "gone"
    if bite.proof is not None:
        proof += f", {bite.proof}"
    gone = [r for r in recovered if r.fault == entry.number and r.actor in bite.actors and r.incarnation]
    lost = sum(forgotten(history, r) for r in gone)
    return f"{proof}, with {lost:,} events that no checkpoint held" if lost else proof


def forgotten(history: History, recovery: Recovery) -> int:
    """How many events the incarnation that died had taken which the one that took over did not begin with."""
    dead = max(
        (
            s.record.incarnation
            for s in history.of(Started)
            if isinstance(s.record, Started)
            and s.record.slice == recovery.actor
            and s.record.incarnation < recovery.incarnation
        ),
        default=0,
    )
    count = 0
    restored: tuple[int, int] | None = None
    for stamped in history.of(Started):
        record = stamped.record
        if isinstance(record, Started) and (record.slice, record.incarnation) == (recovery.actor, recovery.incarnation):
            restored = record.restored
    for stamped in history.of(Taken, CheckpointTaken):
        record = stamped.record
        if isinstance(record, Taken) and (record.slice, record.incarnation) == (recovery.actor, dead):
            count += record.count
        elif (
            isinstance(record, CheckpointTaken)
            and (record.slice, record.incarnation) == (recovery.actor, dead)
            and restored == (dead, record.number)
        ):
            count = 0
    return count


def _recoveries(recoveries: Iterable[Recovery], virtual: bool) -> Iterator[Text]:
    for recovery in recoveries:
        parts = {
            "detected": recovery.detected,
            "redeployed": recovery.redeployed,
            "restored": recovery.restored,
            "caught up": recovery.caught_up,
        }
        total = recovery.total
        if total is None:
            reached = [f"{name} {_time(part, part)}" for name, part in parts.items() if part is not None]
            text = f"{recovery.actor} did not recover ({', then '.join(reached) or 'not even detected'})"
            yield _row("recovery", text, "yellow")
            continue
        sums = " + ".join(f"{name} {_amount(part or 0, total)}" for name, part in parts.items())
        clock = " of virtual time" if virtual else ""
        yield _row("recovery", f"{recovery.actor} after {_time(total, total)}{clock} = {sums}")


def at_work(counts: Exercised, rests_on: Collection[Activity] = ()) -> str:
    """What was exercised, and of what the claims rest on, what was not."""
    found = [f"{mechanism} {count:,}" for mechanism, count in counts.items() if count]
    found += [f"{mechanism} none" for mechanism in unexercised(rests_on, counts)]
    return " · ".join(found) or "nothing of what the subject is made of"


def _time(micros: int, of: int) -> str:
    return f"{_amount(micros, of)} {'s' if of >= 1_000_000 else 'ms'}"


def _amount(micros: int, of: int) -> str:
    """In the unit that fits `of`: seconds, or milliseconds below one."""
    if of >= 1_000_000:
        return f"{micros / 1e6:.2f}"
    return f"{micros / 1e3:.0f}" if of >= 100_000 else f"{micros / 1e3:.1f}"


# Verdicts


def _verdicts(judgement: Judgement, several: bool) -> Iterator[Text]:
    everything = [*judgement.verdicts, *judgement.broken]
    width = max((len(str(verdict.guarantee)) for verdict in everything), default=0)
    for verdict in judgement.verdicts:
        yield from _verdict(verdict, width, _summary(verdict), several)
    for verdict in judgement.broken:
        yield from _verdict(verdict, width, _summary_of_broken(verdict), several, expected=True)
    yield Text()


def run_again(run: Path, description: Description, cluster: str, exact: bool) -> Iterator[Text]:
    """How a run that was replayed compares with its record. Only in the simulator is the same run the same history."""
    if exact:
        yield Text(f"  replayed {run}: the very history that was recorded")
    elif cluster == "simulated" == description.cluster.get("cluster"):
        yield Text(
            f"  replayed {run}: another history than was recorded, though nothing was drawn otherwise: the code "
            "has changed, or this is another world",
            "yellow",
        )
    else:
        yield Text(f"  replayed {run}: on a real cluster, or another one, no two histories are the same")


def verdict_lines(verdicts: Sequence[Verdict]) -> Iterator[Text]:
    """Verdicts with their evidence, where nothing was expected to break."""
    width = max((len(str(verdict.guarantee)) for verdict in verdicts), default=0)
    for verdict in verdicts:
        yield from _verdict(verdict, width, _summary(verdict), several=True)
    yield Text()


def _summary(verdict: Verdict) -> str:
    # The lines below say what a violation consists of.
    return verdict.reason or ("" if verdict.anomalies else verdict.summary)


def _summary_of_broken(verdict: Verdict) -> str:
    match verdict.status:
        case Status.VIOLATED:
            return "as expected"
        case Status.HOLDS:
            return "although the scenario expects it to break: " + verdict.summary
        case Status.UNKNOWN:
            return verdict.reason


def _verdict(verdict: Verdict, width: int, summary: str, several: bool, expected: bool = False) -> Iterator[Text]:
    style = STYLES[verdict.status]
    if expected and verdict.status is not Status.UNKNOWN:
        style = STYLES[Status.HOLDS if verdict.status is Status.VIOLATED else Status.VIOLATED]
    line = Text.assemble(f"  {verdict.guarantee!s:<{width}}   ", (f"{verdict.status:<8}", style), f"   {summary}")
    line.rstrip()
    yield line
    for measured in verdict.measured if len(verdict.measured) <= MEASURED else closest(verdict.measured):
        failures = "" if measured.failures == 1 else "s"
        yield Text(f"      {measured}, after {measured.failures} failure{failures}")
    for tally in verdict.anomalies:
        yield from _tally(tally, several)


def closest(measured: Sequence[Measured]) -> list[Measured]:
    """Those that came closest to their bounds, or passed them."""
    return sorted(measured, key=lambda one: -one.ratio)[:MEASURED]


def _tally(tally: Tally, several: bool) -> Iterator[Text]:
    yield Text(f"      {tally.anomaly} × {tally.count:,}")
    for piece in tally.sample[:EVIDENCE]:
        yield Text(f"          {evidence(piece, several)}")


def evidence(piece: Evidence, several: bool = True) -> str:
    """One piece of evidence in one line. `several`: whether the schedule has more faults than one."""
    text = f"{piece.where}: {piece.what}"
    if piece.at:
        text += ", at " + " and ".join(f"{at / 1e6:.3f}" for at in piece.at) + " s"
    if piece.fault is not None:
        text += f", after fault {piece.fault + 1}" if several else ", after the fault"
    return text


# What has not run


def planned(plan: Plan) -> Iterator[Text]:
    """What `run --dry-run` says."""
    yield Text.assemble(
        (_tested(plan.subject, plan.kind), "bold"),
        f"     {_CLUSTERS.get(plan.cluster, plan.cluster)}, {len(plan.nodes)} nodes · "
        f"{plan.events:,} events of {plan.workload} · seed {plan.seed}",
    )
    yield Text()
    for node, slices in plan.placement.items():
        yield _row(node, ", ".join(slices) or "spare")
    if plan.placement:
        yield Text()
    several = len(plan.faults) > 1
    for number, fault in enumerate(plan.faults, start=1):
        yield _row(f"fault {number}" if several else "fault", fault.fault)
        for hit in fault.hits:
            others = f", and {', '.join(hit.actors)} with it" if hit.actors else ""
            where = f" on {hit.node}" if hit.node not in (None, hit.target) else ""
            moved = " (where it runs by then, if it was moved)" if several and number > 1 else ""
            yield _row("hits", f"{hit.target}{where}{others}{moved}")
        yield _row("by", fault.carrier)
    if not plan.faults:
        yield _row("fault", "none")
    yield Text()
    for claim in plan.claims:
        yield _row("claims", f"{claim.guarantee}, {claim.tolerates}" if claim.tolerates else claim.guarantee)
        if claim.needs:
            yield _row("needs", claim.needs)
    if not plan.claims:
        yield _row("claims", "nothing")
    if plan.breaks:
        yield _row("breaks", ", ".join(plan.breaks))
    yield Text()
    yield Text("  nothing was started")


def library(sections: Mapping[List, Mapping[str, str]]) -> Iterator[Text]:
    """What `list` says: kind -> name -> its one line."""
    for place, (kind, names) in enumerate(sections.items()):
        if place:
            yield Text()
        yield Text(kind, "bold")
        width = max(map(len, names), default=0)
        for name, line in names.items():
            yield Text(f"  {name:<{width}}   {line}".rstrip())


def first_sentence(text: str) -> str:
    """Of a docstring or a description."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0]


def diagnosis(found: Diagnosis) -> Iterator[Text]:
    """What `doctor` says."""
    for finding in found.findings:
        word, style = (
            ("ok", "green")
            if finding.good
            else ("missing", "bold red" if finding.needed else "yellow")
            if finding.needed or finding.containers or finding.add
            else ("low", "yellow")
        )
        yield Text.assemble(f"  {finding.what:<{_LABEL}}", (f"{word:<9}", style), finding.found)
    yield Text()
    yield Text("  simulator        can run")
    if found.embedded:
        yield Text("  embedded Spark   can run")
    else:
        yield from _cannot_run("embedded Spark", found.commands)
    if found.docker:
        yield Text("  containers       can run")
    else:
        yield from _cannot_run("containers", found.docker_commands)


def _cannot_run(cluster: str, commands: Sequence[str]) -> Iterator[Text]:
    yield Text(f"  {cluster:<14}   cannot run" + ("; this adds what is missing:" if commands else ""))
    for command in commands:
        yield Text(f"      {command}")
