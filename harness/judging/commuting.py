"""Whether the order within an epoch matters as little to an operator as it says.

Where an operator is `commutative`, one execution without failures tells what every other has to make, and schemes take
the events of an epoch as they come. One that makes something else of another order would have a scheme blamed for that,
so its word is tried: epochs are executed forwards, backwards, and every other event first, each from the same state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.events import Event
from ..core.operators import Operator, rows_of
from ..core.topology import Topology
from ..protocol.merging import end_of, epoch_of
from .exactness import same_rows, same_value
from .words import find_false_word, said_of


def find_false_commutative(topology: Topology, taken: Mapping[str, Sequence[Event]]) -> str:
    """Which operator is not commutative, and what shows it; as `find_false_word`. Of one that draws random numbers
    nothing goes by its word, as order matters to what it draws, so that it is not tried."""
    return find_false_word(topology, taken, _is_false)


def _is_false(operator: Operator[Any], events: Sequence[Event]) -> str:
    if operator.epoch is None or not operator.commutative or not operator.deterministic:
        return ""
    why = _depends(operator, operator.epoch, events)
    return why and f"the order of the events of an epoch does not matter; {why}"


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
    return said_of(operator.close(upper, state))
