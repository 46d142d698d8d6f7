"""Queries with a source of the user's are certified by real kills."""

from __future__ import annotations

from pathlib import Path

import pytest

import own_sources
from held_operations import needs_mounts
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign import Certified, certify
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

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("confirmed_in_two")]

DRIVER_ONLY = every_crash_point(Victim.DRIVER, recovering=False, split_brain=False)


def certified(query: Query, folder: Path, minutes: float) -> Certified:
    registry = Registry()
    found = certify(
        query,
        [exactly_once()],
        DRIVER_ONLY,
        # Which nobody is fed.
        workload=words(events=40),
        cluster=EmbeddedCluster(),
        registry=registry,
        budget=Budget(kills=0, minutes=minutes),
        folder=folder / "certificate",
    )
    assert judge_certificate(found.folder, registry.oracles).differences == ()
    return found


@pytest.mark.long
def test_a_source_that_gives_what_it_has_only_once_is_refuted_by_the_line_that_forgets_it(tmp_path: Path) -> None:
    found = certified(own_sources.taken_once, tmp_path, minutes=10)
    assert found.certificate.verdicts[0].status is Status.VIOLATED, found.certificate.verdicts[0]
    shown = found.certificate.counterexample
    assert shown is not None
    (crash,) = shown.crashes
    assert (crash.point, shown.how, shown.anomaly) == (Point.LINE, How.KILL, "lost-input")
    assert crash.text == "(self.taken / str(number)).touch(exist_ok=False)"
    assert not [trial for trial in found.certificate.trials if trial.missed]
    # Nobody knows how much of it was given.
    assert (shown.events, shown.input) == (0, "")


@pytest.mark.long
@needs_mounts
def test_what_one_call_of_the_sink_does_is_cut_within_the_call(tmp_path: Path) -> None:
    found = certified(own_sources.numbered_in_two, tmp_path, minutes=10)
    assert found.certificate.verdicts[0].status is Status.VIOLATED, found.certificate.verdicts[0]
    shown = found.certificate.counterexample
    assert shown is not None
    (crash,) = shown.crashes
    assert (crash.point, shown.how, shown.anomaly) == (Point.FILE, How.KILL, "lost-input")
    assert "executescript" in crash.in_code


@pytest.mark.long
def test_a_source_is_refuted_by_a_line_that_spark_runs_where_it_plans(tmp_path: Path) -> None:
    found = certified(own_sources.taken_when_planned, tmp_path, minutes=10)
    assert found.certificate.verdicts[0].status is Status.VIOLATED, found.certificate.verdicts[0]
    shown = found.certificate.counterexample
    assert shown is not None
    assert "TakenWhenPlanned.partitions" in shown.crashes[0].key
    assert not [trial for trial in found.certificate.trials if trial.missed]


@pytest.mark.long
def test_a_source_that_gives_the_same_again_holds(tmp_path: Path) -> None:
    found = certified(own_sources.numbered, tmp_path, minutes=30)
    assert found.certificate.verdicts[0].status is Status.HOLDS, found.certificate.verdicts[0]
