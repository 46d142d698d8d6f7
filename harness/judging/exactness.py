"""When two values are the same. Python takes 1, 1.0 and True for equal; a record does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter, is_

import msgspec

from ..core.events import PLAIN, Event, Value

_key_of, _value_of = attrgetter("key"), attrgetter("value")
_encode = msgspec.msgpack.Encoder(order="sorted").encode
"""Two values are the same when their canonical encodings are: a tuple that went through a record is a list."""


def same_value(one: Value, other: Value) -> bool:
    if type(one) is type(other) and type(one) in PLAIN:
        return bool(one == other)
    return _encode(one) == _encode(other)


def same_content(one: Event, other: Event) -> bool:
    """Whether two events say the same, whatever their numbers are."""
    return one.key == other.key and same_value(one.value, other.value)


def same_contents(some: Sequence[Event], others: Sequence[Event]) -> bool:
    """Whether as many events say the same, one by one, as far as that is seen at once: they may, where it is not."""
    if list(map(_key_of, some)) != list(map(_key_of, others)):
        return False
    values, theirs = list(map(_value_of, some)), list(map(_value_of, others))
    types = set(map(type, values))
    return len(types) == 1 and types <= PLAIN and types.issuperset(map(type, theirs)) and values == theirs


def same_rows(one: Mapping[str, Value], other: Mapping[str, Value]) -> bool:
    if one.keys() != other.keys():
        return False
    types = set(map(type, one.values()))
    if len(types) == 1 and types <= PLAIN and types.issuperset(map(type, other.values())):
        return one == other
    return all(same_value(value, other[key]) for key, value in one.items())


def other_keys(one: Mapping[str, Value], other: Mapping[str, Value]) -> list[str]:
    """The keys, in their order, of rows that are not the same, or only in one of the two."""
    if same_rows(one, other):
        return []
    return [
        key
        for key in sorted(one.keys() | other.keys())
        if key not in one or key not in other or not same_value(one[key], other[key])
    ]


def same_events(some: Sequence[Event], others: Sequence[Event]) -> bool:
    """Whether these are the same events, one by one."""
    if len(some) == len(others) and all(map(is_, some, others)):
        return True
    if some != others:
        # A tuple and the list that a record made of it are the same.
        return len(some) == len(others) and _encode(list(some)) == _encode(list(others))
    types = list(map(type, map(_value_of, some)))
    if types != list(map(type, map(_value_of, others))):
        return all(same_value(a.value, b.value) for a, b in zip(some, others, strict=True))
    if PLAIN.issuperset(types):
        return True
    values, theirs = ([event.value for event in rows if type(event.value) not in PLAIN] for rows in (some, others))
    return _encode(values) == _encode(theirs)
