"""What is sure is said, whatever else of a record cannot be trusted; and what is the same is exactly the same."""

from __future__ import annotations

import msgspec
import pytest

from handmade import Log, Made, Pass, chain
from simulation import history_of, scenario_of
from streamproof.harness.core.events import Event, Value
from streamproof.harness.core.guarantees import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, PRECISE, bounded_error
from streamproof.harness.core.reasons import Why
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.judging.exactness import same_value
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import CheckpointTaken, Delivered, Kept, Record, Stamped, Started, Taken
from verdicts_of import Judged, rejudged

CASE = "passive-replication-masked/trace-numbered"


def altered(*more: Record, without: type[Record] | None = None, of: str = "trace-0") -> Judged:
    """A run without failures, with some records put in at its end, or those of one kind and slice left out."""
    scenario = scenario_of(CASE)
    history = history_of(scenario, ())
    records = [
        stamped
        for stamped in history.records
        if without is None or not isinstance(stamped.record, without) or getattr(stamped.record, "slice", "") != of
    ]
    records += [Stamped(records[-1].at, record) for record in more]
    return rejudged(scenario, History(records, history.timeline))


@pytest.mark.parametrize(
    ("judged", "reason"),
    [
        (lambda: altered(without=Started), "trace-0#1 was at work, but never started"),
        (lambda: altered(Taken("trace-0", 7, "relay-0", 1, 1, 1, 1)), "trace-0#7 was at work, but never started"),
        (lambda: altered(CheckpointTaken("trace-0", 7, 1)), "trace-0#7 was at work, but never started"),
        (lambda: altered(Kept("trace-0", 7, {})), "trace-0#7 kept a state, but never started"),
        (lambda: altered(Kept("nobody-0", 1, {})), "the records speak of 'nobody-0', which is no part of trace"),
        (lambda: altered(Taken("nobody-0", 1, "relay-0", 1, 1, 1, 1)), "the records speak of 'nobody-0'"),
        (lambda: altered(Taken("trace-0", 1, "nobody-0", 1, 1, 1, 1)), "which made 0 of them"),
        (lambda: altered(Delivered("sink-0", "nobody-0>sink-0", 1, 0, [])), "the records speak of 'nobody-0>sink-0'"),
    ],
)
def test_a_record_that_does_not_explain_itself_makes_a_history_unknown(judged: object, reason: str) -> None:
    found = judged()  # type: ignore[operator]
    assert reason in found.collation.unjudgeable
    for guarantee in (PRECISE, AT_LEAST_ONCE, AT_MOST_ONCE):
        verdict = found.verdict(guarantee)
        assert (verdict.status, verdict.reason) == (Status.UNKNOWN, found.collation.unjudgeable)


def test_what_another_slice_surely_violates_outranks_what_cannot_be_judged() -> None:
    scenario = scenario_of(CASE)
    history = history_of(scenario, ())
    place, delivered = next(
        (n, s.record)
        for n, s in enumerate(history.records)
        if isinstance(s.record, Delivered) and s.record.channel == "trace-1>sink-0"
    )
    assert isinstance(delivered, Delivered)
    unstarted = [s for s in history.records if not (isinstance(s.record, Started) and s.record.slice == "trace-0")]
    twice = [*unstarted, history.records[place]]
    assert rejudged(scenario, History(unstarted, history.timeline)).verdict(PRECISE).status is Status.UNKNOWN
    verdict = rejudged(scenario, History(twice, history.timeline)).verdict(PRECISE)
    assert verdict.status is Status.VIOLATED
    assert [tally.anomaly for tally in verdict.anomalies] == [Anomaly.DUPLICATE_OUTPUT]


def test_what_is_downstream_of_doubt_is_doubtful() -> None:
    made = Made(chain(Pass(), Log()))
    made.offer("a", 1, 2)
    made.start("op0", 1)
    made.start("op1", 1)
    made.take("op0", 1, "a", 1, 1, 5)
    made.take("op1", 1, "op0", 1, 1, 2)
    made.take("op1", 1, "op0", 1, 1, 2)
    made.keep("op0", 1)
    made.keep("op1", 1)
    assert made.rerun().doubtful == {"op0-0", "op1-0", "sink-0"}
    assert made.verdict(AT_MOST_ONCE).status is Status.UNKNOWN


def test_no_bound_is_exceeded_by_what_is_doubtful() -> None:
    """Of 2 events the slice takes 5, on record, and nothing comes out: what it has lost, no record says."""
    made = Made(chain(Pass()))
    made.offer("a", 1, 2)
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 5)
    made.keep("op0", 1)
    verdict = made.verdict(bounded_error(0, 0, 0))
    assert (verdict.status, verdict.anomalies) == (Status.UNKNOWN, ())
    assert verdict.unknown is not None
    assert verdict.unknown.why is Why.UNJUDGEABLE


# Exactness


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1, True),
        (1, True, False),
        (1, 1.0, False),
        (0.0, -0.0, False),
        ([1, {"a": 2}], [1, {"a": 2}], True),
        ([1], [True], False),
        ({"a": 1.0}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ((1, 2), [1, 2], True),
        (None, False, False),
    ],
)
def test_what_is_the_same(one: Value, other: Value, same: bool) -> None:
    assert same_value(one, other) is same


@pytest.mark.parametrize("value", [True, 1.0])
def test_one_is_not_true_and_not_a_float(value: Value) -> None:
    made = Made(chain(Pass()))
    made.offer("a", 1)
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 1)
    made.deliver("op0", 1, 1)
    made.keep("op0", 1)

    def as_another(row: Event) -> Event:
        return msgspec.structs.replace(row, value=value)

    assert made.verdict(EXACTLY_ONCE).status is Status.HOLDS
    verdict = made.verdict(EXACTLY_ONCE, made.history(as_another))
    assert Anomaly.PHANTOM_OUTPUT in {tally.anomaly for tally in verdict.anomalies}


@pytest.mark.parametrize("value", [[True], [1.0]])
def test_a_kept_state_is_compared_exactly(value: Value) -> None:
    made = Made(chain(Log()))
    made.offer("a", 1)
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 1)
    made.deliver("op0", 1, 1)
    made.keep("op0", 1)
    assert made.verdict(EXACTLY_ONCE).status is Status.HOLDS
    assert made.verdict(EXACTLY_ONCE, made.history(kept={1: value})).status is Status.VIOLATED
