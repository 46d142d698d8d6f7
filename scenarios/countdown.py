"""What goes round in a cycle so many times, and is told each time: nothing is kept, so each turn shows."""

from __future__ import annotations

from ..harness.core.errors import InvalidTopology
from ..harness.core.events import Event, Output
from ..harness.core.operators import Operator
from ..harness.core.proper import positive
from ..harness.core.slice_names import operator_of
from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .stateless import Forward

RETURN = "return"


class Countdown(Operator[None]):
    """Tells [value, turns left] of each event, as often as it has turns left. Keeps nothing."""

    fan_out = 1

    def __init__(self, turns: int) -> None:
        """Raises InvalidTopology unless there is a turn to make."""
        positive(turns, "turns", InvalidTopology)
        self.turns = turns

    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> list[Output]:
        back = operator_of(event.source) == RETURN
        value, left = (event.value[0], event.value[1] - 1) if back else (event.value, self.turns - 1)
        return [(event.key, [value, left])] if left >= 0 else []


def countdown(parallelism: int = 1, turns: int = 3) -> Topology:
    """`parallelism` cycles of two: `count-0`, which feeds `return-0`, which feeds it back. Of `turns` outputs that one
    event gives, the first has been told when it comes back."""
    return Topology(
        "countdown",
        {"count": Stage(Countdown(turns), parallelism), RETURN: Stage(Forward(), parallelism)},
        (
            Edge("source", "count", Partitioning.SPLIT),
            Edge("count", RETURN, Partitioning.ONE_TO_ONE),
            Edge(RETURN, "count", Partitioning.ONE_TO_ONE, feedback=True, leads_to=turns - 1),
            Edge("count", "sink", Partitioning.MERGE),
        ),
    )
