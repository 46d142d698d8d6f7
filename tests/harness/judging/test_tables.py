"""What a consumer reads at the end is compared with what it reads after two runs without failures."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from query_histories import Row, counts, kept, query_history, statuses, struck
from streamproof.harness.core.errors import InvalidHistory
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_OUTPUT,
    PRECISE,
    ROLLBACK_REPEATING,
)
from streamproof.harness.core.verdicts import SAMPLE
from streamproof.harness.judging.references import BATCH_JOB, DRIVER, collate_references
from streamproof.harness.judging.shapes import OutputMode, OutputShape
from streamproof.harness.judging.tables import compare_tables, total
from streamproof.harness.recording.records import Kept

READ = OutputShape(OutputMode.APPEND, (), reads=True)
KEYED = OutputShape(OutputMode.UPDATE, ("word",), reads=True)
A, B, C, D = ({"word": word, "n": n} for word, n in (("a", 1), ("b", 1), ("c", 2), ("d", 7)))
A2 = {"word": "a", "n": 2}
EFFECTS = (EXACTLY_ONCE, AT_LEAST_ONCE, AT_MOST_ONCE)


def effects(found: list[Row], shape: OutputShape, wanted: tuple[Row, ...] = (A, B, C)) -> tuple[str, ...]:
    """Whether it is exactly once, at least once, at most once."""
    told = statuses(query_history(shape, wanted, found), shape, *EFFECTS)
    return tuple(told[name] for name in EFFECTS)


def counted(found: list[Row], shape: OutputShape, wanted: tuple[Row, ...] = (A, B, C)) -> dict[str, int]:
    return counts(collate_references(query_history(shape, wanted, found), shape))


@pytest.mark.parametrize("shape", [READ, KEYED])
def test_the_same_table_in_any_order(shape: OutputShape) -> None:
    assert counted([C, A, B], shape) == {}
    assert effects([C, A, B], shape) == ("HOLDS", "HOLDS", "HOLDS")


@pytest.mark.parametrize("shape", [READ, KEYED])
def test_a_missing_row_is_lost(shape: OutputShape) -> None:
    assert counted([A, C], shape) == {"lost_state": 1}
    assert effects([A, C], shape) == ("VIOLATED", "VIOLATED", "HOLDS")


@pytest.mark.parametrize("shape", [READ, KEYED])
def test_a_row_once_more_is_a_second_effect(shape: OutputShape) -> None:
    assert counted([A, B, B, B, C], shape) == {"duplicate_effects": 2}
    assert effects([A, B, B, B, C], shape) == ("VIOLATED", "HOLDS", "VIOLATED")


@pytest.mark.parametrize("shape", [READ, KEYED])
def test_a_row_that_should_not_be_there_is_a_phantom(shape: OutputShape) -> None:
    assert counted([A, B, C, D], shape) == {"phantoms": 1}
    assert effects([A, B, C, D], shape) == ("VIOLATED", "UNKNOWN", "UNKNOWN")


def test_without_a_key_a_phantom_may_stand_in_the_place_of_what_is_missing() -> None:
    assert counted([A2, B, C], READ) == {"phantoms": 1}
    assert effects([A2, B, C], READ) == ("VIOLATED", "UNKNOWN", "UNKNOWN")


def test_without_a_key_a_copy_may_stand_in_the_place_of_what_is_missing() -> None:
    """An operator that has lost its state gives early rows again, in the place of later ones."""
    wanted = (A, A2)
    assert counted([A, A], READ, wanted) == {"lost_state": 1, "duplicate_effects": 1}
    assert effects([A, A], READ, wanted) == ("VIOLATED", "UNKNOWN", "UNKNOWN")


def test_with_a_key_another_value_is_neither_lost_nor_doubled() -> None:
    assert counted([A2, B, C], KEYED) == {"phantoms": 1}
    assert effects([A2, B, C], KEYED) == ("VIOLATED", "UNKNOWN", "UNKNOWN")


def test_with_a_key_what_is_missing_is_lost_whatever_else_is_wrong() -> None:
    assert counted([A2, B], KEYED) == {"phantoms": 1, "lost_state": 1}
    assert effects([A2, B], KEYED) == ("VIOLATED", "VIOLATED", "UNKNOWN")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([A, A2, B, C], {"duplicate_effects": 1}),
        ([A2, {"word": "a", "n": 3}, B, C], {"phantoms": 1, "duplicate_effects": 1}),
        ([A, A, A2, B, C], {"duplicate_effects": 2}),
    ],
)
def test_a_key_twice_is_a_second_effect_whatever_it_says(found: list[Row], expected: dict[str, int]) -> None:
    assert counted(found, KEYED) == expected
    assert effects(found, KEYED)[2] == "VIOLATED"


def test_a_table_that_has_a_key_more_often_without_failures() -> None:
    """The rows of a key are a multiset then."""
    wanted = (A, A2, B)
    assert counted([A2, A, B], KEYED, wanted) == {}
    assert counted([A, B], KEYED, wanted) == {"lost_state": 1}
    assert counted([A, A, B], KEYED, wanted) == {"phantoms": 1}
    assert counted([A, A2, A2, B], KEYED, wanted) == {"duplicate_effects": 1}


def test_types_matter() -> None:
    assert counted([{"word": "a", "n": 1.0}, B, C], KEYED) == {"phantoms": 1}
    assert counted([{"word": "a", "n": True}, B, C], READ) == {"phantoms": 1}


def test_how_a_table_came_about_is_not_judged() -> None:
    history = query_history(READ, (A, B), (A, B))
    assert collate_references(history, READ).observables == ("state",)
    found = statuses(history, READ, PRECISE, ROLLBACK_REPEATING, EXACTLY_ONCE_OUTPUT, EXACTLY_ONCE)
    assert found == {
        PRECISE: "UNKNOWN",
        ROLLBACK_REPEATING: "UNKNOWN",
        EXACTLY_ONCE_OUTPUT: "UNKNOWN",
        EXACTLY_ONCE: "HOLDS",
    }


def test_what_is_wrong_with_a_table_breaks_everything_stronger() -> None:
    history = query_history(READ, (A, B), (A, B, B))
    names = PRECISE, ROLLBACK_REPEATING, EXACTLY_ONCE_OUTPUT, EXACTLY_ONCE
    assert set(statuses(history, READ, *names).values()) == {"VIOLATED"}


def test_evidence_tells_row_input_and_fault() -> None:
    offered = [
        [Event("source", 1, "k", "a a", 1), Event("source", 2, "k", "b", 2)],
        [Event("source", 3, "k", "c", 3)],
        [Event("source", 4, "k", "b", 4)],
    ]
    faults = [struck(1, 0, "driver/0#1 after sink-write 0"), struck(2, 1, "driver/0#2 before commit-log 1")]
    faults.append(struck(3, 2, "driver/0#3 before state-commit 2/0/1/default"))
    history = query_history(READ, (A, B, C), (A, A, B), offered=offered, faults=faults)
    collation = collate_references(history, READ)
    (doubled,), (lost,) = collation.duplicate_effects.sample, collation.lost_state.sample
    assert doubled.what == (
        'the table has {"n":1,"word":"a"} twice; without failures once; its input is likely source #1 of batch 0'
    )
    assert (doubled.where, doubled.fault) == ("table", 0)
    assert lost.what == (
        'the table has {"n":2,"word":"c"} not at all; without failures once; its input is likely source #3 of batch 1'
    )
    assert lost.fault == 1
    # A word of two batches says nothing of its input.
    (b,) = collate_references(query_history(READ, (A, B), (A, B, B), offered=offered), READ).duplicate_effects.sample
    assert "input" not in b.what


def test_a_row_that_carries_its_inputs_number_says_where_it_is_from() -> None:
    offered = [[Event("source", n * 2 + i, "k", "v", n) for i in range(2)] for n in range(3)]
    rows = [{"seq": n, "value": "v"} for n in range(6)]
    history = query_history(READ, rows, [*rows[:3], *rows[4:]], offered=offered)
    (lost,) = collate_references(history, READ).lost_state.sample
    assert lost.what.endswith("its input is likely source #3 of batch 1")


def test_the_first_wrong_row_comes_first_and_there_are_not_too_many() -> None:
    rows = [{"seq": n} for n in range(200)]
    collation = collate_references(query_history(READ, rows, rows[:50]), READ)
    assert (collation.lost_state.count, len(collation.lost_state.sample)) == (150, SAMPLE)
    assert '{"seq":50}' in collation.lost_state.sample[0].what


def test_a_long_row_is_not_told_in_full() -> None:
    collation = collate_references(query_history(READ, (A,), (A, {"text": "x" * 10_000})), READ)
    assert len(collation.phantoms.sample[0].what) < 1_000


def test_what_a_run_that_was_cut_short_leaves_says_nothing() -> None:
    """A value may have been replaced, and a row removed, had it gone on."""
    for found in ([A, A, D], [], None):
        history = query_history(KEYED, (A2, B), found, drained=False)
        assert counts(collate_references(history, KEYED)) == {}
        assert set(statuses(history, KEYED, *EFFECTS).values()) == {"UNKNOWN"}


def test_a_table_that_nobody_read() -> None:
    history = query_history(READ, (A, B), None)
    assert collate_references(history, READ).incomplete == "the table was not read at the end"
    assert set(statuses(history, READ, *EFFECTS).values()) == {"UNKNOWN"}


@pytest.mark.parametrize("shape", [READ, KEYED])
def test_references_that_disagree(shape: OutputShape) -> None:
    history = query_history(shape, (A, B, B), (A, D), other=(A2, B))
    assert collate_references(history, shape).unjudgeable == (
        "two runs without failures disagree on 3 rows: "
        '{"n":1,"word":"a"}: once and not at all; {"n":1,"word":"b"}: twice and once; '
        '{"n":2,"word":"a"}: not at all and once'
    )
    assert set(statuses(history, shape, *EFFECTS).values()) == {"UNKNOWN"}


def test_a_batch_job_that_disagrees() -> None:
    agrees = query_history(READ, (A, B), (A, B), also=[kept(BATCH_JOB, (B, A))])
    assert collate_references(agrees, READ).unjudgeable == ""
    history = query_history(READ, (A, B), (A,), also=[kept(BATCH_JOB, (A2, B))])
    assert collate_references(history, READ).unjudgeable == (
        "a batch job over the same input gives another table: it and the query without failures disagree on 2 rows: "
        '{"n":1,"word":"a"}: once and not at all; {"n":2,"word":"a"}: not at all and once'
    )
    assert set(statuses(history, READ, *EFFECTS).values()) == {"UNKNOWN"}


def test_nothing_on_either_side_shows_nothing() -> None:
    history = query_history(READ, (), ())
    assert collate_references(history, READ).unjudgeable.startswith("the query gives no rows")
    assert effects([A], READ, ()) == ("VIOLATED", "UNKNOWN", "UNKNOWN")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({'{"word":"a"}': "many"}, "has the row .* 'many' times"),
        ({'{"word":"a"}': -1}, "-1 times"),
        ({"a": 1}, "no JSON object"),
        ({'{"name":"a"}': 1}, "no key column 'word'"),
    ],
)
def test_a_table_that_is_none(rows: dict[str, Any], message: str) -> None:
    history = query_history(KEYED, (A,), None, also=[Kept(DRIVER, 1, rows)])
    with pytest.raises(InvalidHistory, match=message):
        collate_references(history, KEYED)


def test_thousands_of_rows_are_compared_at_once() -> None:
    wanted = [{"seq": n, "word": f"w{n % 100}", "n": n} for n in range(20_000)]
    offered = [[Event("source", n, "k", f"w{n % 100}", n) for n in range(k, k + 100)] for k in range(0, 20_000, 100)]
    for key in ((), ("seq",)):
        shape = OutputShape(OutputMode.APPEND, key, reads=True)
        history = query_history(shape, wanted, [*wanted[:9_000], *wanted[8_000:]], offered=offered)
        began = time.perf_counter()
        collation = collate_references(history, shape)
        assert time.perf_counter() - began < 5
        assert counts(collation) == {"duplicate_effects": 1_000}


def test_a_count_is_of_rows() -> None:
    comparison = compare_tables(Counter({"{}": 5}), Counter({"{}": 2}))
    assert (total(comparison.lost), len(comparison.lost), comparison.doubt) == (3, 1, "")
