"""Topologies in which channels merge before the end, so that the order in which they are taken shows."""

from __future__ import annotations

import zlib

from ..harness.core.errors import InvalidTopology
from ..harness.core.events import Event, Output
from ..harness.core.operators import Operator
from ..harness.core.proper import positive
from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .stateless import Forward
from .word_count import Count


class Regroup(Operator[None]):
    """Passes events on under one of `groups` keys, by event time. Keeps nothing.

    Keys decide which slice takes an event at every hop. Had the events of one key taken one way so far, they would come
    over one channel, in order, wherever they merge.
    """

    fan_out = 1

    def __init__(self, groups: int) -> None:
        """Raises InvalidTopology unless there is a group to put events in."""
        positive(groups, "groups", InvalidTopology)
        self.groups = groups

    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> tuple[Output]:
        return ((f"g{event.time % self.groups}", [event.key, event.value]),)


class Chain(Operator[dict[str, int]]):
    """Per key, a checksum over all values so far, in their order: another order gives another one."""

    order_sensitive = True
    fan_out = 1

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> tuple[Output]:
        link = state[event.key] = zlib.crc32(repr((event.time, event.value)).encode(), state.get(event.key, 0))
        return ((event.key, link),)


class FirstWord(Operator[None]):
    """A line becomes its first word, in lower case, with the value 1; an empty one nothing. Keeps nothing."""

    fan_out = 1

    def initial_state(self) -> None:
        return None

    def process(self, event: Event, state: None) -> list[Output]:
        return [(word, 1) for word in event.value.lower().split(maxsplit=1)[:1]]


def order(parallelism: int = 2, relays: int = 2, groups: int = 8) -> Topology:
    """`relays` relays, each of which feeds all of `parallelism` chains: `relay-0`, `relay-1`, `chain-0`, ..."""
    return Topology(
        "order",
        {"relay": Stage(Regroup(groups), relays), "chain": Stage(Chain(), parallelism)},
        (
            Edge("source", "relay", Partitioning.SPLIT),
            Edge("relay", "chain", Partitioning.FULL),
            Edge("chain", "sink", Partitioning.MERGE),
        ),
    )


def two_splitters(parallelism: int = 1) -> Topology:
    """Two splitters that merge at each of `parallelism` counters, with a relay behind each: `split-0`, `split-1`,
    `count-0`, `relay-0`, ...

    Where an output carries its input's number, a counter that takes a later line from one splitter before an earlier
    one from the other sends numbers that fall; a relay that filters by the highest number so far drops such a count,
    without any fault. To be fed with lines (`workloads.words`), so that a word can come by either splitter.
    """
    return Topology(
        "two-splitters",
        {
            "split": Stage(FirstWord(), 2),
            "count": Stage(Count(), parallelism),
            "relay": Stage(Forward(), parallelism),
        },
        (
            Edge("source", "split", Partitioning.SPLIT),
            Edge("split", "count", Partitioning.FULL),
            Edge("count", "relay", Partitioning.ONE_TO_ONE),
            Edge("relay", "sink", Partitioning.MERGE),
        ),
    )
