"""The mutants of passive replication. A new one is an entry here."""

from __future__ import annotations

from ...harness.contracts.claims import Claim
from ...harness.contracts.subject import SchemeSubject
from ...harness.core.guarantees import precise_recovery
from ...harness.core.quantities import Events
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ...harness.protocol.operator import STATE, VECTOR
from ...harness.protocol.spec import Numbering
from ..mechanisms.checkpointing import AcknowledgeAt
from ..mechanisms.duplicate_filter import DuplicateFilter
from ..mechanisms.merges import RoundRobin
from ..mechanisms.output_log import PART, OutputLog
from ..passive_replication import passive_replication
from . import twists
from .mutant import BrokenScheme, checkpointing, claiming, numbering, twisting, unfenced, unmerged, without

_ORDER = "order.active-replication"


def _repeating(topology: Topology, every: Events) -> SchemeSubject:
    return passive_replication(topology, checkpoint_every=every)


def _masked(topology: Topology, every: Events) -> SchemeSubject:
    return passive_replication(topology, checkpoint_every=every, sink_filter=True)


def _in_turn(topology: Topology, every: Events) -> SchemeSubject:
    """With checkpoints that a little input reaches, between which turns do not come round."""
    return passive_replication(topology, checkpoint_every=Events(8), sink_filter=True, merge=RoundRobin((3, 2)))


_PRECISE = Claim(precise_recovery())

MUTANTS = (
    BrokenScheme(
        "passive-replication-without-inner-filter",
        "a receiver drops what it has taken already",
        Anomaly.DUPLICATE_EFFECT,
        without(_repeating, DuplicateFilter),
    ),
    BrokenScheme(
        "passive-replication-acknowledging-before-durable",
        "upstream trims its log only by what a durable checkpoint covers",
        Anomaly.LOST_INPUT,
        checkpointing(_repeating, acknowledge=AcknowledgeAt.TAKEN),
    ),
    BrokenScheme(
        "passive-replication-without-vector",
        "a checkpoint says what its state has taken from whom, so that no replay is taken twice",
        Anomaly.DUPLICATE_EFFECT,
        checkpointing(_repeating, lacking=VECTOR),
    ),
    BrokenScheme(
        "passive-replication-without-checkpointed-log",
        "a checkpoint holds the output log, so that neighbours may crash together",
        Anomaly.LOST_INPUT,
        checkpointing(_repeating, lacking=PART),
    ),
    BrokenScheme(
        "passive-replication-without-checkpointed-state",
        "a checkpoint holds the state that its timestamp vector speaks of",
        Anomaly.PHANTOM_OUTPUT,
        checkpointing(_repeating, lacking=STATE),
    ),
    BrokenScheme(
        "passive-replication-without-output-log",
        "every slice keeps what it emits until it is acknowledged",
        Anomaly.LOST_INPUT,
        without(_repeating, OutputLog),
    ),
    BrokenScheme(
        "passive-replication-without-source-log",
        "the source replays what no durable checkpoint covers",
        Anomaly.LOST_INPUT,
        without(_repeating, OutputLog, Role.SOURCE),
    ),
    BrokenScheme(
        "passive-replication-numbering-afresh",
        "what is made again carries its old number, so that a filter knows it",
        Anomaly.DUPLICATE_EFFECT,
        numbering(_repeating, Numbering.FRESH),
    ),
    BrokenScheme(
        "passive-replication-replaying-one-too-few",
        "a replay is everything after what the receiver has",
        Anomaly.LOST_INPUT,
        twisting(_repeating, twists.replays_one_too_few, Role.SOURCE, Role.OPERATOR),
        without_faults=True,
    ),
    BrokenScheme(
        "passive-replication-holding-nothing",
        "what is new is held until the replay is over",
        Anomaly.LOST_INPUT,
        twisting(_repeating, twists.takes_what_is_new_before_the_replay_is_over),
    ),
    BrokenScheme(
        "passive-replication-precise-without-sink-filter",
        "precise recovery needs the sink's filter too",
        Anomaly.DUPLICATE_OUTPUT,
        claiming(_repeating, _PRECISE),
    ),
    BrokenScheme(
        "masked-passive-replication-numbering-afresh",
        "what is made again carries its old number, so that the sink's filter knows it",
        Anomaly.DUPLICATE_OUTPUT,
        numbering(_masked, Numbering.FRESH),
    ),
    BrokenScheme(
        "passive-replication-taking-as-it-comes",
        "where channels meet, a replay is taken in the order of the first time",
        Anomaly.REORDERED_OUTPUT,
        unmerged(_masked),
        on=_ORDER,
    ),
    BrokenScheme(
        "passive-replication-without-checkpointed-turn",
        "a checkpoint says whose turn it is where channels are merged in turn",
        Anomaly.REORDERED_OUTPUT,
        twisting(_in_turn, twists.persists_without_turn),
        on=_ORDER,
    ),
    BrokenScheme(
        "passive-replication-without-fenced-store",
        "a store takes nothing from an incarnation that was replaced",
        Anomaly.LOST_INPUT,
        unfenced(_repeating),
        kinds=("crash", "pause"),
    ),
)
