"""Whether a history can show that something was lost: it came to its end, and left what it kept."""

from __future__ import annotations

from math import inf

from ..recording.history import Aborted, Drained, History, Stalled
from ..recording.records import InSync
from .incarnations import still_there
from .reexecution import Reexecution


def why_inconclusive(history: History, rerun: Reexecution) -> str:
    reason = why_incomplete(history)
    if reason:
        return reason
    missing = [s for s in rerun.topology.operator_slices if s not in rerun.kept]
    if missing:
        return f"the state of {', '.join(missing)} was not recorded at the end"
    for slice_id, states in rerun.kept.items():
        alive = [rerun.reruns[slice_id][number] for number in states if number in rerun.reruns[slice_id]]
        for one in alive:
            if rerun.replaced(one):
                return f"the state of {slice_id} was recorded of incarnation {one.number}, which is not its last"
        in_sync = rerun.in_sync.get(slice_id)
        if in_sync is not None and all(one.number not in in_sync for one in alive):
            return f"no replica of {slice_id} was in sync at the end"
    return _unseen(history, rerun)


def _unseen(history: History, rerun: Reexecution) -> str:
    """Which incarnation was there at the end, and left no record of what it kept: one that works, or that is in sync
    where all replicas work. Who got in sync after the end had no part in the run."""
    running = still_there(history)
    end = next((entry.stamp.at for entry in history.timeline if isinstance(entry, Drained)), inf)
    for slice_id, reruns in rerun.reruns.items():
        for number in sorted(reruns.keys() - rerun.kept[slice_id].keys()):
            works = reruns[number].took or slice_id in rerun.all_work
            in_sync = rerun.in_sync.get(slice_id)
            if (slice_id, number) not in running or not works:
                continue
            if in_sync is None or (number in in_sync and _in_sync_at(history, slice_id, number) <= end):
                return f"{slice_id}#{number} was there at the end, and what it kept was not recorded"
    return ""


def _in_sync_at(history: History, slice_id: str, number: int) -> float:
    known = (
        stamped.at
        for stamped in history.of(InSync)
        if isinstance(stamped.record, InSync)
        and (stamped.record.slice, stamped.record.incarnation) == (slice_id, number)
    )
    return next(known, inf)


def why_incomplete(history: History) -> str:
    """Why a history cannot show that something was lost; empty when it can."""
    for entry in history.timeline:
        if type(entry) is Aborted:
            return entry.why
        if type(entry) is Stalled:
            return f"stall: {entry.waiting_for}"
    if not history.sealed:
        return "the run ended before its records were sealed"
    if not history.drained:
        return "stall: the end of the input did not pass through"
    return ""


def why_stalled(history: History) -> str:
    """What a subject waits for in vain; empty where it is not proven to."""
    return next((entry.waiting_for for entry in history.timeline if isinstance(entry, Stalled)), "")
