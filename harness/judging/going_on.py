"""Whether a state that was snapshotted and restored goes on as the state itself does.

At each checkpoint of a run it is looked what comes of the inputs that came last before it (`faithfulness`). What an
operator keeps beside its rows may show much later: a counter that a restored state begins anew, and that lets every
twentieth event tell something. Whether a run shows that depends on where its crash fell. So the operator's word is
tried once for an input: from many places of it on, what `restore` gives of `snapshot` takes all that follows, and has
to make of it what the state itself makes. Restored is only when the state has gone on to the end: what a snapshot
shares with it has changed by then.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final

from ..core.events import Event
from ..core.operators import Operator, rows_of
from ..core.slice_names import operator_of
from ..core.topology import Topology
from ..protocol.merging import epoch_of
from .exactness import other_keys, same_value
from .stepping import Going, Step

EVENTS: Final = 400
"""Of each slice, so many are executed at most."""
TAKEN_AGAIN: Final = 600
"""So many events are taken by restored states in all; of a small input, from each place of it on."""
LEAST: Final = 4
"""From so many places on it is tried, however many events there are."""
_TICK: Final = 10
"""The clock is read after so many events each."""


_NOTHING: Final = Step("", 0, [])


def false_snapshots(topology: Topology, taken: Mapping[str, Sequence[Event]]) -> dict[str, str]:
    """Operator -> what shows that its checkpoints do not give back its state; those of which nothing does are not
    there. `taken` is what each slice takes in an execution without failures."""
    found: dict[str, str] = {}
    for slice_id in topology.operator_slices:
        name = operator_of(slice_id)
        operator = topology.stages[name].operator
        if name in found or not operator.deterministic or operator.initial_state() is None:
            continue
        events = list(taken.get(slice_id, ())[:EVENTS])
        if operator.epoch is not None:
            size = operator.epoch
            events.sort(key=lambda event: epoch_of(event.time, size))
        if why := _otherwise(operator, events):
            found[name] = f"operator {name!r} says that restore() gives back what snapshot() was taken of; {why}"
    return found


def places_of(count: int) -> list[int]:
    """After how many of so many events it is tried."""
    wanted = max(LEAST, 2 * TAKEN_AGAIN // max(1, count))
    return sorted({1 + (count - 1) * number // wanted for number in range(wanted)}) if count > 1 else []


def _otherwise(operator: Operator[Any], events: Sequence[Event]) -> str:
    """What one state makes of events, and one that was restored on the way makes otherwise; empty where none does."""
    snapshots: dict[int, bytes] = {}
    try:
        own = Going(operator, operator.initial_state())
        wanting = set(places_of(len(events)))
        steps: list[list[Step]] = []
        for place, event in enumerate(events):
            if place in wanting:
                snapshots[place] = operator.snapshot(own.state)
            steps.append(list(_taken(own, place, event)))
        steps.append(list(own.end(_latest(events))))
        rows = rows_of(operator, own.state)
    except Exception:  # Whatever the user's code raises: whoever executes it to judge says so.
        return ""
    for place, snapshot in snapshots.items():
        try:
            again = Going(operator, operator.restore(snapshot), since=events[place - 1], begun=True)
            after = f"restored after {place:,} of {len(events):,} events"
            for number, wanted in enumerate(steps[place:], place):
                given = _taken(again, number, events[number]) if number < len(events) else again.end(_latest(events))
                for one, other in zip_longest(wanted, list(given), fillvalue=_NOTHING):
                    if not same_value(list(one), list(other)):
                        instead = reprlib.repr(other.made) if one.of == other.of else str(other)
                        return f"its state makes {one}, and what is {after} {instead}"
            held = rows_of(operator, again.state)
        except Exception as error:
            return f"what is restored after {place:,} of {len(events):,} events fails: {type(error).__name__}: {error}"
        for key in other_keys(rows, held):
            is_, instead = (repr(some[key]) if key in some else "not there" for some in (rows, held))
            return f"in the end the state of key {key!r} is {is_}, and of what is {after} {instead}"
    return ""


def _taken(going: Going, place: int, event: Event) -> Iterator[Step]:
    yield from going.take(event)
    if place % _TICK == _TICK - 1:
        yield from going.tick(event.time)


def _latest(events: Sequence[Event]) -> int:
    return max((event.time for event in events), default=-1)
