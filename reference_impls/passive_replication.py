"""Passive replication: periodic checkpoints, upstream event logs, replay (StreamMine3G, sections 2.2.3, 3.7.1, 3.7.2).

- Every slice keeps what it emits in a log, per receiver, until the receiver acknowledges it.
- Every so many events it checkpoints three things: its state, its timestamp vector (what it last took from whom) and
  its log. When the checkpoint is durable, and not before, it acknowledges upstream what the checkpoint covers.
- A crashed slice starts from its newest durable checkpoint and asks each upstream slice for everything after its
  vector. What it makes again carries the old numbers.
- Receivers drop what they have taken already, by (source, seq).

Neighbours may crash together: what a restored slice cannot replay from its restored log it makes again from its own
input, down to the source, which replays everything.

The sink's filter decides what a consumer sees of it. On: the failure is masked. Off: outputs since the last checkpoint
come again, identical.
"""

from __future__ import annotations

from ..harness.errors import InvalidTopology
from ..harness.judging.guarantees import precise_recovery, rollback_recovery
from ..harness.model import Role, Topology
from ..harness.quantities import Events, events
from ..harness.slices.components import Checkpointing, Components, Numbering
from ..harness.subject import Claim, SchemeSubject


def passive_replication(
    topology: Topology, *, checkpoint_every: Events = events(500), sink_filter: bool = False
) -> SchemeSubject:
    """Claims rollback recovery (repeating) without the sink's filter, precise recovery with it; for any number of
    failures, neighbours too, while checkpoints survive and the source replays.

    Costs one checkpoint of state and log per `checkpoint_every` events, and an output log of about twice as many events
    in memory per channel.

    Raises InvalidTopology for an operator slice with more than one input channel.
    """
    operators = Components(
        output_log=True,
        duplicate_filter=True,
        checkpointing=Checkpointing(checkpoint_every),
        numbering=Numbering.CONTINUED,
    )
    merging = [s for s in topology.operator_slices if len(topology.upstream(s)) > 1]
    if merging:
        raise InvalidTopology(
            f"{', '.join(merging)} of {topology.name!r} has more than one input channel: without a deterministic "
            "merge, replay may take another order, and passive replication can claim nothing"
        )
    needs = "deterministic operators, one input channel each, a source that replays, checkpoints that survive"
    return SchemeSubject(
        kind="passive-replication",
        topology=topology,
        components={
            Role.SOURCE: Components(output_log=True, numbering=Numbering.CONTINUED),
            Role.OPERATOR: operators,
            Role.SINK: Components(duplicate_filter=sink_filter, acknowledge_every=checkpoint_every),
        },
        claims=(Claim(precise_recovery() if sink_filter else rollback_recovery(), needs=needs),),
    )
