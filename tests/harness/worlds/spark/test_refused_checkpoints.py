"""What hosts and the harness do when the disk takes no checkpoints: on the embedded runtime, without its processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents_in_process import ThreadsCluster, ThreadsForProcesses
from streamproof.faults.crash import crash
from streamproof.faults.full_disk import full_disk
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import StorageRefused
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.verdicts import Status
from streamproof.harness.protocol.messages import Checkpoint
from streamproof.harness.protocol.stores import FileStore
from streamproof.harness.recording.history import FaultHealed, FaultStruck, Proof
from streamproof.harness.recording.records import CheckpointDurable, Started
from streamproof.harness.running.run import Finished, run_named
from streamproof.harness.worlds.spark.control.disturbances import Disturbance, FillStore
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words


class ThreadsWithADisk(ThreadsCluster):
    """Stands in for the cluster whose disk can be filled."""

    name = "docker"


class Filled:
    def __init__(self, full: threading.Event) -> None:
        self._full = full
        full.set()

    def heal(self) -> Proof:
        self._full.clear()
        return Proof(1, "disks full")


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """While it is set, the disk refuses all that changes a store."""
    full = threading.Event()
    fence, write = FileStore.fence, FileStore.write

    def refuse(what: str) -> None:
        if full.is_set():
            raise StorageRefused(f"cannot {what}: no space")

    def fenced(self: FileStore, slice_id: str, incarnation: int) -> Checkpoint | None:
        refuse(f"fence {slice_id}")
        return fence(self, slice_id, incarnation)

    def written(self: FileStore, checkpoint: Checkpoint) -> bool:
        refuse(f"write {checkpoint.slice}")
        return write(self, checkpoint)

    def disturb(self: ThreadsForProcesses, disturbance: Disturbance) -> Filled:
        assert disturbance == FillStore()
        return Filled(full)

    monkeypatch.setattr(FileStore, "fence", fenced)
    monkeypatch.setattr(FileStore, "write", written)
    monkeypatch.setattr(ThreadsForProcesses, "disturb", disturb, raising=False)
    yield full
    full.clear()


def _run(faults: list[Fault], folder: Path) -> Finished:
    subject = passive_replication(word_count(), checkpoint_every=events(60), sink_filter=True)
    scenario = Scenario(subject, words(events=2_500, rate=1_000), faults, deadline=seconds(30))
    return run_named(Named("test", "test", "", scenario), ThreadsWithADisk(), Registry(), seed=1, folder=folder)


def _in_force(finished: Finished) -> range:
    """When the disk was full."""
    (struck,) = (e for e in finished.history.timeline if isinstance(e, FaultStruck) and "full-disk" in e.fault)
    (healed,) = (e for e in finished.history.timeline if isinstance(e, FaultHealed))
    return range(struck.stamp.at, healed.stamp.at)


def test_a_refused_checkpoint_is_written_when_the_disk_takes_it(full: threading.Event, tmp_path: Path) -> None:
    finished = _run([full_disk("count-0").after(seconds(0.5)).lasting(seconds(1))], tmp_path / "run")

    (struck,) = finished.history.struck()
    assert struck.bite.bit, struck.bite.why_not
    assert struck.bite.proof is not None
    assert struck.bite.proof.what == "checkpoints refused, beside 1 disks full"
    when = _in_force(finished)
    # Four slices, each of which tries again after pauses that grow to a second.
    assert 0 < struck.bite.proof.count <= 4 * (6 + len(when) / 1e6)
    assert [verdict.status for verdict in finished.judgement.verdicts] == [Status.HOLDS]
    durable = [stamped.at for stamped in finished.history.records if isinstance(stamped.record, CheckpointDurable)]
    # What the disk had just taken is told a moment later.
    assert not [at for at in durable if at in when[len(when) // 2 :]]
    assert [at for at in durable if at >= when.stop]


def test_a_slice_that_is_restored_meanwhile_waits_for_its_store(full: threading.Event, tmp_path: Path) -> None:
    faults = [full_disk("split-0").after(seconds(0.5)).lasting(seconds(1)), crash("count-0").after(seconds(0.7))]
    finished = _run(faults, tmp_path / "run")

    assert [struck.bite.bit for struck in finished.history.struck()] == [True, True]
    assert [verdict.status for verdict in finished.judgement.verdicts] == [Status.HOLDS]
    (restored,) = (
        s.at
        for s in finished.history.records
        if isinstance(s.record, Started) and s.record.slice == "count-0" and s.record.incarnation == 2
    )
    assert restored >= _in_force(finished).stop


def test_a_disk_that_refuses_when_no_fault_is_in_force_ends_the_run(full: threading.Event, tmp_path: Path) -> None:
    filling = threading.Timer(1.0, full.set)
    filling.start()
    with pytest.raises(StorageRefused, match="no space, and no fault of the schedule was doing that to node-"):
        _run([crash("count-0").after(seconds(0.2))], tmp_path / "run")
    filling.join()
