"""Every mutant is caught, by the anomaly that it must show."""

from collections.abc import Callable, Iterator
from random import Random

import pytest

from simulation import EVERY, WORKLOADS, addresses
from streamproof.faults.crash import crash
from streamproof.harness.addresses import Moment
from streamproof.harness.judging.verdicts import Status
from streamproof.harness.scenario import Scenario
from streamproof.harness.schedule import Fault
from streamproof.harness.subject import SchemeSubject
from streamproof.reference_impls.mutants import MUTANTS, Mutant
from verdicts_of import run

MOST = 400
"""Schedules that a mutant may survive; the one that takes longest needs a fraction of them."""


def schedules(scenario: Scenario) -> Iterator[Fault]:
    """One slice, or two neighbours at once, at every address, in an order drawn once."""
    subject = scenario.subject
    assert isinstance(subject, SchemeSubject)
    neighbours = [(up, s) for s in subject.actors for up in subject.topology.upstream(s) if up in subject.actors]
    faults = [
        crash(*targets).at(Moment.exactly(reached.address))
        for reached in addresses(scenario)
        for targets in (*((actor,) for actor in subject.actors), *neighbours)
    ]
    Random(1).shuffle(faults)
    yield from faults


@pytest.mark.parametrize("workload", ["word-count-words", "trace-numbered"])
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_caught_by_its_anomaly(
    mutant: Mutant, workload: str, record_property: Callable[[str, object], None]
) -> None:
    topology, events = WORKLOADS[workload]
    scenario = Scenario(mutant.make(topology(), EVERY), events)
    for tried, fault in enumerate(schedules(scenario), start=1):
        claim = run(scenario, [fault]).claim
        if any(tally.anomaly is mutant.anomaly for tally in claim.anomalies):
            assert claim.status is Status.VIOLATED
            record_property("schedules", tried)
            print(f"{mutant.name} on {workload}: {mutant.anomaly} after {tried} schedules: {fault}")
            return
        assert tried < MOST, f"{mutant.name} lives after {tried} schedules; it {mutant.breaks!r}"
    pytest.fail(f"{mutant.name} lives under every crash")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_no_worse_than_its_scheme_while_nothing_fails(mutant: Mutant) -> None:
    topology, events = WORKLOADS["trace-numbered"]
    judged = run(Scenario(mutant.make(topology(), EVERY), events), ())
    assert judged.claim.status is Status.HOLDS


def test_mutants_have_names_of_their_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
