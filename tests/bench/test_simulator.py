"""Schedules per second in the simulator, judged and not, on one core and on two, how the cost grows with the input, and
what it takes to shrink what was found."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

from streamproof.faults.crash import crash
from streamproof.harness.contracts.cluster import Run
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.quantities import events
from streamproof.harness.core.schedule import checkpoint
from streamproof.harness.core.topology import Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import Bench, Trial, resized
from streamproof.harness.exploration.plans import EverySingle, RandomSchedules, SearchPlan
from streamproof.harness.exploration.search import SearchBudget, SearchFindings, search
from streamproof.harness.exploration.shrinking import shrink
from streamproof.harness.judging.oracle import Case, judge_each
from streamproof.harness.recording.recorder import MemoryRecorder
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.order import order
from streamproof.scenarios.trace import trace
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import numbered, words

pytestmark = [pytest.mark.bench]

SCHEDULES = 300
ROUNDS = 5
SEARCHED = 2_000
"""Schedules of one search: enough for the start of its processes to weigh little."""


def _scenario(amount: int) -> Scenario:
    """Word count on 5 slices (source, splitter, two counters, sink), in batches of 10, one crash."""
    subject = passive_replication(word_count(), checkpoint_every=events(50), sink_filter=True)
    return Scenario(subject, words(events=amount), [crash("count-0").at(checkpoint(1).durable)])


def _run(scenario: Scenario, registry: Registry, seed: int, judged: bool) -> None:
    recorder = MemoryRecorder()
    run = Run("bench", scenario, seed, recorder, registry.faults, None)
    with SimulatedCluster().deploy(run) as deployment:
        deployment.prepare()
        deployment.start()
        assert deployment.drained(scenario.deadline)
        deployment.stop()
    if judged:
        history = recorder.history()
        case = Case(history, scenario.subject.collate(history), 50, virtual_time=True)
        (verdict,) = judge_each(case, scenario.claimed, registry.oracles)
        assert verdict.status is Status.HOLDS


def _seconds_a_schedule(amount: int, judged: bool, schedules: int = SCHEDULES) -> float:
    """The best of some rounds: the others measure the neighbours."""
    scenario, registry = _scenario(amount), Registry()
    return _best(lambda seed: _run(scenario, registry, seed, judged), schedules)


def _best(tried: Callable[[int], object], times: int) -> float:
    """Seconds a time."""
    tried(0)
    best = float("inf")
    gc.disable()
    for _ in range(ROUNDS):
        began = time.process_time()
        for seed in range(times):
            tried(seed)
        best = min(best, (time.process_time() - began) / times)
        gc.collect()
    gc.enable()
    return best


@pytest.mark.parametrize("judged", [False, True], ids=["run", "run and judged"])
def test_schedules_per_second_and_core(judged: bool, kept: Callable[[str, float], None]) -> None:
    spent = _seconds_a_schedule(200, judged)
    name = f"200 events, {'run and judged' if judged else 'run'}"
    print(f"\n{name}: {1 / spent:,.0f} schedules/s and core")
    kept(name, 1 / spent)


def test_the_cost_grows_linearly_with_the_events() -> None:
    amounts = (200, 800, 3_200, 12_800)
    spent = [_seconds_a_schedule(amount, judged=True, schedules=max(3, 20_000 // amount)) for amount in amounts]
    for amount, cost in zip(amounts, spent, strict=True):
        print(f"\n{amount:6,} events: {cost * 1e3:8.2f} ms a schedule, {cost / amount * 1e6:5.1f} us an event", end="")
    print()
    assert spent[-1] / amounts[-1] < 1.5 * spent[0] / amounts[0]


def _searched(bench: Bench, plan: SearchPlan, jobs: int) -> SearchFindings:
    """By the wall clock, as whoever waits for it sees it: with the start of its processes, and what they say."""
    return search(bench, [plan], SearchBudget(SEARCHED), jobs=jobs)


@pytest.mark.parametrize(
    "plan",
    [RandomSchedules(7, most=1), EverySingle(), RandomSchedules(7)],
    ids=["one crash at random", "every single crash", "random schedules"],
)
def test_a_search_on_one_core_and_on_two(plan: SearchPlan) -> None:
    """Random schedules of more than one crash take a census for each further one."""
    bench = Bench(_scenario(200), Registry(), seed=7)
    one, two = _searched(bench, plan, jobs=1), _searched(bench, plan, jobs=2)
    assert one.statuses == two.statuses
    rates = [findings.tried / findings.seconds for findings in (one, two)]
    print(f"\n{one.tried:,} tried: {rates[0]:,.0f} schedules/s on one core, {rates[1]:,.0f} on two", end="")
    print(f", {rates[1] / rates[0]:.2f} times as many")


@pytest.mark.parametrize("topology", [order, trace])
def test_schedules_of_active_replication(topology: Callable[[], Topology], kept: Callable[[str, float], None]) -> None:
    """Two replicas of each slice, all of which send to all: four times the messages, and twice the state."""
    scenario = Scenario(active_replication(topology()), numbered(events=200, batch=10))
    bench = Bench(scenario, Registry(), seed=7)
    schedule = (crash(bench.actors[0]).after(events(40)),)
    spent = _best(lambda seed: bench.attempt(Trial(schedule, seed)), 40)
    print(f"\n{scenario.subject.name}: {1 / spent:,.0f} schedules/s and core")
    kept(f"active replication of {scenario.subject.name}", 1 / spent)


@pytest.mark.parametrize(
    "origin",
    [
        "mutant:passive-replication-without-vector@trace.passive-replication",
        "mutant:passive-replication-without-checkpointed-log@trace.passive-replication",
    ],
)
def test_shrinking_a_violation(origin: str) -> None:
    registry = Registry()
    bench = Bench(resized(registry.scenario(origin).scenario, 200, 10), registry, seed=7)
    found = search(bench, [RandomSchedules(7)], SearchBudget(SEARCHED), until=lambda violation: True)
    violation = found.violations[-1]
    began = time.process_time()
    small = shrink(bench, violation.trial, violation.kind)
    spent = time.process_time() - began
    print(f"\n{origin}: found by schedule {violation.number:,}; in {spent:.1f} s and {small.runs:,} runs from ", end="")
    print(f"{len(violation.trial.schedule)} faults in 200 events to {len(small.trial.schedule)} in {small.events:,}")
