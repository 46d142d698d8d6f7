"""Python takes 1, 1.0 and True for equal; a record does not, and so nothing that is compared at once may."""

from __future__ import annotations

import pytest

from streamproof.harness.core.events import Event, Value
from streamproof.harness.judging.exactness import same_contents, same_rows


def _events(*values: Value) -> list[Event]:
    return [Event("a-0", seq, f"key-{seq}", value, 0) for seq, value in enumerate(values, start=1)]


@pytest.mark.parametrize("one", [1, True, 1.0, "1", None])
@pytest.mark.parametrize("other", [1, True, 1.0, "1", None])
def test_values_are_the_same_where_their_records_are(one: Value, other: Value) -> None:
    same = type(one) is type(other)
    assert same_rows({"a": one, "b": one}, {"b": other, "a": other}) is same
    assert same_contents(_events(one, one), _events(other, other)) is (same and type(one) is not float)


def test_what_is_not_seen_at_once_is_not_said_to_be_the_same() -> None:
    assert not same_contents(_events(1, "1"), _events(1, "1"))
    assert not same_contents(_events([1]), _events([1]))
    assert not same_contents(_events(1, 2), [*_events(1), Event("a-0", 2, "another", 2, 0)])


def test_rows_of_several_types_are_compared_one_by_one() -> None:
    assert same_rows({"a": 1, "b": "x", "c": [1, 2]}, {"a": 1, "b": "x", "c": (1, 2)})
    assert not same_rows({"a": 1, "b": 2}, {"a": 1, "b": True})
    assert not same_rows({"a": 1}, {"b": 1})
