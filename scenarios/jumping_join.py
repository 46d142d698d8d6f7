"""An equi-join of two streams over a jumping window: what came in the same window is paired, and then forgotten."""

from __future__ import annotations

from bisect import insort
from typing import Any

from ..harness.core.errors import InvalidOperator
from ..harness.core.events import Event, Output, Value
from ..harness.core.operators import Operator
from ..harness.core.proper import positive, switch
from ..harness.core.slice_names import operator_of
from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .equi_join import SIDES

WindowSides = dict[str, dict[str, list[list[Any]]]]
"""Side -> key -> [time, number, value] of each event of the window, in order."""


class JumpingJoin(Operator[WindowSides]):
    """Pairs the events of two sides that have the same key and the same window of `epoch` ms. An event's side is the
    operator that it comes from.

    All pairs of a window come at its end, by key, so that their order is that of the events. An `eager` join tells each
    as soon as it has both events, so that it depends on the order in which they are taken.
    """

    def __init__(self, epoch: int, *, eager: bool = False) -> None:
        """Raises InvalidOperator for no window at all."""
        positive(epoch, "epoch", InvalidOperator)
        switch(eager, "eager")
        self.epoch: int = epoch
        self.eager = eager
        self.commutative = not eager

    def initial_state(self) -> WindowSides:
        return {side: {} for side in SIDES}

    def process(self, event: Event, state: WindowSides) -> list[Output]:
        side = operator_of(event.source)
        if side not in SIDES:
            raise ValueError(f"{event.source} is on neither side of the join; name its operator {' or '.join(SIDES)}")
        insort(state[side].setdefault(event.key, []), [event.time, event.seq, event.value])
        if not self.eager:
            return []
        others = state[SIDES[1 - SIDES.index(side)]].get(event.key, ())
        pairs = ([event.value, value] if side == SIDES[0] else [value, event.value] for *_, value in others)
        return [(event.key, pair) for pair in pairs]

    def close(self, upper: int, state: WindowSides) -> list[Output]:
        left, right = (state[side] for side in SIDES)
        pairs = [
            (key, [value, other])
            for key in sorted(left.keys() & right.keys())
            for *_, value in left[key]
            for *_, other in right[key]
        ]
        for side in SIDES:
            state[side].clear()
        return [] if self.eager else pairs

    def rows(self, state: WindowSides) -> dict[str, Value]:
        """Side and key -> what is kept."""
        return {f"{side}/{key}": kept for side in SIDES for key, kept in state[side].items()}


def jumping_join(parallelism: int = 2, epoch: int = 20, *, eager: bool = False) -> Topology:
    """`parallelism` joins, `join-0`, `join-1`, ..., each fed by the sources `left` and `right`."""
    return Topology(
        "eager-jumping-join" if eager else "jumping-join",
        {"join": Stage(JumpingJoin(epoch, eager=eager), parallelism)},
        (*(Edge(side, "join", Partitioning.FULL) for side in SIDES), Edge("join", "sink", Partitioning.MERGE)),
        sources=SIDES,
    )
