"""Campaigns without Spark: what they plan, try and say of queries of a few files, whose processes are threads."""

from __future__ import annotations

import pickle
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest

import toy_spark
from heard_late import hear_late
from sampling import long_but_for
from streamproof.harness.certifying import (
    affording,
    blind_spots,
    campaign,
    covering,
    plan_limits,
    recovery_worker,
    recovery_worker_kills,
    reference_runs,
)
from streamproof.harness.certifying.attempts import Attempt, Passed, StrikesAt
from streamproof.harness.certifying.blind_spots import IN_TURN, IN_TWO_ORDERS
from streamproof.harness.certifying.campaign import Budget, CampaignProgress, Certified
from streamproof.harness.certifying.certificate import PAGE, altered_files, read_certificate
from streamproof.harness.certifying.conclusion import ClaimVerdict, Planned
from streamproof.harness.certifying.crash_states import CopiedFolders, CrashState, NotQuiet
from streamproof.harness.certifying.plan import IN_THE_OTHER_ORDER, How, Victim
from streamproof.harness.certifying.planning import CrashPlan, every_crash_point
from streamproof.harness.certifying.proving import NO_END
from streamproof.harness.certifying.recovering import Crashed
from streamproof.harness.certifying.recovery_worker import GivenUp, RecoveryWorker
from streamproof.harness.certifying.rejudging import judge_certificate
from streamproof.harness.certifying.saved import read_saved, replay_saved
from streamproof.harness.certifying.waiting import AttemptStates, Waiting
from streamproof.harness.certifying.warm_session import PURPOSE, NoSession, WarmPlan
from streamproof.harness.contracts.query import Query, Store
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core import signs
from streamproof.harness.core.addresses import DRIVER, Point, Side
from streamproof.harness.core.errors import (
    DeadlinePassed,
    ExitStatus,
    InvalidOperator,
    InvalidScenario,
    MissingTool,
    OwnFailure,
    ProcessDied,
    RunFolderInUse,
    StreamproofError,
    UnknownName,
    Unsupported,
    UnusablePlace,
    UsersCodeFailed,
)
from streamproof.harness.core.guarantees import (
    EXACTLY_ONCE,
    RECOVERS,
    RECOVERS_WITHIN,
    Guarantee,
    at_least_once,
    exactly_once,
    recovers,
    recovers_within,
)
from streamproof.harness.core.pickling import pickled
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.verdicts import Status, Verdict
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.core.wire import VERSION, BlockingConnection, Greeting
from streamproof.harness.crash_points.inside_python.effects import OutsideEffect
from streamproof.harness.crash_points.inside_python.following import Noted
from streamproof.harness.crash_points.inside_spark.versions import SUPPORTED
from streamproof.harness.crash_points.outside.relay import StoreRelay
from streamproof.harness.install.python_versions import python_versions
from streamproof.harness.install.spark_choice import chosen_version
from streamproof.harness.judging.oracle import Case, Oracle, decide
from streamproof.harness.judging.references import REFERENCES
from streamproof.harness.recording.folder import read_description
from streamproof.harness.recording.history import FaultStruck
from streamproof.harness.recording.records import BatchDone
from streamproof.harness.running.judgement import judge_folder
from streamproof.harness.worlds.spark.queries import what_runs
from streamproof.scenarios.workloads import words
from toy_spark import Does, ToyCluster, ToyDeployment, ToySpark, install, toy
from verdicts_of import RegistryWith

WORKLOAD = words(events=30)
DRIVER_ALONE = every_crash_point("driver", recovering=False, split_brain=False)
AT_ADD_BATCH = StrikesAt(fatal=lambda address: address.point is Point.ADD_BATCH)
BATCHES, POINTS = 5, 10
"""Three batches of ten and two closing ones, each of which passes as many points."""


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path)


@pytest.fixture
def cluster() -> ToyCluster:
    return ToyCluster()


@pytest.fixture
def certify(spark: None, cluster: ToyCluster, tmp_path: Path) -> Callable[..., Certified]:
    def certify(query: Query, *given: Any, **changes: Any) -> Certified:
        facts: dict[str, Any] = {
            "workload": WORKLOAD,
            "cluster": cluster,
            "registry": Registry(),
            "budget": Budget(kills=2),
            "folder": tmp_path / "certificate",
        }
        return campaign.certify(query, *(given or ([exactly_once()],)), **{**facts, **changes})

    return certify


def verdict_on(certified: Certified, guarantee: str) -> ClaimVerdict:
    (verdict,) = (one for one in certified.certificate.verdicts if one.claim.partition(" ")[0] == guarantee)
    return verdict


def status(certified: Certified, guarantee: str = EXACTLY_ONCE) -> Status:
    return verdict_on(certified, guarantee).status


def reasons(certified: Certified, guarantee: str = EXACTLY_ONCE) -> str:
    return "; ".join(verdict_on(certified, guarantee).reasons)


# An oracle of the user's


def of_users(fails: Callable[[FaultStruck], bool]) -> Oracle:
    """One that fails where such a fault has struck, and says else that it holds."""

    def judge(case: Case, guarantee: Guarantee) -> Verdict:
        if any(map(fails, case.history.struck())):
            raise ZeroDivisionError("by hand")
        return decide(case, guarantee, (), "it holds")

    return Oracle("of-users", judge)


def test_an_oracle_of_the_users_that_fails_is_its_mistake_and_leaves_nothing(
    certify: Callable[..., Certified], tmp_path: Path
) -> None:
    failing = RegistryWith(of_users(lambda struck: True))
    with pytest.raises(UsersCodeFailed) as failed:
        certify(toy(Does.BY_ID), [Guarantee("of-users")], DRIVER_ALONE, registry=failing)
    assert failed.value.exit_status is ExitStatus.USER_MISTAKE
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if 'Error("by hand")' in text)
    assert str(failed.value) == (
        "of-users cannot be certified, since on a run with a crash its oracle failed: ZeroDivisionError: by hand "
        f"({__file__}, line {line}); mend that oracle, or claim without it"
    )
    assert not (tmp_path / "certificate").exists()


def test_an_oracle_of_the_users_that_does_not_fail_is_asked_of_every_trial(certify: Callable[..., Certified]) -> None:
    sound = RegistryWith(of_users(lambda struck: False))
    certified = certify(toy(Does.BY_ID), [Guarantee("of-users")], DRIVER_ALONE, registry=sound)
    assert status(certified, "of-users") is Status.HOLDS
    assert judge_certificate(certified.folder, sound.oracles).differences == ()
    again = judge_certificate(certified.folder, RegistryWith(of_users(lambda struck: True)).oracles)
    assert again.exit_status is ExitStatus.USER_MISTAKE
    assert ": of-users is UNKNOWN by its record (its oracle failed: ZeroDivisionError: by" in again.differences[0]


def test_a_violation_that_is_confirmed_outranks_an_oracle_that_fails(certify: Callable[..., Certified]) -> None:
    fails_of_kills = RegistryWith(of_users(lambda struck: bool(struck.bite.gone)))
    claims = [exactly_once(), Guarantee("of-users")]
    certified = certify(toy(Does.APPENDS), claims, DRIVER_ALONE, registry=fails_of_kills)
    assert [status(certified), status(certified, "of-users")] == [Status.VIOLATED, Status.UNKNOWN]
    assert certified.certificate.exit_status is ExitStatus.VIOLATED


# What holds


def test_a_query_that_does_every_batch_once_holds_and_every_crash_was_tried(
    certify: Callable[..., Certified], cluster: ToyCluster
) -> None:
    certified = certify(toy(Does.BY_ID))
    certificate = certified.certificate
    assert status(certified) is Status.HOLDS, reasons(certified)
    assert certificate.exit_status is ExitStatus.HOLDS
    of_driver = [line for line in certificate.plan if line.crash.victim is Victim.DRIVER and not line.split_brain]
    assert sum(not line.crash.recovering for line in of_driver) == BATCHES * POINTS
    assert {line.crash.batch for line in of_driver if line.crash.recovering} == {1}
    assert Counter(line.crash.victim for line in certificate.plan if line.crash.victim is not Victim.DRIVER) == {
        Victim.EXECUTOR: 2,
        Victim.NODE: 2,
    }
    assert sum(line.split_brain for line in certificate.plan) == 3
    assert certificate.batches == {"first": 1, "steady": 3, "last": 1}
    assert all(covered.passed for covered in certificate.coverage)
    assert {trial.how for trial in certificate.trials} == set(How) - {How.POWER_LOSS}
    assert [str(claim) for claim in certificate.claims] == ["exactly-once", "recovers (90 s)"]
    assert status(certified, RECOVERS) is Status.HOLDS, reasons(certified, RECOVERS)
    for bound in certificate.bounds:
        assert bound.why_none == ""
        assert (bound.finished, bound.violations) == (2, 0)


