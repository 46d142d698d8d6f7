"""The most frequent keys of each tumbling window: counters tell their counts at its end, and one slice ranks them."""

from __future__ import annotations

from ..harness.core.errors import InvalidOperator
from ..harness.core.events import Event, Output
from ..harness.core.operators import Operator
from ..harness.core.proper import positive
from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .order import FirstWord
from .tumbling import TumblingCount


class TopK(Operator[dict[str, int]]):
    """The `k` keys with the highest counts of the `epoch` ms up to a moment, told at that moment, the highest first and
    equal ones by key. What it takes are counts: [moment, count] under each key."""

    commutative = True

    def __init__(self, k: int, epoch: int) -> None:
        """Raises InvalidOperator for no keys, or no window, at all."""
        positive(k, "k", InvalidOperator)
        positive(epoch, "epoch", InvalidOperator)
        self.k = k
        self.epoch: int = epoch

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> tuple[Output, ...]:
        _, count = event.value
        state[event.key] = state.get(event.key, 0) + count
        return ()

    def close(self, upper: int, state: dict[str, int]) -> list[Output]:
        ranked = sorted(state.items(), key=_by_count)[: self.k]
        state.clear()
        return [(key, [upper, rank, count]) for rank, (key, count) in enumerate(ranked, start=1)]


def _by_count(item: tuple[str, int]) -> tuple[int, str]:
    key, count = item
    return -count, key


def top_k(k: int = 3, parallelism: int = 2, splitters: int = 2, epoch: int = 20) -> Topology:
    """`splitters` that take lines to words, each of which feeds all of `parallelism` counters, and one operator that
    ranks what these tell: `split-0`, `split-1`, `count-0`, ..., `top-0`."""
    return Topology(
        "top-k",
        {
            "split": Stage(FirstWord(), splitters),
            "count": Stage(TumblingCount(epoch), parallelism),
            "top": Stage(TopK(k, epoch)),
        },
        (
            Edge("source", "split", Partitioning.SPLIT),
            Edge("split", "count", Partitioning.FULL),
            Edge("count", "top", Partitioning.MERGE),
            Edge("top", "sink", Partitioning.ONE_TO_ONE),
        ),
    )
