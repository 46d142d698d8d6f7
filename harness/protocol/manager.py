"""Decides what runs where: placement of replicas, promotion of standbys, and redeployment after a node was lost.
Sans-I/O, so that one recovery runs in both worlds.

It numbers the incarnations. Whoever hosts it detects lost nodes, makes the numbers durable, and carries out what it
says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from ..core.slice_names import replica_name
from .placement import Placement, first_places


class ActiveReplicas(StrEnum):
    """Which replicas of a slice are active: send what they make."""

    ONE = "one"
    """The primary. Another is promoted when it is lost."""
    ALL = "all"
    """All that are in sync."""


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
    """It is in sync with its peers, and could be active."""

    slice_id: str
    incarnation: int


@dataclass(frozen=True)
class SliceFenced:
    """It was to be active, and the store does not let it: one that was placed after it has been active before."""

    slice_id: str
    incarnation: int


@dataclass(frozen=True)
class TogetherFrom:
    """The coordinator that decides where slices start together says: all of them from their checkpoints with this
    number; 0: blank."""

    slice_id: str
    """The coordinator."""
    incarnation: int
    round: int
    """Of the stop that it answers, or that it has heard of last."""
    cut: int


@dataclass(frozen=True)
class PlaceSlice:
    """Start this incarnation on a node: from its slice's newest durable checkpoint, or beside its peers, who have the
    state."""

    slice_id: str
    replica: int
    incarnation: int
    node: str
    initial: bool
    cut: int | None = None
    """The checkpoint to start from, where all slices start together."""


@dataclass(frozen=True)
class PromoteSlice:
    """Let this incarnation be active."""

    slice_id: str
    incarnation: int
    node: str


@dataclass(frozen=True)
class Announce:
    """Tell every node that this incarnation is there, where it runs, and whether it is active."""

    slice_id: str
    incarnation: int
    node: str
    active: bool


@dataclass(frozen=True)
class Withdraw:
    """Tell every node that this incarnation is to be listened to no more; and the one on which it may still run, to end
    it."""

    slice_id: str
    incarnation: int
    runs_on: str = ""


@dataclass(frozen=True)
class SayStopped:
    """Tell a coordinator that none of the slices runs that start together."""

    slice_id: str
    incarnation: int
    node: str
    round: int


@dataclass(frozen=True)
class Trust:
    """From now on this incarnation counts as in sync: if need be, it is the one that will be promoted. Put it on
    record."""

    slice_id: str
    incarnation: int


ManagerInput = NodeJoined | NodeLost | WaitedEnough | SliceUp | SliceReady | SliceFenced | TogetherFrom
ManagerEffect = PlaceSlice | PromoteSlice | Announce | Withdraw | Trust | SayStopped


@dataclass
class _Member:
    """One replica of a slice, as it was placed last."""

    replica: int
    incarnation: int
    node: str
    initial: bool
    up: bool = False
    ready: bool = False
    active: bool = False


class Manager:
    """Places `slices` once `nodes_wanted` nodes have joined, each replica on a node that has no other of its slice, as
    the placement says; then the coordinators, each on the least loaded node.

    A replica of a lost node goes to the least loaded node that is there (a spare one carries nothing), or waits for the
    next to join. With a standby in sync the first of these is promoted; without, the next to be placed founds its slice
    anew, from what the store has.

    Where slices restart together, the loss of one stops all of them. Then the coordinator that decides is asked from
    which cut they go on, as often as it is started before it has answered.
    """

    def __init__(
        self,
        slices: Sequence[str],
        nodes_wanted: int,
        replicas: int = 1,
        active_replicas: ActiveReplicas = ActiveReplicas.ONE,
        newest: Mapping[str, int] = MappingProxyType({}),
        *,
        coordinators: Sequence[str] = (),
        placement: Placement = Placement.LEAST_LOADED,
        restarts_by: str = "",
        alone: Collection[str] = (),
    ) -> None:
        """`newest` is what the manager before this one has given out last. All that it placed is taken for lost.
        `restarts_by` is the coordinator that decides from where all slices start together; "": each starts by itself.
        Of those that stand `alone`, there is one, however many replicas the others have.
        """
        self._slices = tuple(slices)
        self._coordinators = frozenset(coordinators)
        self._placement = placement
        self._restarts_by = restarts_by
        self._stopped = bool(restarts_by) and any(map(newest.get, slices))
        """Whether no slice may be placed until it is said from which cut."""
        self._round = int(self._stopped)
        """How often all slices were stopped."""
        self._cut: int | None = None
        self._nodes_wanted = nodes_wanted
        self._active_replicas = active_replicas
        self._load: dict[str, int] = {}
        self._homeless = [(s, replica) for replica in range(replicas) for s in slices if not replica or s not in alone]
        self._homeless += [(coordinator, 0) for coordinator in coordinators]
        self._members: dict[str, list[_Member]] = {name: [] for name in (*slices, *coordinators)}
        """In the order of their incarnations."""
        self._newest = {name: newest.get(name, 0) for name in self._members}
        self._preferred: dict[tuple[str, int], str] | None = None
        """(slice, replica) -> where the placement would have it first."""
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
        """The slices of which no replica has a node, for want of one."""
        waiting = bool(self.undecided)
        return tuple(
            slice_id
            for slice_id, members in self._members.items()
            if not members and not (waiting and slice_id not in self._coordinators)
        )

    @property
    def undecided(self) -> str:
        """The coordinator that is there, and has still to say from where all slices start together; empty where nobody
        waits for it."""
        return self._restarts_by if self._stopped and self._members[self._restarts_by] else ""

    @property
    def behind(self) -> tuple[tuple[str, int], ...]:
        """(slice, incarnation) of those that were placed and are not in sync."""
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
                member.active = member.active or member.initial
                # A coordinator has no peer to be in sync with.
                member.ready = member.ready or slice_id in self._coordinators
                return [
                    Announce(slice_id, incarnation, member.node, member.active),
                    *self._activate_one(slice_id),
                    *(self._say_stopped() if slice_id == self._restarts_by else ()),
                ]
            case SliceReady(slice_id=slice_id, incarnation=incarnation):
                member = self._member(slice_id, incarnation)
                if member is None:
                    return []
                known: list[ManagerEffect] = [] if member.ready else [Trust(slice_id, incarnation)]
                member.ready = True
                if member.active or self._active_replicas is ActiveReplicas.ONE:
                    return known
                member.active = True
                return [*known, Announce(slice_id, incarnation, member.node, True)]
            case SliceFenced(slice_id=slice_id, incarnation=incarnation):
                member = self._member(slice_id, incarnation)
                if member is None:
                    return []
                self._load[member.node] -= 1
                return [*self._dismiss(slice_id, [member]), *self._stop_after([slice_id]), *self._house()]
            case TogetherFrom(slice_id=slice_id, incarnation=incarnation):
                if given.round != self._round or self._member(slice_id, incarnation) is None:
                    return []
                stopped = [] if self._stopped else list(self._stop_all())
                self._stopped, self._cut = False, given.cut
                return [*stopped, *self._house()]

    def _member(self, slice_id: str, incarnation: int) -> _Member | None:
        return next((m for m in self._members[slice_id] if m.incarnation == incarnation), None)

    def _activate_one(self, slice_id: str) -> Iterator[ManagerEffect]:
        """Where no replica of a slice is active, and none is about to be: promote the first that is in sync; with none,
        the first that is there, so that the slice goes on."""
        members = self._members[slice_id]
        if any(member.active or member.initial for member in members):
            return
        there = [member for member in members if member.up]
        chosen = next((member for member in there if member.ready), next(iter(there), None))
        if chosen is not None:
            chosen.active = True
            yield PromoteSlice(slice_id, chosen.incarnation, chosen.node)
            yield Announce(slice_id, chosen.incarnation, chosen.node, True)

    def _evict(self, node: str) -> Iterator[ManagerEffect]:
        self._load.pop(node, None)
        lost = {name: [member for member in members if member.node == node] for name, members in self._members.items()}
        for name, members in lost.items():
            yield from self._dismiss(name, members)
        yield from self._stop_after([name for name, members in lost.items() if members])

    def _stop_after(self, lost: Sequence[str]) -> Iterator[ManagerEffect]:
        """Where slices restart together, one that was lost stops all."""
        if self._restarts_by and not self._coordinators.issuperset(lost):
            yield from self._stop_all()
            yield from self._say_stopped()

    def _stop_all(self) -> Iterator[ManagerEffect]:
        self._stopped = True
        self._round += 1
        for slice_id in self._slices:
            members, self._members[slice_id] = self._members[slice_id], []
            for member in members:
                self._load[member.node] -= 1
                self._homeless.append((slice_id, member.replica))
                yield Withdraw(slice_id, member.incarnation, member.node)

    def _say_stopped(self) -> Iterator[ManagerEffect]:
        for member in self._members[self._restarts_by] if self._stopped else ():
            if member.up:
                yield SayStopped(self._restarts_by, member.incarnation, member.node, self._round)

    def _dismiss(self, slice_id: str, lost: Sequence[_Member]) -> Iterator[ManagerEffect]:
        for member in lost:
            self._members[slice_id].remove(member)
            self._homeless.append((slice_id, member.replica))
            yield Withdraw(slice_id, member.incarnation)
        if lost:
            yield from self._activate_one(slice_id)

    def _house(self) -> list[ManagerEffect]:
        effects: list[ManagerEffect] = []
        if not self._placed:
            return effects
        if self._preferred is None:
            self._preferred = first_places(self._placement, self._slices, self._homeless, sorted(self._load))
        waiting: list[tuple[str, int]] = []
        for slice_id, replica in self._homeless:
            if self._stopped and slice_id not in self._coordinators:
                waiting.append((slice_id, replica))
                continue
            members = self._members[slice_id]
            taken = {member.node for member in members}
            free = [name for name in self._load if name not in taken]
            if not free:
                waiting.append((slice_id, replica))
                continue
            wanted = self._preferred.pop((slice_id, replica), None)
            node = wanted if wanted in free else min(free, key=lambda name: (self._load[name], name))
            self._load[node] += 1
            self._newest[slice_id] += 1
            member = _Member(replica, self._newest[slice_id], node, initial=not members)
            members.append(member)
            cut = None if slice_id in self._coordinators else self._cut
            effects.append(PlaceSlice(slice_id, replica, member.incarnation, node, member.initial, cut))
        self._homeless = waiting
        return effects
