"""Disturbs packets between nodes: puts obstacles up in the namespaces of their containers, and takes them down."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from ...core.carriers import PACKET_QUEUE, PACKET_RULES, PACKET_SHAPER
from ...core.errors import OwnFailure, Unsupported
from ...core.quantities import ms
from ...recording.history import Proof
from ..spark.control.disturbances import CutPackets, DelayPackets, DropPackets, NarrowPackets, NodePairs, ResetPackets
from . import delaying, rules, shaping
from .obstacles import AddressOf, Obstacle, by_sender
from .sidecars import Sidecars, python

T = TypeVar("T")
OfPackets = CutPackets | ResetPackets | DropPackets | DelayPackets | NarrowPackets
TRIALS: Mapping[str, Callable[[NodePairs], Sequence[OfPackets]]] = {
    PACKET_RULES: lambda pairs: (CutPackets(pairs), ResetPackets(pairs), DropPackets(pairs, 0.5)),
    PACKET_QUEUE: lambda pairs: (DelayPackets(pairs, ms(1), None, 0),),
    PACKET_SHAPER: lambda pairs: (NarrowPackets(pairs, 1_000),),
}
"""What shows whether a kernel can do it, by what carries it."""
_PROBE_SECONDS = 3.0
"""Long enough for a first segment that was lost to be sent again, after 1 s."""


@dataclass
class _Place:
    """The network of a node's present container, and what stands in it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    container: str = ""
    sidecar: str = ""
    standing: dict[int, _PacketsInForce] = field(default_factory=dict)


