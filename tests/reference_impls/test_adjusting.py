"""Settings change at one place in the input of a slice, whoever dies in between, and are judged by that place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from simulation import options_of, scenario_of
from streamproof.faults.crash import crash
from streamproof.faults.partition import partition
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scaling import scaled
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Moment, Point, Side
from streamproof.harness.core.errors import ExitStatus, InvalidScenario
from streamproof.harness.core.events import Value
from streamproof.harness.core.guarantees import gap_recovery
from streamproof.harness.core.quantities import Duration, events, ms
from streamproof.harness.core.slice_names import slice_of
from streamproof.harness.core.topology import Role, Topology
from streamproof.harness.core.verdicts import Anomaly, Status, Verdict
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.census import Reached as Passed
from streamproof.harness.exploration.exploring import Explored, explore
from streamproof.harness.exploration.search import SearchBudget
from streamproof.harness.exploration.small_worlds import SLOW_SOURCE
from streamproof.harness.judging.exercised import Activity
from streamproof.harness.protocol.coordinator import CoordinatorMachine, CoordinatorSpec
from streamproof.harness.protocol.effects import (
    Durable,
    Effect,
    Fire,
    Note,
    Pass,
    Persist,
    Receive,
    Reroute,
    Send,
    SetTimer,
    Start,
)
from streamproof.harness.protocol.mechanism import CHECKPOINT_EVERY
from streamproof.harness.protocol.messages import Checkpoint
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import Adopted, Changed, Offered, Started, Taken
from streamproof.reference_impls.deployed import deployed
from streamproof.reference_impls.gap_by_load import SpacesCheckpoints, gap_by_load
from streamproof.reference_impls.mechanisms.adjusting import Adjustable, Adjuster, CameSoFar, Change, Load, MayTake
from streamproof.reference_impls.mechanisms.silence import SILENCE
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.passive_standby import passive_standby
from streamproof.reference_impls.turns_by_load import WeighsChannels, turns_by_load
from streamproof.scenarios.order import order
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered

TURNS = turns_by_load(order(), acknowledge_every=events(8), consider_every=events(6))
GAP = gap_by_load(trace(), checkpoint_every=events(16), while_quiet=events(3), busy_from=events(9), each=ms(3))


def bench(subject: SchemeSubject) -> Bench:
    return Bench(Scenario(subject, numbered(events=48, batch=4)), Registry(), seed=1, options=SLOW_SOURCE)


def judged(one: Bench, *faults: Passed) -> tuple[History, Verdict]:
    """Of its claims that which the adjuster has a say in, which is the first."""
    history = one.run(tuple(crash(each.address.name).at(Moment.exactly(each.address)) for each in faults), 1)
    return history, one.judge(history)[0]


def places(history: History) -> dict[tuple[str, int], int]:
    """(slice, change) -> where it holds from, as its adjusters say."""
    found: dict[tuple[str, int], int] = {}
    for change in history.each(Changed):
        assert found.setdefault((change.member, change.number), change.since) == change.since
    return found


def inputs_in_state(history: History, slice_id: str, incarnation: int) -> int:
    """What one has taken that began blank."""
    mine = (one for one in history.each(Taken) if (one.slice, one.incarnation) == (slice_id, incarnation))
    return sum(one.count for one in mine)


def test_all_replicas_take_a_change_at_the_place_that_is_on_record() -> None:
    history, verdict = judged(bench(TURNS))
    assert verdict.status is Status.HOLDS
    since = places(history)
    adopted = list(history.each(Adopted))
    assert {one.slice for one in adopted} == {"chain-0", "chain-1"}
    assert all(one.position == since[one.slice, one.number] for one in adopted)
    both = [one.incarnation for one in adopted if (one.slice, one.number) == ("chain-0", 1)]
    assert sorted(both) == [1, 2]


def test_nothing_is_taken_beyond_what_was_said_to_be_durable() -> None:
    """Of an adjuster that nobody can hear: slices stop at the end of their span, and go on when it is back."""
    one = bench(TURNS)
    alone = [partition("adjuster", chain).after(Duration(1)).lasting(ms(60)) for chain in ("chain-0", "chain-0/1")]
    history = one.run(tuple(alone), 1)
    healed = 60_000
    before = [s.record for s in history.records if s.at < healed and isinstance(s.record, Taken)]
    assert sum(record.count for record in before if (record.slice, record.incarnation) == ("chain-0", 1)) <= 12
    (verdict,) = one.judge(history)
    assert verdict.status is Status.HOLDS
    assert inputs_in_state(history, "chain-0", 1) == inputs_in_state(history, "chain-0", 2) > 12


@pytest.mark.parametrize("subject", [TURNS, GAP], ids=["turns", "gap"])
def test_whenever_one_dies_at_a_step_of_a_change_the_scheme_keeps_its_word(subject: SchemeSubject) -> None:
    """The adjuster, where it decides, where that becomes durable and is told; and a slice, where it takes it."""
    one = bench(subject)
    steps = [
        reached
        for reached in one.calm
        if reached.address.point in (Point.MECHANISM, Point.CHECKPOINT_DURABLE)
        and (reached.address.point is Point.MECHANISM or reached.address.name == "adjuster")
    ]
    assert {slice_of(reached.address.name) for reached in steps} > {"adjuster"}
    held = 0
    for reached in steps[:: max(1, len(steps) // 24)]:
        history, verdict = judged(one, reached)
        (struck,) = history.struck()
        assert verdict.status is Status.HOLDS or not struck.bite.bit, (str(reached.address), verdict)
        places(history)
        held += verdict.status is Status.HOLDS
    assert held > 10


def test_who_starts_from_a_checkpoint_goes_by_what_was_in_force_there_and_changes_again_where_the_other_did() -> None:
    """Passive replication, so that what a dead slice had taken comes again."""
    subject = adjusted_passive()
    one = bench(subject)
    history, verdict = judged(one)
    assert verdict.status is Status.HOLDS
    died = [
        r
        for r in one.calm
        if r.address.name == "chain-0" and r.address.key == "adjustable adopt@2" and r.address.incarnation == 1
    ]
    (reached,) = died
    history, verdict = judged(one, reached)
    assert verdict.status is Status.HOLDS, verdict
    since = places(history)
    again = [a for a in history.each(Adopted) if a.slice == "chain-0" and a.incarnation == 2]
    (started,) = (s for s in history.each(Started) if s.slice == "chain-0" and s.incarnation == 2)
    assert started.restored is not None
    assert again[0].number == 2, "the first change was in the checkpoint"
    assert all(a.position == since["chain-0", a.number] for a in again)


@dataclass(frozen=True)
class EveryTime(WeighsChannels):
    """Something else whenever it is asked."""

    def choose(self, slice_id: str, load: Load, settings: Mapping[str, Value]) -> Mapping[str, Value]:
        if len(load.arrived) < 2:
            return settings
        return {} if settings else {"weights": [2] + [1] * (len(load.arrived) - 1)}


def adjusted_passive() -> SchemeSubject:
    fixed = passive_replication(
        order(), checkpoint_every=events(5), sink_filter=True, merge=TURNS.setups[Role.OPERATOR].merge
    )
    operators = fixed.setups[Role.OPERATOR]
    adjusted = replace(
        operators, mechanisms=(Adjustable(), *operators.mechanisms), coordinators=(EveryTime(span=8, least=4),)
    )
    return replace(fixed, setups={**fixed.setups, Role.OPERATOR: adjusted})


# Sources, and those that stand by


@dataclass(frozen=True)
class OtherSilence(Adjuster):
    """Another patience with an idle channel whenever it is asked."""

    def choose(self, slice_id: str, load: Load, settings: Mapping[str, Value]) -> Mapping[str, Value]:
        return {} if settings else {SILENCE: 500}


def adjusted_sources(topology: Topology, leader: Adjuster) -> SchemeSubject:
    fixed = passive_replication(topology, checkpoint_every=events(5), sink_filter=True)
    sources = fixed.setups[Role.SOURCE]
    adjusted = replace(sources, mechanisms=(Adjustable(), *sources.mechanisms), coordinators=(leader,))
    return replace(fixed, setups={**fixed.setups, Role.SOURCE: adjusted})


def test_a_source_changes_in_the_middle_of_a_batch_where_that_is_on_record() -> None:
    """Batches are of four, and changes come after five events, and so many more."""
    one = bench(adjusted_sources(order(), OtherSilence(span=5, least=3)))
    history, verdict = judged(one)
    assert verdict.status is Status.HOLDS
    since = places(history)
    adopted = list(history.each(Adopted))
    assert {number for _, number in since} >= {1, 2, 3}
    assert {(a.slice, a.number): a.position for a in adopted} == since
    assert any(position % 4 for position in since.values())
    offered = [event.seq for record in history.each(Offered) for event in record.events]
    assert offered == list(range(1, 49))


def test_a_source_waits_for_its_adjuster_and_loses_nothing() -> None:
    one = bench(adjusted_sources(order(), OtherSilence(span=5, least=3)))
    steps = [
        reached
        for reached in one.calm
        if reached.address.name == "adjuster"
        and reached.address.point in (Point.MECHANISM, Point.CHECKPOINT_DURABLE, Point.SEND_ISSUED)
    ]
    held = 0
    for reached in steps[:: max(1, len(steps) // 12)]:
        history, verdict = judged(one, reached)
        (struck,) = history.struck()
        assert verdict.status is Status.HOLDS or not struck.bite.bit, (str(reached.address), verdict)
        places(history)
        held += verdict.status is Status.HOLDS
    assert held > 6


@dataclass(frozen=True)
class OtherInterval(Adjuster):
    """Another interval of checkpoints whenever it is asked."""

    def choose(self, slice_id: str, load: Load, settings: Mapping[str, Value]) -> Mapping[str, Value]:
        return {} if settings else {CHECKPOINT_EVERY: 3}


def _hot() -> SchemeSubject:
    return passive_standby(trace(), hot=True, synchronize_every=events(8))


def _cold() -> SchemeSubject:
    return passive_standby(trace(), hot=False, synchronize_every=events(8))


def _deployed() -> SchemeSubject:
    return deployed(trace(), checkpoint_every=events(8), sink_filter=True)


@pytest.mark.parametrize("made", [_hot, _cold, _deployed])
def test_one_that_stands_by_goes_by_what_was_in_force_once_it_is_promoted(made: Callable[[], SchemeSubject]) -> None:
    fixed = made()
    operators = fixed.setups[Role.OPERATOR]
    leader = OtherInterval(span=6, least=2)
    adjusted = replace(operators, mechanisms=(Adjustable(), *operators.mechanisms), coordinators=(leader,))
    one = bench(replace(fixed, setups={**fixed.setups, Role.OPERATOR: adjusted}))
    history, verdict = judged(one)
    assert verdict.status is Status.HOLDS
    assert {number for _, number in places(history)} >= {1, 2}, "who stands by holds no change up"
    died = [r for r in one.calm if r.address.key.startswith("adjustable adopt@") and r.address.incarnation == 1]
    died += [r for r in one.calm if r.address.name == "adjuster" and r.address.point is Point.MECHANISM]
    later = 0
    for reached in died[:: max(1, len(died) // 10)]:
        history, verdict = judged(one, reached)
        assert verdict.status is Status.HOLDS, (str(reached.address), verdict)
        since = places(history)
        assert all(since[a.slice, a.number] == a.position for a in history.each(Adopted))
        later += any(a.incarnation == 2 for a in history.each(Adopted))
    assert later > 2


# The adjuster by itself


@dataclass(frozen=True)
class Doubling(Adjuster):
    span: int = 10
    least: int = 4

    def choose(self, slice_id: str, load: Load, settings: Mapping[str, Value]) -> Mapping[str, Value]:
        return {"checkpoint_every": 2 * int(settings.get("checkpoint_every", 1))}


def machine(kept: Checkpoint | None = None, incarnation: int = 1) -> CoordinatorMachine:
    made = CoordinatorMachine(CoordinatorSpec(Doubling(), ("a-0",)))
    made.on(Start(incarnation, kept))
    made.on(Reroute("a-0", 1))
    return made


def report(position: int, came: int, *, horizon: int = 10, known: int = 0, adopted: int = 0, by: int = 1) -> Receive:
    return Receive("a-0", CameSoFar(by, position, horizon, known, adopted, [came], False))


def told(effects: list[Effect]) -> list[MayTake]:
    return [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, MayTake)]


def kept(effects: list[Effect]) -> Checkpoint:
    (checkpoint,) = (effect.checkpoint for effect in effects if isinstance(effect, Persist))
    return checkpoint


def test_nobody_is_told_of_a_change_before_it_is_durable_and_it_comes_beyond_what_anybody_may_take() -> None:
    one = machine()
    one.on(report(0, 0))
    effects = one.on(report(4, 6))
    assert told(effects) == []
    effects = one.on(Durable(kept(effects).id))
    (may,) = told(effects)
    assert may == MayTake(1, 20, [Change(1, 10, {"checkpoint_every": 2})])
    said = [e.record for e in effects if isinstance(e, Note)]
    assert said == [Changed("adjuster", 1, "a-0", 1, 10, {"checkpoint_every": 2})]
    assert effects.index(Note(said[0])) == 0, "it is on record before anybody hears of it"


def changes_something(effects: list[Effect]) -> bool:
    return any(isinstance(effect, Pass) for effect in effects)


def test_the_next_change_waits_until_all_who_are_there_go_by_the_last() -> None:
    one = machine()
    one.on(Reroute("a-0", 2))
    one.on(report(0, 0))
    assert not changes_something(one.on(report(4, 6))), "of the other nothing is known"
    one.on(report(0, 0, by=2))
    assert changes_something(one.on(report(5, 12)))
    assert not changes_something(one.on(report(12, 24, horizon=20, known=1, adopted=1)))
    one.on(report(12, 0, horizon=20, known=1, adopted=1, by=2))
    assert changes_something(one.on(report(14, 30, horizon=20, known=1, adopted=1)))


def test_a_successor_says_again_what_was_changed_and_changes_nothing_below_what_was_allowed() -> None:
    one = machine()
    one.on(report(0, 0))
    checkpoint = kept(one.on(report(4, 6)))
    successor = CoordinatorMachine(one.spec)
    noted = [e.record for e in successor.on(Start(2, checkpoint)) if isinstance(e, Note)]
    assert Changed("adjuster", 2, "a-0", 1, 10, {"checkpoint_every": 2}) in noted
    successor.on(Reroute("a-0", 1))
    (may,) = told(successor.on(report(4, 6)))
    assert (may.horizon, [change.number for change in may.changes]) == (20, [1])
    effects = successor.on(report(15, 20, horizon=20, known=1, adopted=1))
    (may,) = told(successor.on(Durable(kept(effects).id)))
    assert may.changes[-1].since == 20


@dataclass(frozen=True)
class Timed(Adjuster):
    """Says what it was told."""

    span: int = 10
    least: int = 4
    every: int = 1_000

    def choose(self, slice_id: str, load: Load, settings: Mapping[str, Value]) -> Mapping[str, Value]:
        return {"ticks": load.ticks}


def test_its_clock_goes_on_while_nothing_is_reported_and_is_about_right() -> None:
    one = CoordinatorMachine(CoordinatorSpec(Timed(), ("a-0",)))
    one.on(Start(1, None))
    one.on(Reroute("a-0", 1))
    due = [e for e in one.on(report(0, 0)) if isinstance(e, SetTimer)]
    now = times = 0
    while now < 500_000:
        (timer,) = due
        now += timer.delay
        times += 1
        due = [e for e in one.on(Fire(timer.timer)) if isinstance(e, SetTimer)]
    assert times < 60
    (may,) = told(one.on(Durable(kept(one.on(report(4, 6))).id)))
    assert may.changes[0].settings == {"ticks": now // 1_000}
    assert now < 600_000


def test_its_clock_stands_still_once_the_input_of_all_is_over() -> None:
    one = CoordinatorMachine(CoordinatorSpec(Timed(), ("a-0",)))
    one.on(Start(1, None))
    one.on(Reroute("a-0", 1))
    (due,) = (e for e in one.on(report(0, 0)) if isinstance(e, SetTimer))
    one.on(Receive("a-0", CameSoFar(1, 1, 10, 0, 0, [1], True)))
    assert not any(isinstance(e, SetTimer) for e in one.on(Fire(due.timer)))


@dataclass(frozen=True)
class Says(Adjuster):
    what: object = None

    def choose(self, slice_id: str, load: Load, settings: Mapping[str, Value]) -> Mapping[str, Value]:
        return self.what  # type: ignore[return-value]


@pytest.mark.parametrize("what", [None, 8, "checkpoint_every", {1: 8}])
def test_what_is_no_settings_is_refused_by_name(what: object) -> None:
    with pytest.raises(InvalidScenario, match=r"Says.choose\(\) returned"):
        bench(led_by(GAP, Says(6, 3, what=what))).run((), 1)


def test_a_setting_that_nothing_goes_by_is_refused_by_name() -> None:
    with pytest.raises(InvalidScenario, match=r"Says changes 'checkpoint_evry' of .*they ask for checkpoint_every"):
        bench(led_by(GAP, Says(6, 3, what={"checkpoint_evry": 8}))).run((), 1)


def test_a_slice_that_nobody_adjusts_is_refused() -> None:
    fixed = passive_replication(trace())
    operators = fixed.setups[Role.OPERATOR]
    alone = replace(operators, mechanisms=(Adjustable(), *operators.mechanisms))
    subject = replace(fixed, setups={**fixed.setups, Role.OPERATOR: alone})
    with pytest.raises(InvalidScenario, match="names no Adjuster"):
        bench(subject).run((), 1)


def test_an_interval_while_it_is_quiet_is_no_longer_than_the_other() -> None:
    with pytest.raises(InvalidScenario, match="while_quiet"):
        gap_by_load(trace(), checkpoint_every=events(10), while_quiet=events(11))


# A small world


REGISTRY = Registry()
SCENARIOS = ["order.turns-by-load", "trace.gap-by-load"]


def searched(scenario: Scenario, tmp_path: Path) -> Explored:
    named = Named("small", "small", "small", scenario)
    return explore(named, REGISTRY, SearchBudget(20), seed=7, jobs=1, output=tmp_path / "counterexample.json")


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_search_in_a_small_world_has_changes_adopted(name: str, tmp_path: Path) -> None:
    found = searched(scaled(REGISTRY.scenario(name).scenario), tmp_path)
    assert found.findings.exercised[Activity.CHANGE] > 10
    assert Activity.CHANGE in found.bench.rests_on
    assert Activity.CHANGE not in found.untried


@dataclass(frozen=True)
class NeverChanges(Adjuster):
    def choose(self, slice_id: str, load: Load, settings: Mapping[str, Value]) -> Mapping[str, Value]:
        return settings


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_search_in_which_nothing_was_ever_changed_is_unknown(name: str, tmp_path: Path) -> None:
    small = scaled(REGISTRY.scenario(name).scenario)
    found = searched(replace(small, subject=led_by(subject_of(small), NeverChanges())), tmp_path)
    assert Activity.CHANGE in found.untried
    assert found.exit_status is ExitStatus.UNKNOWN


def test_what_does_not_merge_has_no_weights_to_change() -> None:
    assert all(Activity.CHANGE not in (claim.rests_on or ()) for claim in turns_by_load(trace()).claims)


def test_the_amounts_of_an_adjuster_are_brought_down_in_their_order() -> None:
    subject = subject_of(scaled(REGISTRY.scenario("trace.gap-by-load").scenario))
    (leader,) = subject.setups[Role.OPERATOR].coordinators
    assert isinstance(leader, SpacesCheckpoints)
    assert subject.checkpoint_every is not None
    assert leader.quiet < subject.checkpoint_every
    assert (leader.span, leader.least) == (2 * leader.quiet, leader.quiet)
    # 60 events in 50 ms.
    assert leader.from_rate * 50_000 == leader.every * 60
    (alone,) = subject.coordinators
    assert alone.coordinator == leader


# Bounds


@dataclass(frozen=True)
class FarTooRare(Adjuster):
    """Ten times the interval that was declared, whatever the load."""

    declared: int = 1

    def choose(self, slice_id: str, load: Load, settings: Mapping[str, Value]) -> Mapping[str, Value]:
        return {CHECKPOINT_EVERY: 10 * self.declared}


def test_an_adjuster_that_chooses_more_than_the_declared_interval_is_refuted() -> None:
    """What it put on record allows it, and so only the bound that is declared finds it."""
    every = 4
    subject = gap_by_load(trace(1), checkpoint_every=events(every), while_quiet=events(3), busy_from=events(9))
    one = bench(led_by(subject, FarTooRare(span=6, least=3, declared=every)))
    history = one.run((crash("trace-0").after(events(36)),), 1)
    assert any(change.settings == {CHECKPOINT_EVERY: 10 * every} for change in history.each(Changed))
    by_changes, declared = one.judge(history)
    assert by_changes.status is Status.HOLDS
    assert (
        "a coordinator let checkpoints be taken by relay-0 every 40 events, trace-0 every 40 events"
        in by_changes.summary
    )
    assert declared.guarantee == gap_recovery(events(every))
    assert declared.status is Status.VIOLATED
    assert [tally.anomaly for tally in declared.anomalies] == [Anomaly.STATE_ROLLBACK]


def led_by(subject: SchemeSubject, leader: Adjuster) -> SchemeSubject:
    operators = replace(subject.setups[Role.OPERATOR], coordinators=(leader,))
    return replace(subject, setups={**subject.setups, Role.OPERATOR: operators})


def subject_of(scenario: Scenario) -> SchemeSubject:
    assert isinstance(scenario.subject, SchemeSubject)
    return scenario.subject


def test_who_takes_over_a_state_at_its_horizon_asks_how_far_it_may_go() -> None:
    """There it takes nothing, and so would ask for nothing, and wait for ever."""
    scenario = scenario_of("turns-by-load/two-splitters")
    seed = 2_266_872_262
    bench = Bench(scenario, Registry(), seed=seed, options=options_of("slow-links", scenario))
    late = Moment(Point.SEND_HANDED_OVER, Side.AFTER, key="count-0#2 end", actor="split-0/1", incarnation=2)
    history = bench.run((crash("split-1").at(late),), seed)
    assert [struck.bite.why_not for struck in history.struck()] == [""]
    assert [verdict.status for verdict in bench.judge(history)] == [Status.HOLDS]
