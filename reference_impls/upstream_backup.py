"""Upstream backup: events are logged upstream, and nothing else survives (StreamMine3G, sections 2.2.3, 3.7.4, after
Hwang et al. 2005).

- Every slice logs what it emits, in memory, until it is acknowledged. There are no checkpoints: a crashed slice starts
  blank, and everything that upstream still has is replayed to it.
- Acknowledgement has two levels: a slice acknowledges an input once all that it made of it has been acknowledged
  downstream. So what is lost with a log can be made again, from further upstream, in the end from the source.
- An operator with a window needs its inputs until they have left it, and until all outputs that are made of them have
  been acknowledged, and acknowledges them no sooner; one that keeps
  state for ever would need all of them, and is refused.
- An output's number follows from its input's, since no counter survives. So receivers know what they have taken.
"""

from __future__ import annotations

from ..harness.contracts.claims import Claim
from ..harness.contracts.subject import SchemeSubject
from ..harness.core.guarantees import Guarantee, exactly_once, precise_recovery, rollback_recovery
from ..harness.core.quantities import Duration, Events, events
from ..harness.core.slice_names import operator_of
from ..harness.core.topology import Role, Topology
from ..harness.judging.exercised import Activity
from ..harness.protocol.spec import Numbering, Setup
from .mechanisms.acknowledging import AcknowledgeEvery, AcknowledgeOutputs
from .mechanisms.duplicate_filter import DuplicateFilter
from .mechanisms.output_log import OutputLog
from .requirements import acyclic, bounded_fan_out, deterministic, filtering, forgetful, settings, single_channels


def upstream_backup(
    topology: Topology, *, acknowledge_every: Events = events(100), sink_filter: bool = False
) -> SchemeSubject:
    """Claims, while the source replays, for any number of failures: without state rollback recovery (repeating), or
    precise recovery with the sink's filter; with windows exactly-once effects, and rollback recovery (convergent),
    since a window that is filled again is not full at first. Where windows follow one another, what one of them gave
    amiss leaves the next one only after its own length: the horizon is the sum along the longest path.

    Costs an output log of the inputs in a window, and of about `acknowledge_every` events, a channel; no checkpoints.

    Raises InvalidTopology for feedback, and for operators that are not deterministic, keep state without a window,
    declare no fan-out, or have several input channels.
    """
    scheme = "upstream backup"
    deterministic(topology, scheme)
    acyclic(topology, scheme, "the numbers of outputs follow from those of a single channel of inputs")
    settings(scheme, acknowledge_every=acknowledge_every, sink_filter=sink_filter)
    forgetful(topology, scheme)
    bounded_fan_out(topology, scheme)
    single_channels(topology, scheme, "the numbers of its outputs would not rise")
    masked = (DuplicateFilter(),) if sink_filter else ()
    return SchemeSubject(
        kind="upstream-backup",
        topology=topology,
        setups={
            Role.SOURCE: Setup((OutputLog(),), Numbering.CONTINUED),
            Role.OPERATOR: Setup((OutputLog(), DuplicateFilter(), AcknowledgeOutputs()), Numbering.INHERITED),
            Role.SINK: Setup((*masked, AcknowledgeEvery(acknowledge_every))),
        },
        claims=tuple(
            Claim(
                guarantee,
                needs="deterministic operators, a source that replays",
                rests_on=(Activity.REPLAY, Activity.TRIM, *filtering(topology, sink_filter)),
            )
            for guarantee in _claimed(horizon(topology), sink_filter)
        ),
    )


def horizon(topology: Topology) -> int:
    """The sum of the windows along the path on which it is longest, in ms of event time; 0 without any."""
    longest: dict[str, int] = {}
    for slice_id in topology.slices:
        name = operator_of(slice_id)
        window = topology.stages[name].operator.window if name in topology.stages else None
        before = (longest[edge.upstream] for edge in topology.edges if edge.downstream == name)
        longest[name] = max(before, default=0) + (window or 0)
    return max(longest.values())


def _claimed(windows: int, sink_filter: bool) -> tuple[Guarantee, ...]:
    if windows:
        # What a window that is filled again says of an event older than it is, differs; of a later one, it agrees.
        return rollback_recovery(converges_within=Duration(windows * 1_000)), exactly_once()
    return (precise_recovery() if sink_filter else rollback_recovery(),)
