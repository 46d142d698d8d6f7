"""Active standby: a secondary takes all input and keeps its output to itself (StreamMine3G, sections 2.2.3, 7.3.1).

- Primary and secondary take the same in the same order. The primary alone sends.
- The secondary keeps what it makes in its log, and the primary passes on what receivers have acknowledged: by nothing
  else may that log be trimmed.
- When the primary dies the secondary is promoted: receivers open its channels, and get all of its log.
- A replica that returns joins as under active replication.
"""

from __future__ import annotations

from ..harness.contracts.claims import Claim
from ..harness.contracts.subject import SchemeSubject
from ..harness.core.guarantees import precise_recovery, rollback_recovery
from ..harness.core.quantities import Duration, Events, events, seconds
from ..harness.core.topology import Role, Topology
from ..harness.judging.exercised import Activity
from ..harness.judging.tolerance import Tolerance
from ..harness.protocol.merging import Merge
from ..harness.protocol.spec import Numbering, Setup
from .mechanisms.acknowledging import AcknowledgeEvery
from .mechanisms.duplicate_filter import DuplicateFilter
from .mechanisms.merges import ByTime
from .mechanisms.output_log import OutputLog
from .mechanisms.replicas import Replicas, Standby
from .requirements import MERGE_WAITS, activities_of_merge, acyclic, deterministic, filtering, promised, settings


def active_standby(
    topology: Topology,
    *,
    acknowledge_every: Events = events(100),
    sink_filter: bool = True,
    merge: Merge = ByTime(),
    silence: Duration = seconds(0.002),
) -> SchemeSubject:
    """Claims precise recovery with the sink's filter, rollback recovery (repeating) without, as long as each slice
    keeps one replica in sync; with a pause until the secondary is promoted.

    Costs two replicas of everything but messages; an output log of about twice `acknowledge_every` events a channel in
    memory; no checkpoints.

    Raises InvalidTopology for operators that are not deterministic, and for feedback.
    """
    scheme = "active standby"
    deterministic(topology, scheme)
    acyclic(topology, scheme, MERGE_WAITS)
    settings(scheme, acknowledge_every=acknowledge_every, sink_filter=sink_filter, merge=merge, silence=silence)
    quiet = promised(topology, merge, silence)
    acknowledging = AcknowledgeEvery(acknowledge_every)
    masked = (DuplicateFilter(),) if sink_filter else ()
    replicas = Replicas(Standby.SILENT)
    return SchemeSubject(
        kind="active-standby",
        topology=topology,
        setups={
            Role.SOURCE: Setup((OutputLog(), *quiet), Numbering.CONTINUED),
            Role.OPERATOR: Setup(
                (OutputLog(), replicas, DuplicateFilter(), acknowledging, *quiet), Numbering.CONTINUED, merge
            ),
            Role.SINK: Setup((*masked, acknowledging)),
        },
        claims=(
            Claim(
                precise_recovery() if sink_filter else rollback_recovery(),
                Tolerance.ONE_IN_SYNC,
                "deterministic operators and merges, replicas apart",
                rests_on=(
                    *(Activity.RESTORE, Activity.TAKE_OVER, Activity.TRIM),
                    *filtering(topology, sink_filter),
                    *activities_of_merge(topology, merge),
                ),
            ),
        ),
        replicas=2,
    )
