"""Searches under mutants, schemes with one rule broken: each must show what its rule is there against.

The smallest world in which a mutant shows gives the smallest counterexample, and costs least: so each is looked for in
a few small worlds first, then in one of the size that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..contracts.registry import MUTANT, SCALED, Mutant, Named, Registry
from ..core.errors import UserMistake
from ..core.schedule import Schedule
from ..running.judgement import require_repeatable
from ..worlds.simulated.options import SimulationOptions
from .bench import Bench, resized
from .memory import look_seldom, seldom_looked_at
from .on_cores import can_fork, leave_with_search, over_processes
from .plans import EverySingle, RandomSchedules, SearchPlan
from .search import SearchBudget, search
from .shrinking import shrink
from .small_worlds import SLOW_SOURCE, SPREAD

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

MUTANT_EVENTS: Final = 60
"""What mutants are fed unless told otherwise: enough for several checkpoints, and little to shrink."""
_MUTANT_BATCH: Final = 4
_SMALL: Final = ((8, 8, 100), (16, 8, 200), (30, 15, 400))
"""Events and batches that a scenario is scaled to, and how many schedules are tried there."""
_EFFORT: Final = 10_000
"""Of making a counterexample smaller, which is small as it is found."""


@dataclass(frozen=True)
class MutantsPlan:
    """How all of them are looked for."""

    on: str | None
    """A scenario for all of them; None: each on its own."""
    budget: SearchBudget
    """For each of them."""
    seed: int
    events: int


@dataclass(frozen=True)
class MutantFound:
    """What shows a mutant, made small."""

    schedule: Schedule
    events: int


@dataclass(frozen=True)
class TriedMutant:
    """What became of one mutant."""

    mutant: Mutant
    schedules: int
    """Tried until it was found, or in all."""
    found: MutantFound | None
    """None: it lives."""
    by: str = ""
    """What found it: a single crash, or the like, or a random schedule."""
    refused: str = ""
    """Why it cannot be looked for, as on a topology that its scheme does not take; empty where it was."""


def mutant_world(mutant: Mutant) -> SimulationOptions:
    """The simulated machines on which a mutant is looked for."""
    return SPREAD if mutant.spread else SLOW_SOURCE


def mutant_plans(mutant: Mutant, seed: int) -> list[SearchPlan]:
    """What is tried under a mutant."""
    return [EverySingle(), EverySingle("handed-over-loss"), RandomSchedules(seed, kinds=mutant.kinds)]


def explore_mutants(names: Sequence[str], registry: Registry, plan: MutantsPlan, *, jobs: int) -> Iterator[TriedMutant]:
    """Search under each mutant for the anomaly that it must show, on the topology and the workload of one scenario, or
    of each one's own. Ctrl-C ends it after what is done. Raises ProcessDied when a process ends by itself, and
    InvalidOperator where no run of that scenario can be judged, whatever runs on it."""
    if plan.on is not None:
        require_repeatable(registry.scenario(plan.on).scenario, plan.on)
    try:
        if jobs == 1:
            with seldom_looked_at():
                for name in names:
                    yield _told(registry, name, _tried(registry, name, plan))
        else:
            workers = min(jobs, len(names))
            given = iter(names), _work, _begin, (plan,)
            with closing(over_processes(workers, *given, forked=can_fork())) as done:
                for name, one in zip(names, done, strict=True):
                    yield _told(registry, name, one)
    except KeyboardInterrupt:
        return


_Tried = tuple[int, MutantFound | None, str, str]
"""How many schedules were tried, what was found, by what, and why it was refused."""


def _told(registry: Registry, name: str, tried: _Tried) -> TriedMutant:
    return TriedMutant(registry.mutants[name], *tried)


def _tried(registry: Registry, name: str, plan: MutantsPlan) -> _Tried:
    try:
        return *_searched(registry, registry.mutants[name], plan), ""
    except UserMistake as error:
        return 0, None, "", str(error)


def _searched(registry: Registry, mutant: Mutant, plan: MutantsPlan) -> tuple[int, MutantFound | None, str]:
    anomaly = str(mutant.anomaly)
    tried, seconds = 0, 0.0
    for named, scaled_schedules in _worlds(registry, mutant, plan):
        left = _left(plan.budget, tried, seconds, scaled_schedules)
        if left is None:
            break
        bench = Bench(named.scenario, registry, seed=plan.seed, options=mutant_world(mutant))
        found = search(
            bench,
            mutant_plans(mutant, plan.seed),
            left,
            origin=named.origin,
            until=lambda violation: violation.kind.anomaly == anomaly,
        )
        if found.interrupted:
            raise KeyboardInterrupt
        for violation in found.violations:
            if violation.kind.anomaly == anomaly:
                shrunk = shrink(bench, violation.trial, violation.kind, effort=_EFFORT)
                by = "random" if violation.trial.random else "single"
                return tried + violation.number, MutantFound(shrunk.trial.schedule, shrunk.events), by
        tried, seconds = tried + found.tried, seconds + found.seconds
    return tried, None, ""


def _worlds(registry: Registry, mutant: Mutant, plan: MutantsPlan) -> Iterator[tuple[Named, int | None]]:
    """Scenarios under a mutant, and how many schedules are tried on each; None: as many as there are left."""
    origin = f"{MUTANT}{mutant.name}@{plan.on or mutant.on}"
    for events, batches, schedules in _SMALL:
        if events < plan.events:
            yield registry.scenario(f"{SCALED}{events}/{batches}@{origin}"), schedules
    named = registry.scenario(origin)
    scenario = resized(named.scenario, plan.events, min(_MUTANT_BATCH, plan.events))
    yield Named(named.name, named.origin, named.summary, scenario), None


def _left(budget: SearchBudget, tried: int, seconds: float, most: int | None) -> SearchBudget | None:
    """What of a budget is left for one world; None: nothing."""
    schedules = None if budget.schedules is None else budget.schedules - tried
    if most is not None:
        schedules = most if schedules is None else min(most, schedules)
    time_left = None if budget.seconds is None else budget.seconds - seconds
    if (schedules is not None and schedules <= 0) or (time_left is not None and time_left <= 0):
        return None
    return SearchBudget(schedules, time_left)


_given: tuple[Registry, MutantsPlan] | None = None
"""Of this process, where it works for such a search."""


def _begin(ends: tuple[Connection, Connection], plan: MutantsPlan) -> None:
    global _given
    leave_with_search(*ends)
    _given = Registry(), plan
    look_seldom()


def _work(name: str) -> _Tried:
    assert _given is not None
    registry, plan = _given
    return _tried(registry, name, plan)
