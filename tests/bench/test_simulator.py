"""Schedules per second in the simulator, judged and not, and how the cost grows with the input."""

from __future__ import annotations

import gc
import time

import pytest

from streamproof.faults.crash import crash
from streamproof.harness.cluster import Run
from streamproof.harness.judging.oracle import Case, judge
from streamproof.harness.judging.verdicts import Status
from streamproof.harness.quantities import events
from streamproof.harness.recording.recorder import MemoryRecorder
from streamproof.harness.registry import Registry
from streamproof.harness.scenario import Scenario
from streamproof.harness.schedule import checkpoint
from streamproof.harness.simulated.cluster import SimulatedCluster
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words

pytestmark = [pytest.mark.bench]

SCHEDULES = 300
ROUNDS = 5


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
        (verdict,) = judge(case, scenario.claimed, registry.oracles)
        assert verdict.status is Status.HOLDS


def _seconds_a_schedule(amount: int, judged: bool, schedules: int = SCHEDULES) -> float:
    """The best of some rounds: the others measure the neighbours."""
    scenario, registry = _scenario(amount), Registry()
    _run(scenario, registry, 0, judged)
    best = float("inf")
    gc.disable()
    for _ in range(ROUNDS):
        began = time.process_time()
        for seed in range(schedules):
            _run(scenario, registry, seed, judged)
        best = min(best, (time.process_time() - began) / schedules)
        gc.collect()
    gc.enable()
    return best


@pytest.mark.parametrize("judged", [False, True], ids=["run", "run and judged"])
def test_schedules_per_second_and_core(judged: bool) -> None:
    spent = _seconds_a_schedule(200, judged)
    print(f"\n200 events, {'run and judged' if judged else 'run'}: {1 / spent:,.0f} schedules/s and core")


def test_the_cost_grows_linearly_with_the_events() -> None:
    amounts = (200, 800, 3_200, 12_800)
    spent = [_seconds_a_schedule(amount, judged=True, schedules=max(3, 20_000 // amount)) for amount in amounts]
    for amount, cost in zip(amounts, spent, strict=True):
        print(f"\n{amount:6,} events: {cost * 1e3:8.2f} ms a schedule, {cost / amount * 1e6:5.1f} us an event", end="")
    print()
    assert spent[-1] / amounts[-1] < 1.5 * spent[0] / amounts[0]
