"""Gap recovery: checkpoints without replay (StreamMine3G, section 2.2.2 and table 7.1).

State is saved every so many events and restored after a crash; events are logged nowhere, so what was taken since the
checkpoint, what was on its way and what came meanwhile are lost: a gap. The new incarnation numbers its outputs afresh,
because continuing at the checkpoint's number would make receivers drop new output as old.
"""

from __future__ import annotations

from ..harness.contracts.claims import Claim
from ..harness.contracts.subject import SchemeSubject
from ..harness.core.guarantees import gap_recovery
from ..harness.core.quantities import Events, events
from ..harness.core.topology import Role, Topology
from ..harness.judging.exercised import Activity
from ..harness.protocol.operator import LISTENERS, NUMBER, VECTOR
from ..harness.protocol.spec import Setup
from .mechanisms.checkpointing import AcknowledgeAt, Checkpointing
from .requirements import settings, without_timers


def gap(topology: Topology, *, checkpoint_every: Events = events(500)) -> SchemeSubject:
    """Claims gap recovery within the checkpoint interval, for any number of failures. Costs checkpoints of state.

    Raises InvalidTopology for operators with timers.
    """
    without_timers(topology, "gap recovery")
    settings("gap recovery", checkpoint_every=checkpoint_every)
    state_alone = frozenset({VECTOR, NUMBER, LISTENERS})
    operators = Setup((Checkpointing(checkpoint_every, state_alone, AcknowledgeAt.NEVER),))
    return SchemeSubject(
        kind="gap",
        topology=topology,
        setups={Role.SOURCE: Setup(), Role.OPERATOR: operators, Role.SINK: Setup()},
        claims=(
            Claim(
                gap_recovery(checkpoint_every),
                needs="checkpoints survive",
                rests_on=(Activity.CHECKPOINT, Activity.RESTORE),
            ),
        ),
    )
