"""What `explore` and `replay` do and say, apart from their flags."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec
from rich.text import Text

from ..contracts.registry import MUTANT, SCALED, Mutant, Named, Registry
from ..contracts.scaling import EVENTS, changes
from ..contracts.scenario import Scenario
from ..core.errors import ExitStatus, UnknownName, UserMistake
from ..core.library import listed_by
from ..core.verdicts import Status
from ..exploration import exhausting
from ..exploration.bench import Bench, resized
from ..exploration.counterexample import Counterexample, Replayed, counterexample, save
from ..exploration.plans import EverySingle, Plan, RandomSchedules, Successive
from ..exploration.search import Budget, Findings, Succession, Violation, search
from ..exploration.shrinking import STEADY, Shrunk, shows, shrink
from ..judging.exercised import Activity, said_never, unexercised
from ..running.judgement import require_repeatable
from ..running.run import verdict_document
from ..worlds.simulated.world import LIKE_EMBEDDED, SimulationOptions
from .progress_line import LiveLine

MUTANT_EVENTS: Final = 60
"""What mutants are fed unless told otherwise: enough for several checkpoints, and little to shrink."""
_MUTANT_BATCH: Final = 4
_MUTANT_WORLD: Final = SimulationOptions(offer_interval=3_000, obeys_rate=False)
"""So slow a source, in such small batches, that recoveries are over while there is still input to come."""
_SPREAD_WORLD: Final = replace(_MUTANT_WORLD, nodes=6, link_delay=(100, 12_000))
_SCALED_WORLD: Final = replace(_MUTANT_WORLD, turn=1_500, step_limit=200_000)
"""A replay of a few batches takes so long that new ones come in between, as when a log is long. Tens of events take
some thousand steps: what takes so many more does not come to rest.
"""
_EVERY: Final = 0.1


@dataclass(frozen=True)
class Kept:
    """A violation in its smallest form, in a file."""

    violation: Violation
    shrunk: Shrunk
    file: Path
    content: Counterexample


@dataclass(frozen=True)
class Explored:
    """A search that has ended."""

    named: Named
    scenario: Scenario
    """With the input that the search fed."""
    bench: Bench
    findings: Findings
    kept: tuple[Kept, ...]
    """One for each kind of violation."""
    own: Scenario | None = None
    """The scenario before its sizes were brought down; None where they were not."""
    exhaust: bool = False

    @property
    def exit_status(self) -> ExitStatus | None:
        """None: it was interrupted before it had found anything."""
        statuses = self.findings.statuses
        if statuses[Status.VIOLATED]:
            return ExitStatus.VIOLATED
        if self.findings.interrupted:
            return None
        if self.exhaust and not all(one.proves for one in exhausting.statements(self.bench, self.findings)[:2]):
            return ExitStatus.UNKNOWN
        cut = self.findings.lost or self.findings.cut_short
        if self.findings.essential or cut or self.few or self.untried:
            return ExitStatus.UNKNOWN
        return ExitStatus.HOLDS

    @property
    def few(self) -> bool:
        """Whether too few schedules were judged plainly for the search to say much."""
        if self.exhaust:
            # Where all are tried, those that go beyond a claim are as many as there are.
            return not self.findings.judged
        return 2 * self.findings.judged < self.findings.tried or not self.findings.judged

    @property
    def untried(self) -> tuple[Activity, ...]:
        """What the claims rest on, and was at work under none of the schedules."""
        return unexercised(self.bench.rests_on, self.findings.exercised)


def explore(
    named: Named,
    registry: Registry,
    budget: Budget,
    *,
    seed: int,
    jobs: int,
    pairs: bool,
    output: Path | None,
    line: SearchLine,
    master: str | None = None,
    kinds: tuple[str, ...] = ("crash",),
    for_spark: bool = False,
    own: Scenario | None = None,
    exhaust: bool = False,
) -> Explored:
    """Search, shrink the first violation of each kind, and save it. Ctrl-C ends what is being done, and no more.

    `for_spark`: in a world with the times of embedded Spark, and what is kept shows whoever is faster, where such a
    schedule was found. `own`: the scenario before its sizes were brought down, where they were. `exhaust`: every crash,
    every pair and, with a budget, every three, and nothing at random.
    """
    if output is not None and not output.parent.is_dir():
        raise UserMistake(f"a counterexample cannot be kept at {output}: {output.parent} is no folder")
    require_repeatable(named.scenario)
    bench = Bench(named.scenario, registry, seed=seed, options=_world(for_spark, own is not None))
    for kind in kinds:
        if kind not in registry.faults:
            raise UnknownName("kind of fault", kind, sorted(registry.faults), listed_by("faults"))
        registry.faults[kind].require(bench.cluster.name, registry.faults[kind].drawn)
    plans = exhausting.plans(budget) if exhaust else _plans(budget, seed, pairs, kinds)
    findings = search(
        bench, plans, budget, jobs=jobs, master=master, origin=named.origin, in_order=exhaust, show=line.show
    )
    kept: list[Kept] = []
    for violation in findings.first_of_each_kind():
        line.say(f"shrinking schedule {violation.number:,}: {violation.kind.anomaly}")
        try:
            steady = _steady(bench, violation, findings) if for_spark else None
            violation = steady or violation
            shrunk = shrink(bench, violation.trial, violation.kind, seeds=STEADY if steady else 1)
        except KeyboardInterrupt:
            shrunk = Shrunk(bench, violation.trial, violation.kind, runs=0)
        content = counterexample(named, violation, shrunk, named.scenario)
        file = _file(output, len(kept))
        save(file, content)
        kept.append(Kept(violation, shrunk, file, content))
    return Explored(named, bench.scenario, bench, findings, tuple(kept), own, exhaust)


def _world(for_spark: bool, scaled: bool) -> SimulationOptions | None:
    if for_spark:
        return LIKE_EMBEDDED
    return _SCALED_WORLD if scaled else None


def _steady(bench: Bench, violation: Violation, findings: Findings) -> Violation | None:
    """The first of its kind that shows whoever is faster."""
    alike = (other for other in findings.violations if other.kind == violation.kind)
    return next((other for other in alike if shows(bench, other.trial, other.kind, STEADY)), None)


def _plans(budget: Budget, seed: int, pairs: bool, kinds: tuple[str, ...] = ("crash",)) -> list[Plan]:
    """What can be enumerated, of crashes, and random schedules in turn with it where a budget ends them."""
    plans: list[Plan] = [EverySingle()] if "crash" in kinds else []
    if pairs:
        plans.append(Successive(2))
    return plans if budget == Budget() else [*plans, RandomSchedules(seed, kinds=kinds)]


def _file(output: Path | None, place: int) -> Path:
    """The named file, with a number for what is not the first; without a name, one that is not there yet."""
    if output is not None:
        return output if place == 0 else output.with_stem(f"{output.stem}-{place + 1}")
    number = 1
    while (path := Path(f"counterexample-{number}.json" if number > 1 else "counterexample.json")).exists():
        number += 1
    return path


class SearchLine(LiveLine):
    """That of a search."""

    def __init__(self, stream: TextIO, budget: Budget) -> None:
        super().__init__(stream, "starting the search")
        self._budget = budget
        self._next = 0.0

    def show(self, findings: Findings) -> None:
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


# Mutants


@dataclass(frozen=True)
class Tried:
    """What became of one mutant."""

    mutant: Mutant
    schedules: int
    """Tried until it was found, or in all."""
    shrunk: Shrunk | None
    """None: it lives."""
    by: str = ""
    """What found it: a single crash, or the like, or a random schedule."""


def mutant_world(mutant: Mutant) -> SimulationOptions:
    """The simulated machines on which a mutant is looked for."""
    return _SPREAD_WORLD if mutant.spread else _MUTANT_WORLD


def explore_mutants(
    names: Sequence[str], on: str | None, registry: Registry, budget: Budget, *, seed: int, jobs: int, events: int
) -> Iterator[Tried]:
    """Search under each mutant for the anomaly that it must show, on the topology and the workload of one scenario, or
    of each one's own. Ctrl-C ends it after what is done."""
    for name in names:
        mutant = registry.mutants[name]
        named = registry.scenario(f"{MUTANT}{name}@{on or mutant.on}")
        scenario = resized(named.scenario, events, min(_MUTANT_BATCH, events))
        bench = Bench(scenario, registry, seed=seed, options=mutant_world(mutant))

        def caught(violation: Violation, wanted: str = str(mutant.anomaly)) -> bool:
            return violation.kind.anomaly == wanted

        plans: list[Plan] = [EverySingle(), EverySingle("handed-over-loss"), RandomSchedules(seed, kinds=mutant.kinds)]
        found = search(bench, plans, budget, jobs=jobs, origin=named.origin, until=caught)
        if found.interrupted:
            return
        first = next(filter(caught, found.violations), None)
        shrunk = None if first is None else shrink(bench, first.trial, first.kind)
        by = "" if first is None else "random" if first.trial.random else "single"
        yield Tried(mutant, found.tried if first is None else first.number, shrunk, by)


