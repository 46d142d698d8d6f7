"""A transactional sink: passive replication, and an end of it that can crash like everything else.

Elsewhere the sink is the harness's own and never fails. Here each sink slice runs on a node, and what counts is what it
has committed to a store outside, as in a database that keeps a consumer's offsets in the transaction of its rows.

- Operators and sources work as under passive replication: checkpoints, output logs, replay.
- A sink keeps what it takes to itself. Every so many outputs, and at the end of the input, it commits in one step the
  outputs since the last time and the vector that says up to where each channel is in them. The outside numbers what it
  takes; what was not committed was never delivered.
- When a transaction is durable, and not before, the sink acknowledges upstream what it holds.
- A crashed sink starts from its newest committed vector, and has its senders replay what comes after.
- Its duplicate filter goes by that vector, so that what a crashed operator makes again is not delivered again.
"""

from __future__ import annotations

from dataclasses import replace

from ..harness.contracts.subject import SchemeSubject
from ..harness.core.quantities import Duration, Events, events, seconds
from ..harness.core.topology import Role, Topology
from ..harness.protocol.merging import Merge
from ..harness.protocol.spec import Setup
from .mechanisms.duplicate_filter import DuplicateFilter
from .mechanisms.merges import ByTime
from .mechanisms.sink_delivery import DeliverInTransactions
from .passive_replication import passive_replication
from .requirements import require_topology, settings


def transactional_sink(
    topology: Topology,
    *,
    checkpoint_every: Events = events(500),
    commit_every: Events | None = None,
    merge: Merge = ByTime(),
    silence: Duration = seconds(0.002),
) -> SchemeSubject:
    """Claims precise recovery, for any number of failures, of sinks too, while checkpoints and what was committed
    survive and the source replays.

    Costs what passive replication costs, and that an output is seen only when its transaction is durable: as late as
    `commit_every` outputs take to come (as many as `checkpoint_every`, where it is not said), and a write.

    Raises InvalidTopology for operators that are not deterministic, and for feedback.
    """
    scheme = "a transactional sink"
    require_topology(topology, scheme)
    every = checkpoint_every if commit_every is None else commit_every
    settings(scheme, checkpoint_every=checkpoint_every, commit_every=every, merge=merge, silence=silence)
    passive = passive_replication(
        topology, checkpoint_every=checkpoint_every, sink_filter=True, merge=merge, silence=silence
    )
    sink = Setup((DuplicateFilter(), DeliverInTransactions(every)))
    (claim,) = passive.claims
    needs = f"{claim.needs}, a store outside that writes outputs and vector in one step"
    return replace(
        passive,
        kind="transactional-sink",
        setups={**passive.setups, Role.SINK: sink},
        claims=(replace(claim, needs=needs),),
    )
