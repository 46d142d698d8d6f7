"""Decides what runs where: placement, and redeployment after a node was lost. Sans-I/O, so that one recovery runs in
both worlds.

It numbers the incarnations. Whoever hosts it detects lost nodes and carries out what it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class NodeJoined:
    node: str


@dataclass(frozen=True)
class NodeLost:
    node: str


@dataclass(frozen=True)
class SliceUp:
    """A node runs this incarnation of a slice now."""

    slice_id: str
    incarnation: int


@dataclass(frozen=True)
class Place:
    """Start this incarnation of a slice on a node, from its newest durable checkpoint."""

    slice_id: str
    incarnation: int
    node: str


@dataclass(frozen=True)
class Announce:
    """Tell every node that this incarnation speaks for its slice, and where it runs."""

    slice_id: str
    incarnation: int
    node: str


ManagerInput = NodeJoined | NodeLost | SliceUp
ManagerEffect = Place | Announce


class Manager:
    """Places `slices` once `nodes_wanted` nodes have joined, each on the least loaded node, ties by name.

    A slice of a lost node goes to the least loaded node that is there (a spare one carries nothing), or waits for the
    next to join.
    """

    def __init__(self, slices: Sequence[str], nodes_wanted: int) -> None:
        self._slices = tuple(slices)
        self._nodes_wanted = nodes_wanted
        self._load: dict[str, int] = {}
        self._homeless: list[str] = list(slices)
        self._placed = False
        self.node_of: dict[str, str] = {}
        self.incarnation_of: dict[str, int] = dict.fromkeys(slices, 0)

    def on(self, given: ManagerInput) -> list[ManagerEffect]:
        match given:
            case NodeJoined(node=node):
                # A node that joins again has forgotten what it ran, whether or not its loss was noticed.
                self._evict(node)
                self._load[node] = 0
                self._placed = self._placed or len(self._load) >= self._nodes_wanted
                return self._house()
            case NodeLost(node=node):
                self._evict(node)
                return self._house()
            case SliceUp(slice_id=slice_id, incarnation=incarnation):
                if incarnation != self.incarnation_of[slice_id] or slice_id not in self.node_of:
                    return []
                return [Announce(slice_id, incarnation, self.node_of[slice_id])]

    def _evict(self, node: str) -> None:
        self._load.pop(node, None)
        evicted = [s for s in self._slices if self.node_of.get(s) == node]
        for slice_id in evicted:
            del self.node_of[slice_id]
        self._homeless += evicted

    def _house(self) -> list[ManagerEffect]:
        effects: list[ManagerEffect] = []
        while self._placed and self._homeless and self._load:
            slice_id = self._homeless.pop(0)
            node = min(self._load, key=lambda name: (self._load[name], name))
            self._load[node] += 1
            self.node_of[slice_id] = node
            self.incarnation_of[slice_id] += 1
            effects.append(Place(slice_id, self.incarnation_of[slice_id], node))
        return effects
