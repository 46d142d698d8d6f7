"""Decides what runs where: placement of replicas, promotion of standbys, and redeployment after a node was lost.
Sans-I/O, so that one recovery runs in both worlds.

It numbers the incarnations. Whoever hosts it detects lost nodes, makes the numbers durable, and carries out what it
says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from ..core.model import replica_name


class Speaking(StrEnum):
    """Which replicas of a slice speak for it."""

    ONE = "one"
    """The primary. Another is promoted when it is lost."""
    ALL = "all"
    """All that are in step."""


@dataclass(frozen=True)
class NodeJoined:
    node: str


@dataclass(frozen=True)
class NodeLost:
    node: str


@dataclass(frozen=True)
class WaitedEnough:
    """Nodes that have not joined yet may be gone for good: those that are there must do."""


@dataclass(frozen=True)
class SliceUp:
    """A node runs this incarnation of a slice now."""

    slice_id: str
    incarnation: int


@dataclass(frozen=True)
class SliceReady:
    """It is in step with its fellows, and could speak for its slice."""

    slice_id: str
    incarnation: int


@dataclass(frozen=True)
class SliceFenced:
    """It was to speak for its slice, and the store lets it no more: one that was placed after it has spoken before."""

    slice_id: str
    incarnation: int


@dataclass(frozen=True)
class PlaceSlice:
    """Start this incarnation on a node: from its slice's newest durable checkpoint, or beside its fellows, who have the
    state."""

    slice_id: str
    replica: int
    incarnation: int
    node: str
    founder: bool


@dataclass(frozen=True)
class PromoteSlice:
    """Let this incarnation speak for its slice."""

    slice_id: str
    incarnation: int
    node: str


@dataclass(frozen=True)
class Announce:
    """Tell every node that this incarnation is there, where it runs, and whether it speaks for its slice."""

    slice_id: str
    incarnation: int
    node: str
    speaks: bool


@dataclass(frozen=True)
class Withdraw:
    """Tell every node that this incarnation is to be listened to no more."""

    slice_id: str
    incarnation: int


@dataclass(frozen=True)
class Trust:
    """From now on this incarnation counts as in step: if need be, it is the one that will be promoted. Put it on
    record."""

    slice_id: str
    incarnation: int


ManagerInput = NodeJoined | NodeLost | WaitedEnough | SliceUp | SliceReady | SliceFenced
ManagerEffect = PlaceSlice | PromoteSlice | Announce | Withdraw | Trust


@dataclass
class _Member:
    """One replica of a slice, as it was placed last."""

    replica: int
    incarnation: int
    node: str
    founder: bool
    up: bool = False
    ready: bool = False
    speaks: bool = False


class Manager:
    """Places `slices` once `nodes_wanted` nodes have joined, each replica on the least loaded node that has no other of
    its slice, ties by name.

    A replica of a lost node goes to the least loaded node that is there (a spare one carries nothing), or waits for the
    next to join. With a standby in step the first of these is promoted; without, the next to be placed founds its slice
    anew, from what the store has.
    """

    def __init__(
        self,
        slices: Sequence[str],
        nodes_wanted: int,
        replicas: int = 1,
        speaking: Speaking = Speaking.ONE,
        newest: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """`newest` is what the manager before this one has given out last. All that it placed is taken for lost."""
        self._slices = tuple(slices)
        self._nodes_wanted = nodes_wanted
        self._speaking = speaking
        self._load: dict[str, int] = {}
        self._homeless = [(slice_id, replica) for replica in range(replicas) for slice_id in slices]
        self._members: dict[str, list[_Member]] = {slice_id: [] for slice_id in slices}
        """In the order of their incarnations."""
        self._newest = {slice_id: newest.get(slice_id, 0) for slice_id in slices}
        self._placed = False

    @property
    def node_of(self) -> dict[str, str]:
        """Replica -> the node that it was placed on."""
        return {
            replica_name(slice_id, member.replica): member.node
            for slice_id, members in self._members.items()
            for member in members
        }

    @property
    def newest(self) -> dict[str, int]:
        """Slice -> the highest incarnation that was given out. To be made durable before a placement is carried out, so
        that no number is ever given out again."""
        return dict(self._newest)

    @property
    def homeless(self) -> tuple[str, ...]:
        """The slices of which no replica has a node."""
        return tuple(slice_id for slice_id, members in self._members.items() if not members)

    @property
    def behind(self) -> tuple[tuple[str, int], ...]:
        """(slice, incarnation) of those that were placed and are not in step."""
        return tuple((s, m.incarnation) for s, members in self._members.items() for m in members if not m.ready)

    def on(self, given: ManagerInput) -> list[ManagerEffect]:
        match given:
            case NodeJoined(node=node):
                # A node that joins again has forgotten what it ran, whether or not its loss was noticed.
                effects = list(self._evict(node))
                self._load[node] = 0
                self._placed = self._placed or len(self._load) >= self._nodes_wanted
                return [*effects, *self._house()]
            case NodeLost(node=node):
                return [*self._evict(node), *self._house()]
            case WaitedEnough():
                self._nodes_wanted = 1
                self._placed = self._placed or bool(self._load)
                return self._house()
            case SliceUp(slice_id=slice_id, incarnation=incarnation):
                member = self._member(slice_id, incarnation)
                if member is None:
                    return []
                member.up = True
                member.speaks = member.speaks or member.founder
                return [
                    Announce(slice_id, incarnation, member.node, member.speaks),
                    *self._give_voice(slice_id),
                ]
            case SliceReady(slice_id=slice_id, incarnation=incarnation):
                member = self._member(slice_id, incarnation)
                if member is None:
                    return []
                known: list[ManagerEffect] = [] if member.ready else [Trust(slice_id, incarnation)]
                member.ready = True
                if member.speaks or self._speaking is Speaking.ONE:
                    return known
                member.speaks = True
                return [*known, Announce(slice_id, incarnation, member.node, True)]
            case SliceFenced(slice_id=slice_id, incarnation=incarnation):
                member = self._member(slice_id, incarnation)
                if member is None:
                    return []
                self._load[member.node] -= 1
                return [*self._dismiss(slice_id, [member]), *self._house()]

    def _member(self, slice_id: str, incarnation: int) -> _Member | None:
        return next((m for m in self._members[slice_id] if m.incarnation == incarnation), None)

    def _give_voice(self, slice_id: str) -> Iterator[ManagerEffect]:
        """Where nobody speaks for a slice, and nobody is about to: promote the first that is in step; with none, the
        first that is there, so that the slice goes on."""
        members = self._members[slice_id]
        if any(member.speaks or member.founder for member in members):
            return
        there = [member for member in members if member.up]
        chosen = next((member for member in there if member.ready), next(iter(there), None))
        if chosen is not None:
            chosen.speaks = True
            yield PromoteSlice(slice_id, chosen.incarnation, chosen.node)
            yield Announce(slice_id, chosen.incarnation, chosen.node, True)

    def _evict(self, node: str) -> Iterator[ManagerEffect]:
        self._load.pop(node, None)
        for slice_id, members in self._members.items():
            yield from self._dismiss(slice_id, [member for member in members if member.node == node])

    def _dismiss(self, slice_id: str, lost: Sequence[_Member]) -> Iterator[ManagerEffect]:
        for member in lost:
            self._members[slice_id].remove(member)
            self._homeless.append((slice_id, member.replica))
            yield Withdraw(slice_id, member.incarnation)
        if lost:
            yield from self._give_voice(slice_id)

    def _house(self) -> list[ManagerEffect]:
        effects: list[ManagerEffect] = []
        if not self._placed:
            return effects
        waiting: list[tuple[str, int]] = []
        for slice_id, replica in self._homeless:
            members = self._members[slice_id]
            taken = {member.node for member in members}
            free = [name for name in self._load if name not in taken]
            if not free:
                waiting.append((slice_id, replica))
                continue
            node = min(free, key=lambda name: (self._load[name], name))
            self._load[node] += 1
            self._newest[slice_id] += 1
            member = _Member(replica, self._newest[slice_id], node, founder=not members)
            members.append(member)
            effects.append(PlaceSlice(slice_id, replica, member.incarnation, node, member.founder))
        self._homeless = waiting
        return effects
