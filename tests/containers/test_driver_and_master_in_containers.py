"""The driver and the master as targets, in containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.faults.crash import crash
from streamproof.faults.pause import pause
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.core.schedule import Fault, batch
from streamproof.harness.core.workload import Workload
from streamproof.harness.recording.history import NodeGone, NodeUp
from streamproof.harness.recording.records import Started
from streamproof.harness.running.run import Finished, run_named
from streamproof.harness.worlds.docker.cluster import DockerCluster
from streamproof.harness.worlds.spark.control.run_messages import HEARTBEAT_LIMIT
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.query_word_count import query_word_count
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words

pytestmark = pytest.mark.docker


def masked() -> SchemeSubject:
    return passive_replication(word_count(), checkpoint_every=events(60), sink_filter=True)


def _run(subject: SchemeSubject | Query, workload: Workload, faults: list[Fault], folder: Path) -> Finished:
    scenario = Scenario(subject, workload, faults, deadline=seconds(90))
    named = Named("test", "test", "", scenario)
    finished = run_named(named, DockerCluster(), Registry(), seed=1, folder=folder)
    for struck in finished.history.struck():
        assert struck.bite.bit, struck.bite.why_not
    assert {verdict.status.value for verdict in finished.judgement.verdicts} == {"HOLDS"}, finished.judgement.verdicts
    return finished


def _logs(folder: Path, node: str) -> set[str]:
    return {path.name for path in (folder / "logs").glob(f"{node}.*")}


def test_all_slices_go_with_their_driver_and_recover(tmp_path: Path) -> None:
    finished = _run(masked(), words(events=2_000, rate=1_000), [crash("driver").after(seconds(1))], tmp_path / "run")
    (struck,) = finished.history.struck()
    assert (struck.bite.node, set(struck.bite.actors)) == ("driver", {"split-0", "count-0", "count-1"})
    seen = [
        type(entry)
        for entry in finished.history.timeline
        if isinstance(entry, NodeGone | NodeUp) and entry.node == "driver"
    ]
    assert seen == [NodeUp, NodeGone, NodeUp]
    incarnations = [
        (s.record.slice, s.record.incarnation) for s in finished.history.records if isinstance(s.record, Started)
    ]
    assert len(set(incarnations)) == len(incarnations), "no number is given out twice"


@pytest.mark.long
def test_a_paused_driver_and_its_agents_find_one_another_again(tmp_path: Path) -> None:
    fault = pause("driver").after(seconds(0.5)).lasting(seconds(2 * HEARTBEAT_LIMIT))
    finished = _run(masked(), words(events=6_000, rate=1_000), [fault], tmp_path / "run")
    assert not any(isinstance(entry, NodeGone) for entry in finished.history.timeline)


@pytest.mark.long
def test_nodes_that_die_while_there_is_no_master_come_back_with_it(tmp_path: Path) -> None:
    faults = [crash("master").after(seconds(0.5)), crash("split-0", "count-0", "count-1").after(seconds(1))]
    finished = _run(masked(), words(events=4_000, rate=1_000), faults, tmp_path / "run")
    assert {node: len(_logs(tmp_path / "run", node)) for node in ("master", "node-0")} == {"master": 2, "node-0": 2}
    assert finished.history.drained


@pytest.mark.long
def test_a_query_does_not_notice_that_its_master_dies_and_comes_back(tmp_path: Path) -> None:
    finished = _run(
        query_word_count(batch_events=10),
        words(events=200),
        [crash("master").at(batch(3).written.of("driver"))],
        tmp_path / "run",
    )
    assert {s.record.incarnation for s in finished.history.records if isinstance(s.record, Started)} == {1}
