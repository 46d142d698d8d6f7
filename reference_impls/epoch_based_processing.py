"""Epoch-based processing: passive replication that synchronises once an epoch (StreamMine3G, chapter 4, listing 4.1).

- A slice takes the events of the current epoch as they come, and holds those of later ones, per channel. An epoch
  closes when every channel has passed it, by an event, by silence, or by its end.
- When it closes, the operator makes what it makes at the end of an epoch, that is sent, and only then a checkpoint is
  taken: of the state, the timestamp vector, and the log. So what was taken of each channel is a prefix of it, and the
  vector is exact.
- All else is as in passive replication: logs, acknowledgements when a checkpoint is durable, replay, filters. What is
  replayed may come in another order within an epoch.

Where this departs from the listing: the queue of held events is emptied; the checkpoint has the vector and the log too;
silence and the end of a channel close epochs; the first epoch begins below 0, so that an event of time 0 is in it.
"""

from __future__ import annotations

from ..harness.contracts.claims import Claim
from ..harness.contracts.subject import SchemeSubject
from ..harness.core.guarantees import precise_recovery, rollback_recovery
from ..harness.core.proper import positive
from ..harness.core.quantities import Duration, events, seconds
from ..harness.core.topology import Role, Topology
from ..harness.judging.exercised import Activity
from ..harness.protocol.spec import Numbering, Setup
from .mechanisms.acknowledging import AcknowledgeEvery
from .mechanisms.duplicate_filter import DuplicateFilter
from .mechanisms.epochs import CheckpointEpochs, Epochs
from .mechanisms.output_log import OutputLog
from .mechanisms.silence import TellSilence
from .requirements import activities_of_merge, acyclic, commutative, deterministic, epochs, filtering, settings


def epoch_based_processing(
    topology: Topology,
    *,
    epoch: int = 20,
    checkpoint_epochs: int = 1,
    sink_filter: bool = False,
    silence: Duration = seconds(0.002),
) -> SchemeSubject:
    """Claims rollback recovery (repeating) without the sink's filter, precise recovery with it; for any number of
    failures, while checkpoints survive and the source replays, and operators where channels meet tell nothing before
    the end of an epoch.

    `epoch`, in milliseconds of event time, is for topologies of which no operator says how long its epochs are; else
    those that do not say it have what fits into all others. Costs one checkpoint of state and log per
    `checkpoint_epochs`, and the wait for the slowest channel once an epoch.

    Raises InvalidTopology for feedback, for operators that are not deterministic, that are not commutative where
    channels meet, and for epochs that do not fit into one another.
    """
    scheme = "epoch-based processing"
    deterministic(topology, scheme)
    acyclic(
        topology, scheme, "an epoch ends once all channels have passed it, and what comes back of it would come after"
    )
    commutative(topology, scheme)
    settings(scheme, sink_filter=sink_filter, silence=silence)
    positive(checkpoint_epochs, "checkpoint_epochs")
    merge = Epochs(epochs(topology, scheme, epoch))
    quiet = TellSilence(silence)
    masked = (DuplicateFilter(),) if sink_filter else ()
    rests_on = (
        *(Activity.CHECKPOINT, Activity.RESTORE, Activity.REPLAY, Activity.TRIM),
        *filtering(topology, sink_filter),
        *activities_of_merge(topology, merge),
    )
    needs = (
        "deterministic operators, commutative and silent until an epoch ends where channels meet, a source that "
        "replays, checkpoints that survive"
    )
    return SchemeSubject(
        kind="epoch-based-processing",
        topology=topology,
        setups={
            Role.SOURCE: Setup((OutputLog(), quiet), Numbering.CONTINUED),
            Role.OPERATOR: Setup(
                (OutputLog(), DuplicateFilter(), CheckpointEpochs(checkpoint_epochs), quiet), Numbering.CONTINUED, merge
            ),
            Role.SINK: Setup((*masked, AcknowledgeEvery(events(100)))),
        },
        claims=(Claim(precise_recovery() if sink_filter else rollback_recovery(), needs=needs, rests_on=rests_on),),
    )
