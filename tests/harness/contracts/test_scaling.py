"""Scenarios whose sizes are brought down for a search."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from asking import Ask
from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scaling import EVENTS, scaled, scaled_down
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.errors import InvalidScenario, UnknownName
from streamproof.harness.core.guarantees import gap_recovery
from streamproof.harness.core.quantities import Duration, Events, events
from streamproof.harness.core.topology import Role
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.counterexample import load_counterexample, scenario_of
from streamproof.harness.exploration.simulating import simulate
from streamproof.harness.exploration.sizes import brought_down
from streamproof.harness.recording.records import Delivered
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.mechanisms.acknowledging import AcknowledgeEvery
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.upstream_backup import upstream_backup
from streamproof.scenarios.trace import trace
from streamproof.scenarios.windows import windows
from streamproof.scenarios.workloads import numbered

LARGE = Scenario(passive_replication(trace(), checkpoint_every=events(5_000)), numbered(events=20_000, batch=100))


def subject_of(scenario: Scenario) -> SchemeSubject:
    assert isinstance(scenario.subject, SchemeSubject)
    return scenario.subject


def test_checkpoints_and_batches_come_within_thirty_events() -> None:
    small = scaled(LARGE)
    assert small.workload.events == EVENTS == 30
    assert small.workload.batch == 2
    assert small.subject.checkpoint_every == 5
    acknowledging = subject_of(small).setups[Role.SINK].find(AcknowledgeEvery)
    assert acknowledging == AcknowledgeEvery(Events(5))
    assert (small.faults, small.breaks) == ((), ())


def test_sizes_stay_in_proportion_where_that_lets_everything_happen() -> None:
    assert scaled(LARGE, 200).subject.checkpoint_every == 33
    often = Scenario(passive_replication(trace(), checkpoint_every=events(20)), numbered(events=400, batch=10))
    assert scaled(often, 200).subject.checkpoint_every == 10
    assert scaled(often, 200).workload.batch == 5


def test_a_scenario_that_is_small_already_keeps_its_sizes() -> None:
    tiny = Scenario(passive_replication(trace(), checkpoint_every=events(8)), numbered(events=20, batch=1))
    assert replace(scaled(tiny), workload=tiny.workload) == tiny
    assert scaled(tiny).workload.batch == 1


def test_a_bound_in_events_shrinks_with_the_interval_that_it_is_of() -> None:
    lossy = Scenario(gap(trace(), checkpoint_every=events(500)), numbered(events=2_000, batch=50))
    small = scaled(lossy)
    assert small.claimed == (gap_recovery(events(5)),)
    assert small.subject.checkpoint_every == 5
    stated = scaled(replace(lossy, claims=[gap_recovery(events(500))]))
    assert stated.claimed == small.claimed


@pytest.mark.parametrize(("stated", "small"), [(125, 1), (250, 2), (499, 4), (1_000, 10), (1_000_000, 10_000)])
def test_a_bound_that_is_not_the_interval_is_as_much_of_it_as_it_was(stated: int, small: int) -> None:
    lossy = Scenario(gap(trace(), checkpoint_every=events(500)), numbered(events=2_000, batch=50))
    assert scaled(replace(lossy, claims=[gap_recovery(events(stated))])).claimed == (gap_recovery(events(small)),)


def test_a_bound_without_an_interval_is_as_much_of_the_input_as_it_was() -> None:
    lossy = Scenario(amnesia(trace()), numbered(events=200), claims=[gap_recovery(events(200))])
    assert scaled(lossy).claimed == (gap_recovery(events(30)),)


@pytest.mark.parametrize(("stated", "violated"), [(5, True), (20, False), (21, False)])
def test_who_states_less_than_the_interval_is_found_in_a_small_world(stated: int, violated: bool) -> None:
    lossy = Scenario(gap(trace(), checkpoint_every=events(20)), numbered(events=200))
    small = scaled(replace(lossy, claims=[gap_recovery(events(stated))]))
    found = {simulate(small, [crash("relay-0").after(events(count))]).status for count in range(2, 12)}
    assert (Status.VIOLATED if violated else Status.HOLDS) in found
    assert violated or Status.VIOLATED not in found


def test_windows_stay_and_event_time_passes_faster() -> None:
    subject = upstream_backup(windows())
    length = min(w for stage in subject.topology.stages.values() if (w := stage.operator.window) is not None)
    small = scaled(Scenario(subject, numbered(events=2_000, batch=20)))
    times = [event.time for batch in small.workload.batches("source-0") for event in batch]
    assert len(times) == 30
    step = times[1] - times[0]
    assert step == small.workload.tick > 1
    assert 4 <= length // step < 30 / 4
    horizon = [one.within for one in small.claimed if isinstance(one.within, Duration)]
    assert horizon == [one.guarantee.within for one in subject.claims if one.guarantee.within is not None]


def test_what_was_brought_down_is_said() -> None:
    assert list(scaled_down(LARGE, scaled(LARGE))) == [
        "30 events, not 20,000",
        "batches of 2, not 100",
        "a checkpoint every 5 events, not 5,000",
        "an acknowledgement every 5 events, not 5,000",
    ]


def test_what_keeps_its_size_is_not_said_to_be_scaled() -> None:
    assert list(scaled_down(LARGE, LARGE)) == []


def test_the_registry_knows_a_scenario_at_every_scale() -> None:
    registry = Registry()
    named = registry.scenario("scaled:30@word-count.passive-replication")
    assert (named.name, named.origin) == ("word-count.passive-replication", "scaled:30@word-count.passive-replication")
    assert named.scenario.workload.events == 30
    mutant = registry.scenario("scaled:20@mutant:gap-without-checkpointed-state@trace.passive-replication")
    assert mutant.scenario.workload.events == 20
    with pytest.raises(InvalidScenario, match="scaled to a number of events"):
        registry.scenario("scaled:few@trace.passive-replication")
    with pytest.raises(UnknownName):
        registry.scenario("scaled:30@nonsense")


@pytest.mark.parametrize(
    ("name", "exhaust", "fed"),
    [
        ("word-count.passive-replication", False, 30),
        ("grep.approximate", False, 60),
        ("heavy-hitters.approximate", False, 480),
        ("word-count.passive-replication", True, 20),
        ("jumping-join.epoch-merge-equal-times", True, 30),
    ],
)
def test_a_search_feeds_as_much_as_it_takes_for_outputs(name: str, exhaust: bool, fed: int) -> None:
    registry = Registry()
    small = brought_down(name, registry, None, exhaust).scenario
    assert small.workload.events == fed
    assert any(one.rows for one in Bench(small, registry, seed=7).run((), 7).each(Delivered))
    assert brought_down(name, registry, 24, exhaust).scenario.workload.events == 24


# On the command line

BROKEN = "mutant:passive-replication-without-source-log@trace.passive-replication"


@pytest.mark.usefixtures("here")
def test_explore_scales_down_says_so_and_has_all_at_work(ask: Ask) -> None:
    answer = ask("explore", "word-count.passive-replication", "--schedules", 30, "--jobs", 1)
    assert answer.status == 0, answer.out
    assert "30 events of python-docs" in answer.out
    assert "scaled     30 events, not 8,000, batches of 2, not 50, a checkpoint every 5 events" in answer.out
    assert "(--own-sizes keeps them)" in answer.out
    assert "exercised  slices started again in " in answer.out
    assert "checkpoints durable in 30" in answer.out
    assert "of 30 plainly\n" in answer.out


@pytest.mark.usefixtures("here")
def test_a_search_that_never_comes_to_a_checkpoint_says_so_and_ends_in_2(ask: Ask) -> None:
    asked = ("explore", "word-count.passive-replication", "--events", 60, "--own-sizes", "--schedules", 8, "--jobs", 1)
    answer = ask(*asked)
    assert answer.status == 2
    assert "untried    no checkpoint became durable, no state was restored" in answer.out
    assert "scaled" not in answer.out
    document = ask(*asked, "--json").document
    assert document["exit_status"] == 2
    assert document["scaled"] is None
    assert "checkpoints durable" in document["untried"]
    assert document["exercised"]["slices started again"] > 0


@pytest.mark.usefixtures("here")
def test_a_search_names_the_operators_and_sinks_to_which_nothing_comes(ask: Ask) -> None:
    asked = ("explore", "heavy-hitters.approximate", "--events", 30, "--schedules", 4, "--jobs", 1, "--errors", 0)
    answer = ask(*asked)
    assert answer.status == 2
    assert "untried    nothing was delivered to a sink, and the claim rests on it: UNKNOWN" in answer.out
    assert "idle       nothing comes to hitters, sink: what happens there is not tried" in answer.out
    assert ask(*asked, "--json").document["idle"] == ["hitters", "sink"]
    assert "idle  " not in ask("explore", "heavy-hitters.approximate", "--schedules", 1, "--jobs", 1, "--errors", 0).out


@pytest.mark.usefixtures("here")
def test_a_counterexample_of_a_scaled_world_is_replayed_at_its_scale(ask: Ask, tmp_path: Path) -> None:
    assert ask("explore", BROKEN, "--schedules", 20, "--jobs", 1).status == 1
    path = tmp_path / "counterexample.json"
    assert json.loads(path.read_text())["origin"] == f"scaled:30@{BROKEN}"
    replayed = scenario_of(path, load_counterexample(path), Registry())
    assert replayed.subject.checkpoint_every == 3
    assert replayed.minimal
    assert "the very history that was found" in ask("replay", "counterexample.json").out
