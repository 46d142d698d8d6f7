"""Word count: lines are split into words, words are counted by key, every count is an output."""

from __future__ import annotations

import re

from ..harness.core.events import Event, Output
from ..harness.core.operators import Operator
from ..harness.core.topology import Edge, Partitioning, Stage, Topology

_WORD = re.compile(r"[a-z0-9_]+")


class Split(Operator[None]):
    """A line becomes its words, in lower case, each with the value 1. Keeps nothing."""

    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> list[Output]:
        return [(word, 1) for word in _WORD.findall(event.value.lower())]


class Count(Operator[dict[str, int]]):
    """How often each word has come so far."""

    fan_out = 1

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> tuple[Output]:
        count = state[event.key] = state.get(event.key, 0) + event.value
        return ((event.key, count),)


def word_count(parallelism: int = 2) -> Topology:
    """One splitter, `parallelism` counters: `split-0`, `count-0`, `count-1`, ..."""
    return Topology(
        "word-count",
        {"split": Stage(Split()), "count": Stage(Count(), parallelism)},
        (
            Edge("source", "split", Partitioning.ONE_TO_ONE),
            Edge("split", "count", Partitioning.SPLIT),
            Edge("count", "sink", Partitioning.MERGE),
        ),
    )
