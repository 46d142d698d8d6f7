"""Histories altered by hand: each alteration is seen by the oracles it concerns, as what it is, and by no other."""

from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest

from simulation import EVERY, addresses, drawn, history_of, scenario_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import Moment, Point
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import (
    AMNESIA,
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_OUTPUT,
    GAP,
    PRECISE,
    ROLLBACK_DIVERGENT,
    ROLLBACK_REPEATING,
)
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events
from streamproof.harness.core.schedule import checkpoint
from streamproof.harness.core.topology import Edge, Stage, Topology
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.recording.history import Drained, FaultStruck, History
from streamproof.harness.recording.records import Delivered, Kept, Stamped
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.mutants import MUTANTS
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words
from verdicts_of import rejudged, run

ALL = {
    PRECISE,
    ROLLBACK_REPEATING,
    ROLLBACK_DIVERGENT,
    EXACTLY_ONCE_OUTPUT,
    EXACTLY_ONCE,
    GAP,
    AMNESIA,
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
}
CASE = "passive-replication-masked/trace-numbered"
LOSS = (Anomaly.LOST_INPUT, Anomaly.STATE_ROLLBACK)


def clean() -> History:
    return history_of(scenario_of(CASE), ())


Alteration = Callable[[list[Event]], list[list[Event]]]
"""Rows of one delivery, of two or more -> the deliveries in its place."""


