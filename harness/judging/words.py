"""What operators say of themselves is tried, since schemes and judging go by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from ..core.events import Event, Output, carried
from ..core.operators import Operator
from ..core.slice_names import operator_of
from ..core.topology import Topology
from .packed import CHUNK

EVENTS = 2_000
"""Of each slice, so many are executed at most."""


def find_false_word(
    topology: Topology,
    taken: Mapping[str, Sequence[Event]],
    is_false: Callable[[Operator[Any], Sequence[Event]], str],
) -> str:
    """Which operator says something of itself that is not so, and what shows it; empty where none was seen.

    `taken` is what each slice takes in an execution without failures, in the order of its times; `is_false` tells what
    an operator says, and what these events show against it, empty where they show nothing. What needs more of the input
    than is executed is not found.
    """
    for slice_id in topology.operator_slices:
        name = operator_of(slice_id)
        operator = topology.stages[name].operator
        why = is_false(operator, taken.get(slice_id, ())[:EVENTS])
        if why:
            return f"operator {name!r} says that {why}"
    return ""


def earliest_of(channels: Iterable[Sequence[Event]]) -> list[Event]:
    """The first events of several channels, or of one on which several came one after the other, by their times. Of
    each as much is looked at as is at hand at once."""
    return sorted(chain.from_iterable(channel[:CHUNK] for channel in channels), key=attrgetter("time"))[:EVENTS]


def said_of(outputs: Iterable[Output]) -> list[list[Any]]:
    """Outputs as they would be recorded."""
    return [[key, carried(value)] for key, value in outputs]
