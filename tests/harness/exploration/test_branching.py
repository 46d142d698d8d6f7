"""A run that is put back goes on as if it had been run from the beginning."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from random import SystemRandom
from typing import Any

import pytest
from msgspec import Struct

from coordinators_of_users import cutting, together
from mechanisms_of_users import hurrying
from sampling import long_but_for
from simulation import CASES, KINDS, SIMULATED, SPREAD, options_of, scenario_of
from streamproof.harness.contracts.cluster import Run
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Address, Moment, Point, Side
from streamproof.harness.core.costs import Costs
from streamproof.harness.core.errors import InvalidOperator
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.places import ANY_WORKER
from streamproof.harness.core.quantities import events, ms
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.topology import Stage, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import BEYOND, Bench, Outcome, Trial, untimed_crash
from streamproof.harness.exploration.branching import TracedRun, Trunk
from streamproof.harness.exploration.census import Reached
from streamproof.harness.exploration.classes import distinct
from streamproof.harness.exploration.drawn_on_the_way import DrawingController, FaultAhead
from streamproof.harness.exploration.exhausting import prove, statements
from streamproof.harness.exploration.mutants import mutant_world
from streamproof.harness.exploration.pieces import NO_PIECE, Tried
from streamproof.harness.exploration.plans import (
    IN_A_WORLD,
    EverySingle,
    RandomSchedules,
    SearchPlan,
    Successive,
    settled,
)
from streamproof.harness.exploration.search import SearchBudget, SearchFindings, Succession, search
from streamproof.harness.judging.exercised import Activity
from streamproof.harness.protocol.controller import Controller
from streamproof.harness.recording.recorder import MemoryRecorder
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.harness.worlds.simulated.world import Captured
from streamproof.reference_impls.mutants.library import MUTANTS
from streamproof.reference_impls.mutants.mutant import BrokenScheme
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered

REGISTRY = Registry()
FIRSTS, SECONDS = 2, 1
"""Branches that are compared of each run."""


def bench_of_case(case: str) -> Bench:
    return Bench(scenario_of(case), REGISTRY, seed=5)


def at(where: Reached) -> Fault:
    return untimed_crash([where.address.name]).at(Moment.exactly(where.address))


def spread(some: Sequence[Any], count: int) -> Sequence[Any]:
    return some[len(some) // (2 * count) :: max(1, len(some) // count)]


def trunk_of(bench: Bench) -> Trunk:
    trunk = bench.trunk()
    assert trunk is not None, bench.whole_runs
    return trunk


def branches(bench: Bench) -> Iterator[tuple[TracedRun, Reached]]:
    """Some single crashes, and some that follow them."""
    trunk = trunk_of(bench)
    for first in spread(distinct(trunk.calm.reached), FIRSTS):
        yield trunk.calm, first
        passed = trunk.under(trunk.calm, at(first), first)
        for second in spread(distinct(passed.reached), SECONDS):
            yield passed, second


def as_whole_runs(bench: Bench) -> None:
    trunk = trunk_of(bench)
    compared = 0
    for before, where in branches(bench):
        branch = trunk.end_under(before, at(where), where).digest()
        schedule = (*before.schedule, at(where))
        assert branch == bench.run(schedule, bench.seed).digest(), "; ".join(map(str, schedule))
        compared += 1
    assert compared > FIRSTS


@pytest.mark.parametrize("case", long_but_for(sorted(SPREAD)[::4], CASES))
def test_a_branch_of_every_scheme_is_a_whole_run(case: str) -> None:
    scenario = scenario_of(case)
    world = ("usual", "slow-links", "noticed-late")[CASES.index(case) % 3]
    as_whole_runs(Bench(scenario, REGISTRY, seed=5, options=options_of(world, scenario)))


@pytest.mark.parametrize("mutant", long_but_for(MUTANTS[::27], MUTANTS), ids=lambda mutant: mutant.name)
def test_a_branch_of_every_mutant_is_a_whole_run(mutant: BrokenScheme) -> None:
    home = REGISTRY.scenario(mutant.on).scenario
    assert isinstance(home.subject, SchemeSubject)
    broken = mutant.make(home.subject.topology, events(8))
    scenario = Scenario(broken, replace(home.workload, events=24, batch=4, rate=None))
    as_whole_runs(Bench(scenario, REGISTRY, seed=7, options=mutant_world(mutant)))


@pytest.mark.parametrize("build", [cutting, together])
def test_a_branch_with_a_coordinator_of_a_user_is_a_whole_run(build: Callable[[Topology], SchemeSubject]) -> None:
    as_whole_runs(Bench(Scenario(build(trace()), numbered(events=32, batch=4)), REGISTRY, seed=5))


@pytest.mark.parametrize("case", ["passive-replication/word-count-words", "active-standby/trace-numbered"])
def test_a_branch_where_work_takes_time_is_a_whole_run(case: str) -> None:
    scenario = scenario_of(case)
    names = {slice_id.partition("-")[0] for slice_id in scenario.subject.actors}
    slow = replace(scenario, costs=Costs(dict.fromkeys(names, ms(0.4)), room=events(12)))
    as_whole_runs(Bench(slow, REGISTRY, seed=5))


@pytest.mark.parametrize("careful", [False, True])
def test_a_branch_with_a_mechanism_of_a_user_is_a_whole_run(careful: bool) -> None:
    subject = hurrying(passive_replication(trace(), checkpoint_every=events(8)), events(5), careful=careful)
    as_whole_runs(Bench(Scenario(subject, numbered(events=32, batch=4)), REGISTRY, seed=5))


@pytest.mark.parametrize("case", long_but_for(SPREAD, CASES))
def test_what_is_drawn_on_the_way_is_a_whole_run_under_what_was_drawn(case: str) -> None:
    """The schedule that is kept of it says all: it is the same from the beginning, with no drawing."""
    scenario = scenario_of(case)
    world = ("usual", "slow-links", "noticed-late")[CASES.index(case) % 3]
    bench = Bench(scenario, REGISTRY, seed=5, options=options_of(world, scenario))
    struck = 0
    for number in range(12):
        far = FaultAhead(
            untimed_crash([bench.actors[number % len(bench.actors)]]), 7 * number, lambda where: True, False
        )
        first = at(bench.calm[len(bench.calm) * (number + 1) // 20])
        drawn = bench.drawn(Trial((first,), number), [far, replace(far, passed=number)])
        if len(drawn.schedule) == 3:
            assert drawn.history.digest() == bench.run(drawn.schedule, number).digest(), "; ".join(
                map(str, drawn.schedule)
            )
            struck += 1
            if struck == 2:
                break
    assert struck


def test_no_fault_is_drawn_at_an_address_that_was_passed_before() -> None:
    """Where an address is come to again, a schedule that names it would strike there the first time."""
    before, one, other = (Address("count-0", 1, Point.TIMER, str(number), Side.BEFORE) for number in range(3))
    drawing = DrawingController(
        (untimed_crash(["count-0"]).at(Moment.exactly(one)),),
        [FaultAhead(untimed_crash(["count-0"]), 0, lambda where: True, False)],
        ["count-0"],
        lambda: True,
        lambda number, fault: True,
    )
    struck = [len(drawing.arrived(address)) for address in (before, one, before, one, other)]
    assert struck == [0, 1, 0, 0, 1]
    assert [fault.trigger for fault in drawing.schedule] == [Moment.exactly(one), Moment.exactly(other)]


def test_faults_that_never_come_are_left_out_and_nothing_is_run_again() -> None:
    bench = Bench(scenario_of("passive-replication/word-count-words"), REGISTRY, seed=5)
    never = untimed_crash(["count-0"]).at(Moment(Point.TIMER, Side.BEFORE, "never", "count-0"))
    comes = at(bench.calm[len(bench.calm) // 3])
    trial, history = settled(bench, (never, comes, never), [], bench.seed)
    assert trial.schedule == (comes,)
    assert history is not None
    assert history.digest() == bench.run(trial.schedule, bench.seed).digest()
    assert [struck.number for struck in history.struck()] == [0]


def test_which_worker_any_is_has_to_be_drawn_again_where_a_fault_before_it_is_left_out() -> None:
    bench = Bench(scenario_of("passive-replication/word-count-words"), REGISTRY, seed=5)
    never = untimed_crash(["count-0"]).at(Moment(Point.TIMER, Side.BEFORE, "never", "count-0"))
    somewhere = replace(at(bench.calm[len(bench.calm) // 3]), targets=(ANY_WORKER,))
    assert settled(bench, (never, somewhere), [], bench.seed) == (Trial((somewhere,), bench.seed), None)


def test_random_schedules_come_to_what_they_come_to_by_themselves() -> None:
    scenario = scenario_of("active-replication/trace-numbered")
    bench = Bench(scenario, REGISTRY, seed=5)
    plan = RandomSchedules(5, 40, kinds=tuple(SIMULATED))
    recovering = 0
    for piece in range(40):
        ((trial, outcome),) = plan.attempts(bench, piece)
        assert [trial] == list(plan.trials(bench, piece))
        assert outcome == bench.attempt(trial)
        assert trial.random
        recovering += len(trial.schedule) > 1
    assert recovering > 10


@pytest.mark.parametrize("case", long_but_for(sorted(SPREAD)[1::4], CASES))
def test_what_is_drawn_in_a_world_that_is_put_back_is_a_whole_run(case: str) -> None:
    """Wherever the first fault strikes: at an address, at a time, after so many events."""
    scenario = scenario_of(case)
    world = ("usual", "slow-links", "noticed-late")[CASES.index(case) % 3]
    bench = Bench(scenario, REGISTRY, seed=5, options=options_of(world, scenario))
    trunk = trunk_of(bench)
    crashed = untimed_crash([bench.actors[-1]])
    somewhere = [at(one) for one in spread(bench.calm, 3)]
    after = [crashed.after(ms(time)) for time in (1, 2.5, 7)]
    counted = [untimed_crash([bench.actors[0]]).after(events(amount)) for amount in (1, 8)]
    ahead = FaultAhead(crashed, 5, lambda where: True, False)
    begun = Counter[str]()
    for first in (*somewhere, *after, *counted):
        for known, more in (((first,), []), ((first, after[-1]), []), ((first,), [ahead, ahead])):
            drawn = trunk.drawn(known, more, lambda history: True)
            if drawn is None:
                continue
            begun[type(first.trigger).__name__] += 1
            whole = bench.run(drawn.schedule, bench.seed)
            assert drawn.history.digest() == whole.digest(), "; ".join(map(str, drawn.schedule))
    assert begun["Moment"]
    assert begun["AtTime"]


def test_what_is_drawn_under_no_fault_strikes_from_the_beginning_on() -> None:
    bench = Bench(scenario_of("passive-replication/word-count-words"), REGISTRY, seed=5)
    ahead = FaultAhead(untimed_crash([bench.actors[-1]]), 5, lambda where: True, False)
    drawn = trunk_of(bench).drawn((), [ahead, ahead], lambda history: True)
    assert drawn is not None
    assert len(drawn.schedule) == 2
    first = drawn.schedule[0].trigger
    assert isinstance(first, Moment)
    assert first.matches(bench.calm[5].address, 0)
    assert drawn.history.digest() == bench.run(drawn.schedule, bench.seed).digest()


def test_random_schedules_share_a_world_that_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(scenario_of("passive-replication/word-count-words"), REGISTRY, seed=5)
    trunk_of(bench)
    begun: list[int] = []
    simulate = SimulatedCluster.simulate

    def noted(cluster: SimulatedCluster, run: Run, controller: Controller) -> Any:
        begun.append(run.seed)
        return simulate(cluster, run, controller)

    monkeypatch.setattr(SimulatedCluster, "simulate", noted)
    plan = RandomSchedules(5, 2 * IN_A_WORLD)
    worlds = [next(iter(plan.attempts(bench, piece)))[0].seed for piece in range(2 * IN_A_WORLD)]
    assert [len(list(same)) for _, same in groupby(worlds)] == [IN_A_WORLD, IN_A_WORLD]
    assert len(begun) < IN_A_WORLD


@pytest.mark.parametrize("case", ["passive-replication/word-count-words", "active-replication/trace-numbered"])
def test_whatever_disturbs_a_world_is_put_back_with_it(case: str) -> None:
    """Under faults of all kinds, at times as well: captures in the middle of them."""
    scenario = scenario_of(case)
    bench = Bench(scenario, REGISTRY, seed=5)
    plan = RandomSchedules(5, 40, kinds=tuple(SIMULATED))
    for piece in range(6):
        (trial,) = plan.trials(bench, piece)
        recorder = MemoryRecorder()
        run = Run("captured", scenario, trial.seed, recorder, KINDS, None)
        whole = bench.run(trial.schedule, trial.seed).digest()
        with SimulatedCluster().simulate(run, Controller(trial.schedule)) as world:
            world.prepare()
            world.start()
            captured: list[Captured] = [world.capture()]
            while world.run_to(world.steps + 25):
                captured.append(world.capture())
            for one in (None, *captured[::6], captured[-1]):
                if one is not None:
                    world.restore(one)
                world.drained(scenario.deadline)
                world.stop()
                assert recorder.history().digest() == whole, "; ".join(map(str, trial.schedule))


def test_what_is_enumerated_comes_to_the_same_in_branches_and_in_whole_runs() -> None:
    subject = passive_replication(trace(), checkpoint_every=events(3))
    scenario = Scenario(subject, numbered(events=3, batch=1))
    branching, whole = Bench(scenario, REGISTRY, seed=5), Bench(scenario, REGISTRY, seed=5)
    whole.only_whole_runs("to compare")
    for plan, piece in ((EverySingle("handed-over-loss"), 7), (Successive(1), 3), (Successive(2), 9)):
        assert list(plan.attempts(branching, piece)) == list(plan.attempts(whole, piece))
        assert [trial for trial, _ in plan.attempts(branching, piece)] == list(plan.trials(whole, piece))


LIMITED = [case for case in sorted(SPREAD) if bench_of_case(case).is_limited]


@pytest.mark.parametrize("case", long_but_for(LIMITED[::2], LIMITED))
def test_a_run_that_is_left_where_it_goes_beyond_the_claims_comes_to_what_the_whole_one_does(case: str) -> None:
    bench = bench_of_case(case)
    trunk, compared = trunk_of(bench), 0
    for before, where in branches(bench):
        left = bench.outcome_beyond(trunk.struck_under(before, at(where), where))
        if left is not None:
            compared += 1
            whole = bench.outcome(bench.run((*before.schedule, at(where)), bench.seed))
            assert (left.status, left.struck, left.reason) == (whole.status, whole.struck, whole.reason)
    assert compared


def test_some_of_what_goes_beyond_the_claims_is_run_on_to_its_end() -> None:
    bench = bench_of_case("active-standby/trace-numbered").with_input(12, 2)
    (found,) = statements(bench, search(bench, [Successive(2)], SearchBudget(400)))
    assert 0 < found.run_on < found.beyond / 4
    on = f"of these, {found.run_on:,} were run on to their end"
    assert f"{found.beyond:,} go beyond what is claimed ({on})" in found.text


def test_what_was_exhausted_is_stated() -> None:
    subject = passive_replication(trace(), checkpoint_every=events(3))
    bench = Bench(Scenario(subject, numbered(events=12, batch=2)), REGISTRY, seed=5)
    budget = SearchBudget(schedules=len(bench.calm_classes) + 20)
    found = search(bench, [Successive(1), Successive(2)], budget, in_order=True)
    single, pair = statements(bench, found)
    assert re.fullmatch(
        rf"all {len(bench.calm)} crashes \({len(bench.calm_classes)} leave different worlds behind\) of 5 slices, 3 of "
        r"them operators', 12 events, \d+ checkpoints: rollback-recovery-repeating holds; \d+ harmed nobody",
        single.text,
    )
    assert single.proves
    assert not pair.proves
    assert re.match(r"20( of about [\d,]+)? pairs of crashes of .*: no violation so far", pair.text)


def test_what_was_exercised_is_asked_of_single_crashes_and_of_pairs_each_by_themselves() -> None:
    subject = passive_replication(trace(), checkpoint_every=events(3))
    bench = Bench(Scenario(subject, numbered(events=12, batch=2)), REGISTRY, seed=5)
    found = search(bench, [Successive(1)], SearchBudget())
    one = found.successions[1]
    two = found.successions[2] = replace(one, faults=2, exercised=Counter(one.exercised))
    one.exercised.clear()
    single, pair = statements(bench, found)
    assert re.search("no violation, but .*nothing was delivered to a sink", single.text)
    assert "rollback-recovery-repeating holds" in pair.text
    assert prove([single, pair]), "under pairs all was at work"
    two.exercised.clear()
    assert not prove(statements(bench, found))


def test_what_was_at_work_where_nothing_was_judged_plainly_was_not_tried() -> None:
    findings, succession = SearchFindings(frozenset(), 1), Succession(1, pieces=1)
    beyond = Outcome(Status.UNKNOWN, (), reason=BEYOND, at_work=(Activity.RESTORE, Activity.REPLAY))
    held = Outcome(Status.HOLDS, (), at_work=(Activity.REPLAY,))
    for outcome in (beyond, held):
        findings.add(Tried(NO_PIECE, 0, False, outcome), lambda: Trial((), 7))
        succession.add(outcome)
    assert findings.exercised == {Activity.RESTORE: 1, Activity.REPLAY: 2}
    assert findings.exercised_plainly == succession.exercised == {Activity.REPLAY: 1}


def test_pairs_for_which_no_time_was_left_are_said_and_prove_nothing() -> None:
    subject = passive_replication(trace(), checkpoint_every=events(3))
    bench = Bench(Scenario(subject, numbered(events=12, batch=2)), REGISTRY, seed=5)
    found = search(bench, [Successive(1)], SearchBudget())
    assert prove(statements(bench, found))
    found.successions[2] = Succession(2, pieces=len(bench.calm_classes))
    single, pair = statements(bench, found)
    assert single.proves
    assert re.fullmatch("0 pairs of crashes of .*: the time was over before", pair.text)
    assert not prove([single, pair])
    found.successions[2] = Succession(2, pieces=0)
    assert prove(statements(bench, found)), "there are none"


class Remembering(Operator[dict[str, int]]):
    """Counts under one key, with whatever a state may be made of."""

    def __init__(self, more: Any = None) -> None:
        self._more = more

    def initial_state(self) -> dict[str, Any]:
        return {"count": 0, "more": None if self._more is None else self._more()}

    def snapshot(self, state: dict[str, Any]) -> bytes:
        return str(state["count"]).encode()

    def restore(self, snapshot: bytes) -> dict[str, Any]:
        return {**self.initial_state(), "count": int(snapshot)}

    def rows(self, state: dict[str, Any]) -> dict[str, int]:
        return {"count": state["count"]}

    def process(self, event: Event, state: dict[str, Any]) -> list[Output]:
        state["count"] += 1
        return [(event.key, state["count"])]


_seen = [0]


class Forgetful(Remembering):
    """Against the rule: it counts in a variable of its module."""

    def process(self, event: Event, state: dict[str, Any]) -> list[Output]:
        _seen[0] += 1
        return [(event.key, _seen[0])]


def bench_with(operator: Operator[Any]) -> Bench:
    base = trace()
    stages = {name: Stage(operator, stage.parallelism) for name, stage in base.stages.items()}
    topology = Topology(base.name, stages, base.edges, base.sources, base.sinks)
    subject = passive_replication(topology, checkpoint_every=events(8))
    return Bench(Scenario(subject, numbered(events=16, batch=4)), REGISTRY, seed=5)


def test_a_state_of_a_users_own_is_put_back() -> None:
    as_whole_runs(bench_with(Remembering(lambda: {"nested": [1, {2}]})))


class LateDict(dict[str, int]):
    """Has an attribute once it has been used."""


class SlottedDict(dict[str, int]):
    __slots__ = ("n",)


class LateTuple(tuple[int, ...]):
    pass


class LateDeque(deque[int]):
    pass


class LateText(str):
    pass


class Late(partial[None]):
    pass


@dataclass(frozen=True)
class Frozen:
    held: list[int]


class FrozenStruct(Struct, frozen=True):
    held: list[int]


def a_function() -> Callable[..., list[int]]:
    def held(*, box: list[int]) -> list[int]:
        return box

    held.__kwdefaults__ = {"box": []}
    return held


def lengthened(held: list[int]) -> int:
    held.append(1)
    return len(held)


def counted(one: Any) -> int:
    one.n = getattr(one, "n", 0) + 1
    n: int = one.n
    return n


ODD: dict[str, tuple[Callable[[], Any], Callable[[Any], int]]] = {
    "attribute of a dict": (LateDict, counted),
    "slot of a dict": (SlottedDict, counted),
    "attribute of a tuple": (LateTuple, counted),
    "attribute of a deque": (LateDeque, counted),
    "attribute of a partial": (lambda: Late(print), counted),
    "attribute of a text": (lambda: LateText("text"), counted),
    "what nobody can write": (lambda: [time.gmtime(0)], lengthened),
    "attribute of a function": (a_function, counted),
    "default argument": (a_function, lambda function: lengthened(function())),
    "factory of a defaultdict": (lambda: defaultdict(list), lambda one: lengthened(one["x"])),
    "frozen dataclass": (lambda: Frozen([]), lambda one: lengthened(one.held)),
    "frozen struct": (lambda: FrozenStruct([]), lambda one: lengthened(one.held)),
}
"""What a state can have, and how it goes on."""


class GoingOn(Remembering):
    def __init__(self, kind: str) -> None:
        super().__init__(ODD[kind][0])
        self._kind = kind

    def process(self, event: Event, state: dict[str, Any]) -> list[Output]:
        return [(event.key, ODD[self._kind][1](state["more"]))]


@pytest.mark.parametrize("kind", ODD)
def test_whatever_a_state_holds_is_put_back_with_it(kind: str) -> None:
    as_whole_runs(bench_with(GoingOn(kind)))


def test_what_cannot_be_put_back_is_run_as_a_whole_and_said() -> None:
    bench = bench_with(Remembering(lambda: iter([1, 2, 3])))
    found = search(bench, [EverySingle()], SearchBudget(10))
    assert found.tried == 10
    assert "list_iterator" in found.whole_runs
    found = search(bench_with(Remembering(SystemRandom)), [EverySingle()], SearchBudget(10))
    assert "SystemRandom" in found.whole_runs


def test_what_remembers_outside_of_its_world_is_run_as_a_whole_and_said() -> None:
    found = search(bench_with(Forgetful()), [EverySingle()], SearchBudget(10))
    assert "outside" in found.whole_runs


@pytest.mark.parametrize("plan", [EverySingle(), RandomSchedules(7)], ids=["single", "random"])
def test_a_violation_that_no_whole_run_shows_is_reported_as_such(
    plan: SearchPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(
        REGISTRY.scenario("mutant:passive-replication-without-vector@trace.passive-replication").scenario,
        REGISTRY,
        seed=7,
    ).with_input(40, 4)
    trunk_of(bench)
    sound = bench.outcome(bench.run((), bench.seed))
    monkeypatch.setattr(bench, "attempt", lambda trial: sound)
    with pytest.raises(
        InvalidOperator,
        match=r"no part of its simulated world.*violated rollback-recovery-repeating by .*restore\(\) takes a copy",
    ):
        search(bench, [plan], SearchBudget(200))
    assert sound.status is not Status.VIOLATED