def altered_delivery(change: Alteration) -> History:
    """A run without failures in which one delivery, in the middle, was altered."""
    history = clean()
    records = list(history.records)
    wide = [n for n, s in enumerate(records) if isinstance(s.record, Delivered) and len(s.record.rows) > 1]
    place = wide[len(wide) // 2]
    stamped = records[place]
    delivered = stamped.record
    assert isinstance(delivered, Delivered)
    records[place : place + 1] = [
        Stamped(stamped.at, msgspec.structs.replace(delivered, rows=rows)) for rows in change(list(delivered.rows))
    ]
    return History(records, history.timeline)


def altered_state() -> History:
    history = clean()
    records = list(history.records)
    place, kept = next((n, s.record) for n, s in enumerate(records) if isinstance(s.record, Kept) and s.record.rows)
    key = min(kept.rows)
    rows = {**kept.rows, key: kept.rows[key][:-1]}
    records[place] = Stamped(records[place].at, msgspec.structs.replace(kept, rows=rows))
    return History(records, history.timeline)


def other_value(event: Event) -> Event:
    return msgspec.structs.replace(event, value=[["source-0", 999]])


ALTERATIONS: dict[str, tuple[Callable[[], History], dict[Anomaly, set[str]]]] = {
    "a delivery dropped": (
        lambda: altered_delivery(lambda rows: []),
        {Anomaly.LOST_INPUT: ALL - {AT_MOST_ONCE}},
    ),
    "the first row of a delivery dropped": (
        lambda: altered_delivery(lambda rows: [rows[1:]]),
        {Anomaly.LOST_INPUT: ALL - {AT_MOST_ONCE}},
    ),
    "a delivery repeated": (
        lambda: altered_delivery(lambda rows: [rows, rows]),
        {Anomaly.DUPLICATE_OUTPUT: {PRECISE, EXACTLY_ONCE_OUTPUT, GAP, AMNESIA}},
    ),
    "a row repeated within a delivery": (
        lambda: altered_delivery(lambda rows: [[rows[0], *rows]]),
        {Anomaly.DUPLICATE_OUTPUT: {PRECISE, EXACTLY_ONCE_OUTPUT, GAP, AMNESIA}},
    ),
    "a value altered": (
        lambda: altered_delivery(lambda rows: [[other_value(rows[0]), *rows[1:]]]),
        {
            Anomaly.PHANTOM_OUTPUT: ALL - {AT_LEAST_ONCE},
            Anomaly.LOST_INPUT: ALL - {AT_MOST_ONCE, GAP, AMNESIA},
        },
    ),
    "rows swapped within a delivery": (
        lambda: altered_delivery(lambda rows: [rows[::-1]]),
        {Anomaly.REORDERED_OUTPUT: {PRECISE, ROLLBACK_REPEATING, GAP, AMNESIA}},
    ),
    "deliveries swapped": (
        lambda: altered_delivery(lambda rows: [rows[1:], rows[:1]]),
        {Anomaly.REORDERED_OUTPUT: {PRECISE, ROLLBACK_REPEATING, GAP, AMNESIA}},
    ),
    "final state altered": (altered_state, {Anomaly.PHANTOM_OUTPUT: ALL - {AT_LEAST_ONCE}}),
}


@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_altered_history_violates_what_it_concerns_and_nothing_else(name: str) -> None:
    make, expected = ALTERATIONS[name]
    judged = rejudged(scenario_of(CASE), make())
    violated = set[str]().union(*expected.values())
    for guarantee in sorted(ALL):
        verdict = judged.verdict(guarantee)
        assert (verdict.status is Status.VIOLATED) == (guarantee in violated), f"{verdict}"
        seen = {tally.anomaly for tally in verdict.anomalies}
        assert seen == {anomaly for anomaly, concerned in expected.items() if guarantee in concerned}, f"{verdict}"
        if guarantee not in violated:
            unclear = guarantee == AT_LEAST_ONCE and Anomaly.PHANTOM_OUTPUT in expected
            assert verdict.status is (Status.UNKNOWN if unclear else Status.HOLDS)


@pytest.mark.parametrize("name", ALTERATIONS)
def test_evidence_says_what_where_and_is_bounded(name: str) -> None:
    make, _ = ALTERATIONS[name]
    for tally in rejudged(scenario_of(CASE), make()).verdict(PRECISE).anomalies:
        assert tally.count >= len(tally.sample) >= 1
        assert all(evidence.what and evidence.where for evidence in tally.sample)


def prefixes(history: History) -> Iterator[History]:
    """What a killed writer could have left of a run, at every fifth record."""
    for end in range(0, len(history.records), 5):
        records: Sequence[Stamped] = history.records[:end]
        at = records[-1].at if records else 0
        timeline = [entry for entry in history.timeline if entry.stamp.at <= at and not isinstance(entry, Drained)]
        yield History(records, timeline, sealed=False)


@pytest.mark.parametrize("workload", ["trace-numbered", "word-count-words"])
@pytest.mark.parametrize("scheme", ["amnesia", "gap", "passive-replication", "passive-replication-masked"])
@pytest.mark.parametrize("crashes", [True, False], ids=["crash", "calm"])
def test_what_a_killed_run_leaves_is_never_judged_to_have_lost_anything(
    scheme: str, workload: str, crashes: bool
) -> None:
    scenario = scenario_of(f"{scheme}/{workload}")
    last = scenario.subject.actors[-1]
    schedule = [crash(last).after(events(9))] if crashes else []
    for history in prefixes(history_of(scenario, schedule)):
        judged = rejudged(scenario, history)
        for guarantee in sorted(ALL):
            verdict = judged.verdict(guarantee)
            assert not [t for t in verdict.anomalies if t.anomaly in LOSS], f"{verdict}"
            assert verdict.status is not Status.HOLDS
        assert judged.claim.status is Status.UNKNOWN
        assert judged.claim.reason


def test_a_fault_whose_trigger_never_came_makes_a_run_unknown() -> None:
    scenario = scenario_of(CASE)
    judged = rejudged(scenario, history_of(scenario, [crash("trace-0").at(checkpoint(99).durable)]))
    assert judged.claim.status is Status.UNKNOWN
    assert "the trigger of fault 1 never came: crash trace-0" in judged.claim.reason


def test_a_crash_after_the_end_did_not_bite() -> None:
    scenario = scenario_of(CASE)
    last = addresses(scenario, world="slow-disks")[-1].address
    assert last.point is Point.RECEIVED
    assert "ack@" in last.key
    schedule = [crash("trace-0").at(Moment.exactly(last))]
    judged = rejudged(scenario, history_of(scenario, schedule, world="slow-disks"))
    assert judged.claim.status is Status.UNKNOWN
    assert "fault 1 did not bite" in judged.claim.reason
    assert "all input had been processed by then" in judged.claim.reason


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("gone", False, "were not seen to be gone"),
        ("outstanding", False, "all input had been processed"),
        ("held_at_address", False, "was not held at the address"),
    ],
)
def test_a_fault_without_proof_makes_a_run_unknown(field: str, value: bool, reason: str) -> None:
    scenario = scenario_of(CASE)
    history = history_of(scenario, [crash("trace-0").at(checkpoint(1).durable)])
    timeline = [
        msgspec.structs.replace(entry, bite=msgspec.structs.replace(entry.bite, **{field: value}))
        if isinstance(entry, FaultStruck)
        else entry
        for entry in history.timeline
    ]
    assert rejudged(scenario, history).claim.status is Status.HOLDS
    judged = rejudged(scenario, History(history.records, timeline))
    assert judged.claim.status is Status.UNKNOWN
    assert reason in judged.claim.reason


