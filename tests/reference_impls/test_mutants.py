"""Every mutant is caught, by the anomaly that it must show."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from simulation import EVERY
from simulation import scenario_of as scenario_of_case
from streamproof import crash, delay, ms
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.topology import Role, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.mutants import mutant_world
from streamproof.harness.exploration.plans import EverySingle, RandomSchedules
from streamproof.harness.exploration.search import SearchBudget, search
from streamproof.harness.protocol.effects import Effect, Input, Receive
from streamproof.harness.protocol.machine import Machine, Slice
from streamproof.harness.protocol.messages import Acknowledge
from streamproof.reference_impls import SCHEMES
from streamproof.reference_impls.mutants import MUTANTS, BrokenScheme
from streamproof.reference_impls.mutants.mutant import twisting
from streamproof.scenarios.workloads import numbered
from verdicts_of import run

REGISTRY = Registry()
MOST = 1_500
"""Schedules that a mutant may survive."""
RARELY_SHOWN = {
    "active-standby-syncing-without-listeners",
    "active-standby-without-output-log",
    "approximate-not-halving",
    "approximate-spread-as-in-the-paper",
    "gap-by-load-forgetting-its-interval",
    "passive-replication-without-fenced-store",
}
"""These take more than 500 schedules, which is searched for in the long tests; that the run which was found once shows
them is among the golden histories."""


def scenario_of(mutant: BrokenScheme) -> Scenario:
    home = REGISTRY.scenario(mutant.on).scenario
    subject = home.subject
    assert isinstance(subject, SchemeSubject)
    topology: Topology = subject.topology
    workload = replace(home.workload, events=48, batch=4, rate=None)
    return Scenario(mutant.make(topology, EVERY), workload)


@pytest.mark.parametrize(
    "mutant",
    [pytest.param(one, marks=[pytest.mark.long] * (one.name in RARELY_SHOWN), id=one.name) for one in MUTANTS],
)
def test_every_mutant_is_caught_by_its_anomaly(
    mutant: BrokenScheme, record_property: Callable[[str, object], None]
) -> None:
    bench = Bench(scenario_of(mutant), REGISTRY, seed=7, options=mutant_world(mutant))
    anomaly = str(mutant.anomaly)
    found = search(
        bench,
        [EverySingle(), EverySingle("handed-over-loss"), RandomSchedules(7, kinds=mutant.kinds)],
        SearchBudget(MOST),
        until=lambda violation: violation.kind.anomaly == anomaly,
    )
    kinds = {kind.anomaly for kind in found.kinds}
    assert anomaly in kinds, f"{mutant.name} lives after {found.tried} schedules, or shows only {kinds}"
    record_property("schedules", found.tried)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_shows_without_any_fault_only_where_it_says_so(mutant: BrokenScheme) -> None:
    scenario = scenario_of(mutant)
    claims = run(scenario, ()).verdicts[: len(scenario.claimed)]
    violated = any(verdict.status is Status.VIOLATED for verdict in claims)
    assert violated == mutant.without_faults
    assert all(verdict.status is Status.HOLDS for verdict in claims) != mutant.without_faults


def _acknowledged_for_all(machine: Slice, given: Input) -> list[Effect]:
    """What one receiver of a channel has acknowledged, all have."""
    if not isinstance(given, Receive) or not isinstance(given.message, Acknowledge):
        return machine.on(given)
    listening = [*cast(Machine, machine).outputs[given.neighbour].listeners]
    alike = (Receive(given.neighbour, Acknowledge(receiver, given.message.upto)) for receiver in listening)
    return [effect for one in alike for effect in machine.on(one)]


@pytest.mark.parametrize("scheme", ["active-replication", "k-safe-grouping"])
def test_a_log_that_is_trimmed_by_the_first_receiver_loses_for_whoever_joins_a_slow_one(scheme: str) -> None:
    """Only where a replica lags by more than a recovery takes, which a search draws too rarely."""
    scenario = replace(scenario_of_case(f"{scheme}/trace-numbered"), workload=numbered(events=48, batch=4))
    subject = scenario.subject
    assert isinstance(subject, SchemeSubject)
    broken = twisting(lambda topology, every: subject, _acknowledged_for_all, Role.SOURCE, Role.OPERATOR)
    slow = [delay(up, "trace-0/1", by=ms(30)).after(ms(8)).lasting(ms(80)) for up in ("relay-0", "relay-0/1")]
    schedule = [*slow, crash("trace-0").after(ms(22))]
    assert run(scenario, schedule).claim.status is Status.HOLDS
    judged = run(replace(scenario, subject=broken(subject.topology, EVERY)), schedule)
    assert judged.claim.status is Status.VIOLATED
    assert judged.lost > 0


def test_every_scheme_has_at_least_five_mutants() -> None:
    broken = Counter(scenario_of(mutant).subject.name for mutant in MUTANTS)
    assert broken
    schemes = Counter(_scheme_of(mutant) for mutant in MUTANTS)
    assert {entry.name for entry in SCHEMES} - {"passive-standby"} <= schemes.keys()
    assert min(schemes.values()) >= 5


def _scheme_of(mutant: BrokenScheme) -> str:
    """The kind of the subject that was broken, before it got the mutant's name."""
    subject = REGISTRY.scenario(mutant.on).scenario.subject
    assert isinstance(subject, SchemeSubject)
    return mutant.build(subject.topology, EVERY).kind


def test_mutants_have_names_of_their_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert set(names) > RARELY_SHOWN
