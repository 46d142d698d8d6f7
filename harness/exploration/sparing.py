"""When a node can be lost in a run, and every slice keeps a replica in sync: what schedules are drawn from that stay
within what such a claim tolerates."""

from __future__ import annotations

from collections import Counter

from ..core.topology import Topology
from ..judging.incarnations import losses
from ..recording.history import History
from ..recording.records import InSync

Span = tuple[int, int]
"""From when until when, in microseconds of the run."""


def in_sync_twice(history: History, topology: Topology) -> tuple[Span, ...]:
    """When every slice had two replicas or more in sync. They are on different nodes, so that one of them is left
    whichever node is lost. The last span has no end that matters."""
    lost = losses(history)
    changes: list[tuple[int, int, str]] = []
    end = 0
    for stamped in history.records:
        record = stamped.record
        end = max(end, stamped.at)
        if isinstance(record, InSync):
            key = (record.slice, record.incarnation)
            until = lost.get(key)
            if until is None or until > stamped.at:
                changes.append((stamped.at, 1, record.slice))
                if until is not None:
                    changes.append((until, -1, record.slice))
    in_sync = dict.fromkeys(topology.operator_slices, 0)
    spans: list[Span] = []
    began: int | None = None
    for at, change, slice_id in sorted(changes):
        in_sync[slice_id] += change
        safe = all(count > 1 for count in in_sync.values())
        if safe and began is None:
            began = at
        elif not safe and began is not None:
            spans.append((began, at))
            began = None
    if began is not None:
        spans.append((began, end + 1))
    return tuple(spans)


class SparedNow:
    """Whether every slice has two replicas or more in sync, where a history that goes on has come to."""

    def __init__(self, topology: Topology) -> None:
        self._slices = topology.operator_slices
        self._in_sync: list[InSync] = []
        self._read = (0, 0)
        """How many records, and entries of the timeline."""
        self._spared = False

    def __call__(self, history: History) -> bool:
        records, entries = self._read
        new = [s.record for s in history.records[records:] if isinstance(s.record, InSync)]
        if new or len(history.timeline) > entries:
            self._in_sync += new
            lost = losses(history)
            left = Counter(one.slice for one in self._in_sync if (one.slice, one.incarnation) not in lost)
            self._spared = all(left[slice_id] > 1 for slice_id in self._slices)
        self._read = len(history.records), len(history.timeline)
        return self._spared
