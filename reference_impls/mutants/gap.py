"""The mutants of gap. A new one is an entry here."""

from __future__ import annotations

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.quantities import Events
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ...harness.protocol.operator import STATE
from ...harness.protocol.spec import Numbering
from ..gap import gap
from ..mechanisms.checkpointing import Checkpointing
from ..mechanisms.duplicate_filter import DuplicateFilter
from ..mechanisms.output_log import OutputLog
from . import twists
from .mutant import BrokenScheme, along_with, checkpointing, numbering, twisting, without


def _gap(topology: Topology, every: Events) -> SchemeSubject:
    return gap(topology, checkpoint_every=every)


MUTANTS = (
    BrokenScheme(
        "gap-restoring-nothing",
        "a crash takes back no more than was taken since the last durable checkpoint",
        Anomaly.STATE_ROLLBACK,
        without(_gap, Checkpointing),
    ),
    BrokenScheme(
        "gap-without-checkpointed-state",
        "a checkpoint holds the state",
        Anomaly.PHANTOM_OUTPUT,
        checkpointing(_gap, lacking=STATE),
    ),
    BrokenScheme(
        "gap-continuing-the-numbering",
        "a new incarnation begins a new numbering, so that no receiver takes new output for old",
        Anomaly.LOST_INPUT,
        along_with(numbering(_gap, Numbering.CONTINUED), DuplicateFilter(), Role.OPERATOR, Role.SINK),
    ),
    BrokenScheme(
        "gap-replaying-without-vector",
        "nobody replays to a slice that does not know what its state holds",
        Anomaly.DUPLICATE_EFFECT,
        along_with(_gap, OutputLog(), Role.SOURCE),
    ),
    BrokenScheme(
        "gap-skipping-its-first-batch",
        "a gap ends when the slice is there again",
        Anomaly.LOST_INPUT,
        twisting(_gap, twists.skips_the_first_batch_after_its_return),
    ),
    BrokenScheme(
        "gap-checkpointing-too-rarely",
        "a checkpoint is taken as often as is declared",
        Anomaly.STATE_ROLLBACK,
        checkpointing(_gap, times=4),
    ),
)
