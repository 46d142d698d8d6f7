"""Subjects certified on embedded Spark: each must come to what the table says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign import Certified, certify, go_on
from streamproof.harness.certifying.plan import How, Victim
from streamproof.harness.certifying.planning import CrashPlan, every_crash_point
from streamproof.harness.certifying.rejudging import judge_certificate
from streamproof.harness.certifying.saved import COUNTEREXAMPLE, read_saved
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.guarantees import Guarantee, recovers
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.folder import read_description
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.reaping import labelled_processes
from streamproof.scenarios.subjects import SUBJECTS, SubjectLine, subject

pytestmark = pytest.mark.spark

DRIVER_ONLY = every_crash_point(Victim.DRIVER, recovering=False, split_brain=False)


def small(name: str) -> SubjectLine:
    """With one batch, which suffices for a verdict, and the two closing ones."""
    one = subject(name)
    return replace(one, workload=replace(one.workload, events=one.query.batch_events))


def certified(
    one: SubjectLine,
    folder: Path,
    *,
    claims: Sequence[Guarantee] = (),
    faults: CrashPlan | None = None,
    budget: Budget | None = None,
) -> Certified:
    registry = Registry()
    found = certify(
        one.query,
        claims or one.claims,
        faults,
        workload=one.workload,
        cluster=EmbeddedCluster(),
        registry=registry,
        budget=budget or Budget(),
        folder=folder / "certificate",
    )
    assert judge_certificate(found.folder, registry.oracles).differences == ()
    runs = {read_description(found.folder / trial.folder).run for trial in found.certificate.trials}
    labels = (f"{found.certificate.name}-workers", *runs)
    assert list(chain.from_iterable(map(labelled_processes, labels))) == []
    return found


def statuses(found: Certified) -> dict[str, Status]:
    """By guarantee: the time that `recovers` states is longer on a slower machine."""
    return {verdict.claim.partition(" ")[0]: verdict.status for verdict in found.certificate.verdicts}


def reasons(found: Certified) -> str:
    return "\n".join(chain.from_iterable(verdict.reasons for verdict in found.certificate.verdicts))


@pytest.mark.long
@pytest.mark.parametrize("runs", [2, None])
def test_a_campaign_goes_on_where_it_stood(runs: int | None, tmp_path: Path) -> None:
    one = small("sqlite-by-batch")
    first = certified(one, tmp_path, faults=DRIVER_ONLY, budget=Budget(kills=0, runs=2)).certificate
    assert set(statuses(Certified(tmp_path, first)).values()) == {Status.UNKNOWN}
    again = go_on(
        tmp_path / "certificate",
        one.query,
        workload=one.workload,
        cluster=EmbeddedCluster(),
        registry=Registry(),
        budget=Budget(kills=0, runs=runs),
    )
    assert set(again.certificate.plan) == set(first.plan), "both parts pass the same points"
    assert again.certificate.trials[: len(first.trials)] == first.trials
    assert len({trial.folder for trial in again.certificate.trials}) >= 4
    schedules = [trial.crashes for trial in again.certificate.trials]
    assert len(set(schedules)) == len(schedules), "nothing is tried again that was tried"
    assert judge_certificate(again.folder, Registry().oracles).differences == ()
    wanted = Status.UNKNOWN if runs else Status.HOLDS
    assert set(statuses(again).values()) == {wanted}, reasons(again)


@pytest.mark.long
# Of other sinks, test_wrong_sinks.py and test_lines_of_code.py recover from every crash state at each time.
@pytest.mark.parametrize(("name", "points"), [("sqlite-by-batch", 48), ("file-sink", 60)])
def test_a_sink_recovers_from_every_crash_state(name: str, points: int, tmp_path: Path) -> None:
    found = certified(small(name), tmp_path, faults=DRIVER_ONLY, budget=Budget(kills=0, minutes=10))
    certificate = found.certificate
    assert statuses(found) == {"exactly-once": Status.HOLDS, "recovers": Status.HOLDS}, reasons(found)
    assert {trial.how for trial in certificate.trials} == {How.CRASH_STATE}
    assert len(certificate.plan) >= points
    assert all(len(line.passed) == 2 for line in certificate.coverage)
    assert {line.crash.batch for line in certificate.plan} == {0, 1, 2}
    # Between most points nothing happens that outlives a crash.
    assert len({trial.folder for trial in certificate.trials}) < len(certificate.plan) / 2


@pytest.mark.long
def test_appending_blindly_is_violated_and_the_smallest_schedule_says_how(tmp_path: Path) -> None:
    one = small("blind-append")
    found = certified(one, tmp_path, faults=DRIVER_ONLY, budget=Budget(kills=0, runs=20))
    assert statuses(found)["exactly-once"] is Status.VIOLATED, reasons(found)
    assert statuses(found)["recovers"] is not Status.VIOLATED
    shown = found.certificate.counterexample
    assert shown is not None
    (crash,) = shown.crashes
    assert (crash.victim, crash.batch, shown.how) == (Victim.DRIVER, 0, How.KILL)
    assert shown.events == 1 or found.certificate.exhausted
    assert (shown.anomaly, shown.violated) == (str(one.anomaly), shown.repeats)
    assert read_saved(found.folder / COUNTEREXAMPLE).events == shown.events


@pytest.mark.long
def test_asking_the_clock_is_not_known_and_shows_the_rows_that_differ(tmp_path: Path) -> None:
    found = certified(small("asks-the-clock"), tmp_path)
    certificate = found.certificate
    assert statuses(found) == {"exactly-once": Status.UNKNOWN, "recovers": Status.UNKNOWN}
    assert "two runs without failures disagree" in certificate.unjudgeable
    assert '"handled":' in certificate.unjudgeable
    assert certificate.trials == ()


@pytest.mark.long
@pytest.mark.parametrize("name", ["fails-at-its-draft", "waits-for-its-lock"])
def test_who_does_not_come_back_is_violated_by_real_kills_and_holds_nothing_else(name: str, tmp_path: Path) -> None:
    one = small(name)
    claims = (*one.claims, recovers(seconds(30)))
    found = certified(one, tmp_path, claims=claims, faults=DRIVER_ONLY, budget=Budget(kills=0, minutes=15))
    assert statuses(found) == {"exactly-once": Status.UNKNOWN, "recovers": Status.VIOLATED}, reasons(found)
    shown = found.certificate.counterexample
    assert shown is not None
    assert (shown.claim, shown.how, shown.anomaly) == ("recovers (30 s)", How.KILL, str(one.anomaly))
    assert {crash.point for crash in shown.crashes} <= {needed.point for needed in one.needs}
    assert "did not recover" in reasons(found)


WHOLE = Budget(minutes=20)


@pytest.mark.long
@pytest.mark.parametrize("one", SUBJECTS, ids=lambda one: one.name)
def test_each_subject_comes_to_what_the_table_says_of_what_it_claims(one: SubjectLine, tmp_path: Path) -> None:
    found = certified(one, tmp_path, budget=WHOLE)
    said = statuses(found)
    recovered = said.pop("recovers")
    assert said == {str(claim): one.expected for claim in one.claims}, reasons(found)
    # What is violated first ends the campaign.
    assert recovered is (one.recovers if one.expected is Status.HOLDS else recovered), reasons(found)
    assert (recovered is Status.VIOLATED) == (one.recovers is Status.VIOLATED)
    shown = found.certificate.counterexample
    assert (shown is not None) == (Status.VIOLATED in (one.expected, one.recovers))
    if shown is not None:
        assert shown.anomaly == str(one.anomaly)


@pytest.mark.long
@pytest.mark.parametrize("one", [one for one in SUBJECTS if one.holds], ids=lambda one: one.name)
def test_what_holds_of_a_wrong_subject_all_the_same_is_said_to_hold(one: SubjectLine, tmp_path: Path) -> None:
    found = certified(one, tmp_path, claims=one.holds, budget=WHOLE)
    said = statuses(found)
    assert said.pop("recovers") is Status.HOLDS, reasons(found)
    assert said == {str(claim): Status.HOLDS for claim in one.holds}, reasons(found)
