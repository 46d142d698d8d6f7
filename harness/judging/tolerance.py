"""How many failures a claim holds for, and whether a history goes beyond that."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..model import Topology
from ..recording.history import Drained, History
from ..recording.records import InStep
from .lives import losses
from .verdicts import Anomaly, Evidence, Tally, tally


class Tolerance(StrEnum):
    ANY = "for any number of failures"
    ONE_IN_STEP = "as long as each slice keeps one replica in step"


def beyond(history: History, tolerance: Tolerance, topology: Topology) -> str:
    """Why a history goes beyond what a claim tolerates; empty when it does not.

    What happens at the same time as a loss happens after it.
    """
    match tolerance:
        case Tolerance.ONE_IN_STEP:
            return _none_in_step(history, topology)
        case Tolerance.ANY:
            return ""


def never_in_step(history: History) -> tuple[Tally, ...]:
    """Replicas that were placed and did not get in step, though the run had come to rest. A claim that tolerates a
    failure only when there is a replica in step promises that there will be one again, or it would say nothing of the
    next failure."""
    behind = [one for entry in history.timeline if isinstance(entry, Drained) for one in entry.behind]
    evidence = (Evidence(f"#{incarnation} never got in step", slice_id) for slice_id, incarnation in behind)
    return (tally(Anomaly.STALL, len(behind), evidence),) if behind else ()


@dataclass(frozen=True)
class _Change:
    """An incarnation of a slice was lost, or is in step."""

    at: int
    slice_id: str
    incarnation: int
    lost: bool


def _changes(history: History, topology: Topology) -> list[_Change]:
    """In the order of time, until the end of the input has passed through: what comes later harms nobody."""
    slices = set(topology.operator_slices)
    ended = next((entry.stamp.at for entry in history.timeline if isinstance(entry, Drained)), None)
    stepped = [
        _Change(stamped.at, record.slice, record.incarnation, False)
        for stamped in history.records
        if isinstance(record := stamped.record, InStep)
    ]
    lost = losses(history)
    changes = [_Change(at, slice_id, incarnation, True) for (slice_id, incarnation), at in lost.items()]
    changes += [s for s in stepped if s.at < lost.get((s.slice_id, s.incarnation), s.at + 1)]
    changes.sort(key=lambda change: (change.at, not change.lost))
    return [c for c in changes if c.slice_id in slices and (ended is None or c.at <= ended)]


def _none_in_step(history: History, topology: Topology) -> str:
    in_step: dict[str, set[int]] = {}
    for change in _changes(history, topology):
        known = in_step.setdefault(change.slice_id, set())
        if not change.lost:
            known.add(change.incarnation)
        else:
            known.discard(change.incarnation)
            if not known:
                return f"{change.slice_id} lost #{change.incarnation} when no other replica of it was in step"
    never = [slice_id for slice_id in topology.operator_slices if not in_step.get(slice_id)]
    if never and any(history.struck()):
        return f"{never[0]} was hit before any replica of it was in step"
    return ""
