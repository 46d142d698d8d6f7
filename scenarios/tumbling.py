"""A count over a tumbling window of event time: what came in a window is told at its end, and forgotten."""

from __future__ import annotations

from ..harness.core.errors import InvalidOperator
from ..harness.core.events import Event, Output
from ..harness.core.operators import Operator
from ..harness.core.proper import positive
from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .order import FirstWord


class TumblingCount(Operator[dict[str, int]]):
    """How many events of each key came in the `epoch` ms up to a moment, told at that moment, by key."""

    commutative = True

    def __init__(self, epoch: int) -> None:
        """Raises InvalidOperator for no window at all."""
        positive(epoch, "epoch", InvalidOperator)
        self.epoch: int = epoch

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> tuple[Output, ...]:
        state[event.key] = state.get(event.key, 0) + 1
        return ()

    def close(self, upper: int, state: dict[str, int]) -> list[Output]:
        counts = sorted(state.items())
        state.clear()
        return [(key, [upper, count]) for key, count in counts]


class RunningCount(Operator[dict[str, int]]):
    """How many events of each key came so far, told every `epoch` ms; with the key `""`, how many windows there were,
    those without events too."""

    commutative = True

    def __init__(self, epoch: int) -> None:
        """Raises InvalidOperator for no window at all."""
        positive(epoch, "epoch", InvalidOperator)
        self.epoch: int = epoch

    def initial_state(self) -> dict[str, int]:
        return {"": 0}

    def process(self, event: Event, state: dict[str, int]) -> tuple[Output, ...]:
        state[event.key] = state.get(event.key, 0) + 1
        return ()

    def close(self, upper: int, state: dict[str, int]) -> list[Output]:
        state[""] += 1
        return sorted(state.items())


def tumbling_count(parallelism: int = 2, splitters: int = 2, epoch: int = 20) -> Topology:
    """`splitters` that take lines to words, each of which feeds all of `parallelism` counters: `split-0`, `split-1`,
    `count-0`, ..."""
    return _topology("tumbling-count", TumblingCount(epoch), parallelism, splitters)


def running_count(parallelism: int = 2, splitters: int = 2, epoch: int = 20) -> Topology:
    """The same with counts that go on."""
    return _topology("running-count", RunningCount(epoch), parallelism, splitters)


def _topology(name: str, count: Operator[dict[str, int]], parallelism: int, splitters: int) -> Topology:
    return Topology(
        name,
        {"split": Stage(FirstWord(), splitters), "count": Stage(count, parallelism)},
        (
            Edge("source", "split", Partitioning.SPLIT),
            Edge("split", "count", Partitioning.FULL),
            Edge("count", "sink", Partitioning.MERGE),
        ),
    )
