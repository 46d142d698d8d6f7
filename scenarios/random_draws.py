"""An operator that draws random numbers: taken again, the same input gives something else."""

from __future__ import annotations

from random import Random

from ..harness.core.events import Event, Output
from ..harness.core.operators import RandomOperator
from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .stateless import Forward

HIGHEST = 1_000_000


class DrawNumber(RandomOperator[dict[str, int]]):
    """Every event goes on with a number drawn for it, from 1 to a million. Keeps the sum of the draws, per key."""

    order_sensitive = True
    fan_out = 1

    def initial_state(self) -> dict[str, int]:
        return {}

    def process_with(self, event: Event, state: dict[str, int], random: Random) -> tuple[Output]:
        draw = random.randint(1, HIGHEST)
        state[event.key] = state.get(event.key, 0) + draw
        return ((event.key, [event.value, draw]),)


def random_draws(parallelism: int = 2) -> Topology:
    """One relay, `parallelism` drawers: `relay-0`, `draw-0`, `draw-1`, ..."""
    return Topology(
        "random-draws",
        {"relay": Stage(Forward()), "draw": Stage(DrawNumber(), parallelism)},
        (
            Edge("source", "relay", Partitioning.ONE_TO_ONE),
            Edge("relay", "draw", Partitioning.SPLIT),
            Edge("draw", "sink", Partitioning.MERGE),
        ),
    )
