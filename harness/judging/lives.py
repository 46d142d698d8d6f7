"""When incarnations were lost, as the timeline tells."""

from __future__ import annotations

from ..model import slice_of
from ..recording.history import FaultStruck, History, NodeGone, Placed


def losses(history: History) -> dict[tuple[str, int], int]:
    """(slice, incarnation) -> when it was lost: its node was gone, or was declared lost, which may still be there, or
    another took its place."""
    return _lives(history)[0]


def still_there(history: History) -> frozenset[tuple[str, int]]:
    """(slice, incarnation) of those that were placed and not lost."""
    return frozenset((slice_of(actor), placed.incarnation) for actor, placed in _lives(history)[1].items())


def _lives(history: History) -> tuple[dict[tuple[str, int], int], dict[str, Placed]]:
    """What was lost when, and what runs at the end."""
    found: dict[tuple[str, int], int] = {}
    running: dict[str, Placed] = {}
    for entry in history.timeline:
        lost: list[str] = []
        if isinstance(entry, FaultStruck) and entry.bite.gone:
            lost = [actor for actor in entry.bite.actors if actor in running]
        elif isinstance(entry, NodeGone):
            lost = [actor for actor, placed in running.items() if placed.node == entry.node]
        elif isinstance(entry, Placed) and entry.actor in running:
            lost = [entry.actor]
        for actor in lost:
            found[slice_of(actor), running.pop(actor).incarnation] = entry.stamp.at
        if isinstance(entry, Placed):
            running[entry.actor] = entry
    return found, running
