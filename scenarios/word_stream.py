"""A stream of words, counted: every operator makes one output of an input, as k-safe fields grouping asks.

To be fed with single words (`workloads.single_words`).
"""

from __future__ import annotations

from ..harness.core.topology import Edge, Partitioning, Stage, Topology
from .stateless import Forward
from .word_count import Count


def word_stream(parallelism: int = 2) -> Topology:
    """`parallelism` counters straight behind the source: `count-0`, `count-1`, ..."""
    return Topology(
        "word-stream",
        {"count": Stage(Count(), parallelism)},
        (Edge("source", "count", Partitioning.SPLIT), Edge("count", "sink", Partitioning.MERGE)),
    )


def tagged_words(parallelism: int = 2) -> Topology:
    """As `word_stream`, with a stage that can fail between the source and the counters: `relay-0`, `count-0`, ..."""
    return Topology(
        "tagged-words",
        {"relay": Stage(Forward()), "count": Stage(Count(), parallelism)},
        (
            Edge("source", "relay", Partitioning.ONE_TO_ONE),
            Edge("relay", "count", Partitioning.SPLIT),
            Edge("count", "sink", Partitioning.MERGE),
        ),
    )
