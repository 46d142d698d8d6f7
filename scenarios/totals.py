"""Sums that may be off by a little: partial counts of words on their way, added up at the end, and a pipeline that
passes everything on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ..harness.core.events import Event, Output, Value
from ..harness.core.operators import Operator
from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .stateless import Forward
from .word_count import Split

_OTHERS = "*"
"""What is at least the sum of a key that has not come yet."""


def _of(state: Mapping[str, float], key: str) -> float:
    return state.get(key, state.get(_OTHERS, 0))


class BoundedSplit(Split):
    """A line becomes its words; it has no more than so many."""

    def __init__(self, most: int = 1) -> None:
        self.fan_out = most


class Totals(Operator[dict[str, float]]):
    """The sum of the numbers that came under each key. Two states are as far apart as the key in which they differ
    most.

    `leaves_out`: changes up to this are left out of partial backups. `by_sum`: the distances of all keys are added.
    """

    fan_out = 1

    def __init__(self, alpha: float = 1.0, *, leaves_out: float = 0.0, by_sum: bool = False) -> None:
        self.alpha = alpha
        self._leaves_out = leaves_out
        self._by_sum = by_sum

    def initial_state(self) -> dict[str, float]:
        return {}

    def process(self, event: Event, state: dict[str, float]) -> tuple[Output]:
        total = state[event.key] = _of(state, event.key) + event.value
        return ((event.key, total),)

    def divergence(self, state: dict[str, float], backup: dict[str, float]) -> float:
        apart = (abs(_of(state, key) - _of(backup, key)) for key in state.keys() | backup.keys())
        return float(sum(apart) if self._by_sum else max(apart, default=0))

    def divergence_after(self, event: Event, state: dict[str, float], backup: dict[str, float], before: float) -> float:
        if self._by_sum:
            return before + float(abs(event.value))
        return max(before, float(abs(state[event.key] - _of(backup, event.key))))

    def divergence_after_all(
        self, events: Sequence[Event], state: dict[str, float], backup: dict[str, float], before: float
    ) -> float:
        if self._by_sum:
            return before + float(sum([abs(event.value) for event in events]))
        apart = [abs(state[key] - _of(backup, key)) for key in {event.key for event in events}]
        return max(before, float(max(apart)))

    def delta(self, state: dict[str, float], backup: dict[str, float]) -> Value:
        changed = ((key, state[key]) for key in sorted(state) if abs(state[key] - _of(backup, key)) > self._leaves_out)
        return [list(change) for change in changed]

    def apply_delta(self, backup: dict[str, float], changes: Value) -> dict[str, float]:
        backup.update(changes)
        return backup

    def rows(self, state: dict[str, float]) -> Mapping[str, Value]:
        return state


class MarkedTotals(Totals):
    """The same; an event under the key `mark` ends a window, and makes the sum of all that came before it."""

    def process(self, event: Event, state: dict[str, float]) -> tuple[Output]:
        if self.punctuation(event):
            return (("mark", sum(state.values())),)
        return super().process(event, state)

    def divergence_after(self, event: Event, state: dict[str, float], backup: dict[str, float], before: float) -> float:
        return before if self.punctuation(event) else super().divergence_after(event, state, backup, before)

    def divergence_after_all(
        self, events: Sequence[Event], state: dict[str, float], backup: dict[str, float], before: float
    ) -> float:
        others = [event for event in events if not self.punctuation(event)]
        return super().divergence_after_all(others, state, backup, before) if others else before

    def punctuation(self, event: Event) -> bool:
        return event.key == "mark"


class SafeTotals(Totals):
    """The same; no sum is ever too small, as one that has been restored would be."""

    def compensate(self, state: dict[str, float], missing: float) -> dict[str, float]:
        return {key: _of(state, key) + missing for key in (*state, _OTHERS)}


def word_totals(parallelism: int = 2, *, most: int = 1) -> Topology:
    """A splitter, of lines of at most so many words, and `parallelism` counters: `split-0`, `count-0`, ..."""
    return Topology(
        "word-totals",
        {"split": Stage(BoundedSplit(most)), "count": Stage(Totals(), parallelism)},
        (
            Edge("source", "split", Partitioning.ONE_TO_ONE),
            Edge("split", "count", Partitioning.SPLIT),
            Edge("count", "sink", Partitioning.MERGE),
        ),
    )


def totals_of_all(parallelism: int = 2, *, operator: Operator[dict[str, float]] | None = None) -> Topology:
    """`parallelism` relays that all feed one sum: `relay-0`, ..., `sum-0`."""
    return Topology(
        "totals-of-all",
        {"relay": Stage(Forward(), parallelism), "sum": Stage(operator or Totals())},
        (Edge("source", "relay"), Edge("relay", "sum", Partitioning.MERGE), Edge("sum", "sink")),
    )


def one_total(operator: Operator[dict[str, float]] | None = None) -> Topology:
    """A single sum: `sum-0`."""
    return Topology("one-total", {"sum": Stage(operator or Totals())}, (Edge("source", "sum"), Edge("sum", "sink")))


def relays(count: int = 3, sinks: int = 1) -> Topology:
    """So many relays, one after the other: `relay1-0`, `relay2-0`, ... The last feeds so many sinks: `sink`, or else
    `sink1`, `sink2`, ..."""
    names = ["source", *(f"relay{number + 1}" for number in range(count))]
    ends = ("sink",) if sinks == 1 else tuple(f"sink{number + 1}" for number in range(sinks))
    edges = (*(Edge(one, other) for one, other in pairwise(names)), *(Edge(names[-1], end) for end in ends))
    return Topology("relays", {name: Stage(Forward()) for name in names[1:]}, edges, sinks=ends)
