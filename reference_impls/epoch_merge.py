"""Epoch-based deterministic merge: active replication that synchronises once an epoch (StreamMine3G, chapter 5, listing
5.1).

- A slice takes nothing of an epoch until every channel has passed it; then it takes what came on one channel after what
  came on another, in the order of the channels. Later epochs are collected meanwhile.
- So all replicas take the same sequence, and what they make, in the middle of an epoch too, is the same under the same
  numbers; receivers take the first copy, as in active replication.

Where this departs from the listing: bags are kept by epoch and not by position, and there is one, if an empty one, for
each channel and epoch; silence and the end of a channel close epochs; the first begins below 0.
"""

from __future__ import annotations

from ..harness.contracts.claims import Claim
from ..harness.contracts.subject import SchemeSubject
from ..harness.core.guarantees import precise_recovery
from ..harness.core.quantities import Duration, Events, events, seconds
from ..harness.core.topology import Role, Topology
from ..harness.judging.exercised import Activity
from ..harness.judging.tolerance import Tolerance
from ..harness.protocol.spec import Numbering, Setup
from .mechanisms.acknowledging import AcknowledgeEvery
from .mechanisms.duplicate_filter import DuplicateFilter
from .mechanisms.epochs import EpochBags
from .mechanisms.output_log import OutputLog
from .mechanisms.replicas import Replicas
from .mechanisms.silence import TellSilence
from .requirements import activities_of_merge, acyclic, at_least, deterministic, epochs, settings


def epoch_merge(
    topology: Topology,
    *,
    replicas: int = 2,
    epoch: int = 20,
    acknowledge_every: Events = events(100),
    silence: Duration = seconds(0.002),
) -> SchemeSubject:
    """Claims precise recovery, as long as each slice keeps one replica in sync; operators need not be commutative.

    `epoch`, in milliseconds of event time, is for topologies of which no operator says how long its epochs are; else
    those that do not say it have what fits into all others. Costs what active replication costs, and up to an epoch of
    latency at each operator.

    Raises InvalidTopology for feedback, for operators that are not deterministic, and for epochs that do not fit into
    one another, InvalidScenario for fewer than two replicas.
    """
    scheme = "epoch-based merge"
    deterministic(topology, scheme)
    acyclic(
        topology, scheme, "an epoch ends once all channels have passed it, and what comes back of it would come after"
    )
    settings(scheme, acknowledge_every=acknowledge_every, silence=silence)
    at_least(2, "replicas", replicas)
    merge = EpochBags(epochs(topology, scheme, epoch))
    quiet = TellSilence(silence)
    acknowledging = AcknowledgeEvery(acknowledge_every)
    return SchemeSubject(
        kind="epoch-merge",
        topology=topology,
        setups={
            Role.SOURCE: Setup((OutputLog(), quiet), Numbering.CONTINUED),
            Role.OPERATOR: Setup(
                (OutputLog(), Replicas(), DuplicateFilter(), acknowledging, quiet), Numbering.CONTINUED, merge
            ),
            Role.SINK: Setup((DuplicateFilter(), acknowledging)),
        },
        claims=(
            Claim(
                precise_recovery(),
                Tolerance.ONE_IN_SYNC,
                "deterministic operators, replicas apart",
                rests_on=(
                    *(Activity.RESTORE, Activity.TAKE_OVER, Activity.FILTER, Activity.TRIM),
                    *activities_of_merge(topology, merge),
                ),
            ),
        ),
        replicas=replicas,
    )
