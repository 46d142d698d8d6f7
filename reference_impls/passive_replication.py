"""Passive replication: periodic checkpoints, upstream event logs, replay (StreamMine3G, sections 2.2.3, 3.7.1, 3.7.2).

- Every slice keeps what it emits in a log, per receiver, until the receiver acknowledges it.
- Every so many events it checkpoints three things: its state, its timestamp vector (what it last took from whom) and
  its log. When the checkpoint is durable, and not before, it acknowledges upstream what the checkpoint covers. The
  store keeps the newest checkpoint of each slice.
- A crashed slice starts from its newest durable checkpoint and asks each upstream slice to replay what comes after its
  vector. What is new meanwhile it holds, per channel, and says from where on it has that; when the replay is
  completed, by reaching that place or the end of the log, it takes what it holds.
- What it makes again carries the old numbers. Receivers drop what they have taken already, by (source, seq).
- Where channels meet, a deterministic merge gives the replayed events the order that they had.

Neighbours may crash together: what a restored slice cannot replay from its restored log it makes again from its own
input, down to the source, which replays everything.

The sink's filter decides what a consumer sees of it. On: the failure is masked. Off: outputs since the last checkpoint
come again, identical.
"""

from __future__ import annotations

from ..harness.contracts.claims import Claim
from ..harness.contracts.subject import SchemeSubject
from ..harness.core.guarantees import precise_recovery, rollback_recovery
from ..harness.core.quantities import Duration, Events, events, seconds
from ..harness.core.topology import Role, Topology
from ..harness.judging.exercised import Activity
from ..harness.protocol.merging import Merge
from ..harness.protocol.spec import Numbering, Setup
from .mechanisms.acknowledging import AcknowledgeEvery
from .mechanisms.checkpointing import Checkpointing
from .mechanisms.duplicate_filter import DuplicateFilter
from .mechanisms.merges import ByTime
from .mechanisms.output_log import OutputLog
from .requirements import MERGE_WAITS, activities_of_merge, acyclic, deterministic, filtering, promised, settings


def passive_replication(
    topology: Topology,
    *,
    checkpoint_every: Events = events(500),
    sink_filter: bool = False,
    merge: Merge = ByTime(),
    silence: Duration = seconds(0.002),
) -> SchemeSubject:
    """Claims rollback recovery (repeating) without the sink's filter, precise recovery with it; for any number of
    failures, neighbours too, while checkpoints survive and the source replays.

    Costs one checkpoint of state and log per `checkpoint_every` events, and an output log of about twice as many events
    in memory per channel; where channels meet, the wait for the slowest of them, about `silence` if it is idle.

    Raises InvalidTopology for operators that are not deterministic, and for feedback.
    """
    scheme = "passive replication"
    deterministic(topology, scheme)
    acyclic(topology, scheme, MERGE_WAITS)
    settings(scheme, checkpoint_every=checkpoint_every, sink_filter=sink_filter, merge=merge, silence=silence)
    quiet = promised(topology, merge, silence)
    masked = (DuplicateFilter(),) if sink_filter else ()
    needs = "deterministic operators, a source that replays, checkpoints that survive"
    rests_on = (
        *(Activity.CHECKPOINT, Activity.RESTORE, Activity.REPLAY, Activity.TRIM),
        *filtering(topology, sink_filter),
        *activities_of_merge(topology, merge),
    )
    return SchemeSubject(
        kind="passive-replication",
        topology=topology,
        setups={
            Role.SOURCE: Setup((OutputLog(), *quiet), Numbering.CONTINUED),
            Role.OPERATOR: Setup(
                (OutputLog(), DuplicateFilter(), Checkpointing(checkpoint_every), *quiet), Numbering.CONTINUED, merge
            ),
            Role.SINK: Setup((*masked, AcknowledgeEvery(checkpoint_every))),
        },
        claims=(Claim(precise_recovery() if sink_filter else rollback_recovery(), needs=needs, rests_on=rests_on),),
    )
