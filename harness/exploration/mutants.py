"""Searches under mutants, schemes with one rule broken: each must show what its rule is there against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ..contracts.registry import MUTANT, Mutant, Registry
from ..worlds.simulated.world import SimulationOptions
from .bench import Bench, resized
from .plans import EverySingle, RandomSchedules, SearchPlan
from .search import SearchBudget, Violation, search
from .shrinking import Shrunk, shrink
from .small_worlds import SLOW_SOURCE, SPREAD

MUTANT_EVENTS: Final = 60
"""What mutants are fed unless told otherwise: enough for several checkpoints, and little to shrink."""
_MUTANT_BATCH: Final = 4


@dataclass(frozen=True)
class TriedMutant:
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
    return SPREAD if mutant.spread else SLOW_SOURCE


def explore_mutants(
    names: Sequence[str], on: str | None, registry: Registry, budget: SearchBudget, *, seed: int, jobs: int, events: int
) -> Iterator[TriedMutant]:
    """Search under each mutant for the anomaly that it must show, on the topology and the workload of one scenario, or
    of each one's own. Ctrl-C ends it after what is done."""
    for name in names:
        mutant = registry.mutants[name]
        named = registry.scenario(f"{MUTANT}{name}@{on or mutant.on}")
        scenario = resized(named.scenario, events, min(_MUTANT_BATCH, events))
        bench = Bench(scenario, registry, seed=seed, options=mutant_world(mutant))

        def caught(violation: Violation, wanted: str = str(mutant.anomaly)) -> bool:
            return violation.kind.anomaly == wanted

        plans: list[SearchPlan] = [
            EverySingle(),
            EverySingle("handed-over-loss"),
            RandomSchedules(seed, kinds=mutant.kinds),
        ]
        found = search(bench, plans, budget, jobs=jobs, origin=named.origin, until=caught)
        if found.interrupted:
            return
        first = next(filter(caught, found.violations), None)
        shrunk = None if first is None else shrink(bench, first.trial, first.kind)
        by = "" if first is None else "random" if first.trial.random else "single"
        yield TriedMutant(mutant, found.tried if first is None else first.number, shrunk, by)
