"""Operations on files that are refused to a query on embedded Spark, whose processes live on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from held_operations import needs_mounts
from killed_queries import addresses, killed, verdict
from refused_sinks import FILE, in_files, raising, swallowing
from streamproof.faults.crash import crash
from streamproof.faults.failed_write import failed_write
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign import certify
from streamproof.harness.certifying.plan import How, Victim
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.certifying.rejudging import judge_certificate
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import DRIVER, Moment, Point, Side
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.crash_points.files.mounts import mounts_of
from streamproof.harness.recording.folder import read_history
from streamproof.harness.recording.history import FaultHealed, IncarnationFailed, NodeGone
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.reaping import labelled_processes
from streamproof.scenarios.workloads import words

pytestmark = [pytest.mark.spark, needs_mounts]

CREATED = Moment(Point.FILE, Side.BEFORE, f"1/create {FILE}#1", DRIVER)


@pytest.mark.parametrize(
    ("sink", "comes_to"), [pytest.param(raising, "HOLDS", marks=pytest.mark.long), (swallowing, "VIOLATED")]
)
def test_a_sink_that_swallows_an_error_of_the_disk_loses_a_batch_and_one_that_raises_it_does_it_again(
    sink: Callable[..., None], comes_to: str, tmp_path: Path
) -> None:
    finished = killed(
        tmp_path / "run", EmbeddedCluster(), in_files(sink), failed_write("driver").at(CREATED), batches=2
    )
    assert addresses(finished) == [f"driver/0#1 before file 1/create {FILE}#1"]
    timeline = finished.history.timeline
    (healed,) = [entry for entry in timeline if isinstance(entry, FaultHealed)]
    assert str(healed.proof) == f"operations on files refused with an I/O error ({CREATED.key}): 1"
    failed = [entry for entry in timeline if isinstance(entry, IncarnationFailed)]
    gone = [entry for entry in timeline if isinstance(entry, NodeGone)]
    # One that looks away never fails; the other's driver ends by its own error, and the next does the batch again.
    assert (len(failed), len(gone)) == ((1, 1) if sink is raising else (0, 0))
    assert all("Input/output error" in one.why and one.disturbed for one in failed)
    assert verdict(finished) == comes_to
    assert labelled_processes(finished.description.run) == []
    assert mounts_of(finished.description.run) == []


@pytest.mark.long
def test_a_driver_dies_at_an_operation_on_a_file_of_a_run(tmp_path: Path) -> None:
    moment = Moment(Point.FILE, Side.AFTER, f"1/create {FILE}#1", DRIVER)
    finished = killed(tmp_path / "run", EmbeddedCluster(), in_files(raising), crash("driver").at(moment), batches=2)
    assert addresses(finished) == [f"driver/0#1 after file 1/create {FILE}#1"]
    assert verdict(finished) == "HOLDS"


@pytest.mark.long
@pytest.mark.parametrize(("sink", "comes_to"), [(raising, Status.HOLDS), (swallowing, Status.VIOLATED)])
def test_a_campaign_refuses_each_operation_of_a_batch_once(
    sink: Callable[..., None], comes_to: Status, tmp_path: Path
) -> None:
    registry = Registry()
    query = in_files(sink)
    found = certify(
        query,
        [exactly_once()],
        every_crash_point(Victim.DISK),
        workload=words(events=2 * query.batch_events),
        cluster=EmbeddedCluster(),
        registry=registry,
        budget=Budget(minutes=30),
        folder=tmp_path / "certificate",
    )
    certificate = found.certificate
    assert judge_certificate(found.folder, registry.oracles).differences == ()
    statuses = {one.claim.partition(" ")[0]: one.status for one in certificate.verdicts}
    assert statuses["exactly-once"] is comes_to, certificate.verdicts
    assert certificate.trials
    for trial in certificate.trials:
        assert trial.how is How.KILL
        (struck,) = read_history(found.folder / trial.folder).struck()
        assert struck.bite.why_not == ""
        assert struck.bite.gone is None
    shown = certificate.counterexample
    if comes_to is Status.VIOLATED:
        assert shown is not None
        assert shown.anomaly == Anomaly.LOST_INPUT
        assert "the disk refuses an operation before the driver does" in str(shown.crashes[0])
