"""An equi-join of two streams: two sources, and an operator that is fed by both."""

from __future__ import annotations

from bisect import bisect_right, insort
from operator import itemgetter
from typing import Any

from ..harness.core.events import Event, Output, Value
from ..harness.core.operators import Operator
from ..harness.core.slice_names import operator_of
from ..harness.core.topology import Edge, Partitioning, Stage, Topology

SIDES = ("left", "right")

_time = itemgetter(0)


class EquiJoin(Operator[dict[str, dict[str, Any]]]):
    """Pairs the events of two sides that have the same key and, with a window, times less than `window` ms apart.

    An event's side is the operator that it comes from. Each side keeps, by key, [time, value] of what it has taken
    (`kept`), and how far it has come (`upto`). An event is forgotten when the *other* side has come `window` ms
    further, so where each side comes in the order of its times, the pairs and the state in the end are the same however
    the two sides interleave.
    """

    def __init__(self, window: int | None = None) -> None:
        self.window: int | None = window

    def initial_state(self) -> dict[str, dict[str, Any]]:
        return {side: {"upto": None, "kept": {}} for side in SIDES}

    def process(self, event: Event, state: dict[str, dict[str, Any]]) -> list[Output]:
        side = operator_of(event.source)
        if side not in SIDES:
            raise ValueError(f"{event.source} is on neither side of the join; name its operator {' or '.join(SIDES)}")
        mine, other = state[side], state[SIDES[1 - SIDES.index(side)]]
        mine["upto"] = event.time if mine["upto"] is None else max(mine["upto"], event.time)
        if self.window is not None:
            _forget(other["kept"], mine["upto"] - self.window)
        if self.window is None or other["upto"] is None or event.time > other["upto"] - self.window:
            insort(mine["kept"].setdefault(event.key, []), [event.time, event.value], key=_time)
        return [
            (event.key, [event.value, value] if side == SIDES[0] else [value, event.value])
            for time, value in other["kept"].get(event.key, ())
            if self.window is None or abs(time - event.time) < self.window
        ]

    def rows(self, state: dict[str, dict[str, Any]]) -> dict[str, Value]:
        """Side and key -> what is kept."""
        return {f"{side}/{key}": kept for side in SIDES for key, kept in state[side]["kept"].items()}


def _forget(kept: dict[str, list[list[Any]]], upto: int) -> None:
    """Drop what is not later than `upto`."""
    for key in [key for key, entries in kept.items() if entries[0][0] <= upto]:
        del kept[key][: bisect_right(kept[key], upto, key=_time)]
        if not kept[key]:
            del kept[key]


def equi_join(parallelism: int = 2, window: int | None = None) -> Topology:
    """`parallelism` joins, `join-0`, `join-1`, ..., each fed by the sources `left` and `right`."""
    return Topology(
        "equi-join",
        {"join": Stage(EquiJoin(window), parallelism)},
        (*(Edge(side, "join", Partitioning.FULL) for side in SIDES), Edge("join", "sink", Partitioning.MERGE)),
        sources=SIDES,
    )
