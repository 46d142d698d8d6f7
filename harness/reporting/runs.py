"""What is shown of a run, made of its description, its history and its judgement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from ..contracts.query import KIND as QUERY
from ..core.verdicts import Evidence, Status, Tally, Verdict
from ..core.wording import counted
from ..judging.exercised import Activity, Exercised, unexercised
from ..judging.recovery import Recovery
from ..judging.shapes import has_own_source
from ..recording.folder import Description
from ..recording.history import FaultMissed, FaultStruck, History
from ..recording.records import CheckpointTaken, Started, Taken
from ..running.judgement import Judgement
from .view import TONES, Fact, Head, RunView, ShownFinding, ShownVerdict, Tone

MEASURED: Final = 12
"""Amounts beside their bounds that are shown of a verdict."""
CLUSTER_WORDS: Final = {"embedded": "embedded Spark", "simulated": "simulator", "docker": "Spark in containers"}


def view_of_run(description: Description, history: History, judgement: Judgement, folder: Path) -> RunView:
    """After a run, and after its folder was judged again."""
    virtual = description.cluster.get("cluster") == "simulated"
    subject, workload = description.subject, description.workload
    several = len(description.schedule) > 1
    return RunView(
        head=Head(
            tested(str(subject.get("name")), str(subject.get("kind"))),
            f"{place(description.cluster)} · {input_said(subject, workload)} · seed {description.seed}",
        ),
        disturbances=(
            *_faults(description, history, judgement.recoveries),
            *_recoveries(judgement.recoveries, virtual, back_unmeasured(description, history)),
        ),
        verdicts=(
            *(shown(verdict, several) for verdict in judgement.verdicts),
            *(_broken(verdict, several) for verdict in judgement.broken),
        ),
        exercised="" if judgement.exercised is None else at_work(judgement.exercised),
        strongest=", ".join(map(str, judgement.strongest)) or "none",
        unchecked=judgement.unchecked,
        not_looked_at=judgement.not_looked_at,
        folder=folder,
    )


def tested(name: str, kind: str) -> str:
    """A subject, in words: a scheme is on a topology, and a query is one."""
    return f"{name}, a Structured Streaming query" if kind == QUERY else f"{name} under {kind}"


def place(cluster: Mapping[str, Any]) -> str:
    """A cluster's description in a few words."""
    name = str(cluster.get("cluster"))
    nodes = cluster.get("nodes", cluster.get("workers"))
    served = cluster.get("warm", {}).get("served", 0)
    warm = f", warm after {served} run{'s' if served > 1 else ''}" if served else ""
    return CLUSTER_WORDS.get(name, name) + ("" if nodes is None else f", {counted(nodes, 'node')}") + warm


def input_said(subject: Mapping[str, Any], workload: Mapping[str, Any]) -> str:
    """What a subject was fed, by its description and that of the workload, in a few words."""
    if has_own_source(subject):
        return "input from a source of its own"
    return f"{counted(workload.get('events', 0), 'event')} of {workload.get('name')}"


def _faults(description: Description, history: History, recovered: Sequence[Recovery]) -> Iterator[Fact]:
    """Every planned fault, with what came of it."""
    struck = {number: list(group) for number, group in groupby(history.struck(), key=lambda entry: entry.number)}
    missed = {entry.number for entry in history.timeline if isinstance(entry, FaultMissed)}
    several = len(description.schedule) > 1
    for number, fault in enumerate(description.schedule):
        yield Fact(f"fault {number + 1}" if several else "fault", str(fault))
        for entry in struck.get(number, ()):
            bit = entry.bite.bit
            # A query's checkpoints are Spark's own.
            slices = () if description.subject.get("kind") == QUERY else recovered
            yield Fact("bit" if bit else "no bite", _bite(entry, history, slices), Tone.PLAIN if bit else Tone.OPEN)
        if number in missed:
            yield Fact("no bite", "its trigger never came", Tone.OPEN)
        elif number not in struck:
            yield Fact("no bite", "the run ended before its trigger came", Tone.OPEN)


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
    if entry.under_way:
        proof += f", in the middle of what ends at {', '.join(entry.under_way)}"
    gone = [r for r in recovered if r.fault == entry.number and r.actor in bite.actors and r.incarnation]
    lost = sum(forgotten(history, r) for r in gone)
    return f"{proof}, with {counted(lost, 'event')} that no checkpoint held" if lost else proof


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


def back_unmeasured(description: Description, history: History) -> bool:
    """Whether whoever was lost is back for sure, be it on record or not how long that took: a query that has come to
    the end of its input was started again, and what a sink of the user's takes meanwhile nobody sees."""
    return description.subject.get("kind") == QUERY and history.drained


