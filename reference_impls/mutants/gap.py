"""The mutants of gap. A new one is an entry here."""

from __future__ import annotations

from ...harness.judging.verdicts import Anomaly
from ...harness.model import Role, Topology
from ...harness.quantities import Events
from ...harness.slices.components import Numbering, Part
from ...harness.subject import SchemeSubject
from ..gap import gap
from . import twists
from .mutant import Mutant, changed, checkpointing, twisting


def _gap(topology: Topology, every: Events) -> SchemeSubject:
    return gap(topology, checkpoint_every=every)


MUTANTS = (
    Mutant(
        "gap-restoring-nothing",
        "a crash takes back no more than was taken since the last durable checkpoint",
        Anomaly.STATE_ROLLBACK,
        changed(_gap, checkpointing=None),
    ),
    Mutant(
        "gap-without-checkpointed-state",
        "a checkpoint holds the state",
        Anomaly.PHANTOM_OUTPUT,
        checkpointing(_gap, without=Part.STATE),
    ),
    Mutant(
        "gap-continuing-the-numbering",
        "a new incarnation begins a new numbering, so that no receiver takes new output for old",
        Anomaly.LOST_INPUT,
        changed(changed(_gap, numbering=Numbering.CONTINUED), Role.OPERATOR, Role.SINK, duplicate_filter=True),
    ),
    Mutant(
        "gap-replaying-without-vector",
        "nobody replays to a slice that does not know what its state holds",
        Anomaly.DUPLICATE_EFFECT,
        changed(_gap, Role.SOURCE, output_log=True),
    ),
    Mutant(
        "gap-skipping-its-first-batch",
        "a gap ends when the slice is there again",
        Anomaly.LOST_INPUT,
        twisting(_gap, twists.skips_the_first_batch_after_its_return),
    ),
    Mutant(
        "gap-checkpointing-too-rarely",
        "a checkpoint is taken as often as is declared",
        Anomaly.STATE_ROLLBACK,
        checkpointing(_gap, times=4),
    ),
)
