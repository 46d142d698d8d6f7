"""Sequences in columns are the lists that they were made of."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamproof.harness.core.events import Event
from streamproof.harness.judging import packed
from streamproof.harness.judging.codes import NONE, coded
from streamproof.harness.judging.columns import numbers_of, pack
from streamproof.harness.judging.packed import joined, packed_events, packed_numbers, packed_tuples

numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300) | st.sampled_from([2**63, -(2**70)])
texts = st.sampled_from(["a", "b"]) | st.text(st.characters(), max_size=3)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=2) | st.tuples(inner, inner),
    max_leaves=4,
)
columns = st.lists(numbers, min_size=1) | st.lists(texts, min_size=1) | st.lists(values, min_size=1)


def _listed(value: Any) -> Any:
    """A tuple that went through a record is a list."""
    if isinstance(value, list | tuple):
        return [_listed(one) for one in value]
    return {key: _listed(one) for key, one in value.items()} if isinstance(value, dict) else (type(value), value)


@given(columns | st.integers(0, 9).map(lambda first: list(range(first, first + 9))))
def test_a_column_gives_back_what_it_was_made_of(given_: list[Any]) -> None:
    column = pack(given_)
    assert _listed(column.values()) == _listed(given_)
    array = numbers_of(column)
    if array is not None:
        assert array.tolist() == given_


def _events(seqs: list[int]) -> list[Event]:
    return [Event("a-0", seq, f"k{seq % 3}", seq if seq % 5 else [seq], seq // 2) for seq in seqs]


_KINDS = {
    "events": (packed_events, _events),
    "numbers": (packed_numbers, lambda seqs: seqs),
    "tuples": (packed_tuples, lambda seqs: [("a-0", seq, *([seq] if seq % 7 == 0 else [])) for seq in seqs]),
    "tuples or none": (packed_tuples, lambda seqs: [None if seq % 4 == 0 else ("a-0", seq) for seq in seqs]),
}


@settings(deadline=None)
@given(
    st.sampled_from(sorted(_KINDS)),
    st.lists(st.lists(st.integers(0, 40), max_size=9), max_size=6),
    st.integers(0, 12),
    st.lists(st.integers(-60, 60), min_size=2, max_size=2),
    st.integers(0, 20),
)
def test_rows_in_columns_are_the_list_that_they_were_made_of(
    kind: str, batches: list[list[int]], chunk_of: int, bounds: list[int], skip: int
) -> None:
    make, rows_of = _KINDS[kind]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "CHUNK", chunk_of + 1)
        rows: Any = make()
        expected: list[Any] = []
        for batch in batches:
            rows.extend(rows_of(batch))
            expected += rows_of(batch)
        assert list(rows) == expected
        assert len(rows) == len(expected)
        assert rows == expected
        assert [rows[place] for place in range(len(expected))] == expected
        low, high = bounds
        assert list(rows[low:high]) == expected[low:high]
        if expected:
            assert rows[-1] == expected[-1]
            assert expected[-1] in rows
            assert rows.count(expected[-1]) == expected.count(expected[-1])
            assert rows != [*expected[:-1], object()]
        rest = rows.since(skip)
        assert list(rest) == expected[skip:] == list(rest[0:])
        assert len(rest) == len(expected[skip:])
        assert list(rest[low:high]) == expected[skip:][low:high]
        assert list(rest.since(2)) == expected[skip:][2:]
        both = joined([rest, rows[low:high], expected[:3], rows])
        whole = [*expected[skip:], *expected[low:high], *expected[:3], *expected]
        assert list(both) == whole
        assert both == whole
        assert len(both) == len(whole)
        assert [both[place] for place in range(len(whole))] == whole
        for first, last in pairwise(sorted({0, abs(low), abs(high), len(whole)})):
            assert list(both[first:last]) == whole[first:last]


@settings(deadline=None)
@given(
    st.sampled_from(sorted(_KINDS)),
    st.lists(st.integers(0, 40), max_size=30),
    st.lists(st.tuples(st.sampled_from(["rows", "one", "lent", "columns"]), st.integers(0, 30), st.integers(0, 30))),
    st.integers(0, 12),
    st.booleans(),
)
def test_rows_can_come_from_others_in_columns(
    kind: str, origin_of: list[int], steps: list[tuple[str, int, int]], chunk_of: int, looked_at: bool
) -> None:
    make, rows_of = _KINDS[kind]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "CHUNK", chunk_of + 1)
        origin: Any = make(rows_of(origin_of))
        rows: Any = make()
        expected: list[Any] = []
        for how, low, high in steps:
            stop = min(high, len(origin))
            start = min(low, stop)
            if start == stop:
                continue
            added = list(origin[start:stop])
            if how == "rows":
                rows.extend(added)
            elif how == "one":
                added = added[:1]
                for row in added:
                    rows.append(row)
            elif how == "lent":
                rows.lend(origin, start, stop)
            else:
                columns = list(origin.columns(start, stop))
                lengths = [last - first for _, first, last in origin.chunks(start, stop)]
                if None in columns:
                    continue
                for some, length in zip(columns, lengths, strict=True):
                    rows.extend_columns(some, length)
            expected += added
            assert len(rows) == len(expected)
            assert not looked_at or rows == expected
        assert list(rows) == expected
        assert list(rows.since(len(expected) // 2)) == expected[len(expected) // 2 :]


def test_derivations_of_one_width_have_the_numbers_that_they_have_among_others() -> None:
    some = [("s", 1, 5), ("t", 2, 1 << 33), ("s", 1, 5), ("s", 1, 6)]
    one, other = coded(some, [*some, None, ("s", 1)])
    assert one.tolist() == other[: len(some)].tolist()
    assert one[0] == one[2]
    assert other[len(some)] == NONE
    assert len(set(other.tolist())) == 5
