"""The mutants of active standby. A new one is an entry here."""

from __future__ import annotations

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.quantities import Events
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ...harness.protocol.spec import Numbering
from ..active_standby import active_standby
from ..mechanisms.duplicate_filter import DuplicateFilter
from ..mechanisms.output_log import OutputLog
from . import twists
from .mutant import BrokenScheme, numbering, twisting, without


def _silent(topology: Topology, every: Events) -> SchemeSubject:
    return active_standby(topology, acknowledge_every=every)


MUTANTS = (
    BrokenScheme(
        "active-standby-without-output-log",
        "the secondary keeps what it makes until receivers have it",
        Anomaly.LOST_INPUT,
        without(_silent, OutputLog),
        without_faults=True,
    ),
    BrokenScheme(
        "active-standby-keeping-its-log-to-itself",
        "a promoted secondary sends what its log holds",
        Anomaly.LOST_INPUT,
        twisting(_silent, twists.replays_nothing),
        without_faults=True,
    ),
    BrokenScheme(
        "active-standby-joining-blank",
        "a replica that returns gets the state of its peer before it is in sync",
        Anomaly.LOST_INPUT,
        twisting(_silent, twists.joins_without_the_state),
    ),
    BrokenScheme(
        "active-standby-syncing-without-vector",
        "a replica that joins knows what is in the state that it got",
        Anomaly.DUPLICATE_EFFECT,
        twisting(_silent, twists.syncs_without_vector),
        without_faults=True,
    ),
    BrokenScheme(
        "active-standby-numbering-afresh",
        "the secondary makes the same under the same numbers",
        Anomaly.DUPLICATE_EFFECT,
        numbering(_silent, Numbering.FRESH),
    ),
    BrokenScheme(
        "active-standby-without-sink-filter",
        "precise recovery needs the sink's filter too",
        Anomaly.DUPLICATE_OUTPUT,
        without(_silent, DuplicateFilter, Role.SINK),
    ),
    BrokenScheme(
        "active-standby-never-in-step-again",
        "a replica that returns gets the state of its peer, and is in sync again",
        Anomaly.STALL,
        twisting(_silent, twists.asks_nobody),
    ),
    BrokenScheme(
        "active-standby-syncing-without-listeners",
        "the secondary keeps its log for all who listen to its peer",
        Anomaly.LOST_INPUT,
        twisting(_silent, twists.syncs_without_listeners),
        spread=True,
    ),
)
