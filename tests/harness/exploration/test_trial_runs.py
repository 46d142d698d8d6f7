"""Runs of schedules that are tried one after the other, in one world, branch off from one another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from simulation import scenario_of
from streamproof.faults.crash import crash
from streamproof.faults.pause import pause
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.guarantees import at_least_once, at_most_once, exactly_once, precise_recovery
from streamproof.harness.core.quantities import events, ms
from streamproof.harness.core.schedule import Schedule
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import BEYOND, Bench, Outcome, Trial, ViolationKind
from streamproof.harness.exploration.branching import BranchedRun, Trunk
from streamproof.harness.exploration.classes import distinct
from streamproof.harness.exploration.plans import fault_at
from streamproof.harness.exploration.shrinking import shrink
from streamproof.harness.exploration.trial_runs import TrialRuns

REGISTRY = Registry()
CASE = "passive-replication/trace-numbered"
LIMITED = "active-replication/trace-numbered"
MANY = 8


@pytest.fixture
def bench() -> Bench:
    return Bench(scenario_of(CASE), REGISTRY, seed=5)


@pytest.fixture
def limited() -> Bench:
    """Of a scheme that claims to survive crashes as long as each slice keeps a replica in sync."""
    return Bench(scenario_of(LIMITED), REGISTRY, seed=5)


@pytest.fixture
def runs(bench: Bench) -> Iterator[TrialRuns]:
    """In a world in which so many schedules were tried that further ones branch off."""
    with closing(TrialRuns(bench, 5)) as some:
        for one in bench.calm_classes[:MANY]:
            some.run((fault_at(one[0]),))
        yield some


def as_whole(runs: TrialRuns, schedule: Schedule) -> bool:
    """Whether the run branched off. What came of it is what comes of it from the beginning."""
    run = runs.run(schedule)
    assert run.history is not None
    assert run.history.digest() == runs.bench.run(schedule, 5).digest(), "; ".join(map(str, schedule))
    return run.branched


def test_a_single_fault_branches_off_once_there_were_many(bench: Bench) -> None:
    schedules = [(fault_at(one[0]),) for one in bench.calm_classes[:: len(bench.calm_classes) // 20]]
    with closing(TrialRuns(bench, 5)) as runs:
        branched = [as_whole(runs, schedule) for schedule in schedules]
    assert not branched[0]
    assert all(branched[MANY:])


def test_a_second_fault_branches_off_from_the_run_under_the_first(runs: TrialRuns) -> None:
    first = fault_at(runs.bench.calm[len(runs.bench.calm) // 3])
    later = distinct(runs.reached_after((first,)))
    assert later == distinct([one for one in runs.bench.reached((first,), 5) if one.after])
    for where in later[:: len(later) // 6]:
        assert as_whole(runs, (first, fault_at(where)))


def test_a_second_fault_that_strikes_before_the_first_branches_off_before_both(runs: TrialRuns) -> None:
    calm = runs.bench.calm
    early, late = fault_at(calm[len(calm) // 3]), fault_at(calm[len(calm) // 2])
    runs.reached_after((late,))
    assert as_whole(runs, (late, early))


@pytest.mark.parametrize("place", [0, 1])
def test_a_fault_at_a_time_and_one_after_events_branch_off(runs: TrialRuns, place: int) -> None:
    where = fault_at(runs.bench.calm[len(runs.bench.calm) // 3])
    runs.reached_after((where,))
    for other in (crash("trace-0").after(ms(6)), crash("trace-1").after(events(6))):
        assert as_whole(runs, (where, other)[:: 1 - 2 * place])


def test_what_lasts_is_followed_by_what_a_whole_run_has(runs: TrialRuns) -> None:
    """What a frozen node puts off is counted."""
    paused = replace(fault_at(runs.bench.calm[len(runs.bench.calm) // 3]), kind="pause")
    later = runs.reached_after((paused.lasting(ms(5)),))
    for where in later[:: len(later) // 4]:
        assert as_whole(runs, (paused.lasting(ms(5)), fault_at(where)))
    assert as_whole(runs, (pause("trace-0").after(ms(6)).lasting(ms(3)), fault_at(later[-1])))


def test_a_fault_that_never_comes_is_missed_on_a_branch_too(runs: TrialRuns) -> None:
    first, second = (fault_at(runs.bench.calm[len(runs.bench.calm) * part // 4]) for part in (1, 3))
    assert as_whole(runs, (first, crash("trace-0").after(events(10_000))))
    runs.reached_after((first,))
    assert as_whole(runs, (first, second, crash("trace-1").after(events(10_000))))


def test_what_goes_beyond_the_claims_is_left_and_shows_nothing(limited: Bench) -> None:
    calm = limited.calm_classes
    with closing(TrialRuns(limited, 5)) as runs:
        found = [runs.run((fault_at(one[0]),)) for one in calm[:: len(calm) // 40]]
        for (one, *_), run in zip(calm[:: len(calm) // 40], found, strict=True):
            outcome = limited.outcome(limited.run((fault_at(one),), 5))
            if run.branched:
                assert (run.history is None) == (outcome.reason == BEYOND), one.address
        assert {run.history is None for run in found} == {True, False}


def test_what_violates_a_claim_before_it_goes_beyond_is_not_left(
    limited: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    violated = Outcome(Status.VIOLATED, (), ViolationKind("precise-recovery", "lost-input"))
    monkeypatch.setattr(Bench, "outcome", lambda bench, history: violated)
    calm = limited.calm_classes
    with closing(TrialRuns(limited, 5)) as runs:
        assert all(runs.run((fault_at(one[0]),)).history is not None for one in calm[:: len(calm) // 20])


def test_what_shows_on_a_branch_alone_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """No branch is believed that a whole run does not bear out."""
    origin = "mutant:passive-replication-without-source-log@trace.passive-replication"
    scenario = REGISTRY.scenario(origin).scenario
    small = replace(scenario, workload=replace(scenario.workload, events=8, batch=4, rate=None), faults=())
    bench = Bench(small, REGISTRY, seed=7)
    trials = [(fault_at(one[0]),) for one in bench.calm_classes]
    shown = {schedule: bench.outcome(bench.run(schedule, 7)).kind for schedule in trials}
    schedule, kind = next((schedule, kind) for schedule, kind in reversed(shown.items()) if kind is not None)
    violating = bench.run(schedule, 7)
    branched: list[Schedule] = []

    def end_of(trunk: Trunk, schedule: Schedule, before: object, may_be_left: object) -> BranchedRun:
        branched.append(schedule)
        return BranchedRun(violating)

    monkeypatch.setattr(Trunk, "end_of", end_of)
    small_one = shrink(bench, Trial(schedule, 7), kind)
    assert branched
    assert small_one.bench.attempt(small_one.trial).kind == kind


def test_a_claim_is_violated_in_a_way_where_all_that_is_judged_says_so(bench: Bench) -> None:
    mutant = REGISTRY.scenario("mutant:passive-replication-without-source-log@trace.passive-replication").scenario
    workload = replace(mutant.workload, events=16, batch=4, rate=None)
    claims = [at_most_once(), precise_recovery(), exactly_once(), at_least_once()]
    broken = Bench(replace(mutant, workload=workload, claims=claims), REGISTRY, seed=7)
    found = set()
    for one, *_ in broken.calm_classes[:: len(broken.calm_classes) // 12]:
        history = broken.run((fault_at(one),), 7)
        kind = broken.outcome(history).kind
        for claim in broken.claims:
            for anomaly in ("duplicate-output", "lost-input"):
                wanted = ViolationKind(str(claim), anomaly)
                assert broken.violates(history, wanted) == (kind == wanted), wanted
        found.add(kind)
    ways = {ViolationKind("precise-recovery", anomaly) for anomaly in ("lost-input", "duplicate-output")}
    assert found == {None, *ways}
    assert not bench.violates(bench.calm_history, ViolationKind("no-such-claim", "lost-input"))
