"""Tries schedules within a budget, on as many cores as wanted, and keeps counts and the schedules that violate a claim.

Pieces of plans are tried in one order, whoever tries them, and counted in that order: what is found within a number of
schedules does not depend on who tries them, the processes of this machine or a Spark cluster.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final

from ..core.errors import ExitStatus, InvalidScenario, ProcessDied, UsersCodeFailed
from ..core.verdicts import Status
from ..judging.exercised import Activity
from ..judging.statistics import upper_bound
from .bench import Bench, Outcome, Trial, ViolationKind
from .course import SearchCourse
from .guided import CorpusEntry
from .memory import seldom_looked_at
from .on_cores import alone, together
from .pieces import (
    Again,
    CodeFailed,
    CutShort,
    LostPiece,
    Piece,
    PieceProgress,
    Source,
    Through,
    Tried,
    in_turn,
    is_past,
    one_after_another,
)
from .plans import SearchPlan, Successive

CONFIDENCE: Final = 0.95
KEPT: Final = 10
"""Violating schedules that are kept of each kind; the others are counted."""


@dataclass(frozen=True)
class SearchBudget:
    """When a search ends: after so many schedules, or seconds, or when its plans are through."""

    schedules: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, amount in (("schedules", self.schedules), ("seconds", self.seconds)):
            if amount is not None and not 0 < amount < inf:
                raise InvalidScenario(f"a search needs a positive number of {name}, not {amount}")


@dataclass(frozen=True)
class Violation:
    """A schedule that breaks a claim."""

    number: int
    """Its place among the schedules that were tried, from 1."""
    trial: Trial
    kind: ViolationKind


@dataclass
class Succession:
    """How many of all successions of so many crashes were tried: those that leave different worlds behind (see
    `Successive`)."""

    faults: int
    pieces: int
    """Of its plan: for single crashes and pairs, the addresses at which the first can strike."""
    through: int = 0
    """Of these, the ones of which all were tried."""
    tried: int = 0
    of_those_through: int = 0
    """That are in one of them."""
    stand_for: int = 0
    """Single crashes, with those that leave the same world behind."""
    statuses: Counter[Status] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Why they are UNKNOWN."""
    essential: int = 0
    """UNKNOWN for another reason than their faults."""
    cut: int = 0
    """Left where their last crash had struck, since they go beyond what is claimed from there on."""
    essential_reasons: Counter[str] = field(default_factory=Counter)
    exercised: Counter[Activity] = field(default_factory=Counter)
    """What of the subject was at work, and under how many of those that were judged plainly."""

    @property
    def exact(self) -> bool:
        """Whether all there are were tried. What is passed once the first has struck, nobody knows before."""
        return self.through == self.pieces

    @property
    def exist(self) -> int | None:
        """How many there are; as long as that is not exact, about so many, if anything can be said. The pieces are
        tried in an order drawn at random."""
        if not self.through:
            return None
        return max(self.tried, round(self.of_those_through * self.pieces / self.through))

    def add(self, outcome: Outcome) -> None:
        self.tried += 1
        self.stand_for += 1 + len(outcome.alike)
        self.cut += outcome.cut
        self.statuses[outcome.status] += 1
        if outcome.judged:
            self.exercised.update(outcome.at_work)
        if outcome.status is Status.UNKNOWN:
            self.reasons[outcome.reason] += 1
            if outcome.essential:
                self.essential += 1
                self.essential_reasons[outcome.reason] += 1


