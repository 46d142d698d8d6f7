"""Hypothesis strategies for property tests of a user's own, and `simulate`, which judges what they draw."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from sampling import long_but_for
from simulation import SIMULATED
from streamproof import (
    Scenario,
    crash,
    events,
    exactly_once_output,
    numbered,
    passive_replication,
    recovers_within,
    seconds,
    simulate,
    trace,
)
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import Moment
from streamproof.harness.core.errors import InvalidScenario, UnknownName, Unsupported
from streamproof.harness.core.schedule import AtTime, Fault, Schedule
from streamproof.harness.core.verdicts import Status
from streamproof.strategies import scenarios, schedules, workloads


def traced(**other: Any) -> Scenario:
    return Scenario(passive_replication(trace(), checkpoint_every=events(8)), numbered(events=24, batch=4), **other)


SOUND = traced()
REPEATING = traced(claims=[exactly_once_output()])

quickly = settings(max_examples=60, deadline=None, database=None, derandomize=True)
smallest = settings(
    max_examples=400, deadline=None, database=None, derandomize=True, phases=[Phase.generate, Phase.shrink]
)


# simulate


def test_what_a_scenario_claims_is_judged_under_its_own_faults() -> None:
    found = simulate(replace(SOUND, faults=[crash("trace-0").after(events(3))]))
    assert (found.holds, found.violated, found.status) == (True, False, Status.HOLDS)
    assert [str(verdict.guarantee) for verdict in found.verdicts] == ["rollback-recovery-repeating"]
    assert [str(fault) for fault in found.schedule] == ["crash trace-0, once trace-0 has taken 3 events"]
    assert len(list(found.history.struck())) == 1


def test_a_given_schedule_takes_their_place_and_what_they_break_is_left_aside() -> None:
    scenario = traced(faults=[crash("trace-0").after(events(3))], breaks=[exactly_once_output()])
    assert simulate(scenario, ()).holds
    assert simulate(scenario, [crash("relay-0").after(events(5))]).holds


def test_a_violation_tells_its_story() -> None:
    found = simulate(REPEATING, [crash("trace-0").after(events(4))], seed=3)
    assert (found.holds, found.violated) == (False, True)
    told = repr(found).splitlines()
    assert told[0] == "VIOLATED under seed 3 and crash trace-0, once trace-0 has taken 4 events"
    assert told[1].startswith("  exactly-once-output VIOLATED: duplicate-output x ")
    assert told[2].startswith("    duplicate-output: trace-")
    assert len(told) <= 5


def test_a_fault_that_harms_nobody_is_unknown() -> None:
    found = simulate(SOUND, [crash("relay-0").after(seconds(1_000))])
    assert (found.status, found.holds, found.violated) == (Status.UNKNOWN, False, False)
    assert "all input had been processed by then" in repr(found)


def test_claims_on_time_are_not_judged() -> None:
    found = simulate(traced(claims=[exactly_once_output(), recovers_within(seconds(1))]), ())
    assert found.holds
    assert [str(guarantee) for guarantee in found.not_judged] == ["recovers-within (1 s)"]


def test_the_same_seed_gives_the_same_history() -> None:
    schedule = [crash("trace-0").after(seconds(0.004))]
    digests = [simulate(SOUND, schedule, seed=seed).history.digest() for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("schedule", "error"),
    [
        ([crash("nobody").after(seconds(1))], UnknownName),
        ([crash("trace-0")], InvalidScenario),
        ([Fault("nonsense", ("trace-0",)).after(seconds(1))], UnknownName),
    ],
)
def test_a_schedule_that_cannot_be_run_is_refused(schedule: list[Fault], error: type[Exception]) -> None:
    with pytest.raises(error):
        simulate(SOUND, schedule)


def test_a_query_is_not_simulated() -> None:
    query = Registry().scenario("query.word-count").scenario
    for refused in (lambda: simulate(query), lambda: schedules(query)):
        with pytest.raises(Unsupported, match="the simulator runs schemes"):
            refused()


# Schedules


@given(schedules(SOUND))
@quickly
def test_a_sound_scheme_survives_them(schedule: Schedule) -> None:
    assert simulate(SOUND, schedule).holds


@given(schedules(SOUND, max_faults=2))
@quickly
def test_every_fault_strikes(schedule: Schedule) -> None:
    struck = {entry.number for entry in simulate(SOUND, schedule).history.struck()}
    assert struck == set(range(len(schedule)))
    assert 1 <= len(schedule) <= 2


@pytest.mark.parametrize(
    "wanted",
    [
        lambda schedule: len(schedule) == 3,
        lambda schedule: isinstance(schedule[0].trigger, AtTime),
        lambda schedule: isinstance(schedule[0].trigger, Moment) and schedule[0].trigger.taken > 1,
        lambda schedule: len(schedule[0].targets) == 3,
        lambda schedule: any(isinstance(f.trigger, Moment) and (f.trigger.incarnation or 0) > 1 for f in schedule),
    ],
    ids=["three faults", "at a time", "after a number of events", "three targets", "in a recovery"],
)
def test_they_are_of_every_kind(wanted: Any) -> None:
    assert find(schedules(SOUND), wanted, settings=smallest)


def test_a_failing_one_is_shrunk() -> None:
    found = find(schedules(REPEATING), lambda schedule: simulate(REPEATING, schedule).violated, settings=smallest)
    (fault,) = found
    assert len(fault.targets) == 1
    assert isinstance(fault.trigger, Moment)


def test_kinds_can_be_strategies() -> None:
    kinds = [st.sampled_from([crash("trace-0"), crash("trace-1")])]
    for wanted in ("trace-0", "trace-1"):
        (fault,) = find(schedules(SOUND, kinds=kinds), lambda s, t=wanted: s[0].targets == (t,), settings=smallest)  # type: ignore[misc]
        assert fault.targets == (wanted,)


@pytest.mark.parametrize("kind", long_but_for([*SIMULATED][::3], SIMULATED))
def test_every_kind_can_be_drawn_and_bites(kind: str) -> None:
    @given(schedules(SOUND, kinds=[kind], max_faults=2))
    @settings(quickly, max_examples=15, suppress_health_check=[HealthCheck.filter_too_much])
    def every_fault_strikes(schedule: Schedule) -> None:
        struck = simulate(SOUND, schedule).history.struck()
        assert {entry.number for entry in struck} == set(range(len(schedule)))
        assert {fault.kind for fault in schedule} == {kind}

    every_fault_strikes()


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InvalidScenario, match="one fault at least"):
        schedules(SOUND, max_faults=0)
    with pytest.raises(InvalidScenario, match="one fault at least"):
        schedules(SOUND, kinds=())
    with pytest.raises(UnknownName, match="no kind of fault 'nonsense'"):
        schedules(SOUND, kinds=["nonsense"])
    with pytest.raises(InvalidScenario, match="must be positive"):
        workloads(max_events=0)


# Workloads and scenarios


@given(workloads(st.text(max_size=3), keys=st.sampled_from("xy"), max_events=9, max_batch=4))
@quickly
def test_workloads_are_small_and_stay_as_they_were_drawn(workload: Any) -> None:
    batches = workload.batches("source-0")
    fed = [event for batch in batches for event in batch]
    assert 1 <= len(fed) == workload.events <= 9
    assert {len(batch) for batch in batches[:-1]} <= {workload.batch}
    assert {event.key for event in fed} <= {"x", "y"}
    assert replace(workload, batch=1).batches("source-0") == [[event] for event in fed]


@given(scenarios(SOUND, workloads(max_events=20)))
@settings(quickly, suppress_health_check=[HealthCheck.filter_too_much])
def test_a_sound_scheme_survives_with_any_input(scenario: Scenario) -> None:
    assert simulate(scenario).holds


def test_input_is_shrunk_with_the_faults() -> None:
    drawn = scenarios(REPEATING, workloads())
    found = find(drawn, lambda scenario: simulate(scenario).violated, settings=smallest)
    assert sum(len(fault.targets) for fault in found.faults) <= 2
    assert found.workload.events <= 4


# Packaging


def test_without_hypothesis_it_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import streamproof; from streamproof import *\n"
        "from streamproof.harness.core.errors import MissingTool\n"
        "try: streamproof.strategies\n"
        "except MissingTool as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "streamproof.strategies needs hypothesis" in done.stdout
    assert "pip install 'hypothesis>=" in done.stdout


def test_it_is_there_once_the_package_is() -> None:
    script = "import streamproof; print(streamproof.strategies.schedules.__module__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "streamproof.strategies\n"
