"""Where the manager puts replicas first: policies, as data. What is lost later goes to the least loaded node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum


class Placement(StrEnum):
    """How replicas are spread over nodes (StreamMine3G, section 6.2.4)."""

    LEAST_LOADED = "least-loaded"
    """Each on the node that has the fewest, ties by name."""
    CHAINED = "chained"
    """The secondaries of a node's primaries all on the next node: who loses one node doubles another's load."""
    INTERLEAVED = "interleaved"
    """The secondaries of a node's primaries on different other nodes, as evenly as can be: each other gets at most its
    share of what a node loses."""


def first_places(
    placement: Placement, slices: Sequence[str], replicas: Iterable[tuple[str, int]], nodes: Sequence[str]
) -> dict[tuple[str, int], str]:
    """(slice, replica) -> the node that it is put on first, of nodes in the order of their names; nothing where that is
    decided one by one. Primaries go round the nodes in the order of slices."""
    if placement is Placement.LEAST_LOADED or len(nodes) < 2:
        return {}
    places = {slice_id: place for place, slice_id in enumerate(slices)}
    found: dict[tuple[str, int], str] = {}
    for slice_id, replica in replicas:
        if slice_id not in places:
            continue
        turn, home = divmod(places[slice_id], len(nodes))
        if replica and placement is Placement.INTERLEAVED:
            # Over the others in turn, a step further for each primary that the node has.
            away = 1 + (turn + replica - 1) % (len(nodes) - 1)
        else:
            away = replica
        found[slice_id, replica] = nodes[(home + away) % len(nodes)]
    return found
