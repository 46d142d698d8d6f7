"""Columns that are made and read without pandas are those that Arrow makes with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.harness.recording import arrow_columns
from streamproof.harness.recording.arrow_columns import number_column, numbers_in, text_column

whole = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(whole))
def test_whole_numbers_are_those_that_arrow_makes(values: list[int]) -> None:
    assert number_column(values).equals(pa.array(values, pa.int64()))
    assert number_column(np.array(values, np.int64)).equals(pa.array(values, pa.int64()))


@given(st.lists(st.text()))
def test_texts_are_those_that_arrow_makes(values: list[str]) -> None:
    assert text_column(values).equals(pa.array(values, pa.string()))


def test_texts_that_are_too_long_for_one_piece_are_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_columns, "_LARGEST", 5)
    made: list[list[str]] = []
    array = pa.array

    def noted(values: list[str], kind: pa.DataType) -> pa.Array:
        made.append(values)
        return array(values, kind)

    monkeypatch.setattr(pa, "array", noted)
    assert text_column(["abc", "de"]).to_pylist() == ["abc", "de"]
    assert made == []
    assert text_column(["abc", "def"]).to_pylist() == ["abc", "def"]
    assert made == [["abc", "def"]]


@given(st.lists(whole), st.integers(0, 9), st.integers(0, 9))
def test_of_a_part_of_a_column_that_part_is_read(values: list[int], first: int, last: int) -> None:
    assert numbers_in(pa.array(values, pa.int64())[first:last]).tolist() == values[first:last]


def test_which_text_a_row_has_is_read() -> None:
    assert numbers_in(pa.array(["b", "a", "b"]).dictionary_encode().indices).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("value", "error"), [(1.5, TypeError), ("1", TypeError), (None, TypeError), (2**63, OverflowError)]
)
def test_what_is_no_whole_number_of_64_bits_is_not_made_one(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        number_column([1, value])


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array([1, None], pa.int64()), "a value is missing"),
        (pa.array([1.5]), "a column of whole numbers holds double"),
        (pa.array(["a"]), "a column of whole numbers holds string"),
    ],
)
def test_what_holds_no_whole_numbers_is_not_read_as_such(column: pa.Array, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        numbers_in(column)
