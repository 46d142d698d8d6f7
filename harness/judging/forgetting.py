"""Whether an operator forgets when it says that it does.

Schemes keep an input no longer than an operator's `window` says, and judging asks no more of an output than that. An
operator whose outputs depend on older events would have them both look away, so its word is tried: a state that was
never given what is older than a window has to make the same as one that was given all, of each event, at each timer of
event time and at each end of an epoch.

It takes the events in the order of their times, whatever channels they come on: where one channel was taken after
another, all of the second would come too late to say anything.

What its rows hold in the end is another matter. A state may keep what has left the window, as a key's last value until
the key comes again, and nobody is harmed as long as nothing is lost. Where something is, and only the window excuses
it, who reads the rows misses it.
"""

from __future__ import annotations

import reprlib
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ..core.events import Event, Value
from ..core.operators import Operator, rows_of
from ..core.slice_names import operator_of
from ..core.topology import Topology
from .exactness import other_keys, same_value
from .stepping import Going, Step
from .words import EVENTS, find_false_word

_T = TypeVar("_T")

SAMPLES: Final = 24
"""So often is it begun anew with nothing but a window."""


def find_false_window(topology: Topology, taken: Mapping[str, Sequence[Event]]) -> str:
    """Which operator does not forget, and what shows it; as `find_false_word`. One that draws random numbers, and has
    seen events leave its window, nobody can try: neither is it believed."""
    return find_false_word(topology, taken, _is_false)


def _is_false(operator: Operator[Any], events: Sequence[Event]) -> str:
    window = operator.window
    if window is None or not events or events[-1].time - events[0].time < window:
        return ""
    if operator.deterministic:
        why = _remembers(operator, window, events)
    else:
        keeps = operator.initial_state() is not None
        why = "it does not make the same of the same events each time, so that nobody can try it" if keeps else ""
    return why and f"an event matters no more after {window} ms; {why}"


def find_kept_beyond(topology: Topology, taken: Mapping[str, Sequence[Event]]) -> dict[str, str]:
    """Operator with a window -> what shows that its rows in the end hold more than that; those of which nothing does
    are not there. `taken` is what each slice takes in an execution without failures, in the order of its times."""
    found: dict[str, str] = {}
    for slice_id in topology.operator_slices:
        name = operator_of(slice_id)
        operator = topology.stages[name].operator
        if name in found or operator.window is None or not operator.deterministic:
            continue
        if why := _keeps(operator, operator.window, taken.get(slice_id, ())[:EVENTS]):
            found[name] = f"operator {name!r} says that an event matters no more after {operator.window} ms; {why}"
    return found


def _keeps(operator: Operator[Any], window: int, events: Sequence[Event]) -> str:
    times = [event.time for event in events]
    first = bisect_right(times, times[-1] - window) if times else 0
    if not 0 < first < len(events):
        return ""
    # One total may be the same without all of them, as where what comes in has gone out again.
    cuts = dict.fromkeys((first, 1, max(1, first // 2)))
    try:
        rows = _rows_after(Going(operator, operator.initial_state()), operator, events)
        for cut in cuts:
            alone = Going(operator, operator.initial_state(), since=events[cut - 1])
            given = _rows_after(alone, operator, events[cut:])
            for key in other_keys(rows, given):
                is_, instead = (reprlib.repr(some[key]) if key in some else "not there" for some in (rows, given))
                return (
                    f"in the end the state of key {key!r} is {is_}, and {instead} where it was never given the events "
                    f"up to {times[cut - 1]:,} ms"
                )
    except Exception:  # Whatever the user's code raises: where its outputs are tried, it is said.
        return ""
    return ""


def _rows_after(going: Going, operator: Operator[Any], events: Sequence[Event]) -> Mapping[str, Value]:
    going.silent = True
    for event in events:
        deque(going.take(event), 0)
    deque(going.end(events[-1].time), 0)
    return rows_of(operator, going.state)


class _Beginning(NamedTuple):
    """Where a state begins that is given no more than a window."""

    first: int
    """The place of the first event that it takes."""
    place: int
    """The place of the event with which the window ends."""


def _remembers(operator: Operator[Any], window: int, events: Sequence[Event]) -> str:
    times = [event.time for event in events]
    going = Going(operator, operator.initial_state())
    try:
        steps = [list(going.take(event)) for event in events]
        steps.append(list(going.end(times[-1])))
    except Exception as error:  # Whatever the user's code raises.
        return f"where events come in the order of their times, it fails: {type(error).__name__}: {error}"
    beginnings = _beginnings(times, steps, window)
    for number, (first, place) in enumerate(beginnings):
        # On until the next takes over, which has been given too little for what is made just before its own event.
        upto = beginnings[number + 1].place if number + 1 < len(beginnings) else len(events)
        forgotten = times[first - 1]
        # Epochs end without events as well: those in a gap before the first are not over yet.
        alone = Going(operator, operator.initial_state(), since=events[first - 1])
        try:
            for at in range(first, upto + 1):
                alone.silent = at < place
                given = list(alone.take(events[at]) if at < len(events) else alone.end(times[-1]))
                if at >= place and (why := _other(steps[at], given, forgotten, window)):
                    return why
        except Exception as error:  # Whatever the user's code raises where it misses something.
            return f"never given the events up to {forgotten:,} ms, it fails: {type(error).__name__}: {error}"
    return ""


def _beginnings(times: Sequence[int], steps: Sequence[Sequence[Step]], window: int) -> list[_Beginning]:
    """By places: for what makes outputs first of all, which may be seldom; and evenly."""
    telling = [(place, step) for place, some in enumerate(steps) for step in some if step.made]
    told = _spread(telling, SAMPLES)
    others = [(place, steps[place][-1]) for place in _spread(range(len(times)), max(4, SAMPLES - len(told)))]
    found: dict[int, _Beginning] = {}
    for place, step in (*others, *told):
        since = step.time - window
        first = bisect_left(times, since) if step.at_end else bisect_right(times, since)
        # Of what lies wholly within the first window, nothing is forgotten.
        if 0 < first <= min(place, len(times) - 1):
            found[place] = _Beginning(first, place)
    return [found[place] for place in sorted(found)]


def _spread(some: Sequence[_T], count: int) -> list[_T]:
    """So many of these at most, the last one among them."""
    return list(some[:: -max(1, -(-len(some) // count))])


def _other(wanted: Sequence[Step], given: Sequence[Step], forgotten: int, window: int) -> str:
    """What is made otherwise where the events up to the time `forgotten` are missing, of what may not need them."""
    due, came = (
        {step.of: step.made for step in some if step.made and forgotten + step.at_end <= step.time - window}
        for some in (wanted, given)
    )
    for of in {**due, **came}:
        made, instead = due.get(of, []), came.get(of, [])
        if not same_value(made, instead):
            return (
                f"{of} it makes {made!r} after all that came before it, and {instead!r} where it was never given the "
                f"events up to {forgotten:,} ms"
            )
    return ""
