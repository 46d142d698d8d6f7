"""The mutants of active replication. A new one is an entry here."""

from __future__ import annotations

from ...harness.contracts.claims import Claim
from ...harness.contracts.subject import SchemeSubject
from ...harness.core.guarantees import replicas_agree
from ...harness.core.quantities import Events
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ...harness.protocol.spec import Numbering
from ..active_replication import active_replication
from ..mechanisms.duplicate_filter import DuplicateFilter
from . import twists
from .by_the_clock import by_the_clock
from .mutant import BrokenScheme, claiming, numbering, twisting, unmerged, without

_ORDER = "order.active-replication"


def _active(topology: Topology, every: Events) -> SchemeSubject:
    return active_replication(topology, acknowledge_every=every)


MUTANTS = (
    BrokenScheme(
        "active-replication-without-inner-filter",
        "a receiver takes the first copy of an event, and no other",
        Anomaly.DUPLICATE_EFFECT,
        without(_active, DuplicateFilter),
        without_faults=True,
    ),
    BrokenScheme(
        "active-replication-without-sink-filter",
        "the sink takes the first copy of an output, and no other",
        Anomaly.DUPLICATE_OUTPUT,
        without(_active, DuplicateFilter, Role.SINK),
        without_faults=True,
    ),
    BrokenScheme(
        "active-replication-numbering-afresh",
        "replicas make the same under the same numbers",
        Anomaly.DUPLICATE_EFFECT,
        numbering(_active, Numbering.FRESH),
        without_faults=True,
    ),
    BrokenScheme(
        "active-replication-taking-as-it-comes",
        "a deterministic merge gives all replicas the same order",
        Anomaly.LOST_INPUT,
        unmerged(_active),
        on=_ORDER,
        without_faults=True,
    ),
    BrokenScheme(
        "active-replication-emitting-by-the-clock",
        "what an operator emits, and when, follows from its inputs",
        Anomaly.REPLICA_DIVERGENCE,
        claiming(by_the_clock(_active), Claim(replicas_agree())),
        on="sum-by-time.active-replication",
        without_faults=True,
    ),
    BrokenScheme(
        "active-replication-joining-blank",
        "a replica that returns gets the state of a peer before it is active",
        Anomaly.LOST_INPUT,
        twisting(_active, twists.joins_without_the_state),
    ),
    BrokenScheme(
        "active-replication-syncing-without-vector",
        "a replica that joins knows what is in the state that it got",
        Anomaly.DUPLICATE_EFFECT,
        twisting(_active, twists.syncs_without_vector),
        without_faults=True,
    ),
    BrokenScheme(
        "active-replication-syncing-without-numbering",
        "a replica that joins goes on with its peer's numbers",
        Anomaly.LOST_INPUT,
        twisting(_active, twists.syncs_without_numbering),
        without_faults=True,
    ),
    BrokenScheme(
        "active-replication-never-in-step-again",
        "a replica that returns gets in sync again",
        Anomaly.STALL,
        twisting(_active, twists.asks_nobody),
    ),
    BrokenScheme(
        "active-replication-syncing-without-listeners",
        "a replica that joins keeps its log for all who listen to its peer",
        Anomaly.LOST_INPUT,
        twisting(_active, twists.syncs_without_listeners),
        spread=True,
    ),
    BrokenScheme(
        "active-replication-acknowledging-too-far",
        "what is acknowledged was taken",
        Anomaly.LOST_INPUT,
        twisting(_active, twists.acknowledges_too_far),
        spread=True,
    ),
)
