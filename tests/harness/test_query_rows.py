"""Rows of Spark's are recorded as texts that are equal when the rows are."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from query_histories import Given, query_history
from streamproof.harness.embedded.query_rows import canonical_rows, canonical_table, text_of
from streamproof.harness.errors import InvalidOperator
from streamproof.harness.judging.exactness import same_value
from streamproof.harness.judging.references import DRIVER, REFERENCES, SINK, batch_of, collate_references
from streamproof.harness.judging.shapes import OutputMode, OutputShape, keyed
from streamproof.harness.model import Event
from streamproof.harness.query import Query
from streamproof.harness.recording.history import Drained, History, Stamp
from streamproof.harness.recording.records import Delivered, Ended, Stamped

APPEND = Query(str, name="q")
UPDATE = Query(str, name="q", mode=OutputMode.UPDATE, key=("user",))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.builds(lambda a, b: Row(a=a, b=b), inner, inner),
    max_leaves=6,
)
ROWS = st.builds(lambda user, n, more: Row(user=user, n=n, more=more), st.text(), st.integers(0, 5), VALUES)


@given(st.lists(ROWS, max_size=8), st.randoms())
def test_the_order_in_which_rows_come_does_not_matter(rows: list[Row], random: Any) -> None:
    shuffled = random.sample(rows, len(rows))
    assert canonical_rows(APPEND, rows, 3) == canonical_rows(APPEND, shuffled, 3)
    assert canonical_table(APPEND, rows) == canonical_table(APPEND, shuffled)
    assert sum(event.value for event in canonical_rows(APPEND, rows, 3)) == len(rows)  # type: ignore[misc]


@given(st.lists(ROWS, max_size=8, unique_by=lambda row: row.user))
def test_rows_have_the_keys_that_the_judge_finds_in_them(rows: list[Row]) -> None:
    found = {event.key: event.value for event in canonical_rows(UPDATE, rows, 3)}
    wanted = dict(keyed(msgspec.json.decode(text_of(UPDATE, row)), UPDATE.key) for row in rows)
    assert found.keys() == wanted.keys()
    assert all(same_value(found[key], wanted[key]) for key in wanted)


@given(st.lists(ROWS, min_size=1, max_size=4, unique_by=lambda row: row.user), st.integers(0, 99))
def test_two_runs_that_give_the_same_rows_agree_whatever_is_in_them(rows: list[Row], batch: int) -> None:
    for query in (APPEND, UPDATE):
        records = [
            record
            for sink in (*REFERENCES, SINK)
            for record in (
                Delivered(sink, "q", 1, 0, canonical_rows(query, rows, batch)),
                Ended(sink if sink in REFERENCES else DRIVER, 1, {"source": [1]}),
            )
        ]
        history = History([Stamped(0, record) for record in records], [Drained(Stamp(1))])
        collation = collate_references(history, query.shape)
        assert collation.unjudgeable == ""
        assert collation.tallies("lost_output", "phantoms", "conflicting_outputs", "duplicate_outputs") == ()


@pytest.mark.parametrize("other", [None, 0.0, float("inf"), float("-inf")])
def test_a_number_that_is_none_is_no_other_value(other: float | None) -> None:
    nan = Row(user="a", n=float("nan"))
    assert text_of(APPEND, nan) == '{"n":"NaN","user":"a"}' != text_of(APPEND, Row(user="a", n=other))
    assert canonical_rows(UPDATE, [nan], 0) == [Event("q", canonical_rows(UPDATE, [nan], 0)[0].seq, "a", "NaN", 0)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("inf"), '"Infinity"'),
        (float("-inf"), '"-Infinity"'),
        (-0.0, "-0.0"),
        (Decimal("1.10"), '"1.10"'),
        (date(2026, 1, 2), '"2026-01-02"'),
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), '"2026-01-02T03:04:05.000006Z"'),
        (bytearray(b"\x00\xff"), '"AP8="'),
        (Row(b=1, a=[Row(c=None)]), '{"a":[{"c":null}],"b":1}'),
        ({"y": 1, "x": float("nan")}, '{"x":"NaN","y":1}'),
    ],
)
def test_what_spark_has_is_written_in_one_way(value: Any, text: str) -> None:
    assert text_of(APPEND, Row(v=value)) == f'{{"v":{text}}}'


def test_what_cannot_be_recorded_is_the_querys_mistake() -> None:
    with pytest.raises(InvalidOperator, match="cannot be recorded"):
        text_of(APPEND, Row(v=object()))


def test_rows_carry_their_batch() -> None:
    assert {batch_of(event.seq) for event in canonical_rows(APPEND, [Row(v=1), Row(v=2)], 7)} == {7}
    # As hand-made histories have them.
    history = query_history(OutputShape(OutputMode.APPEND), [Given(0, [{"v": 1}])], [Given(0, [{"v": 1}])])
    assert collate_references(history, OutputShape(OutputMode.APPEND)).unjudgeable == ""
