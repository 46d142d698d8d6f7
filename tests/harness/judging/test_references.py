"""A black box is judged against two runs without failures: histories made by hand, each with one thing wrong."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_OUTPUT,
    GAP,
    PRECISE,
    ROLLBACK_DIVERGENT,
    ROLLBACK_REPEATING,
    Guarantee,
)
from streamproof.harness.core.verdicts import Anomaly, Tally
from streamproof.harness.judging.collation import Collation
from streamproof.harness.judging.oracle import Case, judge_each
from streamproof.harness.judging.references import (
    DRIVER,
    REFERENCES,
    SINK,
    batch_of_row,
    collate_references,
    row_number,
)
from streamproof.harness.judging.shapes import OutputMode, OutputShape
from streamproof.harness.recording.history import Aborted, Bite, Drained, FaultStruck, History, Stamp
from streamproof.harness.recording.records import Delivered, Ended, Offered, Record, Stamped
from streamproof.oracles import ORACLES
from told_by import told_by

SHAPE = OutputShape(OutputMode.UPDATE, ("word",))
Batch = tuple[int, dict[str, int]]
BATCHES: tuple[Batch, ...] = ((0, {"a": 1, "b": 1}), (1, {"a": 2, "c": 1}), (2, {"b": 2, "c": 2}))
STRUCK = 40
"""When the fault struck: after three deliveries, which come at 10, 20, 30, and so on."""
FAULT = FaultStruck(Stamp(STRUCK), 0, "crash driver", None, Bite(DRIVER, DRIVER, (DRIVER,), True, True))


def delivered(sink: str, batch: Batch, incarnation: int = 1) -> Delivered:
    number, rows = batch
    events = [Event("q", row_number(number, place), key, rows[key], 0) for place, key in enumerate(sorted(rows))]
    return Delivered(sink, "q", incarnation, 0, events)


def history_of(
    judged: Sequence[Batch],
    other: Sequence[Batch] = BATCHES,
    ended: Sequence[str] = REFERENCES,
    drained: bool = True,
) -> History:
    records: list[Record] = [Offered("source", [Event("source", n, str(n), "a b", n) for n in range(1, 7)])]
    for sink, batches in zip(REFERENCES, (BATCHES, other), strict=True):
        records += [delivered(sink, batch) for batch in batches]
    records += [Ended(reference, 1, {"source": 1}) for reference in ended]
    stamped = [Stamped(0, record) for record in records]
    for place, batch in enumerate(judged, start=1):
        stamped.append(Stamped(10 * place, delivered(SINK, batch, 1 if 10 * place < STRUCK else 2)))
    end = Drained(Stamp(1000)) if drained else Aborted(Stamp(1000), "stall: nothing more came")
    return History(stamped, [FAULT, end])


def counts(collation: Collation) -> dict[str, int]:
    return {name: one.count for name, one in told_by(collation).items() if isinstance(one, Tally) and one.count}


def statuses(history: History) -> dict[str, str]:
    oracles = {oracle.guarantee: oracle for oracle in ORACLES}
    names = (PRECISE, ROLLBACK_REPEATING, ROLLBACK_DIVERGENT, EXACTLY_ONCE_OUTPUT, EXACTLY_ONCE, GAP)
    case = Case(history, collate_references(history, SHAPE))
    verdicts = judge_each(case, [Guarantee(name) for name in (*names, AT_LEAST_ONCE, AT_MOST_ONCE)], oracles)
    return {verdict.guarantee.name: verdict.status.value for verdict in verdicts}


def without(*names: str) -> set[str]:
    all_names = {ROLLBACK_REPEATING, ROLLBACK_DIVERGENT, EXACTLY_ONCE_OUTPUT, EXACTLY_ONCE, AT_LEAST_ONCE, AT_MOST_ONCE}
    return all_names - set(names)


def holding(history: History) -> set[str]:
    return {name for name, status in statuses(history).items() if status == "HOLDS"}


@pytest.mark.parametrize("batch", [0, 1, 7_000_000])
def test_a_row_carries_its_batch(batch: int) -> None:
    assert batch_of_row(row_number(batch, 0)) == batch_of_row(row_number(batch, 999_999)) == batch
    assert row_number(batch, 3) > row_number(batch, 2)


def test_as_without_failures() -> None:
    collation = collate_references(history_of(BATCHES), SHAPE)
    assert counts(collation) == {}
    assert (collation.inputs, collation.unjudgeable, collation.reexecution) == (6, "", None)
    assert statuses(history_of(BATCHES)) == {
        **dict.fromkeys(without(), "HOLDS"),
        # A black box does not say in which order it took its input.
        PRECISE: "UNKNOWN",
        GAP: "UNKNOWN",
    }


def test_a_batch_again() -> None:
    history = history_of([*BATCHES, BATCHES[2]])
    collation = collate_references(history, SHAPE)
    assert counts(collation) == {"duplicate_outputs": 2}
    evidence = collation.duplicate_outputs.sample[0]
    assert evidence.what == "batch 2 ('b', 2)"
    assert (evidence.where, evidence.at, evidence.fault) == ("sink from driver#2", (30, 40), 0)
    assert holding(history) == without(EXACTLY_ONCE_OUTPUT)


def test_a_batch_again_with_another_content() -> None:
    history = history_of([*BATCHES, (2, {"b": 3, "c": 2})])
    collation = collate_references(history, SHAPE)
    # The row itself, and what it leaves in the table.
    assert counts(collation) == {"duplicate_outputs": 2, "conflicting_outputs": 1, "phantoms": 2}
    assert collation.conflicting_outputs.sample[0].what == "batch 2 ('b', 2), then with 3"
    assert [evidence.what for evidence in collation.phantoms.sample] == [
        "batch 2 ('b', 3): without failures it is 2",
        "the table's row 'b' is 3, of batch 2; without failures it ends with 2",
    ]
    assert holding(history) == set()


def test_a_lost_batch() -> None:
    history = history_of([BATCHES[0], BATCHES[2]])
    collation = collate_references(history, SHAPE)
    assert counts(collation) == {"lost_output": 2, "lost_state": 1}
    assert collation.lost_output.sample[0].what == "batch 1 ('a', 2) is missing, as is the whole batch"
    assert (
        collation.lost_state.sample[0].what
        == "the table's row 'a' is that of batch 0 ('a', 1), not of batch 1 ('a', 2)"
    )
    assert holding(history) == {AT_MOST_ONCE}


def test_a_lost_row() -> None:
    history = history_of([BATCHES[0], (1, {"a": 2}), (2, {"b": 2})])
    collation = collate_references(history, SHAPE)
    assert counts(collation) == {"lost_output": 2, "lost_state": 1}
    assert [evidence.what for evidence in collation.lost_output.sample] == [
        "batch 1 ('c', 1) was never delivered",
        "batch 2 ('c', 2) was never delivered",
    ]
    assert collation.lost_state.sample[0].what == "the table has no row 'c'; it should be that of batch 2 ('c', 2)"
    assert collation.lost_state.sample[0].fault == 0


def test_a_fault_whose_address_nobody_can_read_is_the_first_that_hit_the_query() -> None:
    history = history_of([BATCHES[0], (1, {"a": 2}), (2, {"b": 2})])
    strange = msgspec.structs.replace(FAULT, address="driver/0#1 somewhere")
    earlier = msgspec.structs.replace(FAULT, number=1, stamp=Stamp(STRUCK - 5))
    of_strange = History(history.records, [earlier, strange, history.timeline[-1]])
    assert collate_references(of_strange, SHAPE).lost_state.sample[0].fault == 1


def test_nothing_is_known_to_hold_before_the_end() -> None:
    found = statuses(history_of(BATCHES[:2], drained=False))
    assert (found[AT_LEAST_ONCE], found[EXACTLY_ONCE], found[AT_MOST_ONCE]) == ("UNKNOWN", "UNKNOWN", "UNKNOWN")


@pytest.mark.parametrize("value", [1, 3])
def test_an_altered_row(value: int) -> None:
    """Too low or too high: whether something was lost or counted twice a black box does not tell."""
    history = history_of([BATCHES[0], (1, {"a": value, "c": 1}), BATCHES[2]])
    collation = collate_references(history, SHAPE)
    assert collation.phantoms.anomaly is Anomaly.WRONG_VALUE
    assert counts(collation) == {"phantoms": 2}
    assert collation.phantoms.sample[0].what == f"batch 1 ('a', {value}): without failures it is 2"
    found = statuses(history)
    assert (found[EXACTLY_ONCE], found[ROLLBACK_DIVERGENT]) == ("VIOLATED", "VIOLATED")
    assert (found[AT_LEAST_ONCE], found[AT_MOST_ONCE]) == ("UNKNOWN", "UNKNOWN")


def test_a_row_and_a_batch_that_should_not_be() -> None:
    collation = collate_references(history_of([*BATCHES, (3, {"z": 1})]), SHAPE)
    assert [evidence.what for evidence in collation.phantoms.sample] == [
        "batch 3 ('z', 1): without failures it is no row",
        "the table's row 'z' is 1, of batch 3; without failures it has no such row",
    ]


def test_an_altered_table() -> None:
    """Every row is right, and comes once more; but the old one comes last, and stays."""
    history = history_of([*BATCHES, BATCHES[1]])
    collation = collate_references(history, SHAPE)
    assert counts(collation) == {"duplicate_outputs": 2, "lost_state": 1}
    assert (
        collation.lost_state.sample[0].what
        == "the table's row 'c' is that of batch 1 ('c', 1), not of batch 2 ('c', 2)"
    )
    assert statuses(history)[EXACTLY_ONCE] == "VIOLATED"


def test_reordered() -> None:
    collation = collate_references(history_of([BATCHES[0], BATCHES[2], BATCHES[1]]), SHAPE)
    assert counts(collation) == {"reordered": 2, "lost_state": 1}
    assert collation.reordered.sample[0].what == "batch 1 ('a', 2) came after a later batch"
    assert statuses(history_of([BATCHES[0], BATCHES[2], BATCHES[1]]))[ROLLBACK_REPEATING] == "VIOLATED"


def test_references_that_disagree() -> None:
    other = (BATCHES[0], (1, {"a": 5, "d": 1}), BATCHES[2])
    history = history_of(BATCHES, other)
    assert collate_references(history, SHAPE).unjudgeable == (
        "two runs without failures disagree on 3 rows: "
        "batch 1 'a': 2 and 5; batch 1 'c': 1 and no row; batch 1 'd': no row and 1"
    )
    assert set(statuses(history).values()) == {"UNKNOWN"}


def test_many_disagreements_are_not_all_listed() -> None:
    other = (*BATCHES, (3, {str(n): n for n in range(50)}))
    reason = collate_references(history_of(BATCHES, other), SHAPE).unjudgeable
    assert reason.startswith("two runs without failures disagree on 50 rows")
    assert reason.endswith(" and 40 more")
    assert reason.count(";") == 9


def test_references_that_did_not_come_to_their_end() -> None:
    history = history_of((), ended=REFERENCES[:1], drained=False)
    assert collate_references(history, SHAPE).unjudgeable == (
        "the query was not run twice without failures, to compare with: stall: nothing more came"
    )
    assert set(statuses(history).values()) == {"UNKNOWN"}