def test_a_certificate_is_what_its_folder_says_and_comes_to_the_same_when_it_is_judged_again(
    certify: Callable[..., Certified],
) -> None:
    certified = certify(toy(Does.BY_ID))
    assert read_certificate(certified.folder) == certified.certificate
    assert list(altered_files(certified.folder, certified.certificate)) == []
    again = judge_certificate(certified.folder, Registry().oracles)
    assert again.differences == ()
    assert {path.name for path in certified.folder.iterdir()} == {
        "certificate.html",
        "certificate.json",
        "certificate.md",
        "points.jsonl",
        "runs",
    }


def test_each_of_its_runs_is_judged_without_the_querys_code(certify: Callable[..., Certified]) -> None:
    certified = certify(toy(Does.APPENDS), workload=WORKLOAD, budget=Budget(kills=0))
    for trial in certified.certificate.trials:
        description, _, judgement = judge_folder(certified.folder / trial.folder, Registry())
        assert description.origin == "appends"
        assert {str(one.guarantee): one.status for one in judgement.verdicts} == trial.verdicts


def test_two_recovery_workers_come_to_what_one_does(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = certify(toy(Does.BY_ID), folder=tmp_path / "one").certificate
    install(monkeypatch, tmp_path, workers=2)
    two = certify(toy(Does.BY_ID), folder=tmp_path / "two").certificate
    assert two.plan == one.plan
    assert two.verdicts == one.verdicts


@pytest.mark.long
def test_what_only_the_first_recovery_worker_can_recover_from_it_does(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    of_driver = every_crash_point("driver", recovering=False, split_brain=False)

    def recoveries(folder: str) -> int:
        certified = certify(
            toy(Does.BY_ID), [exactly_once()], of_driver, budget=Budget(kills=0), folder=tmp_path / folder
        )
        assert status(certified) is Status.HOLDS, reasons(certified)
        return len({trial.folder for trial in certified.certificate.trials})

    wanted = recoveries("one")
    install(monkeypatch, tmp_path, workers=2)
    passed = AttemptStates.passed

    def not_in_the_second(states: AttemptStates, waiting: Waiting) -> Passed | None:
        return passed(states, waiting) if states.attempt.actor != REFERENCES[1] else None

    monkeypatch.setattr(AttemptStates, "passed", not_in_the_second)
    assert recoveries("two") == wanted


def test_plans_that_are_written_at_once_hold_the_code_that_only_this_process_has() -> None:
    module = ModuleType("made_up")
    exec("def double(n):\n    return 2 * n", module.__dict__)
    sys.modules["made_up"] = module
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            bodies = list(pool.map(lambda _: pickled(module.double, "it", [module]), range(400)))
    finally:
        sys.setswitchinterval(before)
        del sys.modules["made_up"]
    assert {pickle.loads(body)(4) for body in bodies} == {8}


@pytest.mark.parametrize("workers", long_but_for([2], [1, 2]))
def test_a_point_that_a_batch_passes_twice_is_recovered_from_both_times(
    workers: int, certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, workers=workers)
    recover, states = covering.recover, []

    def noted(worker: RecoveryWorker, crashed: Crashed, watched: bool = False) -> Attempt:
        states.append(tuple(Path(kept.path).name for kept in crashed.state.files))
        return recover(worker, crashed, watched)

    monkeypatch.setattr(covering, "recover", noted)
    faults = every_crash_point("driver", recovering=False, split_brain=False)
    certified = certify(toy(Does.IN_STEPS), [exactly_once()], faults, budget=Budget(kills=0))
    assert status(certified) is Status.HOLDS, reasons(certified)
    assert any("step-1-0" in state and "step-1-1" not in state for state in states)
    assert len(set(states)) == len(states)
    assert judge_certificate(certified.folder, Registry().oracles).differences == ()


def test_a_point_that_was_not_recovered_from_each_time_is_open(
    certify: Callable[..., Certified], tmp_path: Path
) -> None:
    faults = every_crash_point("driver", recovering=False, split_brain=False)
    # The user's own points come first, in an order that is drawn: sooner or later, one of two times is left.
    for runs in range(1, 19):
        folder = tmp_path / str(runs)
        budget = Budget(runs=runs, kills=0)
        certified = certify(toy(Does.IN_STEPS), [exactly_once()], faults, budget=budget, folder=folder)
        assert status(certified) is Status.UNKNOWN
        if covering.NOT_EACH_TIME in reasons(certified):
            return
    raise AssertionError("no point that is passed twice was left half tried")


def test_crashes_while_it_recovers_that_nothing_was_left_for_leave_it_open(certify: Callable[..., Certified]) -> None:
    certified = certify(toy(Does.BY_ID), budget=Budget(runs=7, kills=0))
    assert status(certified) is Status.UNKNOWN
    assert covering.NO_TIME in reasons(certified)
    more = certified.certificate.more
    assert more is not None
    assert more.planned == len(certified.certificate.coverage)


def test_crash_states_that_wait_until_kills_are_done_are_covered_all_the_same(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "SHARES", (0.0, 0.0))
    certified = certify(toy(Does.BY_ID))
    assert status(certified) is Status.HOLDS, reasons(certified)
    assert certified.certificate.exhausted == ""
    hows = [trial.how for trial in certified.certificate.trials if not trial.sampled]
    assert hows.index(How.CRASH_STATE) > max(hows.index(How.KILL), hows.index(How.SPLIT_BRAIN))


def test_what_a_crash_state_shows_after_the_kills_is_confirmed_by_one_more(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "SHARES", (0.0, 0.0))
    faults = every_crash_point("driver", split_brain=False)
    certified = certify(toy(Does.APPENDS), [exactly_once()], faults, budget=Budget(kills=0))
    assert status(certified) is Status.VIOLATED, reasons(certified)
    assert certified.certificate.counterexample is not None


def test_what_a_cluster_keeps_between_runs_is_no_part_of_the_certificate(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Path] = []

    @contextmanager
    def kept_warm(cluster: ToyCluster, folder: Path) -> Iterator[ToyCluster]:
        kept.append(folder / "cluster")
        kept[0].mkdir(parents=True)
        (kept[0] / "log").touch()
        yield cluster

    monkeypatch.setattr(ToyCluster, "kept_warm", kept_warm)
    certified = certify(toy(Does.BY_ID))
    assert not kept[0].exists()
    assert list(altered_files(certified.folder, certified.certificate)) == []


@pytest.mark.parametrize("python", [True, False])
def test_that_an_executor_dies_with_its_python_workers_is_said_where_they_run_code(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch, python: bool
) -> None:
    monkeypatch.setattr(toy_spark, "BatchDone", lambda *given: BatchDone(*given, python=python))
    certified = certify(toy(Does.BY_ID), budget=Budget(runs=1, kills=0))
    assert (plan_limits.JVM_ALONE in certified.certificate.not_covered) is python


def test_recovery_workers_rest_while_others_are_killed(
    certify: Callable[..., Certified], cluster: ToyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "SHARES", (0.0, 0.0))
    work: list[str] = []
    live, rest, run = RecoveryWorker.live, RecoveryWorker.rest, ToyCluster.deploy

    def noted(what: str, then: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            work.append(what)
            return then(*given, **named)

        return call

    monkeypatch.setattr(RecoveryWorker, "live", noted("lives", live))
    monkeypatch.setattr(RecoveryWorker, "rest", noted("rests", rest))
    monkeypatch.setattr(ToyCluster, "deploy", noted("runs", run))
    assert status(certify(toy(Does.BY_ID), budget=Budget(kills=0))) is Status.HOLDS
    phases = [what for what, before in zip(work, ["", *work], strict=False) if what != before]
    assert phases == ["lives", "rests", "runs", "lives"]


def test_what_crash_states_had_no_time_for_is_said(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "SHARES", (0.0, 0.0))
    monkeypatch.setattr(campaign, "LAST_SHARE", 0.0)
    certified = certify(toy(Does.BY_ID))
    assert status(certified) is Status.UNKNOWN
    assert certified.certificate.exhausted == "minutes: 10, 0% of them for crash states"
    assert [sampled.finished for sampled in certified.certificate.bounds] == [2, 2]
    assert covering.NOT_EACH_TIME not in reasons(certified)


def test_a_recovery_worker_that_fails_ends_the_others_after_what_they_are_at(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, workers=2)
    tried: list[RecoveryWorker] = []

    def fails(worker: RecoveryWorker, crashed: Crashed, watched: bool = False) -> Attempt:
        tried.append(worker)
        raise OwnFailure("the recovery worker is gone")

    monkeypatch.setattr(covering, "recover", fails)
    with pytest.raises(OwnFailure, match="the recovery worker is gone"):
        certify(toy(Does.BY_ID))
    assert 1 <= len(tried) <= 2
    assert not (tmp_path / "certificate").exists()


def test_only_what_is_to_die_dies(certify: Callable[..., Certified], cluster: ToyCluster) -> None:
    certified = certify(toy(Does.BY_ID), [exactly_once()], every_crash_point("node"))
    assert {line.crash.victim for line in certified.certificate.plan} == {Victim.NODE}
    assert {trial.how for trial in certified.certificate.trials} == {How.KILL}
    assert status(certified) is Status.HOLDS, reasons(certified)


def test_a_kill_that_misses_leaves_nothing_else_open(certify: Callable[..., Certified]) -> None:
    certified = certify(
        toy(Does.BY_ID), [exactly_once()], every_crash_point("executor", "node"), cluster=ToyCluster("executor-crash")
    )
    assert "2 of 4 planned crashes came to no verdict: fault 1 did not bite" in reasons(certified)
    open_ones = [covered.planned.crash.victim for covered in certified.certificate.coverage if not covered.passed]
    assert open_ones == [Victim.EXECUTOR, Victim.EXECUTOR]


def test_drawn_kills_that_miss_are_tried_once_more_and_leave_every_claim_open_where_that_misses_too(
    certify: Callable[..., Certified],
) -> None:
    cluster, budget = ToyCluster("crash"), Budget(kills=3)
    certified = certify(toy(Does.BY_ID), [exactly_once()], DRIVER_ALONE, cluster=cluster, budget=budget)
    trials = certified.certificate.trials
    drawn = {one.crashes for one in trials if one.sampled}
    assert drawn
    assert {one.crashes for one in trials if one.how is How.KILL and not one.sampled} == drawn
    assert all(one.missed for one in trials if one.how is How.KILL)
    for verdict, bound in zip(certified.certificate.verdicts, certified.certificate.bounds, strict=True):
        assert verdict.status is Status.UNKNOWN
        assert any("came to no verdict: fault" in reason for reason in verdict.reasons)
        assert (bound.finished, bound.unknown, bound.upper) == (3, 3, 1.0)
    assert judge_certificate(certified.folder, Registry().oracles).differences == ()


def test_a_drawn_kill_from_which_it_does_not_come_back_violates_in_the_bound_too(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "SHARES", (0.0, 0.0))
    monkeypatch.setattr(campaign, "LAST_SHARE", 0.0)
    certified = certify(toy(Does.FAILS_AGAIN), [exactly_once()], DRIVER_ALONE, budget=Budget(kills=3))
    once, back = certified.certificate.bounds
    assert (back.claim, back.finished, back.violations) == ("recovers (90 s)", 3, 3)
    assert (once.finished, once.violations, once.unknown) == (3, 0, 3)
    assert status(certified, RECOVERS) is Status.VIOLATED
    assert status(certified) is Status.UNKNOWN


def test_a_query_with_a_store_outside_is_killed_for_real_alone(
    certify: Callable[..., Certified], cluster: ToyCluster
) -> None:
    query = toy(Does.BY_ID, stores=(Store("postgres", print),))
    certified = certify(query, budget=Budget(kills=4))
    assert How.CRASH_STATE not in {trial.how for trial in certified.certificate.trials}
    assert covering.NEVER_RECOVERING in certified.certificate.not_covered
    of_driver = [line for line in certified.certificate.plan if line.crash.victim is Victim.DRIVER]
    assert {line.crash.batch for line in of_driver if not line.split_brain} == {0, 1, 4}
    assert [line.crash.batch for line in of_driver if line.split_brain] == [1, 3, 1]
    assert certified.certificate.draw is not None
    assert certified.certificate.draw.size == 4


@pytest.mark.parametrize(
    ("does", "shows"),
    [
        (Does.SHARES_ITS_TABLE, r"\d+ rows could be read right after a reset for a run of its own"),
        (Does.EMPTIES_FOR_OTHERS, r"of \d+ rows that a run had left, others had been made once another was reset"),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_query_whose_runs_are_in_one_place_is_refused(
    does: Does,
    shows: str,
    workers: int,
    certify: Callable[..., Certified],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    install(monkeypatch, tmp_path, workers)
    with pytest.raises(InvalidOperator, match=f"not kept apart in its stores: {shows}"):
        certify(toy(does, stores=(Store("postgres", print),)))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_query_whose_read_gives_the_same_for_a_run_that_has_done_nothing_is_refused(
    workers: int, certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It reads what it was told by mistake, or has kept since: what is lost could not show in that."""
    install(monkeypatch, tmp_path, workers)
    with pytest.raises(InvalidOperator, match=r"its read gives the same \d+ rows for a run that has done nothing yet"):
        certify(toy(Does.SHARES_ITS_TABLE))


@contextmanager
def recovery_worker_of(query: Query, folder: Path, name: str) -> Iterator[RecoveryWorker]:
    """One that is ready."""
    with ExitStack() as stack:
        (worker,) = reference_runs.open_recovery_workers(stack, name, query, WORKLOAD, folder / "work", True)
        worker.await_ready()
        yield worker


@pytest.mark.parametrize(
    ("stores", "runs"), [((Store("postgres", print),), [[1, 2], [1]]), ((), [[1, 2, 1]])], ids=["a store", "none"]
)
def test_what_a_run_has_left_outside_under_its_label_is_no_later_runs(
    stores: Sequence[Store], runs: list[list[int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What lies in its folders is put back as it was, with the label that it had."""
    install(monkeypatch, tmp_path)
    called: dict[str, list[int]] = {}
    with recovery_worker_of(toy(Does.BY_ID, stores=stores), tmp_path, "named") as worker:
        for incarnation in (1, 2, 1):
            assert worker.live("driver", "sink", incarnation, watched=False).failure is None
            called.setdefault(worker.folders.label, []).append(incarnation)
            # PostgreSQL cuts off names at 63 bytes.
            assert len(worker.folders.label) <= 16
    assert list(called.values()) == runs


def test_what_a_process_says_last_is_heard_when_it_has_ended(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    hear_late(monkeypatch, recovery_worker, by=0.02)
    certified = certify(toy(Does.BY_ID), budget=Budget(runs=3, kills=0))
    assert not any(trial.reason for trial in certified.certificate.trials)


def test_whoever_watches_is_told_of_every_phase(certify: Callable[..., Certified]) -> None:
    shown: list[CampaignProgress] = []
    certify(toy(Does.BY_ID), show=shown.append)
    phases = list(dict.fromkeys(progress.phase for progress in shown))
    assert phases == [
        "runs without failures",
        "crash states",
        "crashes while recovering",
        "a run without failures on the cluster",
        "kills",
        "split brains",
        "the sample",
    ]
    assert all(0 <= progress.seconds_left <= 60 * Budget().minutes for progress in shown)


# What is violated


def test_what_a_crash_state_and_kills_show_is_violated_with_the_smallest_schedule(
    certify: Callable[..., Certified], cluster: ToyCluster
) -> None:
    certified = certify(toy(Does.APPENDS), origin="my_queries:appends")
    certificate = certified.certificate
    assert status(certified) is Status.VIOLATED
    shown = certificate.counterexample
    assert shown is not None
    (crash,) = shown.crashes
    assert (crash.victim, crash.batch, shown.how) == (Victim.DRIVER, 0, How.KILL)
    assert (shown.events, shown.batch_events, shown.events_before) == (1, 1, 30)
    # Three times as it was found, before it was made smaller, and nothing on the cluster: each claim is violated.
    whole = [trial for trial in certificate.trials if trial.how is How.KILL][:3]
    assert len({trial.crashes for trial in whole}) == 1
    assert all(trial.verdicts[str(exactly_once())] is Status.VIOLATED for trial in whole)
    assert not cluster.runs
    assert (shown.anomaly, shown.violated, shown.repeats) == ("duplicate-effect", 1, 1)
    assert (shown.violated_before, shown.repeats_before) == (3, 3)
    assert '{"seq":1,"when":0}' in shown.wrong
    assert str(certified.folder / "counterexample.json") in shown.command
    assert judge_certificate(certified.folder, Registry().oracles).differences == ()
    assert (certified.folder / shown.folder / "scenario.json").exists()


def test_what_violates_is_saved_and_violates_again_when_it_is_replayed(
    certify: Callable[..., Certified], cluster: ToyCluster, tmp_path: Path
) -> None:
    certified = certify(toy(Does.APPENDS), origin="my_queries:appends")
    saved = read_saved(certified.folder / "counterexample.json")
    assert saved.origin == "my_queries:appends"
    assert certified.certificate.counterexample is not None
    assert certified.certificate.counterexample.command.startswith("streamproof replay ")
    again = replay_saved(saved, toy(Does.APPENDS), WORKLOAD, cluster, Registry(), tmp_path / "again")
    assert [verdict.status for verdict in again.verdicts] == [Status.VIOLATED, Status.HOLDS]
    mended = replay_saved(saved, toy(Does.BY_ID, name="appends"), WORKLOAD, cluster, Registry(), tmp_path / "mended")
    assert {verdict.status for verdict in mended.verdicts} == {Status.HOLDS}


def test_what_the_last_task_of_a_stage_says_is_refuted_where_it_comes_first(
    certify: Callable[..., Certified], cluster: ToyCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = toy(Does.LAST_TASK_SAYS)
    certified = certify(query, [exactly_once()], DRIVER_ALONE, origin="my_queries:parts", budget=Budget(kills=0))
    assert status(certified) is Status.VIOLATED, reasons(certified)
    shown = certified.certificate.counterexample
    assert shown is not None
    assert (shown.how, shown.anomaly, [crash.last_first for crash in shown.crashes]) == (How.KILL, "lost-input", [True])
    # Most of what goes wrong does so in a first batch of one row.
    assert (shown.batch, shown.events, shown.batch_events) == (0, 1, 1)
    assert IN_THE_OTHER_ORDER in (certified.folder / PAGE).read_text()
    assert judge_certificate(certified.folder, Registry().oracles).differences == ()
    saved = read_saved(certified.folder / "counterexample.json")
    monkeypatch.setattr(recovery_worker_kills, "SparkProcesses", ToySpark)
    monkeypatch.setattr(recovery_worker_kills, "fetch_agent", recovery_worker.find_agent)
    again = replay_saved(saved, query, WORKLOAD, cluster, Registry(), tmp_path / "again")
    assert again.verdicts[0].status is Status.VIOLATED
    # As it would be saved of the first order.
    plain = tuple(Planned(msgspec.structs.replace(one.crash, last_first=False)) for one in saved.planned)
    saved = msgspec.structs.replace(saved, planned=plain)
    first = replay_saved(saved, query, WORKLOAD, cluster, Registry(), tmp_path / "first")
    assert first.verdicts[0].status is not Status.VIOLATED


def test_its_twin_holds_in_both_orders_of_its_tasks(certify: Callable[..., Certified]) -> None:
    certified = certify(toy(Does.DRIVER_SAYS), [exactly_once()], DRIVER_ALONE, budget=Budget(kills=0))
    assert status(certified) is Status.HOLDS, reasons(certified)
    assert IN_TWO_ORDERS in certified.certificate.not_covered
    assert IN_TURN not in certified.certificate.not_covered


@pytest.mark.parametrize(
    ("failure", "times", "said"),
    [
        (ProcessDied("an attempt ended with status -9"), 1, ""),
        (DeadlinePassed("the end of the input", 120, "nothing"), 1, ""),
        (InvalidOperator("query failed: OutOfMemoryError"), 1, ""),
        (ProcessDied("an attempt ended with status -9"), 2, "the last time by what is no error of its own: an attempt"),
        (DeadlinePassed("the end of the input", 120, "nothing"), 2, "fails where the tasks of a stage come in the"),
    ],
    ids=["once by the machine", "silent once", "by an error once", "twice by the machine", "silent twice"],
)
def test_the_other_order_is_blamed_for_a_run_that_fails_in_it_only_when_another_has_failed_there(
    failure: StreamproofError, times: int, said: str, certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = RecoveryWorker.live
    left = count(times, -1)

    def fails_first(worker: RecoveryWorker, actor: str, *given: Any, **more: Any) -> Attempt:
        attempt = live(worker, actor, *given, **more)
        if actor == REFERENCES[1] and more.get("last_first") and next(left) > 0:
            attempt.failure = failure
            attempt.silent = 10**6 if isinstance(failure, DeadlinePassed) else None
        return attempt

    monkeypatch.setattr(RecoveryWorker, "live", fails_first)
    certified = certify(toy(Does.DRIVER_SAYS), [exactly_once()], DRIVER_ALONE, budget=Budget(kills=0))
    assert status(certified) is (Status.UNKNOWN if said else Status.HOLDS), reasons(certified)
    blamed = [one.why for one in certified.certificate.not_reached if one.planned.crash.last_first]
    assert bool(blamed) is bool(said)
    assert all(said in one for one in blamed)


def test_where_no_stage_has_several_tasks_nothing_is_tried_in_another_order(certify: Callable[..., Certified]) -> None:
    certificate = certify(toy(Does.BY_ID)).certificate
    assert not any(line.crash.last_first for line in certificate.plan)


def test_a_query_without_a_name_is_replayed_in_a_test(certify: Callable[..., Certified]) -> None:
    shown = certify(toy(Does.APPENDS)).certificate.counterexample
    assert shown is not None
    assert shown.command.startswith("# in a test: streamproof.survives(")


@pytest.mark.long
def test_a_library_in_java_may_remember_what_a_crash_forgets(certify: Callable[..., Certified], tmp_path: Path) -> None:
    one, other = (
        certify(toy(Does.BY_ID, jars=jars), folder=tmp_path / str(len(jars))).certificate
        for jars in ((), ("upload.jar",))
    )
    assert campaign.IN_THE_JVM not in one.not_covered
    assert campaign.IN_THE_JVM in other.not_covered


def test_what_any_restart_shows_in_a_new_jvm_alone_is_found_before_crash_states_are_tried(
    certify: Callable[..., Certified], cluster: ToyCluster
) -> None:
    certified = certify(toy(Does.NUMBERS_ANEW, jars=("upload.jar",)))
    assert status(certified) is Status.VIOLATED
    shown = certified.certificate.counterexample
    assert shown is not None
    (crash,) = shown.crashes
    assert (crash.point, crash.side, crash.batch, shown.how) == (Point.COMMIT_LOG, Side.AFTER, 0, How.KILL)
    assert shown.anomaly == "lost-input"
    assert {trial.how for trial in certified.certificate.trials} == {How.KILL}
    assert not cluster.runs


def test_so_is_what_a_batch_shows_that_is_done_again_in_a_new_jvm_alone(
    certify: Callable[..., Certified], cluster: ToyCluster
) -> None:
    certified = certify(toy(Does.REMEMBERS, jars=("upload.jar",)))
    assert status(certified) is Status.VIOLATED
    shown = certified.certificate.counterexample
    assert shown is not None
    (crash,) = shown.crashes
    assert (crash.point, crash.side, shown.how) == (Point.ADD_BATCH, Side.AFTER, How.KILL)
    assert shown.anomaly == "duplicate-effect"
    assert {trial.how for trial in certified.certificate.trials} == {How.KILL}
    assert not cluster.runs


def test_a_session_that_comes_up_slowly_is_waited_for_where_the_machine_is_busy(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    come_up = toy_spark._session

    def slowly(*given: Any) -> None:
        time.sleep(0.2)
        come_up(*given)

    monkeypatch.setattr(toy_spark, "_session", slowly)
    monkeypatch.setattr(recovery_worker, "READY_SECONDS", 0.1)
    monkeypatch.setattr(signs, "share_of_machine", lambda: 0.1)
    assert certify(toy(Does.BY_ID), budget=Budget(runs=1)).certificate.trials


@pytest.mark.parametrize(
    ("said", "logged", "error"),
    [
        ('The value abc in the config "spark.sql.shuffle.partitions" is invalid', "", InvalidOperator),
        ("ClassNotFoundException: acme.Plugin", "", InvalidOperator),
        ("Java gateway process exited", "Invalid maximum heap size: -Xmx1x", InvalidOperator),
        ("BindException: Address already in use", "", ProcessDied),
        ("BindException: Address already in use", 'Setting default log level to "WARN".', ProcessDied),
        ("BindException: Address already in use", "26/01/01 10:00:00 WARN Utils: no port", ProcessDied),
        ("Java gateway process exited", "at java.net.Net.bind", ProcessDied),
    ],
)
def test_a_session_that_a_setting_of_the_query_keeps_from_starting_is_the_users_mistake(
    said: str,
    logged: str,
    error: type[StreamproofError],
    certify: Callable[..., Certified],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(process: Any, path: str) -> None:
        process.stderr.write_text(logged)
        plan = msgspec.json.decode(Path(path).read_bytes(), type=WarmPlan)
        harness = BlockingConnection(plan.harness, Greeting(VERSION, plan.token, PURPOSE, plan.node))
        harness.send(NoSession(said))
        raise ProcessDied(said)

    monkeypatch.setattr(toy_spark, "_session", none)
    settings = {"spark.sql.shuffle.partitions": "abc", "spark.plugins": "acme.Plugin", "spark.x": "1"}
    settings |= {"spark.driver.memory": "1x", "spark.log.level": "WARN", "spark.y": "net"}

    with pytest.raises(error, match=re.escape(said)) as raised:
        certify(replace(toy(Does.BY_ID), settings=settings))
    assert logged in str(raised.value)


def test_who_interrupts_the_runs_without_failures_waits_for_none_of_them(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, workers=2)
    begun, ended, live = threading.Barrier(3), [], RecoveryWorker._live

    def noted(*given: Any) -> Attempt:
        begun.wait(60)
        try:
            return live(*given)
        except BaseException as error:
            ended.append(type(error))
            raise

    def interrupt() -> None:
        begun.wait(60)
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)

    monkeypatch.setattr(RecoveryWorker, "_live", noted)
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        certify(toy(Does.NEVER_ENDS))
    interrupting.join()
    assert ended == [GivenUp, GivenUp]


def test_a_recovery_worker_that_is_left_ends_the_attempt_of_another_thread_before_its_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path)
    ended: list[BaseException] = []

    def live(worker: RecoveryWorker) -> None:
        try:
            worker.live("first", "first", 1, watched=True)
        except BaseException as error:
            ended.append(error)

    with recovery_worker_of(toy(Does.NEVER_ENDS), tmp_path, "left") as worker:
        living = threading.Thread(target=live, args=(worker,))
        living.start()
        wait_until(lambda: worker._current.attempt is not None, 30, "an attempt that has begun")
    living.join()
    assert [type(error) for error in ended] == [GivenUp]


def test_a_spare_session_takes_the_place_of_one_that_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path)
    with recovery_worker_of(toy(Does.BY_ID), tmp_path, "spare") as worker:
        first = worker._session
        worker.keep_spare()
        spare = worker._spare
        assert spare is not None
        attempt = worker.live(DRIVER, "sink", 1, watched=True, struck=AT_ADD_BATCH)
        assert attempt.death is not None
        assert not first.lives
        assert (worker._session, worker._spare) == (spare, None)
        assert worker.live(DRIVER, "sink", 2, watched=False).ended
        worker.keep_spare()
        worker.rest()
        assert not spare.lives
        assert worker._spare is None


def test_no_spare_session_is_kept_of_a_query_that_brings_libraries(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path)
    with recovery_worker_of(toy(Does.BY_ID, jars=("upload.jar",)), tmp_path, "jars") as worker:
        worker.keep_spare()
        assert worker._spare is None


@pytest.mark.parametrize("memory", [1 << 30, 8 << 30])
def test_a_spare_session_that_died_or_has_no_memory_is_one_that_was_not_there(
    memory: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path)
    monkeypatch.setattr(recovery_worker, "virtual_memory", lambda: SimpleNamespace(available=memory))
    with recovery_worker_of(toy(Does.BY_ID), tmp_path, "none") as worker:
        worker.keep_spare()
        spare = worker._spare
        assert (spare is None) == (memory < 2 << 30)
        if spare is not None:
            worker._processes.kill_node(spare.name)
        attempt = worker.live(DRIVER, "sink", 1, watched=True, struck=AT_ADD_BATCH)
        assert attempt.death is not None
        assert worker._session is not spare
        assert worker.live(DRIVER, "sink", 2, watched=False).ended


def test_a_session_that_did_not_come_up_is_started_again_for_the_next_attempt(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    start_anew = RecoveryWorker._start_anew
    started = count()

    def not_the_first_time(worker: RecoveryWorker) -> None:
        start_anew(worker)
        if not next(started):
            worker._gateways.clear()
            raise DeadlinePassed("a warm session", 90, "nothing of it")

    monkeypatch.setattr(RecoveryWorker, "_start_anew", not_the_first_time)
    certificate = certify(toy(Does.BY_ID, jars=("upload.jar",)), budget=Budget(runs=3)).certificate
    assert any(line.why.startswith("waited 90") for line in certificate.not_reached), certificate.not_reached
    assert certificate.trials


def test_what_only_crash_states_show_is_not_known(certify: Callable[..., Certified]) -> None:
    certified = certify(toy(Does.APPENDS_IN_RECOVERY_WORKERS))
    assert status(certified) is Status.UNKNOWN
    assert "a crash state shows a violation" in reasons(certified)
    assert "not confirmed by a kill" in reasons(certified)
    assert certified.certificate.counterexample is None
    assert not (certified.folder / "counterexample.json").exists()
    wrong = [trial for trial in certified.certificate.trials if trial.verdicts["exactly-once"] is Status.VIOLATED]
    assert {trial.how for trial in wrong} == {How.CRASH_STATE}
    # It was tried for real at each of the points that show it.
    at = {(crash.point, crash.side) for trial in wrong for crash in trial.crashes if len(trial.crashes) == 1}
    killed = {
        (trial.crashes[0].point, trial.crashes[0].side)
        for trial in certified.certificate.trials
        if trial.how is How.KILL
    }
    assert at == {
        (Point.TASK_COMMIT, Side.AFTER),
        (Point.ADD_BATCH, Side.AFTER),
        (Point.COMMIT_LOG, Side.BEFORE),
    }
    assert at <= killed


# What is not known


def test_runs_without_failures_that_disagree_are_shown_and_nothing_is_killed(
    certify: Callable[..., Certified], cluster: ToyCluster
) -> None:
    certified = certify(toy(Does.ASKS_THE_CLOCK))
    certificate = certified.certificate
    assert status(certified) is Status.UNKNOWN
    assert "two runs without failures disagree on" in certificate.unjudgeable
    assert '{"seq":1,"when":' in certificate.unjudgeable
    assert (certificate.plan, certificate.trials, cluster.runs) == ((), (), [])


def test_what_a_query_keeps_outside_of_its_folders_is_named_where_the_next_run_gives_something_else(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    announce = toy_spark.announce

    def and_elsewhere(told: str, point: Point, side: Side, key: str) -> None:
        announce(told, point, side, key)
        if point is Point.ADD_BATCH and side is Side.BEFORE:
            toy_spark.say(told, "elsewhere file:/home/me/last-batch/part-0")

    monkeypatch.setattr(toy_spark, "announce", and_elsewhere)
    certified = certify(toy(Does.ASKS_THE_CLOCK), [exactly_once()], DRIVER_ALONE)
    assert status(certified) is Status.UNKNOWN
    assert "two runs without failures disagree on" in reasons(certified)
    assert "outside of the run's folders" in reasons(certified)
    assert "file /home/me/last-batch (Spark's JVM, " in reasons(certified)


def test_a_query_that_fails_each_time_it_is_started_again_does_not_recover_and_says_with_what(
    certify: Callable[..., Certified],
) -> None:
    certified = certify(toy(Does.FAILS_AGAIN), [exactly_once()], DRIVER_ALONE, origin="my_queries:fails_again")
    assert status(certified) is Status.UNKNOWN
    assert "the query did not recover: query 'fails-again' failed: ValueError: not this one" in reasons(certified)
    assert status(certified, RECOVERS) is Status.VIOLATED
    shown = certified.certificate.counterexample
    assert shown is not None
    assert (shown.claim, shown.anomaly, shown.how) == ("recovers (90 s)", "crash-loop", How.KILL)
    assert "3 times in a row: query 'fails-again' failed: ValueError: not this one" in shown.wrong
    assert judge_certificate(certified.folder, Registry().oracles).differences == ()


def test_a_query_that_fails_once_when_it_is_started_again_is_back(certify: Callable[..., Certified]) -> None:
    certified = certify(toy(Does.FAILS_ONCE_AGAIN), [exactly_once()], DRIVER_ALONE, budget=Budget(kills=2))
    assert [verdict.status for verdict in certified.certificate.verdicts] == [Status.HOLDS, Status.HOLDS]
    assert judge_certificate(certified.folder, Registry().oracles).differences == ()


def test_crashes_while_it_recovers_that_could_not_be_planned_leave_it_open(
    certify: Callable[..., Certified],
) -> None:
    faults = every_crash_point("driver", split_brain=False)
    certified = certify(toy(Does.FAILS_ONCE_AGAIN), [exactly_once()], faults, budget=Budget(kills=0))
    assert covering.NO_RECOVERY in reasons(certified)
    assert [verdict.status for verdict in certified.certificate.verdicts] == [Status.UNKNOWN, Status.UNKNOWN]


def test_a_crash_loop_at_one_point_is_violated_and_no_other_claim_holds(certify: Callable[..., Certified]) -> None:
    certified = certify(toy(Does.LOOPS_AT_ITS_HALF_WRITTEN_FILE), [exactly_once()], DRIVER_ALONE)
    assert status(certified, RECOVERS) is Status.VIOLATED
    assert status(certified) is Status.UNKNOWN
    assert "FileExistsError: half-" in reasons(certified)
    verdict = verdict_on(certified, RECOVERS)
    assert verdict.violated == verdict.repeats >= 3
    shown = certified.certificate.counterexample
    assert shown is not None
    assert (shown.anomaly, shown.crashes[0].point) == ("crash-loop", Point.USER)
    assert "FileExistsError: half-" in (certified.folder / "certificate.md").read_text()
    assert judge_certificate(certified.folder, Registry().oracles).differences == ()


def test_a_stall_at_one_point_is_violated_and_no_other_claim_holds(certify: Callable[..., Certified]) -> None:
    claims = [exactly_once(), recovers(seconds(2))]
    certified = certify(toy(Does.HANGS_AT_ITS_HALF_WRITTEN_FILE), claims, DRIVER_ALONE, workload=words(events=1))
    assert status(certified, RECOVERS) is Status.VIOLATED
    assert status(certified) is Status.UNKNOWN
    shown = certified.certificate.counterexample
    assert shown is not None
    assert (shown.claim, shown.anomaly, shown.crashes[0].point) == ("recovers (2 s)", "stall", Point.USER)
    assert judge_certificate(certified.folder, Registry().oracles).differences == ()


@pytest.mark.long
def test_a_stall_that_only_a_crash_state_shows_leaves_every_claim_open(certify: Callable[..., Certified]) -> None:
    claims = [exactly_once(), recovers(seconds(2))]
    budget = Budget(kills=0)
    certified = certify(
        toy(Does.HANGS_IN_RECOVERY_WORKERS), claims, DRIVER_ALONE, workload=words(events=1), budget=budget
    )
    assert [verdict.status for verdict in certified.certificate.verdicts] == [Status.UNKNOWN, Status.UNKNOWN]
    assert re.search(r"not confirmed by a kill: \d real kills? there did not show it", reasons(certified, RECOVERS))
    assert "the query did not recover: waited 2 s" in reasons(certified)


def test_a_crash_state_that_could_not_be_taken_is_said_and_leaves_every_claim_open(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, taken = CopiedFolders.capture, count()

    def one_fails(store: CopiedFolders) -> CrashState:
        if next(taken) == 5:
            raise NotQuiet("somebody wrote to /sink while its crash state was taken")
        return capture(store)

    monkeypatch.setattr(CopiedFolders, "capture", one_fails)
    certified = certify(toy(Does.BY_ID), [exactly_once()], DRIVER_ALONE, budget=Budget(kills=2))
    certificate = certified.certificate
    assert len(certificate.plan) == BATCHES * POINTS
    (missed,) = certificate.not_reached
    assert missed.why == "somebody wrote to /sink while its crash state was taken"
    assert missed.planned in certificate.plan
    for verdict in certificate.verdicts:
        assert verdict.status is Status.UNKNOWN
        assert f"1 of {BATCHES * POINTS} planned crashes were not reached: {missed.why}" in verdict.reasons
    assert missed.why in (certified.folder / "certificate.md").read_text()


def test_a_crash_state_of_a_recovery_that_could_not_be_taken_is_said(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, of_a_reference = CopiedFolders.capture, BATCHES * POINTS
    of_dying_twice = (BATCHES - 1) * POINTS

    taken = count()

    def one_fails(store: CopiedFolders) -> CrashState:
        # Two reference runs come first, and a recovery in which it is to die just where it has died before.
        if next(taken) == 2 * of_a_reference + of_dying_twice + 2:
            raise NotQuiet("somebody wrote to /sink while its crash state was taken")
        return capture(store)

    monkeypatch.setattr(CopiedFolders, "capture", one_fails)
    faults = every_crash_point("driver", split_brain=False)
    certified = certify(toy(Does.BY_ID), [exactly_once()], faults, budget=Budget(kills=0))
    (missed,) = certified.certificate.not_reached
    assert missed.planned.crash.recovering
    assert [verdict.status for verdict in certified.certificate.verdicts] == [Status.UNKNOWN, Status.UNKNOWN]


def test_a_run_on_the_cluster_that_does_not_come_to_its_end_without_failures_leaves_nothing_to_judge(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ToyDeployment, "drained", lambda deployment, deadline: False)
    monkeypatch.setattr(ToyDeployment, "waiting_for", lambda deployment: "nothing comes")
    certified = certify(toy(Does.BY_ID))
    assert f"{NO_END}: stall: nothing comes" in certified.certificate.unjudgeable
    assert {verdict.status for verdict in certified.certificate.verdicts} == {Status.UNKNOWN}


def test_a_budget_of_runs_keeps_some_for_kills(certify: Callable[..., Certified]) -> None:
    certified = certify(toy(Does.BY_ID), budget=Budget(runs=8, kills=2))
    hows = {trial.folder: trial.how for trial in certified.certificate.trials}
    assert Counter(hows.values())[How.CRASH_STATE] == 6
    assert {How.KILL, How.SPLIT_BRAIN} <= set(hows.values())


def test_a_sample_that_does_not_fit_is_made_smaller_and_bounds_something_all_the_same(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(affording, "KILL", 100.0)
    certified = certify(toy(Does.BY_ID), budget=Budget(kills=50)).certificate
    assert certified.draw is not None
    assert certified.draw.size == 4
    assert [(bound.finished, bound.why_none) for bound in certified.bounds] == [(4, ""), (4, "")]
    assert "More random kills: 50 were asked for, and 4 drawn" in certified.not_covered[0]


@pytest.mark.long
def test_a_sample_of_which_not_one_fits_is_not_drawn(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(affording, "KILL", 1000.0)
    certified = certify(toy(Does.BY_ID), budget=Budget(kills=50)).certificate
    assert certified.draw is None
    assert "50 were asked for, and not one fits" in certified.not_covered[0]
    assert {verdict.status for verdict in certified.verdicts} == {Status.HOLDS}


@pytest.mark.parametrize("runs", [1, 7])
def test_a_budget_of_runs_ends_it_and_says_what_was_not_tried(certify: Callable[..., Certified], runs: int) -> None:
    certified = certify(toy(Does.BY_ID), budget=Budget(runs=runs, kills=0))
    assert status(certified) is Status.UNKNOWN
    assert certified.certificate.exhausted == f"runs: {runs}"
    assert f"not tried: runs: {runs}" in reasons(certified)
    assert len({trial.folder for trial in certified.certificate.trials}) == runs


def test_a_budget_of_next_to_no_time_is_too_small_to_say_anything(certify: Callable[..., Certified]) -> None:
    certified = certify(toy(Does.BY_ID), budget=Budget(minutes=1e-6))
    assert status(certified) is Status.UNKNOWN
    assert "the budget is too small to say anything" in reasons(certified)
    assert certified.certificate.exhausted == "minutes: 1e-06"
    assert certified.certificate.trials == ()


def test_where_nothing_that_can_die_is_there_nothing_is_known(certify: Callable[..., Certified]) -> None:
    certified = certify(toy(Does.BY_ID), [exactly_once()], every_crash_point("python"))
    assert status(certified) is Status.UNKNOWN
    assert "no crash was planned" in reasons(certified)


def test_without_the_agent_it_falls_back_on_its_own_source_and_says_so(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_agent() -> Path:
        raise MissingTool("it could not be fetched: connect this machine to a network")

    monkeypatch.setattr(blind_spots, "fetch_agent", no_agent)
    certified = certify(toy(Does.BY_ID))
    assert {line.crash.point for line in certified.certificate.plan} == {Point.SOURCE_COMMIT}
    (said,) = (one for one in certified.certificate.not_covered if "agent" in one)
    assert "connect this machine to a network" in said
    assert said in (certified.folder / "certificate.md").read_text()
    assert status(certified) is Status.HOLDS, reasons(certified)


# What cannot be certified


@pytest.mark.parametrize(
    ("query", "error", "said"),
    [
        (toy(Does.FAILS), InvalidOperator, r"query 'fails' failed: ValueError: not this one"),
        (toy(Does.READ_FAILS), InvalidOperator, r"query 'read-fails': read failed: FileNotFoundError"),
        (toy(Does.DIES), InvalidOperator, r"query 'dies': its process ended with status 139; its log ends:\nSegmen"),
        (replace(toy(Does.BY_ID), read=(n for n in "ab").__next__), InvalidOperator, r"cannot be sent to Spark"),
    ],
)
def test_a_query_that_fails_without_any_fault_is_no_violation_and_leaves_nothing(
    certify: Callable[..., Certified], query: Query, error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said):
        certify(query)
    assert not (tmp_path / "certificate").exists()


def test_a_query_that_fails_without_any_fault_is_told_what_its_two_runs_share(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    live = RecoveryWorker.live

    def noting(worker: RecoveryWorker, *arguments: Any, **more: Any) -> Attempt:
        attempt = live(worker, *arguments, **more)
        draft = OutsideEffect("file", "/var/tmp/draft", "sinks.write:17", passing=True)
        attempt.noted.append(Noted((draft, OutsideEffect("thread", "sinks.work", "sinks.work:9"))))
        return attempt

    monkeypatch.setattr(RecoveryWorker, "live", noting)
    with pytest.raises(InvalidOperator, match=r"not this one(.*\n)+.*: file /var/tmp/draft \(sinks.write:17\)\."):
        certify(toy(Does.FAILS))


@pytest.mark.parametrize(
    ("passing", "in_recoveries_alone"), [(True, False), (False, True)], ids=["called-by-its-folder", "after-a-crash"]
)
def test_what_a_recovery_that_is_watched_does_outside_leaves_it_open(
    certify: Callable[..., Certified],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    passing: bool,
    in_recoveries_alone: bool,
) -> None:
    """A file that is there for a while goes by another name in each worker's folders, and by the same in a recovery."""
    install(monkeypatch, tmp_path, workers=2)
    live = RecoveryWorker.live

    def noting(worker: RecoveryWorker, *given: Any, **more: Any) -> Attempt:
        attempt = live(worker, *given, **more)
        watched = more.get("watched", (*given, False)[3])
        if watched and not (in_recoveries_alone and attempt.actor in REFERENCES):
            busy = OutsideEffect("file", f"/var/tmp/busy-{worker.name}", "sinks.write:17", passing=passing)
            attempt.noted.append(Noted((busy,)))
        return attempt

    monkeypatch.setattr(RecoveryWorker, "live", noting)
    certified = certify(toy(Does.BY_ID), [exactly_once()], every_crash_point("driver", split_brain=False))
    assert status(certified) is Status.UNKNOWN
    assert "file /var/tmp/busy-worker-0 (sinks.write:17" in reasons(certified)


def test_what_a_query_said_before_it_died_counts_however_late_it_is_heard(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    hear_late(monkeypatch, recovery_worker, by=0.2)
    with pytest.raises(InvalidOperator, match=r"query 'dies': its process ended with status 139"):
        certify(toy(Does.DIES))


def test_a_stream_that_never_ends_is_the_querys_own_mistake(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(reference_runs, "ATTEMPT_SECONDS", 0.3)
    with pytest.raises(InvalidOperator, match=r"does not come to the end of its input without any fault: waited 0.3 s"):
        certify(toy(Does.NEVER_ENDS))
    assert not (tmp_path / "certificate").exists()


def test_what_was_there_before_an_error_is_there_after_it(certify: Callable[..., Certified], tmp_path: Path) -> None:
    folder = tmp_path / "certificate"
    folder.mkdir()
    with pytest.raises(InvalidOperator):
        certify(toy(Does.FAILS))
    assert list(folder.iterdir()) == []


def test_who_interrupts_it_before_anything_was_tried_finds_nothing_half_done(
    certify: Callable[..., Certified], tmp_path: Path
) -> None:
    def interrupt(progress: CampaignProgress) -> None:
        if progress.phase == "crash states":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        certify(toy(Does.BY_ID), show=interrupt)
    assert not (tmp_path / "certificate").exists()


@pytest.mark.parametrize("file", [False, True])
def test_a_folder_that_holds_something_is_left_alone(
    file: bool, certify: Callable[..., Certified], tmp_path: Path
) -> None:
    folder = tmp_path / "certificate"
    if file:
        folder.write_text("mine")
    else:
        folder.mkdir()
        (folder / "mine").touch()
    with pytest.raises(RunFolderInUse, match="is not empty"):
        certify(toy(Does.BY_ID))
    assert (folder.read_text() == "mine") if file else (folder / "mine").exists()


def test_a_folder_that_cannot_be_made_is_no_failure_of_ours(certify: Callable[..., Certified], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnusablePlace, match="Not a directory; name another folder"):
        certify(toy(Does.BY_ID), folder=tmp_path / "file" / "certificate")


def test_a_point_that_the_user_has_named_and_nothing_passes_leaves_it_open(certify: Callable[..., Certified]) -> None:
    hooks = {"flushed": "com.acme.Upload.flsh"}
    certified = certify(toy(Does.BY_ID, hooks=hooks), [exactly_once()], every_crash_point("node"))
    assert status(certified) is Status.UNKNOWN
    assert "no batch of a run without failures calls com.acme.Upload.flsh" in reasons(certified)


def test_points_that_no_batch_came_to_are_said_not_to_be_covered(certify: Callable[..., Certified]) -> None:
    certified = certify(toy(Does.BY_ID), budget=Budget(runs=3, kills=0))
    (said,) = (one for one in certified.certificate.not_covered if one.startswith("Kinds of crash points"))
    assert "job-commit, " in said
    assert "state-commit, " in said
    for passed in ("offset-log", "add-batch", "task-commit", "source-commit"):
        assert passed not in said
    assert said in (certified.folder / "certificate.md").read_text()


@pytest.mark.parametrize(("settings", "left_out"), [({}, True), ({campaign.EMPTY_ON_START: "true"}, False)])
def test_a_checkpoint_that_sparks_own_check_refuses_is_left_out_unless_the_query_has_it_look(
    certify: Callable[..., Certified], settings: dict[str, str], left_out: bool
) -> None:
    certified = certify(toy(Does.BY_ID, settings=settings), budget=Budget(runs=1, kills=0))
    assert (campaign.FIRST_ENTRY in certified.certificate.not_covered) is left_out


def test_a_point_of_every_batch_whose_rule_never_fires_leaves_it_open(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    announce = toy_spark.announce

    def all_but_commits(told: str, point: Point, side: Side, key: str) -> None:
        if point is not Point.COMMIT_LOG:
            announce(told, point, side, key)

    monkeypatch.setattr(toy_spark, "announce", all_but_commits)
    certified = certify(toy(Does.BY_ID), [exactly_once()], DRIVER_ALONE, budget=Budget(kills=0))
    assert status(certified) is Status.UNKNOWN
    assert "every batch has it: its rule does not fire on Spark 4.3" in reasons(certified)
    assert "commit-log" in (certified.folder / "certificate.md").read_text()


@pytest.mark.parametrize(("number", "says"), [("4.1", True), ("4.2", False)])
def test_without_the_agent_the_points_of_a_source_in_java_are_said_to_be_missing(
    number: str, says: bool, certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise MissingTool("it could not be fetched")

    monkeypatch.setattr(blind_spots, "fetch_agent", missing)
    # A recovery worker of threads has no use for a jar.
    known = replace(SUPPORTED[number], source_in_java=False)
    for module in (blind_spots, reference_runs):
        monkeypatch.setattr(module, "supported", lambda version: known)
    said = certify(toy(Does.BY_ID), budget=Budget(runs=1, kills=0)).certificate.not_covered
    of_source = "those of streamproof's source (source-commit, source-latest, source-partitions), which Spark 4.1 needs"
    assert any(of_source in one for one in said) is says
    assert any("the agent is missing: it could not be fetched" in one for one in said)


@pytest.mark.parametrize(("accepts", "wanted"), [((), Status.UNKNOWN), (("file /data/*",), Status.HOLDS)])
def test_what_the_jvm_writes_outside_of_the_runs_folders_lets_nothing_hold(
    accepts: tuple[str, ...],
    wanted: Status,
    certify: Callable[..., Certified],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    announce = toy_spark.announce

    def and_elsewhere(told: str, point: Point, side: Side, key: str) -> None:
        announce(told, point, side, key)
        if point is Point.ADD_BATCH and side is Side.BEFORE:
            # One file system hands on to another, and what is renamed in the end has been written before.
            for _ in range(2):
                toy_spark.say(told, f"elsewhere file:/data/out/batch={key}/_temporary/0/part-0")
            toy_spark.say(told, f"elsewhere file:/data/out/batch={key}/part-0")

    monkeypatch.setattr(toy_spark, "announce", and_elsewhere)
    certified = certify(toy(Does.BY_ID, accepts=accepts), [exactly_once()], DRIVER_ALONE, budget=Budget(kills=0))
    assert status(certified) is wanted, reasons(certified)
    uncut = certified.certificate.uncut
    assert [(one.name, one.place, one.times) for one in uncut[:2]] == [
        ("file /data/out/batch=0", "Spark's JVM", 2),
        ("file /data/out/batch=1", "Spark's JVM", 2),
    ]


@pytest.mark.parametrize(("accepts", "wanted"), [((), Status.UNKNOWN), (("connection broker:9092",), Status.HOLDS)])
def test_so_does_a_connection_that_the_jvm_keeps_to_a_store_of_which_the_query_says_nothing(
    accepts: tuple[str, ...],
    wanted: Status,
    certify: Callable[..., Certified],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recovery_worker, "peers_of_jvms", lambda session, ours: {"broker:9092"})
    certified = certify(toy(Does.BY_ID, accepts=accepts), [exactly_once()], DRIVER_ALONE, budget=Budget(kills=0))
    assert status(certified) is wanted, reasons(certified)
    assert [(one.name, one.place, one.times) for one in certified.certificate.uncut[:1]] == [
        ("connection broker:9092", "Spark's JVM", 1)
    ]


@pytest.mark.parametrize(("port", "wanted"), [(4111, Status.HOLDS), (5432, Status.UNKNOWN)])
def test_a_database_that_the_jvm_reaches_by_way_of_the_harness_is_none_of_these(
    port: int, wanted: Status, certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    announce = toy_spark.announce

    def and_by_jdbc(told: str, point: Point, side: Side, key: str) -> None:
        announce(told, point, side, key)
        if point is Point.ADD_BATCH and side is Side.BEFORE:
            toy_spark.say(told, f"elsewhere jdbc:postgresql://127.0.0.2:{port}/rows")

    class Relay(StoreRelay):
        def __init__(self, *of: Any) -> None:
            super().__init__(*of)
            self.places.add("127.0.0.2:4111")

    monkeypatch.setattr(toy_spark, "announce", and_by_jdbc)
    monkeypatch.setattr(recovery_worker, "StoreRelay", Relay)
    certified = certify(toy(Does.BY_ID), [exactly_once()], DRIVER_ALONE, budget=Budget(kills=0))
    assert status(certified) is wanted, reasons(certified)


@pytest.mark.parametrize(
    ("does", "dies"),
    [
        pytest.param(Does.GIVES_UP, ("begun", "begun"), marks=pytest.mark.long),
        pytest.param(Does.REPAIRS_BY_WRITING_AGAIN, ("begun", "removed"), marks=pytest.mark.long),
        (Does.NAMES_ALL_ANEW, ("written", "removed")),
    ],
)
def test_a_query_that_does_wrong_only_when_it_dies_twice_in_a_batch_is_refuted(
    does: Does, dies: tuple[str, str], certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = covering.Covering.plan

    def and_nothing_else(made: Any, *given: Any) -> None:
        plan(made, *given)
        made._waiting, made._recovery = [], None

    # Nothing else shows it, and takes its time.
    monkeypatch.setattr(covering.Covering, "plan", and_nothing_else)
    faults = every_crash_point("driver", split_brain=False)
    certified = certify(toy(does), [exactly_once()], faults, workload=words(events=20), budget=Budget(kills=0))
    assert status(certified) is Status.VIOLATED, reasons(certified)
    shown = certified.certificate.counterexample
    assert shown is not None
    assert [(one.point, one.key, one.recovering) for one in shown.crashes] == [
        (Point.USER, f"1/{dies[0]}", False),
        (Point.USER, f"1/{dies[1]}", True),
    ]
    assert judge_certificate(certified.folder, Registry().oracles).differences == ()


@pytest.mark.parametrize(
    "does", long_but_for([Does.GIVES_UP], [Does.GIVES_UP, Does.REPAIRS_BY_WRITING_AGAIN, Does.NAMES_ALL_ANEW])
)
def test_however_small_the_budget_what_was_left_of_second_crashes_in_a_batch_lets_nothing_hold(
    does: Does, certify: Callable[..., Certified], tmp_path: Path
) -> None:
    faults = every_crash_point("driver", split_brain=False)
    found = []
    for runs in range(4, 40, 3):
        certified = certify(
            toy(does),
            [exactly_once()],
            faults,
            workload=words(events=10),
            budget=Budget(runs=runs, kills=0),
            folder=tmp_path / f"runs-{runs}",
        )
        found.append(status(certified))
        if status(certified) is not Status.UNKNOWN:
            break
        assert certified.certificate.more is not None
    assert found[-1] is Status.VIOLATED


@pytest.mark.long
def test_second_crashes_in_a_batch_that_no_time_was_left_for_are_tried_where_it_goes_on(
    certify: Callable[..., Certified], cluster: ToyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cover = covering.Covering.cover

    def no_time_for_them(made: Any, *given: Any) -> Any:
        made._half_done, half_done = [], made._half_done
        shown = cover(made, *given)
        made._half_done = half_done
        return shown

    monkeypatch.setattr(covering.Covering, "cover", no_time_for_them)
    faults = every_crash_point("driver", split_brain=False)
    query, workload = toy(Does.GIVES_UP), words(events=20)
    certified = certify(query, [exactly_once()], faults, workload=workload, budget=Budget(kills=0))
    assert status(certified) is Status.UNKNOWN
    assert covering.NOT_TWICE in reasons(certified)
    monkeypatch.setattr(covering.Covering, "cover", cover)
    went_on = campaign.go_on(
        certified.folder,
        query,
        workload=workload,
        cluster=cluster,
        registry=Registry(),
        budget=Budget(kills=0),
    )
    assert status(went_on) is Status.VIOLATED


def test_what_says_what_is_right_is_said(certify: Callable[..., Certified]) -> None:
    certificate = certify(toy(Does.BY_ID), [exactly_once()], DRIVER_ALONE, budget=Budget(runs=1, kills=0)).certificate
    assert campaign.AS_READ in certificate.not_covered


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (every_crash_point("driver", split_brain=False), covering.ONE_RECOVERY),
        (DRIVER_ALONE, covering.NEVER_RECOVERING),
        (every_crash_point("executor"), covering.NEVER_RECOVERING),
    ],
)
def test_how_often_a_run_was_hit_more_than_once_is_said(
    faults: CrashPlan, said: str, certify: Callable[..., Certified]
) -> None:
    certificate = certify(toy(Does.BY_ID), [exactly_once()], faults, budget=Budget(runs=1, kills=0)).certificate
    assert [one for one in certificate.not_covered if one.startswith("More than one crash")] == [said]


def test_a_certificate_names_the_python_and_the_packages_that_drivers_have_run_on(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran = {"python": "3.11.99", "pyspark": "4.3.0", "pandas": "2.9.9", "pyarrow": "9.9.9"}
    monkeypatch.setattr(toy_spark, "python_versions", lambda: ran)
    monkeypatch.setattr(what_runs, "chosen_python", lambda wanted: ran)
    certified = certify(toy(Does.BY_ID), budget=Budget(runs=3, kills=0))
    versions = certified.certificate.versions
    assert {name: versions[name] for name in ran} == ran
    assert versions["spark"] == chosen_version()
    page = (certified.folder / "certificate.md").read_text()
    assert "python 3.11.99" in page
    assert "pandas 2.9.9" in page
    runs = list((certified.folder / "runs").iterdir())
    assert runs
    assert {str(read_description(run).cluster["python"]) for run in runs} == {str(ran)}


def test_a_recovery_worker_whose_drivers_run_on_something_else_than_the_interpreter_has_is_refused(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy_spark, "python_versions", lambda: {**python_versions(), "pandas": "1.0.0"})
    with pytest.raises(Unsupported, match=r"worker-0 runs on pandas 1\.0\.0, and is to run on pandas 2"):
        certify(toy(Does.BY_ID))


def test_a_version_of_spark_whose_points_are_not_known_is_refused(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "chosen_version", lambda wanted: "2.4.8")
    with pytest.raises(Unsupported, match=r"crash points inside Spark '2.4.8' are not known, only those of Spark 3"):
        certify(toy(Does.BY_ID))


@pytest.mark.parametrize(
    ("query", "claims", "error", "said"),
    [
        (toy(Does.BY_ID), [], InvalidScenario, "claims nothing"),
        (toy(Does.BY_ID), [Guarantee("twice")], UnknownName, "there is no guarantee 'twice'"),
        (toy(Does.BY_ID), [Guarantee(RECOVERS_WITHIN)], InvalidScenario, r"needs .* as its bound"),
        (
            Query(str, "q"),
            [recovers_within(seconds(9))],
            InvalidScenario,
            "cannot be certified of query 'q'.* `recovers`",
        ),
        (print, [exactly_once()], InvalidScenario, "is no Query"),
        (print, [], InvalidScenario, "is no Query"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_starts(
    query: Any, claims: list[Guarantee], error: type[Exception], said: str, certify: Callable[..., Certified]
) -> None:
    with pytest.raises(error, match=said):
        certify(query, claims)


@pytest.mark.parametrize(
    "budget",
    [
        {"runs": 0},
        {"runs": True},
        {"minutes": 0},
        {"minutes": "5"},
        {"minutes": float("nan")},
        {"minutes": float("inf")},
        {"kills": -1},
    ],
)
def test_a_budget_that_is_none_is_refused(budget: dict[str, Any]) -> None:
    with pytest.raises(InvalidScenario, match=r"a budget of|a sample of"):
        Budget(**budget)


@pytest.mark.long
def test_after_a_violation_was_made_small_the_other_claims_are_tried_on_the_whole_input(
    certify: Callable[..., Certified],
) -> None:
    of_driver = every_crash_point("driver", recovering=False, split_brain=False)
    claims = [exactly_once(), at_least_once()]
    certified = certify(toy(Does.APPENDS), claims, of_driver, budget=Budget(kills=0))
    assert certified.certificate.counterexample is not None
    assert certified.certificate.counterexample.events < certified.certificate.counterexample.events_before
    verdicts = {verdict.claim: verdict.status for verdict in certified.certificate.verdicts}
    assert verdicts[str(exactly_once())] is Status.VIOLATED
    assert verdicts[str(at_least_once())] is Status.HOLDS, reasons(certified, str(at_least_once()))
