"""Passive standby: the primary's checkpoints go to the memory of a secondary (StreamMine3G, sections 2.2.3, 7.3.1).

- The primary alone takes events into its state. Every so many it sends state, timestamp vector and log to the
  secondary (state synchronization). When that has them, and not before, it acknowledges upstream what they cover.
- Hot: the secondary is sent all input too, and keeps what is newer than the state that it holds. Promoted, it takes
  what it has kept and goes on.
- Cold: it is sent nothing else. Promoted, it opens its channels, and those upstream replay from their logs.
- A replica that returns asks for the state at once; until it has it, the primary is alone, and nothing is acknowledged.
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
from .mechanisms.checkpointing import Checkpointing
from .mechanisms.duplicate_filter import DuplicateFilter
from .mechanisms.merges import ByTime
from .mechanisms.output_log import OutputLog
from .mechanisms.replicas import Replicas, Standby
from .requirements import MERGE_WAITS, activities_of_merge, acyclic, deterministic, filtering, promised, settings


def passive_standby(
    topology: Topology,
    *,
    hot: bool = True,
    synchronize_every: Events = events(500),
    sink_filter: bool = True,
    merge: Merge = ByTime(),
    silence: Duration = seconds(0.002),
) -> SchemeSubject:
    """Claims precise recovery with the sink's filter, rollback recovery (repeating) without, as long as each slice
    keeps one replica in sync: once a replica is gone, a second failure only after the new pair is in sync.

    Costs one state and log a `synchronize_every` events over the network, held in memory twice, an output log of about
    twice as many events a channel, and, where it is hot, all input twice.

    Raises InvalidTopology for operators that are not deterministic, and for feedback.
    """
    scheme = "passive standby"
    deterministic(topology, scheme)
    acyclic(topology, scheme, MERGE_WAITS)
    settings(
        scheme, synchronize_every=synchronize_every, sink_filter=sink_filter, merge=merge, silence=silence, hot=hot
    )
    quiet = promised(topology, merge, silence)
    masked = (DuplicateFilter(),) if sink_filter else ()
    replicas = Replicas(Standby.QUEUING if hot else Standby.HOLDING, keep_checkpoints=True)
    return SchemeSubject(
        kind=f"passive-standby-{'hot' if hot else 'cold'}",
        topology=topology,
        setups={
            Role.SOURCE: Setup((OutputLog(), *quiet), Numbering.CONTINUED),
            Role.OPERATOR: Setup(
                (OutputLog(), replicas, DuplicateFilter(), Checkpointing(synchronize_every), *quiet),
                Numbering.CONTINUED,
                merge,
            ),
            Role.SINK: Setup((*masked, AcknowledgeEvery(synchronize_every))),
        },
        claims=(
            Claim(
                precise_recovery() if sink_filter else rollback_recovery(),
                Tolerance.ONE_IN_SYNC,
                "deterministic operators and merges, replicas apart, a source that replays",
                rests_on=(
                    *(Activity.CHECKPOINT, Activity.RESTORE, Activity.TAKE_OVER, Activity.TRIM),
                    *(() if hot else (Activity.REPLAY,)),
                    *filtering(topology, sink_filter),
                    *activities_of_merge(topology, merge),
                ),
            ),
        ),
        replicas=2,
    )
