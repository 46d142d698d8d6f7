"""What a history comes to, beside the schedule that was to be carried out."""

from __future__ import annotations

from dataclasses import replace

from simulation import KINDS
from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.verdicts import Status
from streamproof.harness.running.judgement import judge_history
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from verdicts_of import JUDGES


def test_a_fault_that_a_run_says_nothing_of_leaves_its_claims_open() -> None:
    named = Registry().scenario("word-count.passive-replication").scenario
    calm = replace(named, workload=replace(named.workload, events=300), faults=(), claims=[exactly_once()])
    history, judgement = run_in_memory(calm, SimulatedCluster(), KINDS, JUDGES, seed=1)
    assert {verdict.status for verdict in judgement.verdicts} == {Status.HOLDS}
    planned = replace(calm, faults=[crash("count-0").after(seconds(1))])
    for verdict in judge_history(planned, history, JUDGES, virtual_time=True).verdicts:
        assert verdict.status is Status.UNKNOWN
        assert verdict.reason.startswith("the run ended before the trigger of fault 1 came: crash count-0")
