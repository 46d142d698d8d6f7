"""Whether an operator forgets when it says that it does.

Schemes keep an input no longer than an operator's `window` says, and judging asks no more of an output than that. An
operator whose outputs depend on older events would have them both look away, so its word is tried: the newest events of
a window alone have to make of the next event what all events before it do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.events import Event
from ..core.operators import Operator, processor_of
from ..core.topology import Topology
from .exactness import same_value
from .words import find_false_word, said_of

SAMPLES = 40
"""Events of a slice of which it is tried."""


def find_false_window(topology: Topology, taken: Mapping[str, Sequence[Event]]) -> str:
    """Which operator does not forget, and what shows it; as `find_false_word`."""
    return find_false_word(topology, taken, _is_false)


def _is_false(operator: Operator[Any], events: Sequence[Event]) -> str:
    if operator.window is None:
        return ""
    why = _remembers(operator, operator.window, events)
    return why and f"an event matters no more after {operator.window} ms; {why}"


def _remembers(operator: Operator[Any], window: int, events: Sequence[Event]) -> str:
    step = max(1, len(events) // SAMPLES)
    made = [said_of(outputs) for outputs in _executed(operator, events)]
    for place in range(len(events) - 1, -1, -step):
        event = events[place]
        if any(other.time > event.time for other in events[:place]):
            # It came late: what it makes is not of its window alone.
            continue
        recent = [other for other in events[: place + 1] if other.time > event.time - window]
        try:
            alone: object = said_of(_executed(operator, recent)[-1])
        except Exception as error:  # Whatever the user's code raises where it misses something.
            alone = f"{type(error).__name__}: {error}"
        if not same_value(alone, made[place]):
            return (
                f"of event ({event.source}, {event.seq}) it makes {made[place]!r} after all that came before it, and "
                f"after the events of its window alone {alone!r}"
            )
    return ""


def _executed(operator: Operator[Any], events: Sequence[Event]) -> list[list[tuple[str, Any]]]:
    state, process = operator.initial_state(), processor_of(operator, 0)
    return [list(process(event, state)) for event in events]
