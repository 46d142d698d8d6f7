"""Every mutant is caught, by the anomaly that it must show."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from simulation import EVERY
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.plans import EverySingle, RandomSchedules
from streamproof.harness.exploration.search import Budget, search
from streamproof.harness.judging.verdicts import Status
from streamproof.harness.model import Topology
from streamproof.harness.registry import Registry
from streamproof.harness.scenario import Scenario
from streamproof.harness.simulated.world import SimulationOptions
from streamproof.harness.subject import SchemeSubject
from streamproof.reference_impls import SCHEMES
from streamproof.reference_impls.mutants import MUTANTS, Mutant
from verdicts_of import run

REGISTRY = Registry()
MOST = 1_500
"""Schedules that a mutant may survive; the one that takes longest needs a fraction of them."""
SLOW_SOURCE = SimulationOptions(offer_interval=3_000)
"""So slow that a recovery is over while there is still input to come."""

LOSING = replace(SLOW_SOURCE, nodes=8, link_delay=(100, 12_000))
"""Here much is on its way, and can be lost with its sender, while each slice keeps a replica in step: what shows those
that survive within their claim as long as nothing that was handed over is lost."""


def scenario_of(mutant: Mutant) -> Scenario:
    home = REGISTRY.scenario(mutant.on).scenario
    subject = home.subject
    assert isinstance(subject, SchemeSubject)
    topology: Topology = subject.topology
    workload = replace(home.workload, events=48, batch=4, rate=None)
    return Scenario(mutant.make(topology, EVERY), workload)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_caught_by_its_anomaly(mutant: Mutant, record_property: Callable[[str, object], None]) -> None:
    anomaly = str(mutant.anomaly)
    tried = 0
    shown: set[str] = set()
    for world, kinds in ((SLOW_SOURCE, ("crash",)), (LOSING, ("crash", "handed-over-loss"))):
        bench = Bench(scenario_of(mutant), REGISTRY, seed=7, options=world)
        found = search(
            bench,
            [EverySingle(), RandomSchedules(7, kinds=kinds)],
            Budget(MOST),
            until=lambda violation: violation.kind.anomaly == anomaly,
        )
        tried += found.tried
        shown |= {kind.anomaly for kind in found.kinds}
        if anomaly in shown:
            break
    assert anomaly in shown, f"{mutant.name} lives after {tried} schedules, or shows only {shown}"
    record_property("schedules", tried)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_shows_without_any_fault_only_where_it_says_so(mutant: Mutant) -> None:
    judged = run(scenario_of(mutant), ())
    assert judged.claim.status is (Status.VIOLATED if mutant.without_faults else Status.HOLDS)


def test_every_scheme_has_at_least_five_mutants() -> None:
    broken = Counter(scenario_of(mutant).subject.name for mutant in MUTANTS)
    assert broken
    schemes = Counter(_scheme_of(mutant) for mutant in MUTANTS)
    assert {entry.name for entry in SCHEMES} - {"passive-standby"} <= schemes.keys()
    assert min(schemes.values()) >= 5


def _scheme_of(mutant: Mutant) -> str:
    """The kind of the subject that was broken, before it got the mutant's name."""
    subject = REGISTRY.scenario(mutant.on).scenario.subject
    assert isinstance(subject, SchemeSubject)
    return mutant.build(subject.topology, EVERY).kind


def test_mutants_have_names_of_their_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
