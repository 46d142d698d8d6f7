"""Paths from one source that meet again in an operator: what is made on one of them is not due on the other."""

from __future__ import annotations

from random import Random

import pytest

from simulation import SCHEMES, addresses, history_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import Moment
from streamproof.harness.core.topology import Edge, Stage, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.scenarios.stateless import Forward
from streamproof.scenarios.trace import Trace
from streamproof.scenarios.workloads import numbered
from verdicts_of import rejudged

DIAMOND = Topology(
    "diamond",
    {"a": Stage(Forward()), "b": Stage(Trace()), "c": Stage(Trace()), "d": Stage(Trace())},
    (
        Edge("source", "a"),
        Edge("a", "b"),
        Edge("a", "c"),
        Edge("b", "d"),
        Edge("c", "d"),
        Edge("d", "sink"),
    ),
)


@pytest.mark.parametrize("scheme", ["amnesia", "gap", "passive-replication-masked", "active-replication"])
def test_a_crash_at_any_of_a_sample_of_addresses_breaks_no_claim(scheme: str) -> None:
    scenario = Scenario(SCHEMES[scheme](DIAMOND), numbered(events=16, batch=2))
    actors = set(scenario.subject.actors)
    reached = [one for one in addresses(scenario) if one.address.name in actors]
    held = 0
    for one in Random(scheme).sample(reached, 30):
        schedule = [crash(one.address.name).at(Moment.exactly(one.address))]
        judged = rejudged(scenario, history_of(scenario, schedule))
        assert judged.alarms() == [], str(one.address)
        held += judged.claim.status is Status.HOLDS
    assert held > 10
