"""What a run exercised that others may not have: states of its protocol while it recovered, what was struck in which of
them, the orders in which slices came back, and mechanisms that were at work together.

Each is a number, the same in every process and on every machine, so that what is new can be told from what was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from heapq import merge
from itertools import combinations
from typing import Final

from ..core.addresses import Address
from ..core.slice_names import slice_of
from ..judging.exercised import Activity
from ..recording.history import FaultHealed, FaultStruck, History, NodeGone, TimelineEntry
from ..recording.records import CheckpointDurable, InSync, Opened, Promoted, Record, Refused, Restored, Started

_Telling = Started | Restored | Promoted | InSync | Opened | CheckpointDurable | Refused
_TELLING: Final = (Started, Restored, Promoted, InSync, Opened, CheckpointDurable, Refused)
_ORDER: Final = 4
"""How many slices that came back one after the other make an order."""

Features = frozenset[int]


def features(history: History, at_work: Iterable[Activity]) -> Features:
    """What a run exercised. What it did before the first fault struck is what every run does."""
    found = {("pair", str(one), str(other)) for one, other in combinations(sorted(at_work), 2)}
    return frozenset(map(_number, [*found, *_of_recoveries(history)]))


def _of_recoveries(history: History) -> Iterator[tuple[object, ...]]:
    stages: dict[str, str] = {}
    came_back: list[str] = []
    struck = 0
    for entry in _in_time(history):
        if isinstance(entry, FaultStruck):
            struck += 1
            where = None if entry.address is None else _kind_of(Address.parse(entry.address))
            yield "struck", where, len(entry.bite.actors), _state(stages)
            for actor in entry.bite.actors if entry.bite.gone else ():
                stages[slice_of(actor)] = "gone"
        elif isinstance(entry, NodeGone | FaultHealed):
            if struck:
                yield type(entry).__name__, _state(stages)
            continue
        elif isinstance(entry, _TELLING):
            slice_id, stage = _stage(entry)
            if isinstance(entry, Started) and struck:
                came_back = [*came_back, slice_id][-_ORDER:]
                yield "order", *came_back
            if stages.get(slice_id) == stage:
                continue
            stages[slice_id] = stage
        if struck:
            yield "state", min(struck, 3), _state(stages)


def _in_time(history: History) -> Iterator[TimelineEntry | Record]:
    told: Iterable[tuple[int, TimelineEntry | Record]] = ((s.at, s.record) for s in history.of(*_TELLING))
    timeline = [e for e in history.timeline if isinstance(e, (FaultStruck, FaultHealed, NodeGone))]
    logged: Iterable[tuple[int, TimelineEntry | Record]] = ((entry.stamp.at, entry) for entry in timeline)
    return (entry for _, entry in merge(logged, told, key=lambda one: one[0]))


def _stage(record: _Telling) -> tuple[str, str]:
    """Of which slice, and how far it has come."""
    match record:
        case Started(restored=restored):
            return record.slice, "blank" if restored is None else "from-checkpoint"
        case Opened(downstream=downstream):
            return downstream, "opening"
        case CheckpointDurable():
            return record.slice, "safe"
        case _:
            return record.slice, type(record).__name__


def _state(stages: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(stages.items()))


def _kind_of(address: Address) -> tuple[str, ...]:
    """An address without what is counted in it."""
    message = address.key.rpartition(" ")[2].partition("@")[0]
    what = "" if message.isdecimal() else message.partition("#")[0]
    return address.actor, str(address.point), str(address.side), what


def _number(feature: tuple[object, ...]) -> int:
    return int.from_bytes(blake2b(repr(feature).encode(), digest_size=6).digest())