def brought_down(name: str, registry: Registry, events: int | None, exhaust: bool = False) -> Named:
    """A scenario with its sizes in proportion to so many events. Raises as `Registry.scenario`."""
    if exhaust:
        sizes = f"{exhausting.EVENTS if events is None else events}/{exhausting.BATCHES}"
        return registry.scenario(f"{SCALED}{sizes}@{name}")
    return registry.scenario(f"{SCALED}{EVENTS if events is None else events}@{name}")


def with_events(named: Named, events: int | None) -> Named:
    """The same scenario with so much input. Raises InvalidScenario."""
    if events is None:
        return named
    scenario = named.scenario
    workload = scenario.workload
    return Named(
        named.name, named.origin, named.summary, resized(scenario, events, min(workload.batch, max(1, events)))
    )


def mutants_table(tried: Sequence[Tried], all_of_them: int) -> Iterator[Text]:
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


def mutants_document(tried: Sequence[Tried]) -> list[dict[str, Any]]:
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
        yield _row("scaled", f"{', '.join(changes(explored.own, scenario))} (--own-sizes keeps them)")
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
        "struck",
        f"{findings.covered:,} of the {len(findings.addresses):,} addresses of a run without failures{_alike(findings)}"
        f"{beyond}",
    )
    if findings.pairs is not None and not explored.exhaust:
        yield _row("pairs", _pairs(findings.pairs))
    if findings.whole_runs:
        yield _row("whole runs", f"each schedule was run from the beginning: {findings.whole_runs}", "yellow")
    if explored.exhaust:
        for number, statement in enumerate(exhausting.statements(explored.bench, findings)):
            yield _row("" if number else "exhausted", statement.text, "bold" if statement.proves else "")
        for number, what in enumerate(exhausting.not_covered(explored.bench)):
            yield _row("" if number else "left out", what)
    if findings.bound is not None:
        yield _row(
            "bound",
            f"none of {findings.random_held:,} random schedules whose faults bit, within what is claimed, violates"
            + (f", and of {findings.random_unknown:,} more it is unknown" if findings.random_unknown else "")
            + f": at most {percent(findings.bound)} of such schedules do, with 95 % confidence",
        )


