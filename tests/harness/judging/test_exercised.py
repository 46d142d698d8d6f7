"""What was at work in a run, and what its claims rest on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from simulation import EVERY, KINDS, SLOW_SOURCE
from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.errors import InvalidScenario
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.topology import Edge, Partitioning, Role, Stage, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.exploring import explore
from streamproof.harness.exploration.plans import EverySingle, RandomSchedules
from streamproof.harness.exploration.search import SearchBudget, search
from streamproof.harness.exploration.simulating import simulate
from streamproof.harness.exploration.telling import view_of_search
from streamproof.harness.judging.exercised import Activity, called_for, said_never, unexercised
from streamproof.harness.protocol.channels import InputChannel
from streamproof.harness.protocol.machine import Machine
from streamproof.harness.protocol.mechanism import AtWork, Mechanism
from streamproof.harness.recording.history import History
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.oracles import ORACLES
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.active_standby import active_standby
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.passive_standby import passive_standby
from streamproof.reference_impls.source_replay import source_replay
from streamproof.reference_impls.upstream_backup import upstream_backup
from streamproof.scenarios.order import order
from streamproof.scenarios.stateless import stateless
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered
from verdicts_of import JUDGES

M = Activity
INPUT = numbered(events=60, batch=4)
CRASH = crash("trace-0").after(events(12))


def run(subject: SchemeSubject, *faults: Fault) -> History:
    scenario = Scenario(subject, INPUT, faults)
    oracles = {oracle.guarantee: oracle for oracle in ORACLES}
    return run_in_memory(scenario, SimulatedCluster(SLOW_SOURCE), KINDS, oracles, seed=1)[0]


def at_work(subject: SchemeSubject, *faults: Fault) -> set[Activity]:
    """As often as it is counted, and as a search asks, which counts no further than it has to."""
    history = run(subject, *faults)
    found = {mechanism for mechanism, count in subject.exercised(history).items() if count}
    assert set(subject.at_work(history)) == found
    return found


PASSIVE = passive_replication(trace(), checkpoint_every=EVERY, sink_filter=True)


def test_without_a_fault_nothing_is_restored_replayed_or_dropped() -> None:
    assert at_work(PASSIVE) == {M.CHECKPOINT, M.TRIM, M.DELIVERY}
    assert at_work(active_standby(trace(), acknowledge_every=EVERY)) == {M.TRIM, M.DELIVERY}
    assert at_work(amnesia(trace())) == {M.DELIVERY}


def test_a_crash_under_passive_replication_has_all_of_it_at_work() -> None:
    found = at_work(PASSIVE, crash("relay-0").after(events(30)))
    assert found >= {M.RESTART, M.CHECKPOINT, M.RESTORE, M.REPLAY, M.FILTER, M.TRIM}
    assert found >= PASSIVE.mechanisms(JUDGES)


@pytest.mark.parametrize(
    ("subject", "rests_on"),
    [
        (amnesia(trace()), {M.RESTART}),
        (gap(trace(), checkpoint_every=EVERY), {M.CHECKPOINT, M.RESTORE}),
        (active_replication(trace(), acknowledge_every=EVERY), {M.RESTORE, M.TAKE_OVER, M.FILTER, M.TRIM}),
        (active_standby(trace(), acknowledge_every=EVERY), {M.RESTORE, M.TAKE_OVER, M.TRIM, M.FILTER}),
        (
            passive_standby(trace(), hot=False, synchronize_every=EVERY),
            {M.CHECKPOINT, M.RESTORE, M.TAKE_OVER, M.REPLAY, M.TRIM, M.FILTER},
        ),
    ],
)
def test_a_crash_has_at_work_what_the_claim_rests_on(subject: SchemeSubject, rests_on: set[Activity]) -> None:
    assert subject.mechanisms(JUDGES) == rests_on | {M.DELIVERY}
    found = at_work(subject, CRASH) | at_work(subject, crash("relay-0").after(events(30)))
    assert found >= rests_on


@dataclass(frozen=True)
class Twice(Mechanism):
    """Lets every batch pass in another list, without its first event where it is told so."""

    sheds: bool

    def attach(self, machine: Machine) -> AtWork:
        return _Twice(machine, self.sheds)


class _Twice(AtWork):
    def __init__(self, machine: Machine, sheds: bool) -> None:
        super().__init__(machine)
        self._from = int(sheds)

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        return events[self._from :]


@pytest.mark.parametrize("sheds", [False, True])
def test_only_what_had_come_before_is_a_duplicate_that_was_dropped(sheds: bool) -> None:
    """Who sheds what is new loses it, and has dropped no duplicate."""
    base = amnesia(trace())
    operators = replace(base.setups[Role.OPERATOR], mechanisms=(Twice(sheds),))
    assert M.FILTER not in at_work(replace(base, setups={**base.setups, Role.OPERATOR: operators}))


def test_what_a_source_sends_again_is_a_replay() -> None:
    subject = source_replay(stateless(), timeout=seconds(0.05))
    first = subject.topology.operator_slices[0]
    assert M.REPLAY not in at_work(subject)
    assert M.REPLAY in at_work(subject, crash(first).after(events(30)))


def test_a_merge_waits_where_channels_meet() -> None:
    assert M.MERGE in at_work(passive_replication(order(), checkpoint_every=EVERY))
    assert M.MERGE in passive_replication(order(), checkpoint_every=EVERY).mechanisms(JUDGES)
    assert M.MERGE not in PASSIVE.mechanisms(JUDGES)


def test_one_that_does_not_say_what_its_claim_rests_on_is_asked_for_what_it_has_switched_on() -> None:
    (claim,) = PASSIVE.claims
    silent = replace(PASSIVE, claims=(replace(claim, rests_on=None),))
    assert silent.mechanisms(JUDGES) == {M.RESTART, M.CHECKPOINT, M.RESTORE, M.REPLAY, M.DELIVERY}
    assert replace(PASSIVE, claims=(replace(claim, rests_on=()),)).mechanisms(JUDGES) == {M.DELIVERY}


# One run


def vacuous(subject: Callable[..., SchemeSubject] = passive_replication) -> Scenario:
    """It ends long before the first checkpoint is due."""
    return Scenario(subject(trace(), checkpoint_every=events(5_000)), INPUT, [CRASH])


def test_what_no_claim_is_said_to_rest_on_is_named_where_it_was_never_at_work(tmp_path: Path) -> None:
    """The author of a scheme says what its claim rests on, and has no say in what was looked at."""
    planned = vacuous()
    assert isinstance(planned.subject, SchemeSubject)
    (claim,) = planned.subject.claims
    planned = replace(planned, subject=replace(planned.subject, claims=(replace(claim, rests_on=()),)))
    found = explore(Named("a", "a", "a", planned), Registry(), SearchBudget(20), seed=7, jobs=1, output=tmp_path / "x")
    assert found.untried == ()
    assert found.unasked == (M.CHECKPOINT, M.RESTORE)
    (said,) = [fact.text for fact in view_of_search(found).facts if fact.label == "unasked"]
    assert said.startswith("no checkpoint became durable, no state was restored; ")


def test_a_run_whose_slices_die_and_that_never_comes_to_a_checkpoint_is_unknown() -> None:
    registry = Registry()
    cluster = SimulatedCluster(SLOW_SOURCE)
    for scenario in (vacuous(), vacuous(gap)):
        _, judgement = run_in_memory(scenario, cluster, registry.faults, registry.oracles, seed=1)
        (verdict,) = judgement.verdicts
        if verdict.status is not Status.VIOLATED:
            assert verdict.status is Status.UNKNOWN
            assert verdict.reason == "this was not tried: no checkpoint became durable, and the claim rests on it"
        _, judgement = run_in_memory(
            replace(scenario, minimal=True), cluster, registry.faults, registry.oracles, seed=1
        )
        (verdict,) = judgement.verdicts
        assert verdict.status is not Status.UNKNOWN
        untried = "a counterexample, and no proof: this was not tried: no checkpoint became durable"
        assert verdict.status is Status.VIOLATED or untried in verdict.summary


def minimal() -> Scenario:
    return replace(vacuous(), minimal=True)


def test_only_streamproof_says_that_a_scenario_is_a_counterexample() -> None:
    with pytest.raises(InvalidScenario, match="says that it is minimal"):
        Registry().scenario(f"{__name__}:minimal")


def test_a_crash_before_the_first_checkpoint_is_a_run_like_any_other() -> None:
    registry = Registry()
    early = replace(vacuous(), subject=PASSIVE, faults=[crash("trace-0").after(events(3))])
    _, judgement = run_in_memory(early, SimulatedCluster(SLOW_SOURCE), registry.faults, registry.oracles, seed=1)
    assert judgement.verdicts[0].status is Status.HOLDS
    assert judgement.exercised is not None
    assert judgement.exercised[M.CHECKPOINT] > 0


def test_a_run_without_faults_calls_for_nothing() -> None:
    subject = passive_replication(trace(), checkpoint_every=events(5_000))
    assert called_for({M.CHECKPOINT, M.REPLAY}, run(subject), {}) == ()
    assert called_for({M.CHECKPOINT, M.REPLAY}, run(subject, CRASH), {}) == (M.CHECKPOINT,)


class Mute(Operator[None]):
    """Makes nothing of anything."""

    fan_out = 1

    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> list[Output]:
        return []


def test_a_run_in_which_nothing_reaches_a_sink_is_unknown() -> None:
    topology = Topology(
        "mute",
        {"mute": Stage(Mute(), 1)},
        (Edge("source", "mute", Partitioning.FULL), Edge("mute", "sink", Partitioning.FULL)),
    )
    registry = Registry()
    subject = upstream_backup(topology)
    for faults in ([], [crash("mute-0").after(events(30))]):
        scenario = Scenario(subject, INPUT, faults)
        _, judgement = run_in_memory(scenario, SimulatedCluster(), registry.faults, registry.oracles, seed=1)
        assert {one.status for one in judgement.verdicts} == {Status.UNKNOWN}
        why = "this was not tried: nothing was delivered to a sink, and the claim rests on it"
        assert {one.reason for one in judgement.verdicts} == {why}
        assert judgement.strongest == ()
        assert simulate(scenario).status is Status.UNKNOWN
        # The same of a guarantee that its subject does not claim.
        assert simulate(replace(scenario, claims=[exactly_once()])).status is Status.UNKNOWN
    bench = Bench(Scenario(subject, INPUT), registry, seed=7)
    found = search(bench, [RandomSchedules(7)], SearchBudget(8))
    assert M.DELIVERY in unexercised(bench.rests_on, found.exercised)


def test_what_was_never_at_work_is_said_in_words() -> None:
    missing = unexercised({M.TAKE_OVER, M.CHECKPOINT, M.TRIM}, {M.TRIM: 3, M.CHECKPOINT: 0})
    assert missing == (M.CHECKPOINT, M.TAKE_OVER)
    assert said_never(missing) == (
        "no checkpoint became durable, no replica took over from another, and the claim rests on them"
    )


# A search


def test_a_search_counts_the_schedules_under_which_each_mechanism_was_at_work() -> None:
    bench = Bench(Scenario(PASSIVE, INPUT), Registry(), seed=7, options=SLOW_SOURCE)
    found = search(bench, [EverySingle(), RandomSchedules(7)], SearchBudget(40))
    assert found.exercised[M.CHECKPOINT] >= 39
    assert 0 < found.exercised[M.RESTORE] <= 40
    assert unexercised(bench.rests_on, found.exercised) == ()
    bench = Bench(replace(vacuous(), faults=()), Registry(), seed=7, options=SLOW_SOURCE)
    found = search(bench, [EverySingle(), RandomSchedules(7)], SearchBudget(40))
    assert unexercised(bench.rests_on, found.exercised) == (M.CHECKPOINT, M.RESTORE, M.TRIM)


def test_most_schedules_of_a_claim_that_needs_a_replica_in_sync_leave_it_one() -> None:
    subject = active_standby(trace(), acknowledge_every=EVERY)
    bench = Bench(Scenario(subject, INPUT), Registry(), seed=7, options=SLOW_SOURCE)
    assert bench.is_limited
    found = search(bench, [RandomSchedules(7)], SearchBudget(60))
    assert found.statuses[Status.VIOLATED] == 0
    assert found.judged > 30
    assert not Bench(Scenario(PASSIVE, INPUT), Registry(), seed=7).is_limited
