"""Whether the order within an epoch matters as little to an operator as it says.

Where an operator is `commutative`, one execution without failures tells what every other has to make, and schemes take
the events of an epoch as they come. One that makes something else of another order would have a scheme blamed for that,
so its word is tried: epochs are executed forwards, backwards, and every other event first, each from the same state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..model import Event, Operator, Topology, carried, operator_of, rows_of
from ..slices.merging import end_of, epoch_of
from .exactness import same_rows, same_value
from .forgetting import EVENTS


def find_false_commutative(topology: Topology, taken: Mapping[str, Sequence[Event]]) -> str:
    """Which operator is not commutative, and what shows it; empty where none was seen. `taken` is what each slice takes
    in an execution without failures. What needs more of the input than is executed is not found."""
    for slice_id in topology.operator_slices:
        operator = topology.stages[operator_of(slice_id)].operator
        if operator.epoch is None or not operator.commutative or not operator.deterministic:
            continue
        why = _depends(operator, operator.epoch, taken[slice_id][:EVENTS])
        if why:
            name = operator_of(slice_id)
            return f"operator {name!r} says that the order of the events of an epoch does not matter; {why}"
    return ""


def _depends(operator: Operator[Any], size: int, events: Sequence[Event]) -> str:
    bags: dict[int, list[Event]] = {}
    for event in events:
        bags.setdefault(epoch_of(event.time, size), []).append(event)
    states = [operator.initial_state() for _ in range(3)]
    for epoch, bag in sorted(bags.items()):
        upper = end_of(epoch, size)
        orders = (bag, bag[::-1], bag[::2] + bag[1::2])
        said = [_closed(operator, upper, state, order) for state, order in zip(states, orders, strict=True)]
        rows = [rows_of(operator, state) for state in states]
        for other, held in zip(said[1:], rows[1:], strict=True):
            if not same_value(said[0], other):
                return (
                    f"at the end of the epoch up to {upper} it makes {said[0]!r} in one order, and {other!r} in another"
                )
            if not same_rows(rows[0], held):
                return f"after the epoch up to {upper} it holds {rows[0]!r} in one order, and {held!r} in another"
    return ""


def _closed(operator: Operator[Any], upper: int, state: Any, events: Sequence[Event]) -> list[list[Any]]:
    for event in events:
        for _ in operator.process(event, state):
            pass
    return [[key, carried(value)] for key, value in operator.close(upper, state)]
