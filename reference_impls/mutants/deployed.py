"""The mutants of deployed. A new one is an entry here."""

from __future__ import annotations

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.quantities import Events
from ...harness.core.topology import Topology
from ...harness.core.verdicts import Anomaly
from ...harness.protocol.operator import VECTOR
from ...harness.protocol.spec import Numbering
from ..deployed import deployed
from ..mechanisms.checkpointing import AcknowledgeAt
from ..mechanisms.duplicate_filter import DuplicateFilter
from ..mechanisms.output_log import PART
from . import twists
from .mutant import BrokenScheme, checkpointing, numbering, twisting, without


def _deployed(topology: Topology, every: Events) -> SchemeSubject:
    return deployed(topology, checkpoint_every=every)


MUTANTS = (
    BrokenScheme(
        "deployed-taking-over-blank",
        "a promoted spare reads the newest checkpoint",
        Anomaly.LOST_INPUT,
        twisting(_deployed, twists.takes_over_without_the_checkpoint),
    ),
    BrokenScheme(
        "deployed-acknowledging-before-durable",
        "upstream trims its log only by what a durable checkpoint covers",
        Anomaly.LOST_INPUT,
        checkpointing(_deployed, acknowledge=AcknowledgeAt.TAKEN),
    ),
    BrokenScheme(
        "deployed-without-vector",
        "a checkpoint says what its state has taken from whom",
        Anomaly.DUPLICATE_EFFECT,
        checkpointing(_deployed, lacking=VECTOR),
    ),
    BrokenScheme(
        "deployed-without-checkpointed-log",
        "a checkpoint holds the output log, so that neighbours may crash together",
        Anomaly.LOST_INPUT,
        checkpointing(_deployed, lacking=PART),
    ),
    BrokenScheme(
        "deployed-numbering-afresh",
        "what is made again carries its old number",
        Anomaly.DUPLICATE_EFFECT,
        numbering(_deployed, Numbering.FRESH),
    ),
    BrokenScheme(
        "deployed-without-inner-filter",
        "a receiver drops what it has taken already",
        Anomaly.DUPLICATE_EFFECT,
        without(_deployed, DuplicateFilter),
    ),
)
