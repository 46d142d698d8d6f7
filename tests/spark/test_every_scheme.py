"""Every scheme on embedded Spark, under crashes at exact addresses that the simulator names."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from streamproof.faults.crash import crash
from streamproof.harness.addresses import Address, Moment, Point
from streamproof.harness.census import census
from streamproof.harness.embedded.cluster import EmbeddedCluster
from streamproof.harness.embedded.reaping import labelled_processes
from streamproof.harness.judging.verdicts import Status
from streamproof.harness.quantities import events, seconds
from streamproof.harness.registry import Named, Registry
from streamproof.harness.running import run_named
from streamproof.harness.scenario import Scenario
from streamproof.harness.subject import SchemeSubject
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.active_standby import active_standby
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.deployed import deployed
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.k_safe_grouping import k_safe_grouping
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.passive_standby import passive_standby
from streamproof.reference_impls.source_replay import source_replay
from streamproof.reference_impls.upstream_backup import upstream_backup
from streamproof.scenarios.stateless import stateless
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered

pytestmark = pytest.mark.spark

EVERY = events(60)
SUBJECTS: dict[str, SchemeSubject] = {
    "amnesia": amnesia(trace()),
    "gap": gap(trace(), checkpoint_every=EVERY),
    "passive-replication": passive_replication(trace(), checkpoint_every=EVERY, sink_filter=True),
    "deployed": deployed(trace(), checkpoint_every=EVERY, sink_filter=True),
    "upstream-backup": upstream_backup(stateless(), acknowledge_every=EVERY),
    "passive-standby-hot": passive_standby(trace(), hot=True, synchronize_every=EVERY),
    "passive-standby-cold": passive_standby(trace(), hot=False, synchronize_every=EVERY),
    "active-standby": active_standby(trace(), acknowledge_every=EVERY),
    "active-replication": active_replication(trace(), acknowledge_every=EVERY),
    "k-safe-grouping": k_safe_grouping(trace(), k=1, acknowledge_every=EVERY),
    "source-replay": source_replay(stateless(), timeout=seconds(0.5)),
}
CRASHES = 5
SAME_EVERYWHERE = frozenset({Point.RECEIVED, Point.SEND_ISSUED, Point.SEND_HANDED_OVER, Point.SEND_DELIVERED})


def scenario_of(scheme: str) -> Scenario:
    return Scenario(SUBJECTS[scheme], numbered(events=600, batch=10, rate=3_000))


def addresses_of(scheme: str) -> list[Address]:
    """Five addresses of batches, drawn once, that a run on Spark passes too: others depend on who was faster."""
    scenario = scenario_of(scheme)
    actors = scenario.subject.actors
    passed = [
        reached.address
        for reached in census(scenario, Registry().faults, seed=1)
        if reached.address.name in actors
        and reached.address.point in SAME_EVERYWHERE
        and reached.address.key.partition(" ")[2].startswith("@")
    ]
    # Not the last ones: input has to be outstanding.
    return Random(scheme).sample(passed[: len(passed) * 2 // 3], CRASHES)


@pytest.mark.parametrize(
    ("scheme", "number"),
    [
        pytest.param(scheme, number, marks=[pytest.mark.long] if number else [])
        for scheme in SUBJECTS
        for number in range(CRASHES)
    ],
)
def test_a_crash_at_an_exact_address_leaves_what_the_scheme_claims(scheme: str, number: int, tmp_path: Path) -> None:
    address = addresses_of(scheme)[number]
    scenario = scenario_of(scheme)
    fault = crash(address.name).at(Moment.exactly(address))
    named = Named("test", "test", "", Scenario(scenario.subject, scenario.workload, [fault]))
    finished = run_named(named, EmbeddedCluster(), Registry(), seed=1, folder=tmp_path / "run")

    (struck,) = finished.history.struck()
    assert (struck.address, struck.bite.bit) == (str(address), True), struck.bite.why_not
    verdicts = {str(v.guarantee): (v.status, v.reason or v.summary) for v in finished.judgement.verdicts}
    assert {status for status, _ in verdicts.values()} == {Status.HOLDS}, verdicts
    assert labelled_processes(finished.description.run) == []
