"""Schemes in which all replicas work: active replication and k-safe grouping."""

from __future__ import annotations

from ...faults.crash import crash
from ...harness.contracts.scenario import Scenario
from ...harness.core.guarantees import at_least_once
from ...harness.core.library import Entry
from ...harness.core.quantities import events
from ...reference_impls.active_replication import active_replication
from ...reference_impls.k_safe_grouping import k_safe_grouping, unchecked
from ..order import order, two_splitters
from ..word_count import word_count
from ..word_stream import word_stream
from ..workloads import numbered, single_words, text, words


def active() -> Scenario:
    """A counter crashes; its peer's output is there already, and nothing pauses."""
    return Scenario(
        subject=active_replication(word_count(), acknowledge_every=events(100)),
        workload=text(events=2_000, batch=50, rate=2_000),
        faults=[crash("count-0").after(events(4_700))],
    )


def active_merging() -> Scenario:
    """Channels of two relays merge by event time, so that all replicas take the same in the same order."""
    return Scenario(
        subject=active_replication(order(), acknowledge_every=events(50)),
        workload=numbered(events=1_000, batch=20, rate=2_000),
        faults=[crash("chain-0").after(events(200))],
    )


def active_pair_lost() -> Scenario:
    """All replicas of a counter crash together: nobody is left who has its state."""
    return Scenario(
        subject=active_replication(word_count(), acknowledge_every=events(100)),
        workload=text(events=2_000, batch=50, rate=2_000),
        faults=[crash("count-0", "count-0/1").after(events(4_700))],
        claims=[],
        breaks=[at_least_once()],
    )


def k_safe() -> Scenario:
    """A machine with workers of several key groups crashes; each group has another worker in sync."""
    return Scenario(
        subject=k_safe_grouping(word_stream(), k=1, acknowledge_every=events(100)),
        workload=single_words(events=4_000, batch=50, rate=4_000),
        faults=[crash("count-0").after(events(900))],
    )


def two_safe() -> Scenario:
    """Two machines of three crash together; each key group has a third worker in sync, and nobody waits."""
    return Scenario(
        subject=k_safe_grouping(word_stream(), k=2, acknowledge_every=events(100)),
        workload=single_words(events=4_000, batch=50, rate=4_000),
        faults=[crash("count-0", "count-0/1").after(events(900))],
    )


def two_safe_one_too_many() -> Scenario:
    """All three workers of a key group crash together: k = 2 does not cover that."""
    return Scenario(
        subject=k_safe_grouping(word_stream(), k=2, acknowledge_every=events(100)),
        workload=single_words(events=4_000, batch=50, rate=4_000),
        faults=[crash("count-0", "count-0/1", "count-0/2").after(events(900))],
        claims=[],
        breaks=[at_least_once()],
    )


def k_safe_one_too_many() -> Scenario:
    """Both workers of a key group crash together: k = 1 does not cover that."""
    return Scenario(
        subject=k_safe_grouping(word_stream(), k=1, acknowledge_every=events(100)),
        workload=single_words(events=4_000, batch=50, rate=4_000),
        faults=[crash("count-0", "count-0/1").after(events(900))],
        claims=[],
        breaks=[at_least_once()],
    )


def merging_splitters() -> Scenario:
    """Two splitters merge at a counter: the next hop drops what the high-water mark takes for old, without any fault.

    The scheme refuses this topology; here it is built all the same, to show why.
    """
    return Scenario(
        subject=unchecked(two_splitters(), k=1, acknowledge_every=events(100)),
        workload=words(events=400, batch=10, rate=4_000),
        claims=[],
        breaks=[at_least_once()],
    )


SCENARIOS = (
    Entry("word-count.active-replication", active),
    Entry("word-count.active-replication-pair-lost", active_pair_lost),
    Entry("order.active-replication", active_merging),
    Entry("words.k-safe-grouping", k_safe),
    Entry("words.k-safe-grouping-one-too-many", k_safe_one_too_many),
    Entry("words.2-safe-grouping", two_safe),
    Entry("words.2-safe-grouping-one-too-many", two_safe_one_too_many),
    Entry("two-splitters.k-safe-grouping", merging_splitters),
)
