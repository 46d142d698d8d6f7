"""Faults that heal, on embedded Spark: nodes that are stopped and go on, links that are cut and broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.faults.delay import delay
from streamproof.faults.loss import loss
from streamproof.faults.partition import partition
from streamproof.faults.pause import pause
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.quantities import events, ms, seconds
from streamproof.harness.core.schedule import Fault
from streamproof.harness.recording.history import FaultHealed, FaultStruck, NodeGone, NodeUp
from streamproof.harness.recording.records import CheckpointDurable, Delivered, Opened, Started, Taken
from streamproof.harness.running.run import Finished, run_named
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.reaping import labelled_processes
from streamproof.harness.worlds.spark.control.run_messages import HEARTBEAT_LIMIT
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words

pytestmark = pytest.mark.spark


def _run(fault: Fault, rate: int, folder: Path) -> tuple[Finished, FaultStruck, FaultHealed]:
    subject = passive_replication(word_count(), checkpoint_every=events(60), sink_filter=True)
    scenario = Scenario(subject, words(events=3_000, rate=rate), [fault], deadline=seconds(60))
    finished = run_named(Named("test", "test", "", scenario), EmbeddedCluster(), Registry(), seed=1, folder=folder)
    (struck,) = finished.history.struck()
    assert struck.bite.bit, struck.bite.why_not
    assert [f"{v.guarantee} {v.status} {v.reason}".strip() for v in finished.judgement.verdicts] == [
        "precise-recovery HOLDS"
    ]
    (healed,) = (entry for entry in finished.history.timeline if isinstance(entry, FaultHealed))
    assert labelled_processes(finished.description.run) == []
    return finished, struck, healed


def test_a_node_that_is_stopped_for_a_moment_goes_on_with_what_it_has(tmp_path: Path) -> None:
    finished, struck, healed = _run(pause("count-0").after(events(300)).lasting(seconds(1)), 2_000, tmp_path / "run")

    assert healed.proof.count == len(struck.bite.pids) >= 4, "worker, executor, Python daemon and worker"
    assert healed.stamp.at - struck.stamp.at >= 1_000_000
    assert not any(isinstance(entry, NodeGone) for entry in finished.history.timeline)
    taken = [s.at for s in finished.history.records if isinstance(s.record, Taken) and s.record.slice == "count-0"]
    assert not any(struck.stamp.at + 500_000 < at < healed.stamp.at for at in taken)
    assert any(at > healed.stamp.at for at in taken)


@pytest.mark.long
def test_a_node_that_is_stopped_for_too_long_is_replaced_and_cannot_act_for_its_successor(tmp_path: Path) -> None:
    lasting = seconds(HEARTBEAT_LIMIT + 2)
    finished, struck, healed = _run(pause("count-0").after(events(300)).lasting(lasting), 450, tmp_path / "run")

    timeline, records = finished.history.timeline, finished.history.records
    (gone,) = (entry for entry in timeline if isinstance(entry, NodeGone))
    assert gone.node == struck.bite.node
    assert struck.stamp.at + HEARTBEAT_LIMIT * 0.9e6 < gone.stamp.at < healed.stamp.at
    back = [
        e.stamp.at for e in timeline if isinstance(e, NodeUp) and e.node == gone.node and e.stamp.at > gone.stamp.at
    ]
    assert len(back) == 1, "it joins again when it hears that it was replaced"
    assert back[0] > healed.stamp.at

    (successor,) = (
        s for s in records if isinstance(s.record, Started) and (s.record.slice, s.record.incarnation) == ("count-0", 2)
    )
    assert successor.at < healed.stamp.at
    for stamped in records:
        record = stamped.record
        if stamped.at > successor.at and isinstance(record, CheckpointDurable) and record.slice == "count-0":
            assert record.incarnation == 2
        if stamped.at > healed.stamp.at and isinstance(record, Delivered) and record.channel == "count-0>sink-0":
            assert record.incarnation == 2


@pytest.mark.long
def test_what_is_sent_into_a_cut_link_gets_through_once_it_heals(tmp_path: Path) -> None:
    fault = partition("split-0", "count-0").after(seconds(0.3)).lasting(seconds(1))
    finished, struck, healed = _run(fault, 2_000, tmp_path / "run")

    assert healed.proof.count > 0, "bytes held back"
    assert healed.stamp.at - struck.stamp.at >= 1_000_000
    taken = [s.at for s in finished.history.records if isinstance(s.record, Taken) and s.record.slice == "count-0"]
    assert not any(struck.stamp.at + 500_000 < at < healed.stamp.at for at in taken)
    assert any(at > healed.stamp.at for at in taken)
    assert not any(isinstance(entry, NodeGone) for entry in finished.history.timeline)


@pytest.mark.long
def test_a_link_that_breaks_is_made_again_and_what_it_lost_is_asked_for(tmp_path: Path) -> None:
    finished, _, healed = _run(loss("split-0", "count-0").after(seconds(0.3)), 2_000, tmp_path / "run")

    assert healed.proof.count > 0, "bytes lost"
    opened = [s.record for s in finished.history.records if isinstance(s.record, Opened)]
    assert [one.after > 0 for one in opened if (one.slice, one.downstream) == ("split-0", "count-0")] == [False, True]


@pytest.mark.usefixtures("toxiproxy_on_path")
@pytest.mark.long
def test_what_is_sent_over_a_link_that_is_slowed_arrives_later(tmp_path: Path) -> None:
    fault = delay("split-0", "count-0", by=ms(300)).after(seconds(0.3)).lasting(seconds(0.7))
    finished, struck, healed = _run(fault, 2_000, tmp_path / "run")

    assert healed.proof.what.startswith("bytes that took 3")
    assert healed.proof.count > 1_000
    quiet = struck.stamp.at + 100_000, struck.stamp.at + 290_000
    taken = [s.at for s in finished.history.records if isinstance(s.record, Taken) and s.record.slice == "count-0"]
    assert not any(quiet[0] < at < quiet[1] for at in taken)
    assert any(at > healed.stamp.at for at in taken)
    assert "Starting HTTP server" in (tmp_path / "run" / "logs" / "toxiproxy.log").read_text()
