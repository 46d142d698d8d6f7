"""Every scheme on a small workload, and crash addresses of it that the simulator and Spark both pass."""

from __future__ import annotations

from random import Random

from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Address, Point
from streamproof.harness.core.quantities import events, ms, seconds
from streamproof.harness.exploration.census import census
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.active_standby import active_standby
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.approximate import approximate
from streamproof.reference_impls.deployed import deployed
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.gap_by_load import gap_by_load
from streamproof.reference_impls.k_safe_grouping import k_safe_grouping
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.passive_standby import passive_standby
from streamproof.reference_impls.source_replay import source_replay
from streamproof.reference_impls.transactional_sink import transactional_sink
from streamproof.reference_impls.turns_by_load import turns_by_load
from streamproof.reference_impls.upstream_backup import upstream_backup
from streamproof.scenarios.order import order
from streamproof.scenarios.stateless import stateless
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered

EVERY = events(60)
SUBJECTS: dict[str, SchemeSubject] = {
    "amnesia": amnesia(trace()),
    "gap": gap(trace(), checkpoint_every=EVERY),
    # It is quiet, so that the interval is another before any crash.
    "gap-by-load": gap_by_load(trace(), checkpoint_every=events(120), while_quiet=EVERY, busy_from=EVERY, each=ms(50)),
    "passive-replication": passive_replication(trace(), checkpoint_every=EVERY, sink_filter=True),
    "transactional-sink": transactional_sink(trace(), checkpoint_every=EVERY),
    "deployed": deployed(trace(), checkpoint_every=EVERY, sink_filter=True),
    "upstream-backup": upstream_backup(stateless(), acknowledge_every=EVERY),
    "passive-standby-hot": passive_standby(trace(), hot=True, synchronize_every=EVERY),
    "passive-standby-cold": passive_standby(trace(), hot=False, synchronize_every=EVERY),
    "active-standby": active_standby(trace(), acknowledge_every=EVERY),
    "active-replication": active_replication(trace(), acknowledge_every=EVERY),
    "turns-by-load": turns_by_load(order(), acknowledge_every=EVERY, consider_every=EVERY),
    "k-safe-grouping": k_safe_grouping(trace(), k=1, acknowledge_every=EVERY),
    "approximate": approximate(stateless(), theta=0, l=100, gamma=200),
    # So long that no input is replayed before a crash because the machine is busy: then batches are cut otherwise.
    "source-replay": source_replay(stateless(), timeout=seconds(8)),
}
CRASHES = 5
SAME_EVERYWHERE = frozenset({Point.RECEIVED, Point.SEND_ISSUED, Point.SEND_HANDED_OVER, Point.SEND_DELIVERED})


def scenario_of(scheme: str) -> Scenario:
    return Scenario(SUBJECTS[scheme], numbered(events=600, batch=10, rate=600))


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
    # Not the first ones: a replica that stands by has to be in sync. Nor the last ones: input has to be outstanding.
    return Random(scheme).sample(passed[len(passed) // 3 : len(passed) * 2 // 3], CRASHES)
