"""Word count in two stages, as table 3 of AF-Stream has it: partial counts, which are added.

Counts only rise. A partial count is told whenever a word has come `every` more times, so that no count is ever set
back, and one event moves the divergence by no more than one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import repeat
from operator import sub

from ..harness.core.errors import InvalidOperator
from ..harness.core.events import Event, Output, Value
from ..harness.core.operators import Operator
from ..harness.core.proper import positive
from ..harness.core.topology import Edge, Partitioning, Stage, Topology

Counts = dict[str, int]


class _Counting(Operator[Counts]):
    """Word -> count; how far two are apart is the largest difference of a word."""

    fan_out = 1

    def initial_state(self) -> Counts:
        return {}

    def divergence(self, state: Counts, backup: Counts) -> float:
        return _apart(state.keys() | backup.keys(), state, backup)

    def delta(self, state: Counts, backup: Counts) -> Value:
        changed: list[tuple[str, int | None]] = [one for one in state.items() if backup.get(one[0]) != one[1]]
        return changed + [(word, None) for word in backup if word not in state]

    def apply_delta(self, backup: Counts, changes: Value) -> Counts:
        for word, count in changes:
            if count is None:
                del backup[word]
            else:
                backup[word] = count
        return backup


def _apart(words: Collection[str], state: Counts, backup: Counts) -> float:
    """By how much the word differs in which two differ most."""
    counts, before = (map(one.get, words, repeat(0)) for one in (state, backup))
    return max(map(abs, map(sub, counts, before)), default=0)


class PartialCount(_Counting):
    """How often each word has come here; told, as [word, every], whenever that is a multiple of `every`."""

    alpha = 1.0

    def __init__(self, every: int) -> None:
        """Raises InvalidOperator unless something is told."""
        positive(every, "every", InvalidOperator)
        self.tells_every = every

    def process(self, event: Event, state: Counts) -> list[Output]:
        count = state[event.value] = state.get(event.value, 0) + 1
        return [] if count % self.tells_every else [(event.value, self.tells_every)]

    def alpha_of_all(self, events: Sequence[Event]) -> float:
        return max(Counter([event.value for event in events]).values(), default=0)

    def divergence_after(self, event: Event, state: Counts, backup: Counts, before: float) -> float:
        return max(before, _apart([event.value], state, backup))

    def divergence_after_all(self, events: Sequence[Event], state: Counts, backup: Counts, before: float) -> float:
        return max(before, _apart({event.value for event in events}, state, backup))


class AddCounts(_Counting):
    """How often each word has come anywhere, told at each change."""

    def __init__(self, every: int) -> None:
        self.alpha: float = every

    def process(self, event: Event, state: Counts) -> tuple[Output]:
        count = state[event.key] = state.get(event.key, 0) + event.value
        return ((event.key, count),)

    def divergence_after(self, event: Event, state: Counts, backup: Counts, before: float) -> float:
        return max(before, _apart([event.key], state, backup))

    def divergence_after_all(self, events: Sequence[Event], state: Counts, backup: Counts, before: float) -> float:
        return max(before, _apart({event.key for event in events}, state, backup))


def partial_counts(partial: int = 2, adders: int = 2, every: int = 1) -> Topology:
    """`partial` partial counters (the paper has 4) and `adders` adders (7): `partial-0`, `partial-1`, `add-0`, ... To
    be fed with single words as values (`zipf_words`)."""
    return Topology(
        "partial-counts",
        {"partial": Stage(PartialCount(every), partial), "add": Stage(AddCounts(every), adders)},
        (
            Edge("source", "partial", Partitioning.FULL),
            Edge("partial", "add", Partitioning.FULL),
            Edge("add", "sink", Partitioning.MERGE),
        ),
    )
