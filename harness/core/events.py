"""Events, and the values that they carry."""

from __future__ import annotations

from typing import Any

import msgspec

Value = Any
"""A value of an event or of a row of state: what JSON can carry. Tuples become lists, and bytes become base64 text."""

Output = tuple[str, Value]
"""What an operator emits: (key, value). The runtime adds source, sequence number and time."""

NUMBERING_SPAN = 1_000_000_000
"""Sequence numbers that one incarnation may use before it would run into those of the next (`slices.spec`)."""

PLAIN = frozenset({str, int, bool, type(None)})
"""The types of values that are carried as they are. A float is not among them: JSON has no NaN and no infinity."""

_deterministic = msgspec.json.Encoder(order="deterministic").encode
_on_record = msgspec.msgpack.Encoder().encode


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One event. Its id (source, seq) is unique, and seq rises strictly within a source."""

    source: str
    seq: int
    key: str
    value: Value
    time: int
    """Event time in ms."""


def carried(value: Value) -> Value:
    """A value as it comes out of a message: a copy, which does not change when the operator goes on with the original,
    and a list where a tuple went in, a sorted one where a set did, None where a float was no number. So an operator,
    and whoever judges its run, sees the same in every world.

    Raises TypeError for what JSON cannot carry.
    """
    try:
        try:
            encoded = _deterministic(value)
        except TypeError:  # Keys that are no text become text; only then can they be sorted.
            encoded = _deterministic(msgspec.json.decode(msgspec.json.encode(value)))
        return msgspec.json.decode(encoded)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"value {value!r} cannot be carried ({error})") from error


def recordable(key: object, value: Value, of: str) -> Output:
    """A key and a value `of` an output, or an event, as others are given them. Raises TypeError, ValueError or
    OverflowError where no link can carry them and no record can hold them: a key that is no str, a number of more than
    64 bits, a text that UTF-8 does not have."""
    if type(key) is not str:
        raise TypeError(f"key {key!r} of {of} is not a str, but a {type(key).__name__}")
    taken = value if type(value) in PLAIN else carried(value)
    _on_record((key, taken))
    return key, taken
