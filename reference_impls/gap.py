"""Gap recovery: checkpoints without replay (StreamMine3G, section 2.2.2 and table 7.1).

State is saved every so many events and restored after a crash; events are logged nowhere, so what was taken since the
checkpoint, what was on its way and what came meanwhile are lost: a gap. The new incarnation numbers its outputs afresh,
because continuing at the checkpoint's number would make receivers drop new output as old.
"""

from __future__ import annotations

from ..harness.judging.exercised import Mechanism
from ..harness.judging.guarantees import gap_recovery
from ..harness.model import Role, Topology
from ..harness.quantities import Events, events
from ..harness.slices.components import AcknowledgeAt, Checkpointing, Components, Part
from ..harness.subject import Claim, SchemeSubject
from .requirements import settings


def gap(topology: Topology, *, checkpoint_every: Events = events(500)) -> SchemeSubject:
    """Claims gap recovery within the checkpoint interval, for any number of failures. Costs checkpoints of state."""
    settings("gap recovery", checkpoint_every=checkpoint_every)
    operators = Components(
        checkpointing=Checkpointing(checkpoint_every, frozenset({Part.STATE}), AcknowledgeAt.NEVER),
    )
    return SchemeSubject(
        kind="gap",
        topology=topology,
        components={Role.SOURCE: Components(), Role.OPERATOR: operators, Role.SINK: Components()},
        claims=(
            Claim(
                gap_recovery(checkpoint_every),
                needs="checkpoints survive",
                rests_on=(Mechanism.CHECKPOINT, Mechanism.RESTORE),
            ),
        ),
    )
