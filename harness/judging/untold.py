"""What ends of windows and of epochs would have told, and nobody did: a timer of event time that was due by the end of
the input and never fired, an epoch that never ended though a later one did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ..core.events import Event
from ..core.slice_names import operator_of
from ..core.topology import Role, Topology
from ..core.verdicts import Evidence
from .reexecution import Reexecution


def times_passed(topology: Topology, offered: Mapping[str, Sequence[Event]]) -> dict[str, int]:
    """Slice -> the time of the latest event that the sources which feed it have offered. Empty where nobody has timers
    of event time: then nobody asks."""
    if not any(stage.operator.by_event_time for stage in topology.stages.values()):
        return {}
    passed = {name: max((event.time for event in events), default=-1) for name, events in offered.items()}
    for group in topology.groups:
        for one in group:
            if topology.role(one) is not Role.SOURCE:
                passed[one] = max((passed.get(up, -1) for up in topology.upstream(one)), default=-1)
    return passed


def find_untold(rerun: Reexecution) -> Iterator[Evidence]:
    """Of those whose states are T, the ones with a timer that was due by the end of the input, and never fired, or with
    an epoch that has not ended for them, though a later one has."""
    for slice_id in rerun.epochs:
        for one in rerun.survivors(slice_id) if slice_id not in rerun.doubtful else ():
            for (before, _), (epoch, _) in pairwise(one.closings()):
                if epoch > before + 1:
                    yield Evidence(
                        f"epoch {before + 1:,} never ended for it, and {epoch:,} did", f"{slice_id}#{one.number}"
                    )
    passed = times_passed(rerun.topology, rerun.offered)
    for slice_id in rerun.reruns if passed else ():
        operator = rerun.topology.stages[operator_of(slice_id)].operator
        if not operator.by_event_time or slice_id in rerun.doubtful:
            continue
        for one in rerun.survivors(slice_id):
            due = None if one.last is None else operator.due(one.state)
            if due is not None and due <= passed[slice_id]:
                said = f"a timer was due at {due:,} ms, and never fired; the input has come to {passed[slice_id]:,} ms"
                yield Evidence(said, f"{slice_id}#{one.number}")