class PacketCarrier:
    """Every node has a sidecar from its start on, so that a disturbance takes no longer than a command there."""

    carries = (CutPackets, ResetPackets, DropPackets, DelayPackets, NarrowPackets)

    def __init__(self, sidecars: Sidecars, address: AddressOf, planned: Iterable[str]) -> None:
        """`planned` is by what the packets of this cluster will be disturbed."""
        self._sidecars = sidecars
        self._address = address
        self._untried = [TRIALS[name] for name in TRIALS if name in planned]
        self._trying = threading.Lock()
        self._places: dict[str, _Place] = {}
        self._numbers = itertools.count(1)
        self._isolating: list[_PacketsInForce] = []
        """What cuts nodes off from all others."""
        self._isolation = threading.RLock()
        """For a node that is new, and what it is to be cut off from."""

    def disturb(self, disturbance: OfPackets) -> _PacketsInForce:
        number = next(self._numbers)
        made = self._obstacle(disturbance, number)
        if isinstance(disturbance, DelayPackets | NarrowPackets):
            self._refuse_twice(disturbance)
        in_force = _PacketsInForce(self, disturbance, number, made)
        _at_once(lambda node: self._put_up(node, in_force), made.put_up)
        if isinstance(disturbance, CutPackets) and disturbance.isolated:
            with self._isolation:
                self._isolating.append(in_force)
        return in_force

    def node_started(self, node: str, container: str) -> None:
        """What stands in the network of the container before is taken down there, for what it has counted.

        Raises Unsupported, at the first node, for what this machine's kernel cannot do.
        """
        self._cut_off(node)
        place = self._place(node)
        with place.lock:
            before, place.container = place.sidecar, container
            place.sidecar = self._sidecars.start(container)
            self._try_all(node, place.sidecar)
            for in_force in place.standing.values():
                if before:
                    in_force.said.append(self._sidecars.run(before, in_force.obstacle.take_down[node]))
                self._sidecars.run(place.sidecar, in_force.obstacle.put_up[node], heard=False)
            if before:
                self._sidecars.remove(before)

    def _cut_off(self, node: str) -> None:
        """A node that is new, from those that are isolated."""
        with self._isolation:
            for in_force in self._isolating:
                isolated = in_force.isolated
                if node in in_force.nodes:
                    continue
                there = tuple((one, node) for one in isolated)
                back = tuple((node, one) for one in isolated)
                in_force.from_newcomers[node] = self.disturb(CutPackets((*there, *back)))

    def isolate_no_more(self, in_force: _PacketsInForce) -> None:
        """From now on no node that is new is cut off by this."""
        with self._isolation:
            if in_force in self._isolating:
                self._isolating.remove(in_force)

    def _try_all(self, node: str, sidecar: str) -> None:
        with self._trying:
            disturbances = [one for trial in self._untried for one in trial(((node, node),))]
            made = [self._obstacle(one, next(self._numbers)) for one in disturbances]
            commands = "\n".join(f"(\n{one.put_up[node]}\n{one.take_down[node]}\n)" for one in made)
            try:
                if made:
                    self._sidecars.run(sidecar, commands, heard=False)
            except OwnFailure as problem:
                raise Unsupported(
                    f"packets cannot be disturbed on this machine, as the kernel lacks what that needs: {problem}"
                ) from problem
            self._untried.clear()

    def _obstacle(self, disturbance: OfPackets, number: int) -> Obstacle:
        match disturbance:
            case CutPackets() | ResetPackets() | DropPackets():
                return rules.obstacle(disturbance, number, self._address)
            case DelayPackets():
                return delaying.obstacle(disturbance, number, self._address)
            case NarrowPackets():
                return shaping.obstacle(disturbance, number, self._address)

    def _refuse_twice(self, disturbance: DelayPackets | NarrowPackets) -> None:
        """A packet is held once only, and belongs to one class."""
        taken = {pair for other in self._standing() if type(other) is type(disturbance) for pair in other.pairs}
        twice = sorted(taken.intersection(disturbance.pairs))
        if twice:
            what = "delayed" if isinstance(disturbance, DelayPackets) else "made narrow"
            sender, receiver = twice[0]
            raise Unsupported(f"packets from {sender} to {receiver} are {what} already: let one heal before the other")

    def _standing(self) -> list[OfPackets]:
        return [one.disturbance for place in list(self._places.values()) for one in list(place.standing.values())]

    def _put_up(self, node: str, in_force: _PacketsInForce) -> None:
        """Where the node was never started, as soon as it is."""
        place = self._place(node)
        with place.lock:
            place.standing[in_force.number] = in_force
            if place.sidecar:
                self._sidecars.run(place.sidecar, in_force.obstacle.put_up[node], heard=False)

    def _take_down(self, node: str, in_force: _PacketsInForce) -> None:
        place = self._place(node)
        with place.lock:
            del place.standing[in_force.number]
            if place.sidecar:
                in_force.said.append(self._sidecars.run(place.sidecar, in_force.obstacle.take_down[node]))

    def _place(self, node: str) -> _Place:
        return self._places.setdefault(node, _Place())

    def take_down(self, in_force: _PacketsInForce) -> None:
        """Raises OwnFailure where something is left, or where packets do not get through."""
        _at_once(lambda node: self._take_down(node, in_force), in_force.obstacle.take_down)
        self._probe(in_force.disturbance)

    def _probe(self, disturbance: OfPackets) -> None:
        """Between running nodes that nothing else disturbs."""
        disturbed = {frozenset(pair) for other in self._standing() for pair in other.pairs}
        pairs = [pair for pair in dict.fromkeys(disturbance.pairs) if frozenset(pair) not in disturbed]
        containers = {node: self._place(node).container for pair in pairs for node in pair}
        up = _at_once(self._sidecars.runs, filter(None, containers.values()))
        receivers = by_sender(pair for pair in pairs if all(up.get(containers[node]) for node in pair))
        _at_once(lambda sender: self._probe_from(sender, receivers[sender], containers), receivers)

    def _probe_from(self, sender: str, receivers: Sequence[str], containers: Mapping[str, str]) -> None:
        names = {self._address(receiver): receiver for receiver in receivers}
        try:
            reached = self._sidecars.run(
                self._places[sender].sidecar, python("probe", f"{_PROBE_SECONDS:g}", *names)
            ).split()
        except OwnFailure:
            if self._still(sender, containers[sender]):
                raise
            return  # Its sidecar was taken away with the container before.
        for address in names.keys() - reached:
            # A node that has ended meanwhile answers nobody.
            if all(self._still(node, containers[node]) for node in (sender, names[address])):
                raise OwnFailure(
                    f"packets from {sender} to {names[address]} ({address}) do not get through, {_PROBE_SECONDS:g} s "
                    "after all that disturbed them was removed"
                )

    def _still(self, node: str, container: str) -> bool:
        return self._places[node].container == container and self._sidecars.runs(container)


@dataclass(eq=False)
class _PacketsInForce:
    carrier: PacketCarrier
    disturbance: OfPackets
    number: int
    obstacle: Obstacle
    said: list[str] = field(default_factory=list)
    """By what was taken down."""
    from_newcomers: dict[str, _PacketsInForce] = field(default_factory=dict)
    """What cuts those off from isolated nodes that the cluster did not have at first."""

    @property
    def isolated(self) -> tuple[str, ...]:
        return self.disturbance.isolated if isinstance(self.disturbance, CutPackets) else ()

    @property
    def nodes(self) -> frozenset[str]:
        """Those that are disturbed."""
        return frozenset((*self.isolated, *itertools.chain(*self.disturbance.pairs), *self.from_newcomers))

    def heal(self) -> Proof:
        self.carrier.isolate_no_more(self)
        self.carrier.take_down(self)
        for other in self.from_newcomers.values():
            other.heal()
            self.said += other.said
        return self.obstacle.proof(self.said)


def _at_once(do: Callable[[str], T], names: Iterable[str]) -> Mapping[str, T]:
    """All of them, also where one fails; then its error."""
    names = list(names)
    with ThreadPoolExecutor(max_workers=max(1, len(names))) as pool:
        return dict(zip(names, pool.map(do, names), strict=True))
