"""Whether a checkpoint gives back the state that it was taken of, and a partial one holds all of it."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NamedTuple

from ..core.events import PLAIN, Event, Value, carried
from ..core.operators import Operator, processor_of, rows_of
from ..core.verdicts import Evidence
from ..recording.records import CheckpointTaken
from .exactness import other_keys, same_value

ONCE_MORE: Final = 8
"""So many of the inputs that came last before a checkpoint are taken once more by what it gives back."""


@dataclass(frozen=True)
class Unfaithful:
    """What a snapshot, once restored, does not give back."""

    checkpoint: CheckpointTaken
    why: str

    @property
    def evidence(self) -> Evidence:
        record = self.checkpoint
        return Evidence(f"checkpoint {record.number}: {self.why}", f"{record.slice}#{record.incarnation}")


def find_unfaithful(
    operator: Operator[Any], checkpoint: CheckpointTaken, state: Any, twin: Any, latest: Sequence[Event]
) -> Unfaithful | None:
    """Whether rows(restore(snapshot(state))) are rows(state), both make the same of inputs, since an operator may go by
    what its rows do not show, and snapshot() leaves the state as it is.

    `state` and `twin` are equal, and nobody else has them. `latest` are inputs that came last before the checkpoint.
    What restore() raises is a state that is lost.
    """
    rows = rows_of(operator, twin)
    try:
        back = operator.restore(operator.snapshot(state))
        restored = rows_of(operator, back)
    except Exception as error:  # Whatever the user's code raises.
        return Unfaithful(checkpoint, f"it cannot be restored: {type(error).__name__}: {error}")
    for given, what in ((restored, "once restored"), (rows_of(operator, state), "after snapshot()")):
        for key in other_keys(rows, given):
            return _other(checkpoint, key, rows, given, what)
    if None in rows.values() or any(type(value) not in PLAIN for value in rows.values()):
        # A record has None where a float was no number.
        before, after = operator.rows(twin), operator.rows(back)
        for key in sorted(rows):
            if _numbers(before[key]) != _numbers(after[key]):
                return _other(checkpoint, key, before, after, "once restored")
    why = _made_otherwise(operator, latest, twin, back)
    return Unfaithful(checkpoint, why) if why else None


def _made_otherwise(operator: Operator[Any], events: Sequence[Event], own: Any, restored: Any) -> str:
    """What a restored state makes of inputs, taken once more, and the state itself makes otherwise; empty where nothing
    differs, or where the operator does not take them a second time. Both states are used up."""
    found = first_otherwise(operator, events, own, restored)
    if found is None:
        return ""
    then = f"fails once restored: {found.failure}" if found.failure else f"{found.other} once restored"
    event = found.event
    return f"of event ({event.source}, {event.seq}), taken once more, its state makes {found.made}, and {then}"


class Otherwise(NamedTuple):
    """What two states make of an event, in words."""

    event: Event
    made: str
    other: str
    failure: str = ""
    """Why the second makes nothing of it, where the user's code fails."""


def first_otherwise(operator: Operator[Any], events: Sequence[Event], one: Any, another: Any) -> Otherwise | None:
    """The first of these events of which the second state makes something else; None where there is none, or where the
    first does not take them. Both states are used up."""
    process, again = processor_of(operator, 0), processor_of(operator, 0)
    for event in events:
        try:
            made = carried(list(process(event, one)))
        except Exception:  # Whatever the user's code raises.
            return None
        try:
            other = carried(list(again(event, another)))
        except Exception as error:
            return Otherwise(event, reprlib.repr(made), "nothing", f"{type(error).__name__}: {error}")
        if not same_value(made, other):
            return Otherwise(event, reprlib.repr(made), reprlib.repr(other))
    return None


def find_left_out(operator: Operator[Any], checkpoint: CheckpointTaken, state: Any, backup: Any) -> Unfaithful | None:
    """What a partial checkpoint leaves out of a state, since the operator's `delta` passes over small ones. Who begins
    with that has a state that no input gives."""
    rows, given = rows_of(operator, state), rows_of(operator, backup)
    return next((_other(checkpoint, key, rows, given, "in the backup") for key in other_keys(rows, given)), None)


def _other(
    checkpoint: CheckpointTaken, key: str, before: Mapping[str, Value], after: Mapping[str, Value], what: str
) -> Unfaithful:
    return Unfaithful(
        checkpoint, f"the state of key {key!r} was {_said(before, key)}, and is {_said(after, key)} {what}"
    )


def _numbers(value: Value) -> list[str]:
    """The floats in it that are no numbers, and what has no value, in their order."""
    found: list[str] = []
    left = [value]
    while left:
        match left.pop():
            case None:
                found.append("None")
            case float(number) if not isfinite(number):
                found.append(str(number))
            case list() | tuple() as several:
                left += several
            case Mapping() as mapped:
                left += [one for _, one in sorted(mapped.items(), key=lambda entry: str(entry[0]))]
    return found


def _said(rows: Mapping[str, Value], key: str) -> str:
    return repr(rows[key]) if key in rows else "not there"
