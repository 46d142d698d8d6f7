"""The mutants of passive standby. A new one is an entry here."""

from __future__ import annotations

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.quantities import Events
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ..mechanisms.checkpointing import AcknowledgeAt
from ..mechanisms.duplicate_filter import DuplicateFilter
from ..mechanisms.output_log import OutputLog
from ..passive_standby import passive_standby
from . import twists
from .mutant import BrokenScheme, checkpointing, twisting, without


def _hot(topology: Topology, every: Events) -> SchemeSubject:
    return passive_standby(topology, hot=True, synchronize_every=every)


def _cold(topology: Topology, every: Events) -> SchemeSubject:
    return passive_standby(topology, hot=False, synchronize_every=every)


MUTANTS = (
    BrokenScheme(
        "passive-standby-hot-letting-input-pass",
        "the secondary keeps the input that is newer than the state that it holds",
        Anomaly.LOST_INPUT,
        twisting(_hot, twists.keeps_nothing_while_it_stands_by),
    ),
    BrokenScheme(
        "passive-standby-hot-never-in-step-again",
        "a replica that returns asks for the state at once",
        Anomaly.STALL,
        twisting(_hot, twists.asks_nobody),
    ),
    BrokenScheme(
        "passive-standby-hot-without-vector",
        "the secondary knows what is in the state that it holds",
        Anomaly.DUPLICATE_EFFECT,
        twisting(_hot, twists.syncs_without_vector),
    ),
    BrokenScheme(
        "passive-standby-hot-without-log",
        "the secondary holds the primary's output log",
        Anomaly.LOST_INPUT,
        twisting(_hot, twists.syncs_without_log),
    ),
    BrokenScheme(
        "passive-standby-hot-without-numbering",
        "the secondary goes on with the primary's numbers",
        Anomaly.LOST_INPUT,
        twisting(_hot, twists.syncs_without_numbering),
    ),
    BrokenScheme(
        "passive-standby-hot-without-state",
        "the secondary holds the state that the vector speaks of",
        Anomaly.PHANTOM_OUTPUT,
        twisting(_hot, twists.syncs_without_state),
    ),
    BrokenScheme(
        "passive-standby-hot-without-sink-filter",
        "precise recovery needs the sink's filter too",
        Anomaly.DUPLICATE_OUTPUT,
        without(_hot, DuplicateFilter, Role.SINK),
    ),
    BrokenScheme(
        "passive-standby-hot-acknowledging-too-far",
        "what is acknowledged is in the state that the secondary has",
        Anomaly.LOST_INPUT,
        twisting(_hot, twists.acknowledges_too_far),
        spread=True,
    ),
    BrokenScheme(
        "passive-standby-cold-acknowledging-before-it-is-held",
        "upstream trims its log only by what the secondary has",
        Anomaly.LOST_INPUT,
        checkpointing(_cold, acknowledge=AcknowledgeAt.TAKEN),
    ),
    BrokenScheme(
        "passive-standby-cold-never-in-step-again",
        "a replica that returns asks for the state at once",
        Anomaly.STALL,
        twisting(_cold, twists.asks_nobody),
    ),
    BrokenScheme(
        "passive-standby-cold-without-vector",
        "the secondary knows what is in the state that it holds",
        Anomaly.DUPLICATE_EFFECT,
        twisting(_cold, twists.syncs_without_vector),
    ),
    BrokenScheme(
        "passive-standby-cold-without-log",
        "the secondary holds the primary's output log",
        Anomaly.LOST_INPUT,
        twisting(_cold, twists.syncs_without_log),
    ),
    BrokenScheme(
        "passive-standby-cold-without-numbering",
        "the secondary goes on with the primary's numbers",
        Anomaly.LOST_INPUT,
        twisting(_cold, twists.syncs_without_numbering),
    ),
    BrokenScheme(
        "passive-standby-cold-taking-over-blank",
        "a promoted secondary goes on from the state that it holds",
        Anomaly.LOST_INPUT,
        twisting(_cold, twists.takes_over_without_what_it_holds),
    ),
    BrokenScheme(
        "passive-standby-cold-without-source-log",
        "the source replays what the secondary does not have",
        Anomaly.LOST_INPUT,
        without(_cold, OutputLog, Role.SOURCE),
    ),
)