def test_a_violation_outranks_a_fault_that_did_not_bite() -> None:
    scenario = scenario_of(CASE)
    history = history_of(scenario, [crash("trace-0").at(checkpoint(99).durable)])
    records = [s for s in history.records if not (isinstance(s.record, Delivered) and s.record.position == 0)]
    assert rejudged(scenario, History(records, history.timeline)).claim.status is Status.VIOLATED


def test_what_nobody_sent_makes_a_history_unjudgeable() -> None:
    scenario = scenario_of(CASE)
    history = clean()
    offered = next(n for n, s in enumerate(history.records) if type(s.record).__name__ == "Offered")
    records = [*history.records[:offered], *history.records[offered + 1 :]]
    judged = rejudged(scenario, History(records, history.timeline))
    assert judged.claim.status is Status.UNKNOWN
    assert "source-0#1, which made" in judged.claim.reason


def test_the_state_of_one_that_was_replaced_is_not_what_was_kept() -> None:
    scenario = scenario_of(CASE)
    history = history_of(scenario, [crash("trace-0").at(checkpoint(1).durable)])
    records = [
        msgspec.structs.replace(s, record=msgspec.structs.replace(s.record, incarnation=1))
        if isinstance(s.record, Kept) and s.record.actor == "trace-0"
        else s
        for s in history.records
    ]
    judged = rejudged(scenario, History(records, history.timeline))
    assert "incarnation 1, which is not its last" in judged.collation.incomplete
    assert judged.verdict(AT_LEAST_ONCE).status is Status.UNKNOWN


def test_an_output_of_a_state_that_counted_twice_is_a_duplicate_effect_though_the_state_was_lost_in_a_crash() -> None:
    """The splitter comes back and replays; the counter counts again and says so, then dies, and its successor counts
    once."""
    broken = next(m for m in MUTANTS if m.name == "passive-replication-without-inner-filter")
    calm = Scenario(broken.make(word_count(), EVERY), words(vocabulary=12, events=32, batch=4))
    for seed in range(100):
        judged = run(calm, drawn(calm, seed, "usual"), seed=seed)
        reexecution = judged.collation.reexecution
        assert reexecution is not None
        finals = [one.lineage() for name in ("count-0", "count-1") for one in reexecution.survivors(name)]
        if all(len(set(final)) == len(final) for final in finals) and judged.collation.duplicate_effects.count:
            break
    else:
        pytest.fail("no schedule takes back what was counted twice")
    for guarantee in (AT_MOST_ONCE, EXACTLY_ONCE, ROLLBACK_DIVERGENT):
        verdict = judged.verdict(guarantee)
        assert verdict.status is Status.VIOLATED
        found = next(t for t in verdict.anomalies if t.anomaly is Anomaly.DUPLICATE_EFFECT)
        assert found.sample[0].where.startswith("count-")
        assert "#" in found.sample[0].where, "one that was replaced"
        assert "counts 2 times" in found.sample[0].what


class Highest(Operator[list[int]]):
    """Passes on what is higher than all before: how many that are depends on the order."""

    def initial_state(self) -> list[int]:
        return [-1]

    def process(self, event: Event, state: list[int]) -> list[tuple[str, object]]:
        if event.value <= state[0]:
            return []
        state[0] = event.value
        return [(event.key, event.value)]


class Number(Operator[None]):
    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> list[tuple[str, object]]:
        return [(event.key, int(event.value[1:]))]


@pytest.mark.parametrize("seed", range(8))
def test_where_order_matters_what_is_lost_is_told_by_the_order_of_the_run(seed: int) -> None:
    topology = Topology(
        "merging",
        {"number": Stage(Number(), 2), "highest": Stage(Highest())},
        (Edge("source", "number"), Edge("number", "highest"), Edge("highest", "sink")),
    )
    scenario = Scenario(amnesia(topology), words(events=60, batch=4, seed=seed))
    judged = run(scenario, ())
    assert judged.verdict(PRECISE).status is Status.HOLDS
    records = list(judged.history.records)
    del records[next(n for n, s in enumerate(records) if isinstance(s.record, Delivered))]
    altered = rejudged(scenario, History(records, judged.history.timeline))
    assert altered.verdict(AT_LEAST_ONCE).status is Status.VIOLATED
