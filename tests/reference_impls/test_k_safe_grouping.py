"""k-safe grouping with several sources, and with more than one worker to spare."""

from dataclasses import replace
from typing import Any

import pytest

from simulation import addresses, history_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import Moment
from streamproof.harness.core.errors import InvalidTopology
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events
from streamproof.harness.core.topology import Edge, Partitioning, Stage, Topology
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.recording.records import Delivered
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.k_safe_grouping import k_safe_grouping, unchecked
from streamproof.scenarios.stateless import Forward
from streamproof.scenarios.word_count import Count
from streamproof.scenarios.workloads import single_words
from verdicts_of import run


def two_streams(meeting: bool = False) -> Topology:
    """A source each for two lines of a relay and a counter, whose numbers are the same; or they meet at one counter."""
    lines = ("left", "right")
    counters = dict.fromkeys(lines, "count") if meeting else {line: f"{line}-count" for line in lines}
    return Topology(
        "two-streams",
        {
            **{f"{line}-relay": Stage(Forward()) for line in lines},
            **{counter: Stage(Count()) for counter in counters.values()},
        },
        (
            *(Edge(line, f"{line}-relay") for line in lines),
            *(Edge(f"{line}-relay", counters[line]) for line in lines),
            *(Edge(counter, "sink", Partitioning.MERGE) for counter in dict.fromkeys(counters.values())),
        ),
        sources=lines,
    )


def scenario_of(k: int) -> Scenario:
    workload = single_words(vocabulary=12, events=16, batch=4)
    return Scenario(k_safe_grouping(two_streams(), k=k, acknowledge_every=events(8)), workload)


def test_sources_that_give_the_same_numbers_are_not_taken_for_one_another() -> None:
    records = history_of(scenario_of(1), ()).records
    rows = [row for one in records if isinstance(one.record, Delivered) for row in one.record.rows]
    assert sorted(row.seq for row in rows) == sorted([*range(1, 17)] * 2)


def test_every_crash_with_two_sources_leaves_every_claim_standing() -> None:
    scenario = scenario_of(1)
    actors = set(scenario.subject.actors)
    reached = [one.address for one in addresses(scenario, world="spread") if one.address.name in actors]
    assert len(reached) > 100
    held = 0
    for address in reached[::5]:
        judged = run(scenario, (crash(address.name).at(Moment.exactly(address)),), world="spread")
        assert judged.alarms() == []
        held += judged.claim.status is Status.HOLDS
    assert held > 20


@pytest.mark.parametrize("at", range(6, 16, 4))
def test_with_two_to_spare_any_two_workers_of_a_group_may_go_at_once(at: int) -> None:
    for pair in (("", "/1"), ("", "/2"), ("/1", "/2")):
        fault = crash(*(f"left-count-0{replica}" for replica in pair)).after(events(at))
        judged = run(scenario_of(2), (fault,))
        assert judged.claim.status is Status.HOLDS
        assert judged.alarms() == []


@pytest.mark.parametrize("operator", [Forward(), Count()], ids=["stateless", "stateful"])
def test_sources_that_meet_before_the_sink_are_refused_and_active_replication_takes_them(
    operator: Operator[Any],
) -> None:
    meeting = two_streams(meeting=True)
    meeting = replace(meeting, stages={**meeting.stages, "count": Stage(operator)})
    with pytest.raises(InvalidTopology, match=r"count-0 of 'two-streams' has more than one .* active_replication\(\)"):
        k_safe_grouping(meeting)
    workload = single_words(vocabulary=12, events=16, batch=4)
    judged = run(Scenario(unchecked(meeting, acknowledge_every=events(8)), workload), ())
    assert judged.claim.status is Status.VIOLATED, "so it is right to refuse them"
    assert [tally.anomaly for tally in judged.claim.anomalies] == [Anomaly.LOST_INPUT]
    merged = run(Scenario(active_replication(meeting, acknowledge_every=events(8)), workload), ())
    assert merged.claim.status is Status.HOLDS


@pytest.mark.parametrize("name", ["words.2-safe-grouping", "words.2-safe-grouping-one-too-many"])
def test_the_library_has_two_to_spare(name: str) -> None:
    registry = Registry()
    scenario = registry.scenario(name).scenario
    assert len(scenario.subject.actors) == 6
    _, judgement = run_in_memory(scenario, SimulatedCluster(), registry.faults, registry.oracles, seed=7)
    assert judgement.exit_status == 0