@dataclass
class SearchFindings:
    """What a search has come to."""

    addresses: frozenset[str]
    """Those of the run without failures."""
    jobs: int
    """Processes, or cores of a Spark cluster."""
    master: str = ""
    """The Spark cluster's; empty: the search was on this machine's cores."""
    tried: int = 0
    statuses: Counter[Status] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Why schedules are UNKNOWN."""
    essential: int = 0
    """How many are UNKNOWN although their faults bit, or for another reason than their faults."""
    failed: ExitStatus | None = None
    """Whose failure it is, where schedules are UNKNOWN since an oracle has failed; streamproof's before a user's."""
    kinds: Counter[ViolationKind] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    struck: set[str] = field(default_factory=set)
    exercised: Counter[Activity] = field(default_factory=Counter)
    """What of the subject was at work, and under how many schedules."""
    exercised_plainly: Counter[Activity] = field(default_factory=Counter)
    """The same of the schedules that were judged plainly: of the others nothing holds, whatever was at work."""
    bitten: Counter[str] = field(default_factory=Counter)
    """Kinds of fault that have bitten, and under how many schedules that were judged plainly."""
    random_held: int = 0
    random_unknown: int = 0
    """Of those, how many are UNKNOWN although their faults bit, or were lost with who tried them."""
    random_violated: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    exhausted: bool = False
    """Whether the plans were tried to their end."""
    successions: dict[int, Succession] = field(default_factory=dict)
    """By how many crashes one after the other, those that were enumerated."""
    alike: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Address at which a single crash struck -> those that it stood for, since they leave the same world behind."""
    corpus: list[CorpusEntry] = field(default_factory=list)
    """Schedules that exercised what was new to who tried them."""
    situations: set[int] = field(default_factory=set)
    """All that those exercised."""
    whole_runs: str = ""
    """Why no run was branched off from another; empty where they were, or could have been."""
    lost: int = 0
    """Schedules that were not tried, since who was to try them died of it."""
    losses: Counter[str] = field(default_factory=Counter)
    """How workers were lost: with schedules, or so that others have tried them."""
    cut_short: str = ""
    """Why the search could not go on; empty where it could."""
    course: SearchCourse = field(default_factory=SearchCourse)

    @property
    def pairs(self) -> Succession | None:
        """None: they were not enumerated."""
        return self.successions.get(2)

    @property
    def judged(self) -> int:
        """Schedules that were judged plainly: their faults bit, and were no more than is claimed to be survived."""
        return self.statuses[Status.HOLDS] + self.statuses[Status.VIOLATED]

    @property
    def covered(self) -> int:
        """Addresses of the run without failures at which a fault struck."""
        return len(self.struck & self.addresses)

    @property
    def beyond(self) -> int:
        """Addresses at which a fault struck and which that run does not pass: those of recoveries, mostly."""
        return len(self.struck - self.addresses)

    @property
    def bound(self) -> float | None:
        """The chance that a random schedule whose faults bite, within what is claimed, violates a claim is at most
        this, with 95 % confidence. One of which it is UNKNOWN counts as one that does. It is said of schedules that are
        drawn as these were, in the worlds of these (see `plans.DRAWN`), independently of one another, and of no others.

        None where one was seen to, or none was tried.
        """
        if self.random_violated or not self.random_held:
            return None
        return upper_bound(self.random_unknown, self.random_held + self.random_unknown, CONFIDENCE)

    def first_of_each_kind(self) -> list[Violation]:
        found: dict[ViolationKind, Violation] = {}
        for violation in self.violations:
            found.setdefault(violation.kind, violation)
        return list(found.values())

    def add(self, tried: Tried, trial: Callable[[], Trial]) -> Violation | None:
        """Count one more schedule. What is returned is kept; only then the trial itself is asked for."""
        outcome = tried.outcome
        self.tried += 1
        self.statuses[outcome.status] += 1
        self.struck.update(outcome.struck)
        if outcome.alike:
            self.struck.update(outcome.alike)
            self.alike.update(dict.fromkeys(outcome.struck, outcome.alike))
        self.exercised.update(outcome.at_work)
        if outcome.judged:
            self.exercised_plainly.update(outcome.at_work)
        self.bitten.update(outcome.bitten)
        if outcome.exercised_new:
            self.corpus.append(CorpusEntry(trial(), outcome.exercised_new))
            self.situations |= outcome.exercised_new
        match outcome.status:
            case Status.HOLDS:
                self.random_held += tried.random
            case Status.UNKNOWN:
                self.reasons[outcome.reason] += 1
                self.essential += outcome.essential
                self.failed = max(filter(None, (self.failed, outcome.failed)), default=None)
                self.random_unknown += tried.random and outcome.essential
            case Status.VIOLATED:
                assert outcome.kind is not None
                self.random_violated += tried.random
                self.kinds[outcome.kind] += 1
                if self.kinds[outcome.kind] <= KEPT:
                    self.violations.append(Violation(self.tried, trial(), outcome.kind))
                    return self.violations[-1]
        return None


