"""The mutants of the epoch-based merge. A new one is an entry here."""

from __future__ import annotations

from ...harness.contracts.claims import Claim
from ...harness.contracts.subject import SchemeSubject
from ...harness.core.guarantees import replicas_agree
from ...harness.core.quantities import Events
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ...harness.judging.tolerance import Tolerance
from ..epoch_merge import epoch_merge
from ..mechanisms.duplicate_filter import DuplicateFilter
from . import twists
from .broken_epochs import ByArrival, ByPosition, OnlyEventsPass, sequencing
from .mutant import BrokenScheme, claiming, twisting, without

_EAGER, _IDLE = "eager-jumping-join.epoch-merge", "jumping-join.epoch-merge-idle"
_TWO_HOPS = "tumbling-count.epoch-based-processing"


def _merging(topology: Topology, every: Events) -> SchemeSubject:
    return epoch_merge(topology, acknowledge_every=every)


MUTANTS = (
    BrokenScheme(
        "epoch-merge-by-arrival",
        "the channels of an epoch are taken in the order of their slices",
        Anomaly.REPLICA_DIVERGENCE,
        claiming(sequencing(_merging, ByArrival), Claim(replicas_agree(), Tolerance.ONE_IN_SYNC)),
        on=_EAGER,
        without_faults=True,
        spread=True,
    ),
    BrokenScheme(
        "epoch-merge-by-position",
        "what is taken together is of one epoch, and not the next bag of each channel",
        Anomaly.PHANTOM_OUTPUT,
        sequencing(_merging, ByPosition),
        on=_IDLE,
        without_faults=True,
    ),
    BrokenScheme(
        "epoch-merge-without-silence",
        "silence, and the end of a channel, close epochs",
        Anomaly.STALL,
        sequencing(_merging, OnlyEventsPass),
        on=_IDLE,
        without_faults=True,
    ),
    BrokenScheme(
        "epoch-merge-without-inner-filter",
        "a receiver takes the first copy of an event and drops the others",
        Anomaly.DUPLICATE_EFFECT,
        without(_merging, DuplicateFilter),
        on=_TWO_HOPS,
        without_faults=True,
    ),
    BrokenScheme(
        "epoch-merge-without-sink-filter",
        "the sink takes the first copy of an output and drops the others",
        Anomaly.DUPLICATE_OUTPUT,
        without(_merging, DuplicateFilter, Role.SINK),
        on=_IDLE,
        without_faults=True,
    ),
    BrokenScheme(
        "epoch-merge-syncing-without-vector",
        "a replica that joins knows what is in the state that it got, and in which epoch it is",
        Anomaly.DUPLICATE_EFFECT,
        twisting(_merging, twists.syncs_without_vector),
        on=_EAGER,
    ),
)
