"""How long each recovery took, in parts: detected, redeployed, restored, caught up."""

from __future__ import annotations

from dataclasses import dataclass

from ..recording.history import FaultStruck, History, NodeGone, Placed
from ..recording.records import CheckpointTaken, Started, Taken


@dataclass(frozen=True)
class Recovery:
    """One actor's way back from one fault. Durations in microseconds; None: that part was not reached."""

    fault: int
    actor: str
    incarnation: int
    """The one that took over."""
    detected: int | None
    """From the failure until it was known."""
    redeployed: int | None
    """From then until a node began to start the new incarnation."""
    restored: int | None
    """From then until its state was there."""
    caught_up: int | None
    """From then until it had reached the progress vector of the one that died."""

    @property
    def total(self) -> int | None:
        parts = (self.detected, self.redeployed, self.restored, self.caught_up)
        return None if any(part is None for part in parts) else sum(part for part in parts if part is not None)


def recoveries(history: History) -> list[Recovery]:
    """Every recovery of a slice that a fault made necessary, in the order of the faults."""
    return [
        _recovery(history, struck, actor)
        for struck in history.struck()
        if struck.bite.gone
        for actor in struck.bite.actors
    ]


def _recovery(history: History, struck: FaultStruck, actor: str) -> Recovery:
    failed = struck.stamp.at
    later = history.timeline[_place(history, struck) + 1 :]
    gone = next((e.stamp.at for e in later if isinstance(e, NodeGone) and e.node == struck.bite.node), None)
    placed = next((e for e in later if isinstance(e, Placed) and e.actor == actor), None)
    incarnation = 0 if placed is None else placed.incarnation
    started = next(
        (
            stamped.at
            for stamped in history.records
            if isinstance(stamped.record, Started)
            and stamped.record.slice == actor
            and stamped.record.incarnation == incarnation
        ),
        None,
    )
    reached = None if started is None else _reached(history, actor, incarnation)
    placed_at = None if placed is None else placed.stamp.at
    return Recovery(
        struck.number,
        actor,
        incarnation,
        _span(failed, gone),
        _span(gone, placed_at),
        _span(placed_at, started),
        _span(started, reached),
    )


def _place(history: History, struck: FaultStruck) -> int:
    """By identity: an entry with the same stamp can have come before the fault."""
    return next(place for place, entry in enumerate(history.timeline) if entry is struck)


def _span(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else max(0, end - start)


def _reached(history: History, actor: str, incarnation: int) -> int | None:
    """When the new incarnation had seen of every upstream slice as much as any before it, what its checkpoint had seen
    included."""
    before: dict[str, int] = {}
    marks: dict[int, dict[str, int]] = {}
    in_checkpoint: dict[tuple[int, int], dict[str, int]] = {}
    mine = [
        (stamped.at, stamped.record)
        for stamped in history.records
        if isinstance(stamped.record, Taken | Started | CheckpointTaken) and stamped.record.slice == actor
    ]
    # What a dead node has said can be read after what its successor says.
    for at, record in sorted(mine, key=lambda one: one[1].incarnation):
        if isinstance(record, Started):
            restored = {} if record.restored is None else in_checkpoint.get(record.restored, {})
            marks[record.incarnation] = dict(restored)
        elif isinstance(record, CheckpointTaken):
            in_checkpoint[record.incarnation, record.number] = dict(marks.get(record.incarnation, {}))
        else:
            mark = marks.setdefault(record.incarnation, {})
            mark[record.upstream] = max(mark.get(record.upstream, 0), record.last)
        if record.incarnation < incarnation:
            for upstream, seq in marks.get(record.incarnation, {}).items():
                before[upstream] = max(before.get(upstream, 0), seq)
        elif record.incarnation == incarnation:
            now = marks[incarnation]
            if all(now.get(upstream, 0) >= seq for upstream, seq in before.items()):
                return at
    return None