def _at_work(findings: Findings) -> str:
    """In how many schedules each mechanism was at work."""
    found = [f"{mechanism} in {findings.exercised[mechanism]:,}" for mechanism in Activity]
    return " · ".join(one for one in found if not one.endswith(" in 0")) or "nothing of what the subject is made of"


def _alike(findings: Findings) -> str:
    stood_for = sum(map(len, findings.alike.values()))
    return f" ({stood_for:,} by others, which leave the same world behind)" if stood_for else ""


def _losses(findings: Findings) -> Iterator[Text]:
    """What a cluster has cost the search."""
    if findings.losses:
        why = ", ".join(f"{count:,} × {why}" for why, count in findings.losses.most_common())
        lost = f"{_count(findings.lost, 'schedule')} lost with a worker" if findings.lost else "tried again, all of it"
        yield _row("lost", f"{lost} ({why})", "yellow" if findings.lost else "")
    if findings.cut_short:
        yield _row("cut short", findings.cut_short, "yellow")


def _pairs(pairs: Succession) -> str:
    if pairs.exact:
        return f"all {pairs.tried:,} that leave different worlds behind"
    exist = "" if pairs.exist is None else f" of about {pairs.exist:,}"
    return f"{pairs.tried:,}{exist}, all that begin at {pairs.through:,} of {pairs.pieces:,} addresses among them"


def percent(share: float) -> str:
    return f"{share * 100:.2g} %"


def _row(label: str, text: str, style: str = "") -> Text:
    return Text.assemble(f"  {label:<11}", (text, style))


def _kept(kept: Kept, findings: Findings) -> Iterator[Text]:
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
        "scaled": None if explored.own is None else list(changes(explored.own, explored.scenario)),
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
        "alike": {address: list(others) for address, others in findings.alike.items()},
        "whole_runs": findings.whole_runs or None,
        "exhausted_levels": [msgspec.to_builtins(vars(one)) for one in exhausting.statements(explored.bench, findings)]
        if explored.exhaust
        else None,
        "not_covered": list(exhausting.not_covered(explored.bench)) if explored.exhaust else None,
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


def replay_status(replayed: Replayed) -> ExitStatus:
    return {
        Status.VIOLATED: ExitStatus.VIOLATED,
        Status.UNKNOWN: ExitStatus.UNKNOWN,
        Status.HOLDS: ExitStatus.HOLDS,
    }[replayed.verdict.status]


def end_of_replay(replayed: Replayed) -> Iterator[Text]:
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


def _compared(replayed: Replayed) -> str:
    found = replayed.counterexample
    if replayed.exact:
        return "the very history that was found"
    if replayed.reproduced:
        return f"{found.anomaly} as it was found" + (
            "" if replayed.cluster != "simulated" else ", in another history: the code has changed since"
        )
    return f"{found.claim} was violated by {found.anomaly} when it was found, and is not so now"


def replay_document(replayed: Replayed) -> dict[str, Any]:
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
