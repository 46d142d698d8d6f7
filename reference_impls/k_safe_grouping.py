"""k-safe fields grouping: every key is processed k + 1 times, and nobody waits for a failure (k-safety on Storm,
"Technical Contributions", section 3).

- A tuple goes to the k + 1 workers of its key's group, by the hash of the key; they are on different machines.
- A tuple keeps the number that it had at its source, whatever becomes of it, so an input gives at most one output.
- Receivers drop by a high-water mark for each (source, primary), the primary being the group that a tuple comes from.
  The number has to rise on each of these, so it is refused where several groups merge: of two that arrive in another
  order than they left the source, the later one is dropped, without any fault.
- Whatever is emitted is emitted because of a tuple, never because of a clock, so the workers of a group give the same.
- A worker that returns gets the state of another of its group, and emits only when it is in sync: else it would raise
  the mark, and suppress what is right.

Where this departs from the paper:

- The mark is kept for each primary. A worker has one input channel, so that all it ever takes is of one source, and
  what a primary sends is too: that is the mark for each (source, primary). Several sources may meet at the sink alone.
  Where they would meet sooner, the workers of a group could take them in different orders: one that keeps a state gives
  different outputs under the same numbers, which the paper's marks do not see either. One that keeps none would be the
  same as a line of its own for each source, which is taken; and active replication, which has a merge, takes both.
- The paper has neither acknowledgements nor logs: what is sent to a worker that is away is gone. Here whoever sends
  keeps it until all who listen have acknowledged it, so that a worker that returns can miss nothing between the state
  that it gets and what it is sent. Nobody waits for an acknowledgement, and nothing is sent again because of one that
  is lacking.
- A window that is aggregated would carry the number of its last tuple; operators here give an output of each tuple.
- The paper's scheduler keeps the workers of a group apart; here it is the manager, as for all replicas. Sources and the
  sink do not fail, as in the paper.
"""

from __future__ import annotations

from ..harness.contracts.claims import Claim
from ..harness.contracts.subject import SchemeSubject
from ..harness.core.guarantees import exactly_once_output, k_safety
from ..harness.core.quantities import Events, events
from ..harness.core.topology import Role, Topology
from ..harness.judging.exercised import Activity
from ..harness.judging.tolerance import Tolerance
from ..harness.protocol.spec import Numbering, Setup
from .mechanisms.acknowledging import AcknowledgeEvery
from .mechanisms.duplicate_filter import DuplicateFilter
from .mechanisms.output_log import OutputLog
from .mechanisms.replicas import Replicas
from .requirements import acyclic, at_least, bounded_fan_out, deterministic, settings, single_channels


def k_safe_grouping(topology: Topology, *, k: int = 1, acknowledge_every: Events = events(100)) -> SchemeSubject:
    """Claims k-safety, as long as each key group keeps one worker in sync: so with any k machines gone.

    Costs everything k + 1 times, messages even its square, and an output log of about `acknowledge_every` events a
    channel in memory; nothing is written anywhere.

    Raises InvalidTopology for feedback, operators that are not deterministic or give more than one output, and slices
    with several input channels; InvalidScenario for a k that is not 1 or more.
    """
    scheme = "k-safe grouping"
    deterministic(topology, scheme)
    acyclic(topology, scheme, "the workers of a group would take what comes back in different orders")
    bounded_fan_out(topology, scheme, most=1)
    single_channels(
        topology,
        scheme,
        "its high-water mark drops what arrives late, without any fault; let each source have operators of its own up "
        "to the sink, or use active_replication(), which merges",
    )
    return unchecked(topology, k=k, acknowledge_every=acknowledge_every)


def unchecked(topology: Topology, *, k: int = 1, acknowledge_every: Events = events(100)) -> SchemeSubject:
    """The scheme on any topology, also where it does not keep what it claims."""
    at_least(1, "k", k)
    settings("k-safe grouping", acknowledge_every=acknowledge_every)
    acknowledging = AcknowledgeEvery(acknowledge_every)
    return SchemeSubject(
        kind="k-safe-grouping",
        topology=topology,
        setups={
            Role.SOURCE: Setup((OutputLog(),), Numbering.CONTINUED),
            Role.OPERATOR: Setup((OutputLog(), Replicas(), DuplicateFilter(), acknowledging), Numbering.INHERITED),
            Role.SINK: Setup((DuplicateFilter(), acknowledging), Numbering.INHERITED),
        },
        claims=tuple(
            Claim(
                guarantee,
                Tolerance.ONE_IN_SYNC,
                "deterministic operators, replicas apart, links that lose nothing",
                rests_on=(Activity.RESTORE, Activity.TAKE_OVER, Activity.FILTER, Activity.TRIM),
            )
            for guarantee in (k_safety(), exactly_once_output())
        ),
        replicas=k + 1,
    )
