"""When incarnations were lost, as the timeline tells.

What stands in the timeline came from several writers, and its order is that in which they were heard. What happened
first is said by their one clock, and where it cannot tell, by cause: of one actor, the higher incarnation is the later.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..core.slice_names import slice_of
from ..recording.history import FaultStruck, History, NodeGone, Placed, TimelineEntry


def in_time(history: History) -> list[TimelineEntry]:
    """The timeline as it happened. What has one stamp stays as it was heard."""
    return sorted(history.timeline, key=lambda entry: entry.stamp.at)


def losses(history: History) -> Mapping[tuple[str, int], int]:
    """(slice, incarnation) -> when it was lost: its node was gone, or was declared lost, which may still be there, or
    another took its place."""
    return _incarnations(history)[0]


def still_there(history: History) -> frozenset[tuple[str, int]]:
    """(slice, incarnation) of those that were placed and not lost."""
    return frozenset((slice_of(actor), placed.incarnation) for actor, placed in _incarnations(history)[1].items())


def _incarnations(history: History) -> tuple[dict[tuple[str, int], int], dict[str, Placed]]:
    """What was lost when, and what runs at the end. Several ask for that; a run that goes on has more the next time."""
    asked = (_found_incarnations, len(history.timeline))
    if asked not in history.known:
        history.known[asked] = _found_incarnations(history)
    found: tuple[dict[tuple[str, int], int], dict[str, Placed]] = history.known[asked]
    return found


def _found_incarnations(history: History) -> tuple[dict[tuple[str, int], int], dict[str, Placed]]:
    found: dict[tuple[str, int], int] = {}
    running: dict[str, Placed] = {}
    nodes: dict[str, set[str]] = {}
    """Where each actor has run."""
    for entry in in_time(history):
        lost: list[str] = []
        if isinstance(entry, FaultStruck) and entry.bite.gone:
            lost = [
                actor
                for actor in entry.bite.actors
                # A node on which it ran once, and runs no more, takes nothing with it; the driver takes all slices.
                if actor in running and (running[actor].node == entry.bite.node or entry.bite.node not in nodes[actor])
            ]
        elif isinstance(entry, NodeGone):
            lost = [actor for actor, placed in running.items() if placed.node == entry.node]
        elif isinstance(entry, Placed) and entry.actor in running:
            if entry.incarnation < running[entry.actor].incarnation:
                # It begins late: its place has been taken.
                found[slice_of(entry.actor), entry.incarnation] = entry.stamp.at
                continue
            lost = [entry.actor]
        # A record can name one twice.
        for actor in dict.fromkeys(lost):
            found[slice_of(actor), running.pop(actor).incarnation] = entry.stamp.at
        if isinstance(entry, Placed):
            running[entry.actor] = entry
            nodes.setdefault(entry.actor, set()).add(entry.node)
    return found, running