def _recoveries(recoveries: Iterable[Recovery], virtual: bool, back: bool) -> Iterator[Fact]:
    for recovery in recoveries:
        parts = {
            "detected": recovery.detected,
            "redeployed": recovery.redeployed,
            "restored": recovery.restored,
            "caught up": recovery.caught_up,
        }
        if recovery.heard:
            parts["heard again"] = recovery.heard
        total = recovery.total
        if total is None:
            reached = [f"{name} {_time(part, part)}" for name, part in parts.items() if part is not None]
            if back:
                known = f" ({', then '.join(reached)})" if reached else ""
                yield Fact("recovery", f"{recovery.actor} is back; how long it took in all is not on record{known}")
                continue
            short = "has not come to where it was" if recovery.restored is not None else "did not come back"
            if recovery.until_caught_up is not None:
                unheard = "when it was heard again nobody can tell" if recovery.why else "nothing new was heard of it"
                short = f"has come to where it was, and {unheard}"
            text = f"{recovery.actor} {short} ({', then '.join(reached) or 'not even detected'})"
            yield Fact("recovery", text, Tone.OPEN)
            continue
        sums = " + ".join(f"{name} {_amount(part or 0, total)}" for name, part in parts.items())
        clock = " of virtual time" if virtual else ""
        yield Fact("recovery", f"{recovery.actor} after {_time(total, total)}{clock} = {sums}")


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


def shown(verdict: Verdict, several: bool = True) -> ShownVerdict:
    """A verdict on what was claimed. `several`: whether the schedule has more faults than one."""
    return ShownVerdict(
        str(verdict.guarantee),
        verdict.status,
        TONES[verdict.status],
        # What a violation consists of is said below.
        verdict.reason or ("" if verdict.anomalies else verdict.summary),
        _findings(verdict, several),
        _measured(verdict),
    )


def _broken(verdict: Verdict, several: bool) -> ShownVerdict:
    """One on what the scenario expects to be violated."""
    match verdict.status:
        case Status.VIOLATED:
            tone, summary = Tone.GOOD, "as expected"
        case Status.HOLDS:
            tone, summary = Tone.BAD, "although the scenario expects it to break: " + verdict.summary
        case Status.UNKNOWN:
            tone, summary = Tone.OPEN, verdict.reason
    found = _findings(verdict, several)
    return ShownVerdict(str(verdict.guarantee), verdict.status, tone, summary, found, _measured(verdict))


def _measured(verdict: Verdict) -> tuple[str, ...]:
    """Of many amounts, those that came closest to their bounds, or passed them."""
    amounts = verdict.measured
    if len(amounts) > MEASURED:
        amounts = tuple(sorted(amounts, key=lambda one: -one.ratio)[:MEASURED])
    return tuple(f"{one}, after {one.failures} failure{'' if one.failures == 1 else 's'}" for one in amounts)


def _findings(verdict: Verdict, several: bool) -> tuple[ShownFinding, ...]:
    titles = titles_of(verdict.anomalies)
    return tuple(
        ShownFinding(title, tuple(evidence(piece, several) for piece in tally.sample))
        for title, tally in zip(titles, verdict.anomalies, strict=True)
    )


def titles_of(tallies: Sequence[Tally]) -> list[str]:
    """`lost-input × 3`; where several are of one anomaly, each with what tells it from the others."""
    times = Counter(tally.anomaly for tally in tallies)
    return [
        f"{tally.anomaly} × {tally.count:,}" + (f", {tally.of}" if tally.of and times[tally.anomaly] > 1 else "")
        for tally in tallies
    ]


def evidence(piece: Evidence, several: bool = True) -> str:
    """One piece of evidence in one line. `several`: whether the schedule has more faults than one."""
    text = f"{piece.where}: {piece.what}"
    if piece.at:
        text += ", at " + " and ".join(f"{at / 1e6:.3f}" for at in piece.at) + " s"
    if piece.fault is not None:
        text += f", after fault {piece.fault + 1}" if several else ", after the fault"
    return text


def compared_again(run: Path, description: Description, cluster: str, exact: bool) -> Fact:
    """How a run that was replayed compares with its record. Only in the simulator is the same run the same history."""
    label = f"replayed {run}"
    if exact:
        return Fact(label, "the very history that was recorded")
    if cluster == "simulated" == description.cluster.get("cluster"):
        return Fact(
            label,
            "another history than was recorded, though nothing was drawn otherwise: the code has changed, or this is "
            "another world",
            Tone.OPEN,
        )
    return Fact(label, "on a real cluster, or another one, no two histories are the same")
