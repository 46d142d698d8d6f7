"""Upstream backup: events are logged upstream, and nothing else survives (StreamMine3G, sections 2.2.3, 3.7.4, after
Hwang et al. 2005).

- Every slice logs what it emits, in memory, until it is acknowledged. There are no checkpoints: a crashed slice starts
  blank, and everything that upstream still has is replayed to it.
- Acknowledgement has two levels: a slice acknowledges an input once all that it made of it has been acknowledged
  downstream. So what is lost with a log can be made again, from further upstream, in the end from the source.
- An operator with a window needs its inputs until they have left it, and acknowledges them no sooner; one that keeps
  state for ever would need all of them, and is refused.
- An output's number follows from its input's, since no counter survives. So receivers know what they have taken.
"""

from __future__ import annotations

from ..harness.judging.guarantees import Guarantee, precise_recovery, rollback_recovery
from ..harness.model import Role, Topology
from ..harness.quantities import Duration, Events, events
from ..harness.slices.components import Components, Numbering
from ..harness.subject import Claim, SchemeSubject
from .requirements import bounded_fan_out, deterministic, forgetful, single_channels


def upstream_backup(
    topology: Topology, *, acknowledge_every: Events = events(100), sink_filter: bool = False
) -> SchemeSubject:
    """Claims, while the source replays, for any number of failures: without state rollback recovery (repeating), or
    precise recovery with the sink's filter; with windows rollback recovery (convergent), since a window that is filled
    again is not full at first.

    Costs an output log of the inputs in a window, and of about `acknowledge_every` events, a channel; no checkpoints.

    Raises InvalidTopology for operators that are not deterministic, keep state without a window, declare no fan-out, or
    have several input channels.
    """
    scheme = "upstream backup"
    deterministic(topology, scheme)
    forgetful(topology, scheme)
    bounded_fan_out(topology, scheme)
    single_channels(topology, scheme, "the numbers of its outputs would not rise")
    windows = [stage.operator.window for stage in topology.stages.values() if stage.operator.window is not None]
    return SchemeSubject(
        kind="upstream-backup",
        topology=topology,
        components={
            Role.SOURCE: Components(output_log=True, numbering=Numbering.CONTINUED),
            Role.OPERATOR: Components(
                output_log=True,
                duplicate_filter=True,
                numbering=Numbering.INHERITED,
                acknowledge_outputs=True,
            ),
            Role.SINK: Components(duplicate_filter=sink_filter, acknowledge_every=acknowledge_every),
        },
        claims=(Claim(_claimed(windows, sink_filter), needs="deterministic operators, a source that replays"),),
    )


def _claimed(windows: list[int], sink_filter: bool) -> Guarantee:
    if windows:
        # What a window that is filled again says of an event older than it is, differs; of a later one, it agrees.
        return rollback_recovery(converges_within=Duration(max(windows) * 1_000))
    return precise_recovery() if sink_filter else rollback_recovery()
