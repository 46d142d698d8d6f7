"""The mutants of k safe grouping. A new one is an entry here."""

from __future__ import annotations

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.quantities import Events
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ...harness.protocol.spec import Numbering
from ..k_safe_grouping import k_safe_grouping, unchecked
from ..mechanisms.duplicate_filter import DuplicateFilter
from . import twists
from .mutant import BrokenScheme, numbering, twisting, without

_SPLITTERS = "two-splitters.k-safe-grouping"


def _k_safe(topology: Topology, every: Events) -> SchemeSubject:
    return k_safe_grouping(topology, acknowledge_every=every)


def _unchecked(topology: Topology, every: Events) -> SchemeSubject:
    return unchecked(topology, acknowledge_every=every)


MUTANTS = (
    BrokenScheme(
        "k-safe-grouping-without-inner-filter",
        "a receiver drops by a high-water mark for each source and primary",
        Anomaly.DUPLICATE_EFFECT,
        without(_k_safe, DuplicateFilter),
        without_faults=True,
    ),
    BrokenScheme(
        "k-safe-grouping-without-sink-filter",
        "whoever takes the output drops by a high-water mark too",
        Anomaly.DUPLICATE_OUTPUT,
        without(_k_safe, DuplicateFilter, Role.SINK),
        without_faults=True,
    ),
    BrokenScheme(
        "k-safe-grouping-numbering-afresh",
        "a tuple keeps the number that it had at its source",
        Anomaly.DUPLICATE_EFFECT,
        numbering(_k_safe, Numbering.FRESH),
        without_faults=True,
    ),
    BrokenScheme(
        "k-safe-grouping-emitting-before-it-is-in-step",
        "a worker that returns emits only when it has the state of its group",
        Anomaly.LOST_INPUT,
        twisting(_k_safe, twists.joins_without_the_state),
    ),
    BrokenScheme(
        "k-safe-grouping-syncing-without-vector",
        "a worker that returns knows what is in the state that it got",
        Anomaly.DUPLICATE_EFFECT,
        twisting(_k_safe, twists.syncs_without_vector),
        without_faults=True,
    ),
    BrokenScheme(
        "k-safe-grouping-where-splitters-merge",
        "the numbers rise on every way from a source through a primary",
        Anomaly.LOST_INPUT,
        _unchecked,
        on=_SPLITTERS,
        without_faults=True,
    ),
    BrokenScheme(
        "k-safe-grouping-never-in-step-again",
        "a worker that returns gets in sync again",
        Anomaly.STALL,
        twisting(_k_safe, twists.asks_nobody),
    ),
    BrokenScheme(
        "k-safe-grouping-syncing-without-listeners",
        "a worker that returns keeps its log for all who listen to its peer",
        Anomaly.LOST_INPUT,
        twisting(_k_safe, twists.syncs_without_listeners),
        spread=True,
    ),
    BrokenScheme(
        "k-safe-grouping-acknowledging-too-far",
        "what is acknowledged was taken",
        Anomaly.LOST_INPUT,
        twisting(_k_safe, twists.acknowledges_too_far),
        spread=True,
    ),
)
