"""Timers of operators: where they fire, what re-execution makes of them, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

import pytest

from simulation import EVERY, SCHEMES, drawn, history_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.errors import InvalidOperator, InvalidTopology, StreamproofError
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import (
    Guarantee,
    exactly_once,
    precise_recovery,
    replicas_agree,
    rollback_recovery,
)
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events
from streamproof.harness.core.reasons import Why
from streamproof.harness.core.topology import Edge, Partitioning, Stage, Topology
from streamproof.harness.core.verdicts import Anomaly, Evidence, Status
from streamproof.harness.judging.reexecutor import reexecute
from streamproof.harness.judging.told_by_clock import find_told
from streamproof.harness.protocol.channels import InputChannel
from streamproof.harness.protocol.merging import ALWAYS, Queues
from streamproof.harness.protocol.operator import OperatorSlice
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import Delivered, Fired, Offered
from streamproof.harness.running.determinism import examine
from streamproof.harness.running.judgement import Judgement, judge_history
from streamproof.oracles import ORACLES
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.mechanisms.merges import ByTime, RoundRobin
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.passive_standby import passive_standby
from streamproof.scenarios.in_time import SumByClock, SumByTime, TraceByTime, sum_by_clock, sum_by_time, trace_by_time
from streamproof.scenarios.stateless import Forward
from streamproof.scenarios.workloads import numbered

JUDGES = {oracle.guarantee: oracle for oracle in ORACLES}
WORKLOAD = numbered(events=48, batch=4)
TOPOLOGIES: dict[str, Callable[[], Topology]] = {
    "sum": lambda: sum_by_time(size=8),
    "trace": lambda: trace_by_time(size=7),
}


def _accepted() -> Iterator[tuple[str, str]]:
    for scheme, build in SCHEMES.items():
        for topology, make in TOPOLOGIES.items():
            try:
                build(make())
            except StreamproofError:
                continue
            yield scheme, topology


CASES = list(_accepted())


def judged(scenario: Scenario, *, seed: int = 1) -> tuple[History, Judgement]:
    history = history_of(scenario, scenario.faults, seed=seed)
    return history, judge_history(scenario, history, JUDGES, virtual_time=True)


def outputs(history: History) -> list[Event]:
    return [row for record in history.each(Delivered) for row in record.rows]


def windows(history: History, size: int) -> dict[int, list[Event]]:
    found: dict[int, list[Event]] = {}
    for event in chain.from_iterable(record.events for record in history.each(Offered)):
        found.setdefault(-(-event.time // size) * size, []).append(event)
    return found


# Event time


def test_a_sum_is_of_the_window_that_its_timer_ends() -> None:
    history, judgement = judged(Scenario(passive_replication(sum_by_time(size=8), checkpoint_every=EVERY), WORKLOAD))
    due = {
        (upper, key): sum(event.value for event in given if event.key == key)
        for upper, given in windows(history, 8).items()
        for key in {event.key for event in given}
    }
    told = {(row.value[0], row.key): row.value[1] for row in outputs(history)}
    assert told == due
    assert all(row.time == row.value[0] for row in outputs(history))
    assert all(verdict.status is Status.HOLDS for verdict in judgement.verdicts)


def test_a_timer_fires_where_the_events_put_it_whatever_moves_time_on() -> None:
    """With silences it fires sooner, and at the same place among what is taken: both worlds of input give the same."""
    spaced = replace(WORKLOAD, spacing={"source-0": 6})
    found = []
    for build in (amnesia, lambda topology: active_replication(topology, acknowledge_every=EVERY)):
        history, judgement = judged(Scenario(build(trace_by_time(size=7)), spaced))
        found.append(sorted((row.key, str(row.value)) for row in outputs(history)))
        assert all(verdict.status is Status.HOLDS for verdict in judgement.verdicts)
    assert found[0] == found[1]
    assert found[0]


@pytest.mark.parametrize("claim", [exactly_once(), rollback_recovery()], ids=str)
def test_a_window_that_nobody_has_told_of_is_lost_though_no_record_says_that_it_ended(
    claim: Guarantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = OperatorSlice._channel_ended

    def forgets_when(machine: OperatorSlice, channel: InputChannel) -> None:
        machine.final = -1
        ends(machine, channel)

    subject = passive_replication(sum_by_time(size=8), checkpoint_every=EVERY, sink_filter=True)
    scenario = Scenario(subject, WORKLOAD, claims=(claim,))
    assert [verdict.status for verdict in judged(scenario)[1].verdicts] == [Status.HOLDS]
    monkeypatch.setattr(OperatorSlice, "_channel_ended", forgets_when)
    history, judgement = judged(scenario)
    assert max(record.at for record in history.each(Fired)) == 40
    (verdict,) = judgement.verdicts
    assert verdict.status is Status.VIOLATED, verdict
    assert [tally.anomaly for tally in verdict.anomalies] == [Anomaly.LOST_INPUT]


def test_a_silence_lets_a_timer_fire_before_the_next_event_comes() -> None:
    spaced = replace(numbered(events=60, batch=2), spacing={"source-0": 20})
    subject = active_replication(trace_by_time(parallelism=1, size=5), acknowledge_every=EVERY)
    history, _ = judged(Scenario(subject, spaced))
    offered = [(at.at, event.time) for at in history.of(Offered) for event in at.record.events]  # type: ignore[union-attr]
    fired = {one.record.at: one.at for one in reversed(list(history.of(Fired))) if isinstance(one.record, Fired)}
    for (came, time), (next_came, _) in pairwise(offered):
        upper = -(-time // 5) * 5
        assert came < fired[upper] < next_came


def test_the_inputs_of_a_window_are_what_its_output_says() -> None:
    """The trace topology: each output names its inputs, and re-execution derives it from the last of them."""
    subject = passive_replication(trace_by_time(size=7), checkpoint_every=EVERY)
    history, _ = judged(Scenario(subject, WORKLOAD, [crash("trace-0").after(events(14))]))
    rerun = reexecute(subject.specs, history.records)
    seen = 0
    for channel, deliveries in rerun.deliveries.items():
        one = rerun.reruns[channel.partition(">")[0]]
        for output in (output for delivery in deliveries for output in delivery.outputs()):
            assert output.derivation is not None
            relay, last = output.event.value[-1]
            took = one[output.incarnation]
            place = took.lineage().index(output.derivation[:-1])
            assert (relay, took.lineage()[place][1]) == ("relay-0", last)
            seen += 1
    assert seen > 6


@pytest.mark.parametrize(("scheme", "topology"), CASES, ids=map("/".join, CASES))
def test_no_schedule_raises_a_false_alarm(scheme: str, topology: str) -> None:
    scenario = Scenario(SCHEMES[scheme](TOPOLOGIES[topology]()), WORKLOAD)
    for seed in range(3):
        schedule = drawn(scenario, seed, "usual") if seed else ()
        _, judgement = judged(replace(scenario, faults=schedule), seed=seed)
        wrong = [str(v.summary) for v in judgement.verdicts if v.status is Status.VIOLATED]
        assert not wrong, (seed, schedule, wrong)
        assert seed or all(v.status is Status.HOLDS for v in judgement.verdicts)


class _Forgets(SumByTime):
    """It fires again for a window that it has told."""

    def on_time(self, time: int, state: dict[str, Any]) -> list[Output]:
        sums = super().on_time(time, state)
        state["upper"] = time
        return sums


class _Late(SumByTime):
    def due(self, state: dict[str, Any]) -> int | None:
        return None if state["upper"] is None else state["upper"] - self.size - 5


class _Eager(SumByTime):
    def due(self, state: dict[str, Any]) -> int | None:
        return 3 if state["upper"] is None else 10


def topology_of(operator: Operator[Any], sources: tuple[str, ...] = ("source",)) -> Topology:
    return Topology(
        "timed",
        {"sum": Stage(operator)},
        (*(Edge(source, "sum", Partitioning.FULL) for source in sources), Edge("sum", "sink", Partitioning.MERGE)),
        sources=sources,
    )


@pytest.mark.parametrize(("operator", "said"), [(_Forgets(8), "once more"), (_Late(8), "after an event of")])
def test_a_timer_that_goes_back_in_time_is_the_operators_mistake(operator: Operator[Any], said: str) -> None:
    with pytest.raises(InvalidOperator, match=said):
        judged(Scenario(amnesia(topology_of(operator)), WORKLOAD))


def test_what_timers_cannot_be_is_refused_before_anything_runs() -> None:
    with pytest.raises(InvalidOperator, match="before anything was taken"):
        amnesia(topology_of(_Eager(8)))
    two = ("left", "right")
    with pytest.raises(InvalidTopology, match="not merged by time"):
        amnesia(topology_of(SumByTime(8), two))
    with pytest.raises(InvalidTopology, match="not merged by time"):
        passive_replication(topology_of(SumByTime(8), two), merge=RoundRobin())
    assert passive_replication(topology_of(SumByTime(8), two), merge=ByTime())
    with pytest.raises(InvalidTopology, match="clock"):
        active_replication(sum_by_clock())
    with pytest.raises(InvalidTopology, match="has timers"):
        gap(sum_by_time())

    class Unasked(Forward):
        def on_time(self, time: int, state: None) -> tuple[Output]:
            return (("k", time),)

    with pytest.raises(InvalidOperator, match="on_time"):
        topology_of(Unasked())


def test_two_sources_that_are_merged_by_time_end_a_window_for_both() -> None:
    subject = passive_replication(topology_of(SumByTime(8), ("left", "right")), checkpoint_every=EVERY)
    history, judgement = judged(Scenario(subject, WORKLOAD, [crash("sum-0").after(events(30))]))
    told: dict[int, int] = {}
    for row in {(row.key, tuple(row.value)): row for row in outputs(history)}.values():
        told[row.value[0]] = told.get(row.value[0], 0) + row.value[1]
    assert told == {upper: sum(event.value for event in given) for upper, given in windows(history, 8).items()}
    assert all(verdict.status is Status.HOLDS for verdict in judgement.verdicts)


def two_sources(claim: Guarantee) -> Scenario:
    """The left one is slower: its events are of times that the right one has passed."""
    topology = topology_of(SumByTime(7), ("left", "right"))
    subject = passive_replication(topology, checkpoint_every=EVERY, sink_filter=True)
    workload = replace(WORKLOAD, spacing={"right-0": 6})
    return Scenario(subject, workload, [crash("sum-0").after(events(30))], claims=[claim])


LEGAL = [precise_recovery(), rollback_recovery(), rollback_recovery(divergent=True)]


def _passed_by_one(waiting: Queues) -> int:
    """How far the channel has come that has come furthest."""
    known = [over for over in map(waiting.over, range(len(waiting.queues))) if over < ALWAYS]
    return max(known, default=ALWAYS)


@pytest.mark.parametrize("claim", LEGAL, ids=str)
def test_a_timer_that_does_not_wait_for_the_slower_channel_is_in_no_legal_order(
    claim: Guarantee, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = two_sources(claim)
    assert [verdict.status for verdict in judged(scenario)[1].verdicts] == [Status.HOLDS]
    monkeypatch.setattr(Queues, "progress", property(_passed_by_one))
    (verdict,) = judged(scenario)[1].verdicts
    assert verdict.status is Status.VIOLATED, verdict
    assert verdict.anomalies[-1].of == "of timers"
    assert "and after that it took an event of" in verdict.anomalies[-1].sample[0].what


def test_nobody_is_told_that_time_has_passed_a_timer_that_waits_for_a_checkpoint() -> None:
    """What it makes would come after what another channel brings of the same time."""
    full = Partitioning.FULL
    topology = Topology(
        "sums-of-sums",
        {"relay": Stage(Forward()), "sum": Stage(SumByTime(7)), "trace": Stage(TraceByTime(20))},
        (
            Edge("left", "relay"),
            Edge("relay", "sum", full),
            Edge("right", "sum", full),
            Edge("sum", "trace", full),
            Edge("right", "trace", full),
            Edge("trace", "sink", Partitioning.MERGE),
        ),
        sources=("left", "right"),
    )
    scenario = Scenario(passive_standby(topology, hot=False, synchronize_every=EVERY), numbered(events=32, batch=4))
    history = history_of(scenario, (), seed=0, world="slow-links")
    verdicts = judge_history(scenario, history, JUDGES, virtual_time=True).verdicts
    assert {verdict.status for verdict in verdicts} == {Status.HOLDS}


# The clock


def by_clock(**amounts: int) -> SchemeSubject:
    """Active replication of what it refuses."""
    return replace(active_replication(sum_by_time(), acknowledge_every=EVERY), topology=sum_by_clock(**amounts))


def test_the_clock_is_on_record_and_executed_again() -> None:
    history, judgement = judged(Scenario(amnesia(sum_by_clock(parallelism=1, every=5)), WORKLOAD))
    fired = list(history.each(Fired))
    assert fired
    assert all(record.clock for record in fired)
    assert [later.at - earlier.at for earlier, later in pairwise(fired)] == [5] * (len(fired) - 1)
    assert judgement.collation.phantoms.count == 0
    assert not judgement.collation.unjudgeable
    # All of it was told: the slice ends only once the clock has been read after its last input.
    assert sum(row.value for row in outputs(history)) == sum(range(48))


def test_replicas_that_emit_by_their_own_clocks_diverge_and_those_that_emit_by_time_do_not() -> None:
    """K-safety on Storm, figure 4."""
    claims = [replicas_agree()]
    _, judgement = judged(Scenario(by_clock(every=5), WORKLOAD, claims=claims))
    (verdict,) = judgement.verdicts
    assert (verdict.status, verdict.anomalies[0].anomaly) == (Status.VIOLATED, Anomaly.REPLICA_DIVERGENCE)
    _, judgement = judged(
        Scenario(active_replication(sum_by_time(size=8), acknowledge_every=EVERY), WORKLOAD, claims=claims)
    )
    assert [verdict.status for verdict in judgement.verdicts] == [Status.HOLDS]


def _value(piece: Evidence) -> int:
    found = re.search(r"input source-0 #(\d+)", piece.what)
    assert found is not None
    return int(found[1]) - 1


def test_what_no_window_or_two_windows_told_of_is_what_the_sums_lack_or_have_too_often() -> None:
    subject, off = by_clock(every=5), set()
    for seed in range(8):
        history = history_of(Scenario(subject, WORKLOAD), (), seed=seed)
        rerun = reexecute(subject.specs, history.records)
        told = find_told(rerun)
        # What came twice under two numbers is a repetition, and told as such.
        given = {
            (one.derivation, one.event.key, one.event.value)
            for deliveries in rerun.deliveries.values()
            for delivery in deliveries
            for one in delivery.outputs()
        }
        lacking = sum(_value(piece) for piece in told.never)
        too_often = sum(_value(piece) * (len(piece.at) - 1) for piece in told.twice)
        assert sum(value for *_, value in given) - sum(range(48)) == too_often - lacking
        off.add(too_often - lacking)
    assert len(off) > 2


def test_of_one_replica_each_input_is_told_of_once() -> None:
    _, judgement = judged(Scenario(amnesia(sum_by_clock(every=5)), WORKLOAD, claims=[exactly_once()]))
    assert [verdict.status for verdict in judgement.verdicts] == [Status.HOLDS]
    _, judgement = judged(Scenario(by_clock(every=5), WORKLOAD, claims=[exactly_once()]), seed=0)
    assert [verdict.status for verdict in judgement.verdicts] == [Status.VIOLATED]


def behind_the_clock() -> Topology:
    return Topology(
        "behind-the-clock",
        {"sum": Stage(SumByClock(5)), "relay": Stage(Forward())},
        (Edge("source", "sum"), Edge("sum", "relay"), Edge("relay", "sink")),
    )


def test_what_a_relay_loses_of_a_clock_is_missed() -> None:
    """An execution without failures knows nothing of a clock, and so nothing of what should come of it."""
    faults = [crash("relay-0").after(events(20))]
    history, judgement = judged(Scenario(amnesia(behind_the_clock()), WORKLOAD, faults, claims=[exactly_once()]))
    assert sum(row.value for row in outputs(history)) < sum(range(48))
    (verdict,) = judgement.verdicts
    assert (verdict.status, [tally.anomaly for tally in verdict.anomalies]) == (Status.VIOLATED, [Anomaly.LOST_INPUT])
    assert judgement.collation.wanted is not None
    made, came = judgement.collation.wanted.channels["sum-0>relay-0"], outputs(history)
    assert verdict.anomalies[0].count == len(made) - len(came)


def test_behind_a_relay_replicas_that_emit_by_their_clocks_are_not_taken_for_one() -> None:
    """What the relay takes of the one and of the other tells of inputs twice, and that is not seen there."""
    by_time = Topology("by-time", {"sum": Stage(SumByTime(5)), "relay": Stage(Forward())}, behind_the_clock().edges)
    subject = replace(active_replication(by_time, acknowledge_every=EVERY), topology=behind_the_clock())
    claims = [exactly_once()]
    history, judgement = judged(Scenario(subject, WORKLOAD, [crash("sum-0").after(events(20))], claims=claims))
    assert sum(row.value for row in outputs(history)) > sum(range(48))
    assert [verdict.status for verdict in judgement.verdicts] != [Status.HOLDS]
    _, judgement = judged(Scenario(subject, WORKLOAD, claims=claims))
    (verdict,) = judgement.verdicts
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.UNJUDGEABLE)
    assert "whose windows differ, and what relay-0 took of these is not followed" in verdict.reason


def test_an_operator_without_timers_has_none_on_record() -> None:
    history = history_of(Scenario(active_replication(sum_by_time(), acknowledge_every=EVERY), WORKLOAD), ())
    assert any(history.each(Fired))
    plain = Topology("plain", {"sum": Stage(Forward())}, (Edge("source", "sum"), Edge("sum", "sink")))
    assert not any(history_of(Scenario(amnesia(plain), WORKLOAD), ()).each(Fired))


# Determinism


class _ReadsItself(SumByTime):
    def on_time(self, time: int, state: dict[str, Any]) -> list[Output]:
        self.count = getattr(self, "count", 0) + 1
        return [(key, [*value, self.count]) for key, value in super().on_time(time, state)]


def test_what_a_timer_makes_is_tried_in_other_processes_too() -> None:
    offered = {"source-0": list(chain.from_iterable(WORKLOAD.batches("source-0")))}
    assert "does not give the same" in examine(topology_of(_ReadsItself(8)), offered).differs
    assert examine(topology_of(SumByTime(8)), offered).differs == ""
