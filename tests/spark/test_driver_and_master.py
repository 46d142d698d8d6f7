"""The driver and the master as targets, on embedded Spark: what stops with them, and that nothing is lost when they
come back."""

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
from streamproof.harness.core.schedule import Fault, batch, recovery
from streamproof.harness.core.workload import Workload
from streamproof.harness.recording.history import FaultStruck, NodeGone, NodeUp, Placed
from streamproof.harness.recording.records import Delivered, Started
from streamproof.harness.running.run import Finished, run_named
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.reaping import labelled_processes
from streamproof.harness.worlds.spark.control.run_messages import HEARTBEAT_LIMIT
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.query_word_count import query_word_count
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words

pytestmark = pytest.mark.spark


def masked() -> SchemeSubject:
    return passive_replication(word_count(), checkpoint_every=events(60), sink_filter=True)


def _run(subject: SchemeSubject | Query, workload: Workload, faults: list[Fault], folder: Path) -> Finished:
    scenario = Scenario(subject, workload, faults, deadline=seconds(90))
    named = Named("test", "test", "", scenario)
    finished = run_named(named, EmbeddedCluster(), Registry(), seed=1, folder=folder)
    for struck in finished.history.struck():
        assert struck.bite.bit, struck.bite.why_not
    assert labelled_processes(finished.description.run) == []
    return finished


def _verdicts(finished: Finished) -> list[str]:
    return [f"{v.guarantee} {v.status} {v.reason}".strip() for v in finished.judgement.verdicts]


def _after(finished: Finished, struck: FaultStruck) -> list[NodeGone | NodeUp | Placed]:
    timeline = finished.history.timeline
    place = next(i for i, e in enumerate(timeline) if isinstance(e, FaultStruck) and e.number == struck.number)
    return [entry for entry in timeline[place:] if isinstance(entry, NodeGone | NodeUp | Placed)]


@pytest.mark.long
def test_all_slices_go_with_their_driver_and_recover_also_when_it_dies_again_meanwhile(tmp_path: Path) -> None:
    faults = [crash("driver").after(seconds(1)), crash("driver").at(recovery("count-0").started)]
    # Input is still to come when the first slice is back: none must be through before the second crash.
    finished = _run(masked(), words(events=12_000, rate=600), faults, tmp_path / "run")
    assert _verdicts(finished) == ["precise-recovery HOLDS"]

    slices = {"split-0", "count-0", "count-1"}
    first, second = (entry for entry in finished.history.timeline if isinstance(entry, FaultStruck))
    assert (first.bite.node, set(first.bite.actors)) == ("driver", slices)
    # Whether the others have begun again when the first of them has is a matter of who was faster.
    assert second.bite.node == "driver"
    assert {"count-0"} <= set(second.bite.actors) <= slices
    for struck in (first, second):
        gone, up, *rest = _after(finished, struck)
        while isinstance(gone, Placed):  # What was on its way to a node when the driver died.
            gone, up, *rest = up, *rest
        assert (type(gone), type(up)) == (NodeGone, NodeUp)
        assert [one.node for one in (gone, up) if not isinstance(one, Placed)] == ["driver", "driver"]
    placed = [entry for entry in _after(finished, second) if isinstance(entry, Placed)]
    assert {entry.actor for entry in placed} == slices

    incarnations = [
        (s.record.slice, s.record.incarnation) for s in finished.history.records if isinstance(s.record, Started)
    ]
    assert len(set(incarnations)) == len(incarnations), "no number is given out twice"
    assert all(recovery.total is not None for recovery in finished.judgement.recoveries if recovery.fault == 1)


@pytest.mark.long
def test_the_death_of_the_driver_is_more_than_replicas_can_stand(tmp_path: Path) -> None:
    subject = active_replication(word_count(), acknowledge_every=events(60))
    finished = _run(subject, words(events=2_000, rate=1_000), [crash("driver").after(seconds(1))], tmp_path / "run")
    (verdict,) = _verdicts(finished)
    assert verdict.startswith("precise-recovery UNKNOWN this goes beyond what is claimed: ")
    assert finished.history.drained


@pytest.mark.long
def test_slices_go_on_without_their_driver_for_as_long_as_it_is_paused(tmp_path: Path) -> None:
    fault = pause("driver").after(seconds(0.5)).lasting(seconds(2 * HEARTBEAT_LIMIT))
    finished = _run(masked(), words(events=6_000, rate=1_000), [fault], tmp_path / "run")
    assert _verdicts(finished) == ["precise-recovery HOLDS"]
    (struck,) = finished.history.struck()
    assert not any(isinstance(entry, NodeGone) for entry in _after(finished, struck))
    delivered = [s.at for s in finished.history.records if isinstance(s.record, Delivered)]
    assert any(
        struck.stamp.at + 1e6 * HEARTBEAT_LIMIT < at < struck.stamp.at + 1.5e6 * HEARTBEAT_LIMIT for at in delivered
    )


@pytest.mark.long
def test_a_node_that_dies_while_there_is_no_master_comes_back_with_it(tmp_path: Path) -> None:
    """All nodes die, so that nothing goes on until one comes back."""
    faults = [crash("master").after(seconds(0.5)), crash("split-0", "count-0", "count-1").after(seconds(1))]
    finished = _run(masked(), words(events=4_000, rate=1_000), faults, tmp_path / "run")
    assert _verdicts(finished) == ["precise-recovery HOLDS"]
    assert {path.name for path in (tmp_path / "run" / "logs").glob("master.*")} == {"master.1.log", "master.2.log"}
    *_, last = finished.history.struck()
    assert any(isinstance(entry, NodeUp) for entry in _after(finished, last))


@pytest.mark.long
def test_a_query_does_not_notice_that_its_master_dies_and_comes_back(tmp_path: Path) -> None:
    faults = [crash("master").at(batch(3).written.of("driver"))]
    finished = _run(query_word_count(batch_events=10), words(events=120), faults, tmp_path / "run")
    assert {verdict.split()[1] for verdict in _verdicts(finished)} == {"HOLDS"}
    incarnations = [s.record.incarnation for s in finished.history.records if isinstance(s.record, Started)]
    assert set(incarnations) == {1}
