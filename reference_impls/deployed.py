"""Deployed: passive replication with a spare replica that is there already (StreamMine3G, section 7.3.1).

- The primary works as under passive replication: log, checkpoints to the store, acknowledgement when they are durable.
- The secondary is loaded and blank. Promoted, it reads the newest checkpoint and opens its channels; from there on it
  is the primary. What is saved is the time to deploy.
"""

from __future__ import annotations

from dataclasses import replace

from ..harness.contracts.subject import SchemeSubject
from ..harness.core.quantities import Duration, Events, events, seconds
from ..harness.core.topology import Role, Topology
from ..harness.judging.exercised import Activity
from ..harness.protocol.merging import Merge
from .mechanisms.merges import ByTime
from .mechanisms.replicas import Replicas, Standby
from .passive_replication import passive_replication
from .requirements import require_topology, settings


def deployed(
    topology: Topology,
    *,
    checkpoint_every: Events = events(500),
    sink_filter: bool = False,
    merge: Merge = ByTime(),
    silence: Duration = seconds(0.002),
) -> SchemeSubject:
    """Claims what passive replication claims, under the same conditions. Costs the same, and an operator that is loaded
    and idle."""
    scheme = "a deployed spare"
    require_topology(topology, scheme)
    settings(scheme, checkpoint_every=checkpoint_every, sink_filter=sink_filter, merge=merge, silence=silence)
    passive = passive_replication(
        topology, checkpoint_every=checkpoint_every, sink_filter=sink_filter, merge=merge, silence=silence
    )
    operators = passive.setups[Role.OPERATOR]
    log, *others = operators.mechanisms
    operators = replace(operators, mechanisms=(log, Replicas(Standby.LOADED), *others))
    (claim,) = passive.claims
    return replace(
        passive,
        kind="deployed",
        setups={**passive.setups, Role.OPERATOR: operators},
        claims=(replace(claim, rests_on=(*(claim.rests_on or ()), Activity.TAKE_OVER)),),
        replicas=2,
    )