def search(
    bench: Bench,
    plans: Sequence[SearchPlan],
    budget: SearchBudget,
    *,
    jobs: int = 1,
    master: str | None = None,
    origin: str | None = None,
    in_order: bool = False,
    until: Callable[[Violation], bool] = lambda violation: False,
    show: Callable[[SearchFindings], None] = lambda findings: None,
) -> SearchFindings:
    """Try the plans, a piece of each in turn, or `in_order` one plan after the other, until the budget is spent, they
    are through, or `until` has what it wants.

    With a Spark `master` it is the cores of that cluster that try them; what dies of a schedule there costs that part
    and not the search. `origin` is the scenario's name in the registry, where it has one. Ctrl-C ends the search; what
    was found until then is returned. So it is where the user's code fails under a schedule, or a process of this
    machine's ended by itself, and something had been violated before.

    Raises UsersCodeFailed and ProcessDied where nothing had been; with a master, MissingTool or UserMistake where it
    cannot be reached.
    """
    findings = SearchFindings(frozenset(str(reached.address) for reached in bench.calm), jobs, master or "")
    enumerated = [plan for plan in plans if isinstance(plan, Successive)]
    findings.successions = {p.faults: Succession(p.faults, len(list(p.pieces(bench)))) for p in enumerated}
    bench.trunk()
    findings.whole_runs = bench.whole_runs
    began = time.monotonic()
    try:
        with _workers(bench, plans, findings, origin) as work, seldom_looked_at():
            began = time.monotonic()
            deadline = None if budget.seconds is None else began + budget.seconds
            order = one_after_another if in_order else in_turn
            results = work(order([plan.pieces(bench) for plan in plans]), deadline)
            with closing(results):
                for violation in _counted(findings, results, bench, plans):
                    findings.seconds = time.monotonic() - began
                    findings.course.note(findings)
                    show(findings)
                    if (violation is not None and until(violation)) or findings.tried == budget.schedules:
                        break
                else:
                    findings.exhausted = not is_past(deadline) and not findings.cut_short
    except KeyboardInterrupt:
        findings.interrupted = True
    except (ProcessDied, UsersCodeFailed) as error:
        if not findings.violations:
            raise
        findings.cut_short = str(error)
    findings.seconds = time.monotonic() - began
    return findings


_Work = Callable[[Iterator[Piece], float | None], Generator[PieceProgress, None, None]]
"""Try the pieces until a time on the monotonic clock, and say in their order what came of them."""


@contextmanager
def _workers(
    bench: Bench, plans: Sequence[SearchPlan], findings: SearchFindings, origin: str | None
) -> Iterator[_Work]:
    """Who carries the search out; findings say who is wanted."""
    if findings.master:
        # Not above: a search on this machine has no need of it.
        from .on_spark import SparkWorkers

        with SparkWorkers(findings.master, bench, plans) as workers:
            findings.jobs = workers.cores
            yield workers.spread
    elif findings.jobs == 1:
        yield partial(alone, bench, plans)
    else:
        yield partial(together, bench, plans, jobs=findings.jobs, source=Source.of(bench.scenario, origin))


def _counted(
    findings: SearchFindings, results: Iterator[PieceProgress], bench: Bench, plans: Sequence[SearchPlan]
) -> Iterator[Violation | None]:
    """For each schedule that was tried, the violation that is kept of it."""
    begun = 0
    """Of the piece in work, how many successions."""
    of_plan = [findings.successions.get(plan.faults) if isinstance(plan, Successive) else None for plan in plans]
    for progress in results:
        match progress:
            case Tried(piece=(plan, _), outcome=outcome):
                succession = of_plan[plan]
                if succession is not None:
                    succession.add(outcome)
                    begun += 1
                yield findings.add(progress, partial(progress.trial, bench, plans))
            case Through(piece=(plan, _)):
                succession = of_plan[plan]
                if succession is not None:
                    succession.through += 1
                    succession.of_those_through += begun
                    begun = 0
            case CodeFailed(error=error):
                raise error
            case LostPiece(piece=(plan, number), why=why):
                lost = plans[plan].lost(bench, number)
                findings.lost += lost.trials
                findings.random_unknown += lost.at_random
                findings.losses[why] += 1
            case Again(why=why):
                findings.losses[why] += 1
            case CutShort(why=why):
                findings.cut_short = why
