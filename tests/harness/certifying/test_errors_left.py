"""What crashes leave of error in a result: measured in every trial of a campaign, written down, and judged again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import distances
from certified import crash_at, unsealed
from streamproof.harness.certifying import campaign
from streamproof.harness.certifying.campaign import Budget, Certified
from streamproof.harness.certifying.certificate import read_certificate, write_certificate
from streamproof.harness.certifying.conclusion import ClaimVerdict, Planned, conclude
from streamproof.harness.certifying.errors_left import errors_left, errors_said
from streamproof.harness.certifying.page import page
from streamproof.harness.certifying.plan import CrashTrial, How
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.certifying.proving import KILLS_A_RUN, kills_a_run
from streamproof.harness.certifying.rejudging import judge_certificate
from streamproof.harness.certifying.subjects import claims_named
from streamproof.harness.certifying.telling import view_of_certificate
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidScenario, NoDistance, NotImportable
from streamproof.harness.core.guarantees import Guarantee, exactly_once, survives_power_loss
from streamproof.harness.core.result_bounds import bounded_error_of_result
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.claims_and_faults import SavedClaim
from streamproof.harness.reporting.screen import certificate_screen
from streamproof.harness.running.judgement import judge_folder
from streamproof.harness.running.run import check_scenario
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.reference_impls.gap import gap
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered, words
from toy_spark import Does, ToyCluster, install, toy

WORKLOAD = words(events=30)
ROWS = 32
"""With those that close the input."""
TEN = bounded_error_of_result(rows=10)
FIVE = bounded_error_of_result(rows=5)
HOLDS, VIOLATED, UNKNOWN = Status.HOLDS, Status.VIOLATED, Status.UNKNOWN


@pytest.fixture
def certify(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Certified]:
    install(monkeypatch, tmp_path)

    def certify(query: Query, *claims: Guarantee, **changes: Any) -> Certified:
        facts: dict[str, Any] = {
            "workload": WORKLOAD,
            "cluster": ToyCluster(),
            "registry": Registry(),
            "budget": Budget(kills=2),
            "folder": tmp_path / "certificate",
        }
        return campaign.certify(query, claims, **{**facts, **changes})

    return certify


def verdict_on(certified: Certified, claim: Guarantee) -> ClaimVerdict:
    (verdict,) = (one for one in certified.certificate.verdicts if one.claim == str(claim))
    return verdict


# Campaigns


def test_a_sink_that_loses_what_it_holds_back_is_within_that_much(certify: Callable[..., Certified]) -> None:
    certified = certify(toy(Does.HOLDS_BACK), TEN)
    verdict = verdict_on(certified, TEN)
    assert verdict.status is HOLDS, verdict.reasons
    left = verdict.errors
    assert left is not None
    assert (left.largest, left.largest_said, left.measure, left.unmeasured) == (10, "10 rows", "10 rows", 0)
    assert "batch" in left.left_by
    assert 0 < left.without < left.crashes
    # What the second finds not done it does again, and so loses no more.
    assert (left.several, left.after_several) == (2, 10)
    assert "the largest error that a crash left: 10 rows, of at most 10 rows" in verdict.summary
    # Of several in one run nobody could say which has left it.
    assert {len(one.crashes) for one in certified.certificate.trials if one.how is How.KILL} == {1}
    assert all(0 <= one.errors[str(TEN)] <= 10 * len(one.crashes) for one in certified.certificate.trials)

    again = judge_certificate(certified.folder, Registry().oracles)
    assert (again.differences, again.conclusion.verdicts) == ((), certified.certificate.verdicts)
    for trial in certified.certificate.trials:
        _, _, judgement = judge_folder(certified.folder / trial.folder, Registry())
        assert {str(one.guarantee): one.status for one in judgement.verdicts} == trial.verdicts

    text = (certified.folder / "certificate.md").read_text()
    assert "## Errors that crashes left" in text
    assert "| bounded-error-of-result (rows 10) | 10 rows | 10 rows |" in text
    assert "The error is that of the table in the end." in text
    view = view_of_certificate(certified.certificate, certified.folder)
    screen = "\n".join(line.plain for line in certificate_screen(view))
    assert "error        bounded-error-of-result (rows 10), the largest error that a crash left: 10 rows" in screen
    document = msgspec.to_builtins(verdict)
    assert document["errors"]["largest"] == 10


def test_and_is_refuted_at_less_with_the_smallest_schedule_that_shows_it(certify: Callable[..., Certified]) -> None:
    certified = certify(toy(Does.HOLDS_BACK), FIVE)
    verdict = verdict_on(certified, FIVE)
    assert verdict.status is VIOLATED, verdict.reasons
    assert verdict.errors is not None
    assert verdict.errors.largest > 5
    shown = certified.certificate.counterexample
    assert shown is not None
    assert (shown.claim, shown.anomaly, len(shown.crashes)) == (str(FIVE), "bound-exceeded", 1)
    assert "rows, of at most 5 rows a crash: the table has" in shown.wrong
    text = page(certified.certificate)
    assert "What is wrong then, more than a crash may take (bound-exceeded)" in text
    assert judge_certificate(certified.folder, Registry().oracles).differences == ()


def test_one_that_adds_rows_again_is_within_no_bound_on_losses(certify: Callable[..., Certified]) -> None:
    certified = certify(toy(Does.APPENDS), TEN)
    verdict = verdict_on(certified, TEN)
    assert verdict.status is VIOLATED
    assert certified.certificate.counterexample is not None
    assert certified.certificate.counterexample.anomaly == "duplicate-effect"


def test_a_function_of_the_users_measures_and_measures_again(
    certify: Callable[..., Certified], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = bounded_error_of_result(distance=distances.rows_apart, at_most=10)
    of_driver = every_crash_point("driver", recovering=False, split_brain=False)
    certified = certify(toy(Does.HOLDS_BACK), claim, faults=of_driver, budget=Budget(kills=0))
    verdict = verdict_on(certified, claim)
    assert (verdict.status, verdict.errors and verdict.errors.largest) == (HOLDS, 10), verdict.reasons
    assert judge_certificate(certified.folder, Registry().oracles).differences == ()
    # Who has another function by the same name comes to something else, and says so.
    monkeypatch.setattr(distances, "rows_apart", lambda one, other: distances.one_sided(one, other) / 2)
    differences = judge_certificate(certified.folder, Registry().oracles).differences
    assert any("the error of" in one and "is 5 by its record, and 10" in one for one in differences)
    monkeypatch.delattr(distances, "rows_apart")
    with pytest.raises(NotImportable, match="distances:rows_apart"):
        judge_certificate(certified.folder, Registry().oracles)


@pytest.mark.parametrize("function", [distances.zero, distances.one_sided, distances.share_missing])
def test_one_that_lies_is_refused_and_nothing_is_left(
    function: Any, certify: Callable[..., Certified], tmp_path: Path
) -> None:
    with pytest.raises(NoDistance, match=f"distances:{function.__name__} is no distance"):
        certify(toy(Does.HOLDS_BACK), bounded_error_of_result(distance=function, at_most=10))
    assert not (tmp_path / "certificate").exists()


def test_a_bound_that_nothing_could_exceed_is_refused(certify: Callable[..., Certified]) -> None:
    with pytest.raises(NoDistance, match="were all of the result lost, the error would be 32 rows"):
        certify(toy(Does.HOLDS_BACK), bounded_error_of_result(rows=ROWS))
    with pytest.raises(InvalidScenario, match="names no key columns"):
        certify(toy(Does.HOLDS_BACK), bounded_error_of_result(column="seq", at_most=1))


def test_references_that_differ_leave_it_unknown_and_are_not_taken_for_a_wrong_claim(
    certify: Callable[..., Certified],
) -> None:
    assert verdict_on(certify(toy(Does.ASKS_THE_CLOCK), TEN), TEN).status is UNKNOWN


def test_a_scheme_leaves_no_table() -> None:
    scenario = Scenario(gap(trace()), numbered(events=24, batch=4), claims=[TEN])
    with pytest.raises(InvalidScenario, match="a scheme leaves none; what can be"):
        check_scenario(scenario, SimulatedCluster(), Registry())


# What a certificate says of it


def tried(error: float, batch: int, status: Status = HOLDS, **more: Any) -> CrashTrial:
    trial = CrashTrial((crash_at(batch),), How.KILL, f"runs/{batch}", {str(TEN): status}, errors={str(TEN): error})
    return msgspec.structs.replace(trial, **more)


def test_the_largest_comes_with_its_crash_the_rest_with_their_middle() -> None:
    trials = [tried(0, 0), tried(3, 1), tried(9, 2), tried(4, 3), tried(9, 4)]
    trials += [tried(17, 5, crashes=(crash_at(5), crash_at(5, recovering=True))), tried(30, 6, missed=True)]
    trials += [msgspec.structs.replace(tried(0, 7, UNKNOWN), errors={})]
    left = errors_left(TEN, trials)
    assert left is not None
    assert (left.crashes, left.without, left.median, left.largest, left.unmeasured) == (5, 1, 4, 9, 1)
    assert (left.folder, left.several, left.after_several) == ("runs/2", 2, 17)
    assert errors_said(left) == (
        "the largest error that a crash left: 9 rows, of at most 10 rows; median 4, 1 of 5 left none; after 2 crashes "
        "in a row at most 17 altogether; of 1 it is not known"
    )
    assert errors_left(exactly_once(), trials) is None


def test_a_run_whose_input_was_made_too_small_for_a_claim_says_nothing_of_it() -> None:
    small = tried(0, 1, UNKNOWN, too_small=(str(TEN),), folder="runs/small")
    (verdict,) = conclude([TEN], [Planned(crash_at(1))], [tried(3, 1), small], ()).verdicts
    assert (verdict.status, verdict.errors and verdict.errors.crashes) == (HOLDS, 1)
    (verdict,) = conclude([TEN], [Planned(crash_at(1))], [small], ()).verdicts
    assert verdict.status is UNKNOWN
    (verdict,) = conclude([TEN], [Planned(crash_at(1))], [tried(3, 1), tried(0, 1, UNKNOWN)], ()).verdicts
    assert verdict.status is UNKNOWN


@pytest.mark.long
def test_the_larger_bound_holds_beside_the_smaller_one_that_is_refuted(certify: Callable[..., Certified]) -> None:
    of_driver = every_crash_point("driver", recovering=False, split_brain=False)
    certified = certify(toy(Does.HOLDS_BACK), TEN, FIVE, faults=of_driver, budget=Budget(kills=0))
    ten, five = (verdict_on(certified, claim) for claim in (TEN, FIVE))
    assert (ten.status, five.status) == (HOLDS, VIOLATED), ten.reasons
    # What refutes the one is made smaller, until all of the result is within the other.
    assert any(str(TEN) in trial.too_small for trial in certified.certificate.trials)
    assert judge_certificate(certified.folder, Registry().oracles).differences == ()


def test_losses_of_power_are_measured_for_their_claim_alone() -> None:
    claim = survives_power_loss(TEN)
    (verdict,) = conclude([claim], [Planned(crash_at(1))], [tried(3, 1)], ()).verdicts
    assert verdict.errors is not None
    assert verdict.errors.crashes == 0
    assert errors_said(verdict.errors) == "no error was measured"


def test_a_certificate_that_says_another_error_than_its_record_is_found_out(certify: Callable[..., Certified]) -> None:
    of_driver = every_crash_point("driver", recovering=False, split_brain=False)
    certified = certify(toy(Does.HOLDS_BACK), TEN, faults=of_driver, budget=Budget(kills=0))
    said = read_certificate(certified.folder)
    worst = max(said.trials, key=lambda one: one.errors[str(TEN)])
    trials = tuple(msgspec.structs.replace(one, errors={str(TEN): 1.0}) if one == worst else one for one in said.trials)
    write_certificate(certified.folder, msgspec.structs.replace(said, trials=trials))
    differences = judge_certificate(certified.folder, Registry().oracles).differences
    assert f"{worst.folder}: the error of {TEN} is 10 by its record, and 1 in the certificate" in differences


def test_kills_are_one_a_run_only_where_an_error_is_bounded() -> None:
    assert kills_a_run([exactly_once()]) == KILLS_A_RUN
    assert kills_a_run([exactly_once(), TEN]) == kills_a_run([survives_power_loss(TEN)]) == 1


def test_a_certificate_without_such_a_claim_says_nothing_of_errors() -> None:
    assert "Errors that crashes left" not in page(unsealed())


# How it is written


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("bounded-error-of-result:50", bounded_error_of_result(rows=50)),
        ("bounded-error-of-result:rows=50,duplicates=2", bounded_error_of_result(rows=50, duplicates=2)),
        ("bounded-error-of-result:members=3,columns=word", bounded_error_of_result(members=3, columns=["word"])),
        ("bounded-error-of-result:column=n,at_most=0.5", bounded_error_of_result(column="n", at_most=0.5)),
        (
            "bounded-error-of-result:distance=distances:rows_apart,at_most=5,columns=a+b",
            bounded_error_of_result(distance=distances.rows_apart, at_most=5, columns=["a", "b"]),
        ),
    ],
)
def test_it_is_written_on_the_command_line_and_read_again(text: str, claim: Guarantee) -> None:
    assert claims_named([text], Registry().oracles) == (claim,)
    saved = msgspec.json.decode(msgspec.json.encode(SavedClaim.of(claim)), type=SavedClaim)
    assert saved.as_guarantee() == claim
    assert str(saved) == str(claim)


@pytest.mark.parametrize("text", ["bounded-error-of-result", "bounded-error-of-result:column=n"])
def test_what_states_no_bound_is_refused_before_anything_starts(text: str, certify: Callable[..., Certified]) -> None:
    (claim,) = claims_named([text], Registry().oracles)
    with pytest.raises(InvalidScenario, match=r"measures the error in one way|needs at_most"):
        certify(toy(Does.HOLDS_BACK), claim)
