"""Active replication: several replicas of each slice, all of them at work (StreamMine3G, sections 2.2.3, 3.7.3, 7.3.1).

- Every replica takes all input, and sends its output to every replica downstream.
- A deterministic merge gives all of them the same order, so they make the same, under the same numbers.
- Receivers take the first copy of an event and drop the others, by (source, seq): when a replica dies, its peers'
  copies are there already, and nothing pauses.
- What all receivers have taken is trimmed from the log. A replica that returns opens its channels first, so that it
  can miss nothing, then gets the state of a peer, which is at least as new as what was trimmed; what the state holds
  already it drops from what has come in meanwhile, and only when it is in sync it is active (section 3.7.6).
"""

from __future__ import annotations

from ..harness.contracts.claims import Claim
from ..harness.contracts.subject import SchemeSubject
from ..harness.core.guarantees import precise_recovery
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
from .mechanisms.replicas import Replicas
from .requirements import MERGE_WAITS, activities_of_merge, acyclic, at_least, deterministic, promised, settings


def active_replication(
    topology: Topology,
    *,
    replicas: int = 2,
    acknowledge_every: Events = events(100),
    merge: Merge = ByTime(),
    silence: Duration = seconds(0.002),
) -> SchemeSubject:
    """Claims precise recovery, as long as each slice keeps one replica in sync.

    Costs everything `replicas` times, messages even its square; an output log of about `acknowledge_every` events a
    channel in memory; no checkpoints.

    Raises InvalidTopology for feedback and for operators that are not deterministic, InvalidScenario for fewer than two
    replicas, and for no merge.
    """
    scheme = "active replication"
    deterministic(topology, scheme)
    acyclic(topology, scheme, MERGE_WAITS)
    settings(scheme, acknowledge_every=acknowledge_every, merge=merge, silence=silence)
    at_least(2, "replicas", replicas)
    quiet = promised(topology, merge, silence)
    acknowledging = AcknowledgeEvery(acknowledge_every)
    return SchemeSubject(
        kind="active-replication",
        topology=topology,
        setups={
            Role.SOURCE: Setup((OutputLog(), *quiet), Numbering.CONTINUED),
            Role.OPERATOR: Setup(
                (OutputLog(), Replicas(), DuplicateFilter(), acknowledging, *quiet), Numbering.CONTINUED, merge
            ),
            Role.SINK: Setup((DuplicateFilter(), acknowledging)),
        },
        claims=(
            Claim(
                precise_recovery(),
                Tolerance.ONE_IN_SYNC,
                "deterministic operators and merges, replicas apart",
                rests_on=(
                    *(Activity.RESTORE, Activity.TAKE_OVER, Activity.FILTER, Activity.TRIM),
                    *activities_of_merge(topology, merge),
                ),
            ),
        ),
        replicas=replicas,
    )
