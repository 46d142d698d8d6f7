"""The mutants of gap by load. A new one is an entry here."""

from __future__ import annotations

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.quantities import Events, ms
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ...harness.protocol.operator import STATE
from ...harness.protocol.spec import Numbering
from ..gap_by_load import gap_by_load
from ..mechanisms.adjusting import PART
from ..mechanisms.duplicate_filter import DuplicateFilter
from . import twists
from .broken_adjusters import is_deaf_to_changes
from .mutant import BrokenScheme, along_with, checkpointing, numbering, twisting


def _gap(topology: Topology, every: Events) -> SchemeSubject:
    """So that all but the first few inputs come while it is quiet."""
    return gap_by_load(
        topology, checkpoint_every=Events(2 * every.count), while_quiet=Events(3), busy_from=Events(9), each=ms(3)
    )


MUTANTS = (
    BrokenScheme(
        "gap-by-load-forgetting-its-interval",
        "a slice that was restored goes by the interval that was in force in its state",
        Anomaly.STATE_ROLLBACK,
        checkpointing(_gap, lacking=PART),
    ),
    BrokenScheme(
        "gap-by-load-deaf-to-changes",
        "a slice goes by a shorter interval from the place on that it is told",
        Anomaly.STATE_ROLLBACK,
        twisting(_gap, is_deaf_to_changes),
    ),
    BrokenScheme(
        "gap-by-load-without-checkpointed-state",
        "a checkpoint holds the state",
        Anomaly.PHANTOM_OUTPUT,
        checkpointing(_gap, lacking=STATE),
    ),
    BrokenScheme(
        "gap-by-load-continuing-the-numbering",
        "a new incarnation begins a new numbering, so that no receiver takes new output for old",
        Anomaly.LOST_INPUT,
        along_with(numbering(_gap, Numbering.CONTINUED), DuplicateFilter(), Role.OPERATOR, Role.SINK),
    ),
    BrokenScheme(
        "gap-by-load-skipping-its-first-batch",
        "a gap ends when the slice is there again",
        Anomaly.LOST_INPUT,
        twisting(_gap, twists.skips_the_first_batch_after_its_return),
    ),
)
