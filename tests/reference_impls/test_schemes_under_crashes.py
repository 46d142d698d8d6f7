"""The schemes keep what they claim under every crash that the simulator can place, and lose what they may."""

import pytest

from simulation import CASES, LOSSY, WORLDS, addresses, drawn, scenario_of
from streamproof.faults.crash import crash
from streamproof.harness.addresses import Moment
from streamproof.harness.judging.guarantees import AT_LEAST_ONCE, AT_MOST_ONCE
from streamproof.harness.judging.verdicts import Status
from verdicts_of import run

RANDOM_SCHEDULES = 540
CHUNKS = 12
"""Pieces in which schedules are run, so that all cores share them."""
LONG_SCHEDULES = 10_000

STATED = (
    "all input had been processed by then",
    "ran nowhere",
    "the trigger of fault",
)
"""Why a run with crashes may be UNKNOWN: a crash did not come, or harmed nobody."""


def targets_of(case: str) -> list[str]:
    return list(scenario_of(case).subject.actors)


@pytest.mark.parametrize("case", CASES)
def test_without_failures_every_scheme_is_precise_and_loses_nothing(case: str) -> None:
    judged = run(scenario_of(case), ())
    assert [v.status for v in judged.verdicts] == [Status.HOLDS] * len(judged.verdicts)
    assert judged.verdict("precise-recovery").status is Status.HOLDS
    assert judged.lost == 0


@pytest.mark.parametrize(("case", "target"), [(case, target) for case in CASES for target in targets_of(case)])
def test_no_single_crash_at_any_address_breaks_a_claim(case: str, target: str) -> None:
    scenario = scenario_of(case)
    bitten = losing = 0
    for reached in addresses(scenario):
        judged = run(scenario, [crash(target).at(Moment.exactly(reached.address))])
        assert judged.alarms() == [], str(reached.address)
        if judged.claim.status is Status.UNKNOWN:
            assert judged.claim.reason.endswith("all input had been processed by then"), str(reached.address)
            continue
        assert judged.claim.status is Status.HOLDS
        (struck,) = judged.history.struck()
        assert struck.bite.bit
        assert struck.address == str(reached.address)
        bitten += 1
        at_least_once = judged.verdict(AT_LEAST_ONCE).status
        assert at_least_once is (Status.VIOLATED if judged.lost else Status.HOLDS)
        assert judged.verdict(AT_MOST_ONCE).status is Status.HOLDS
        losing += judged.lost > 0
    assert bitten > 0
    if case.startswith(LOSSY):
        assert losing > bitten / 2, "a scheme that does not replay loses by most crashes"
    else:
        assert losing == 0


def assert_no_false_alarm(seed: int) -> Status:
    case = CASES[seed % len(CASES)]
    world = list(WORLDS)[seed // len(CASES) % len(WORLDS)]
    scenario = scenario_of(case)
    schedule = drawn(scenario, seed, world)
    judged = run(scenario, schedule, seed=seed, world=world)
    story = f"seed {seed}: {case} in world {world}: {'; '.join(map(str, schedule))}"
    assert judged.alarms() == [], story
    claim = judged.claim
    if claim.status is Status.UNKNOWN:
        stalled = claim.reason.startswith("stall")
        assert stalled or any(stated in claim.reason for stated in STATED), f"{story}: {claim.reason}"
        assert not stalled or world == "nodes-lost-for-good", f"{story}: {claim.reason}"
    return claim.status


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_drawn_schedule_of_up_to_three_crashes_raises_a_false_alarm(chunk: int) -> None:
    statuses = [assert_no_false_alarm(seed) for seed in range(chunk, RANDOM_SCHEDULES, CHUNKS)]
    assert statuses.count(Status.HOLDS) > len(statuses) / 3, "most schedules should strike as planned"


@pytest.mark.long
@pytest.mark.parametrize("chunk", range(100))
def test_none_of_ten_thousand_schedules_raises_a_false_alarm(chunk: int) -> None:
    statuses = [assert_no_false_alarm(seed) for seed in range(1_000_000 + chunk, 1_000_000 + LONG_SCHEDULES, 100)]
    assert statuses.count(Status.HOLDS) > len(statuses) / 3
