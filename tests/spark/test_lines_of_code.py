"""Sinks whose only fault lies between two of their lines, certified on embedded Spark."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import line_sinks
import wrong_sinks
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign import Certified, certify
from streamproof.harness.certifying.certificate import PAGE
from streamproof.harness.certifying.conclusion import IN_SPARK
from streamproof.harness.certifying.plan import How, Victim
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.certifying.rejudging import judge_certificate
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import Point
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.verdicts import Status
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.scenarios.workloads import words

pytestmark = pytest.mark.spark

DRIVER_ONLY = every_crash_point(Victim.DRIVER, recovering=False, split_brain=False)


def certified(query: Query, folder: Path, budget: Budget = Budget(kills=0, minutes=10)) -> Certified:
    registry = Registry()
    found = certify(
        query,
        [exactly_once()],
        DRIVER_ONLY,
        workload=words(events=query.batch_events),
        cluster=EmbeddedCluster(),
        registry=registry,
        budget=budget,
        folder=folder / "certificate",
    )
    assert judge_certificate(found.folder, registry.oracles).differences == ()
    return found


@pytest.mark.usefixtures("confirmed_in_two")
def test_a_marker_that_is_committed_before_its_rows_is_refuted_by_the_line_in_between(tmp_path: Path) -> None:
    _refute_marker_first(tmp_path)


@pytest.mark.long
def test_its_counterexample_is_repeated_three_times_and_made_smaller(tmp_path: Path) -> None:
    found = _refute_marker_first(tmp_path)
    assert len([trial for trial in found.certificate.trials if trial.how is How.KILL]) > 3
    shown = found.certificate.counterexample
    assert shown is not None
    assert shown.events < shown.events_before


def _refute_marker_first(tmp_path: Path) -> Certified:
    found = certified(line_sinks.marker_first, tmp_path)
    verdict = found.certificate.verdicts[0]
    assert verdict.status is Status.VIOLATED, verdict
    shown = found.certificate.counterexample
    assert shown is not None
    (crash,) = shown.crashes
    assert (crash.point, shown.how, shown.anomaly) == (Point.LINE, How.KILL, "lost-input")
    assert crash.line is not None
    assert crash.line.function == "line_sinks.write_marker_first"
    assert crash.text in ("con.commit()", 'con.executemany("insert into lines values (?, ?)", rows)')
    assert f"(`{crash.text}`)" in str(crash)
    # What Spark does, and what comes before and after, is no part of it.
    wrong = [line.planned.crash for line in found.certificate.coverage if _violated(line.verdicts)]
    assert {crash.point for crash in wrong} <= {Point.LINE, Point.FILE}
    assert all(crash.in_code for crash in wrong if crash.point is Point.FILE)
    assert "line_sinks" in (found.folder / PAGE).read_text()
    return found


@pytest.mark.long
def test_its_twin_that_commits_both_at_once_passes_what_is_most_worth_trying(tmp_path: Path) -> None:
    found = certified(line_sinks.both_at_once, tmp_path, Budget(kills=0, minutes=10, runs=8))
    certificate = found.certificate
    assert {status for trial in certificate.trials for status in trial.verdicts.values()} == {Status.HOLDS}
    assert len({trial.folder for trial in certificate.trials}) == 8
    assert any(trial.crashes[0].point is Point.LINE for trial in certificate.trials)
    assert len([one for one in certificate.plan if one.crash.point is Point.LINE]) > 60
    assert certificate.uncut == ()


@pytest.mark.long
def test_its_twin_that_commits_both_at_once_holds(tmp_path: Path) -> None:
    found = certified(line_sinks.both_at_once, tmp_path)
    assert {verdict.status for verdict in found.certificate.verdicts} == {Status.HOLDS}, found.certificate.verdicts


@pytest.mark.long
@pytest.mark.parametrize(
    "query", [line_sinks.tells_outside, wrong_sinks.tells_outside], ids=["foreachBatch", "commit of a data source"]
)
def test_a_file_that_it_writes_outside_lets_no_claim_hold_unless_it_is_accepted(query: Query, tmp_path: Path) -> None:
    log = line_sinks.log_of()
    try:
        # A run without failures shows it.
        found = certified(query, tmp_path, Budget(kills=0, minutes=10, runs=1))
    finally:
        log.unlink(missing_ok=True)
    (effect,) = found.certificate.uncut
    assert (effect.name, effect.times) == (f"file {log}", 3)
    for verdict in found.certificate.verdicts:
        assert verdict.status is Status.UNKNOWN
        assert effect.name in verdict.reasons[-1]
    first = next(line for line in (found.folder / PAGE).read_text().split("## Not covered")[1].splitlines() if line)
    assert first.startswith("- Cut by no crash: file ")


@pytest.mark.long
def test_what_it_has_spark_write_elsewhere_lets_no_claim_hold(tmp_path: Path) -> None:
    lake = Path("/var/tmp/streamproof-lake")
    try:
        found = certified(line_sinks.marker_here_data_elsewhere, tmp_path, Budget(kills=0, minutes=10, runs=1))
    finally:
        shutil.rmtree(lake, ignore_errors=True)
    uncut = found.certificate.uncut
    assert {one.place for one in uncut} == {IN_SPARK}
    assert all(one.name.startswith(f"file {lake}/") for one in uncut)
    assert {one.name.rpartition("/")[2] for one in uncut} == {f"batch={batch}" for batch in range(3)}
    for verdict in found.certificate.verdicts:
        assert verdict.status is Status.UNKNOWN
        assert str(lake) in verdict.reasons[-1]


@pytest.mark.long
def test_a_folder_that_it_has_spark_make_elsewhere_lets_no_claim_hold(tmp_path: Path) -> None:
    lake = Path("/var/tmp/streamproof-lake")
    try:
        found = certified(line_sinks.locks_elsewhere, tmp_path, Budget(kills=0, minutes=10, runs=1))
    finally:
        shutil.rmtree(lake, ignore_errors=True)
    uncut = found.certificate.uncut
    assert {one.place for one in uncut} == {IN_SPARK}
    assert {one.name.rpartition("/")[2] for one in uncut} == {f"lock-{batch}" for batch in range(3)}
    for verdict in found.certificate.verdicts:
        assert verdict.status is Status.UNKNOWN
        assert str(lake) in verdict.reasons[-1]


def _violated(verdicts: dict[str, dict[Status, int]]) -> bool:
    return any(Status.VIOLATED in found for found in verdicts.values())
