"""Carries faults out in the simulated world, heals them, and logs both with their proof."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from random import Random
from typing import Final, Protocol

from ...contracts.inflicting import inflict
from ...contracts.injection import FaultKind, Link, Machines, single
from ...core.places import Places
from ...core.quantities import Duration
from ...core.schedule import Fault
from ...protocol.controller import Strike
from ...recording.history import Bite, FaultHealed, FaultStruck, Proof, Stamp
from ...recording.recorder import Recorder
from .disk import Disks, FailingDisk, SlowedDisk
from .event_queue import EventQueue
from .network import Direction as Connection
from .network import Network, Path


class SimulatedNode(Protocol):
    """One simulated machine, as faults see it."""

    name: str
    alive: bool
    boot: int
    lost: bool

    put_off: int

    @property
    def actors(self) -> tuple[str, ...]:
        """The names of the replicas that run there."""

    @property
    def incarnations(self) -> tuple[tuple[str, int], ...]:
        """Of the slices that run there."""

    @property
    def under_way(self) -> tuple[str, ...]:
        """Where work takes time: the addresses after which what is worked on there would have been taken."""


class Victims(Protocol):
    """The world, as faults see it."""

    network: Network
    disks: Disks

    def outstanding(self) -> bool:
        """Whether input is still to be processed."""

    def node_of(self, target: str) -> SimulatedNode | None:
        """The node of this name, or that runs the actor of this name."""

    def has_begun(self, node: SimulatedNode) -> bool:
        """Whether any of those that run on a node, or are about to be started there, was ever started."""

    def ends_of(self, name: str) -> tuple[str, ...]:
        """The ends of links that a name stands for."""

    def kill(self, node: SimulatedNode) -> None: ...

    def freeze(self, node: SimulatedNode) -> None: ...

    def let_go(self, node: SimulatedNode) -> None:
        """One who has frozen it does so no more."""

    def reconnect(self, link: Connection) -> None:
        """Let the sender on a broken link notice that it is."""


_Heal = Callable[[], Proof]
_LOST_WITH_IT: Final = "messages handed over and lost"
_NOBODY: Final = Proof(0, "slices that had begun there")
"""That whatever died had nobody on it, and nobody who was to come back: no slice has failed."""


class Injector:
    """Faults of one run."""

    def __init__(
        self,
        world: Victims,
        kinds: Mapping[str, FaultKind],
        event_queue: EventQueue,
        recorder: Recorder,
        stamp: Callable[[], Stamp],
        places: Places,
        seed: int,
    ) -> None:
        self._world = world
        self._places = places
        self._seed = seed
        self._kinds = kinds
        self._event_queue = event_queue
        # Not its `log` by itself: one that is carried to another process is the recorder that it passes on to.
        self._recorder = recorder
        self._stamp = stamp
        self._in_force: dict[int, tuple[Strike, list[tuple[str, _Heal]]]] = {}

    def strike(self, strike: Strike) -> None:
        number, fault = strike.number, strike.fault
        random = Random(f"{self._seed}/{number}")
        machines = _Machines(self._world, self._places, random, lambda: self.heal(number))
        address = None if strike.address is None else str(strike.address)
        for bite in inflict(self._kinds[fault.kind], machines, fault):
            under_way = machines.under_way.get(bite.node or "", ())
            self._recorder.log(FaultStruck(self._stamp(), number, str(fault), address, bite, under_way=under_way))
        if machines.lasting:
            self._in_force[number] = strike, machines.lasting
            if fault.duration is not None:
                self._event_queue.later(fault.duration.micros, self.heal, number)

    def would_bite(self, number: int, fault: Fault) -> bool:
        """Whether it would bite all of its targets now, as the one of that number. Raises Unsupported for what shows
        only when it heals."""
        foreseen = _Foreseen(self._world, self._places, Random(f"{self._seed}/{number}"))
        return all(bite.bit for bite in inflict(self._kinds[fault.kind], foreseen, fault))

    def heal(self, number: int) -> None:
        """End a fault, if it is in force."""
        strike, lasting = self._in_force.pop(number, (None, []))
        for target, heal in lasting:
            assert strike is not None
            proof = heal()
            self._recorder.log(FaultHealed(self._stamp(), number, str(strike.fault), target, proof))

    def heal_all(self) -> bool:
        """The end of the run has come for all that is in force. Returns whether anything was."""
        numbers = list(self._in_force)
        for number in numbers:
            self.heal(number)
        return bool(numbers)


class _Machines(Machines):
    """The simulated cluster, for one fault."""

    def __init__(self, world: Victims, places: Places, random: Random, heal: Callable[[], None]) -> None:
        self.lasting: list[tuple[str, _Heal]] = []
        """Targets, and what ends what is done to them."""
        self.under_way: dict[str, tuple[str, ...]] = {}
        """Node that was crashed -> the addresses of the work that was lost with it."""
        self._world = world
        self._places = places
        self._random = random
        self._heal = heal

    def crash(self, targets: Sequence[str], *, lose_handed_over: bool = False) -> list[Bite]:
        """Only a node that was alive, before all was drained, counts as a bite."""
        outstanding = self._world.outstanding()
        hit, nowhere = _nodes(self._world, self._places, self._random, targets)
        ran = _running(self._world, hit)
        self.under_way = {node.name: node.under_way for _, node in hit}
        for _, node in hit:
            self._world.kill(node)
        return _crashed(ran, nowhere, outstanding, self._world.network.lose_sent_by if lose_handed_over else None)

    def pause(self, targets: Sequence[str]) -> list[Bite]:
        hit, nowhere = _nodes(self._world, self._places, self._random, targets)
        for target, node in hit:
            self.lasting.append((target, self._frozen(node)))
        return self._lasting_bites(hit, nowhere)

    def _frozen(self, node: SimulatedNode) -> _Heal:
        before, boot = node.put_off, node.boot
        self._world.freeze(node)

        def heal() -> Proof:
            lost = node.lost
            if node.alive and node.boot == boot:
                self._world.let_go(node)
            count = node.put_off - before
            return Proof(1, "times given up for lost") if lost and not count else Proof(count, "actions put off")

        return heal

    def cut(self, links: Sequence[Link]) -> list[Bite]:
        link = single(links)
        network = self._world.network
        cut = network.cut(self._paths(link))

        def heal() -> Proof:
            network.mend_cut(cut)
            return Proof(cut.count, "messages held back")

        return self._on_link(link, heal)

    def slow_link(self, link: Link, by: Duration, jitter: Duration | None) -> list[Bite]:
        network = self._world.network
        slower = network.slow(self._paths(link), by.micros)

        def heal() -> Proof:
            network.mend_slow(slower)
            return Proof(slower.count, "messages delayed")

        return self._on_link(link, heal)

    def break_link(self, link: Link) -> list[Bite]:
        world = self._world
        paths = self._paths(link)
        broken = world.network.break_connections(paths, self._heal)
        for connection in broken.links:
            world.reconnect(connection)

        def heal() -> Proof:
            world.network.mend_broken(broken)
            return Proof(broken.count, "messages lost")

        return self._on_link(link, heal)

    def slow_disk(self, targets: Sequence[str], by: Duration) -> list[Bite]:
        return self._on_disks(targets, lambda node: self._world.disks.slow(node, by.micros), "writes delayed")

    def fail_writes(self, targets: Sequence[str], *, once: bool = False) -> list[Bite]:
        if once:
            return super().fail_writes(targets, once=True)
        return self._on_disks(targets, self._world.disks.fail, "writes refused")

    def _on_disks(
        self, targets: Sequence[str], disturb: Callable[[str], SlowedDisk | FailingDisk], what: str
    ) -> list[Bite]:
        hit, nowhere = _nodes(self._world, self._places, self._random, targets)
        disks = self._world.disks

        def healing(name: str) -> _Heal:
            disturbed = disturb(name)

            def heal() -> Proof:
                disks.mend(name, disturbed)
                return Proof(disturbed.count, what)

            return heal

        self.lasting += [(target, healing(node.name)) for target, node in hit]
        return self._lasting_bites(hit, nowhere)

    def _lasting_bites(self, hit: Sequence[tuple[str, SimulatedNode]], nowhere: Sequence[str]) -> list[Bite]:
        outstanding = self._world.outstanding()
        return [
            *(Bite(target, None, (), outstanding) for target in nowhere),
            *(Bite(target, node.name, node.actors, outstanding, lasting=True) for target, node in hit),
        ]

    def _paths(self, link: Link) -> tuple[Path, ...]:
        there = tuple(product(self._world.ends_of(link.first), self._world.ends_of(link.second)))
        return there if link.one_way else (*there, *((b, a) for a, b in there))

    def _on_link(self, link: Link, heal: _Heal) -> list[Bite]:
        name = f"{link.first} and {link.second}"
        self.lasting.append((name, heal))
        ends = (*self._world.ends_of(link.first), *self._world.ends_of(link.second))
        return [Bite(name, name, ends, self._world.outstanding(), lasting=True)]


class _Foreseen(Machines):
    """The simulated cluster, of which it is asked what a crash would do."""

    def __init__(self, world: Victims, places: Places, random: Random) -> None:
        self._world = world
        self._places = places
        self._random = random

    def crash(self, targets: Sequence[str], *, lose_handed_over: bool = False) -> list[Bite]:
        outstanding = self._world.outstanding()
        hit, nowhere = _nodes(self._world, self._places, self._random, targets)
        ran = _running(self._world, hit)
        dying = {one for _, node in hit for one in node.incarnations}
        lost = partial(self._world.network.count_sent_by, dying=dying) if lose_handed_over else None
        return _crashed(ran, nowhere, outstanding, lost)


_Ran = tuple[str, str, tuple[str, ...], tuple[tuple[str, int], ...], bool]
"""A target, its node, the actors and incarnations that ran there, and whether any of those, or of who was to run there,
had ever begun."""


def _running(world: Victims, hit: Iterable[tuple[str, SimulatedNode]]) -> list[_Ran]:
    return [(target, node.name, node.actors, node.incarnations, world.has_begun(node)) for target, node in hit]


def _crashed(
    ran: Sequence[_Ran],
    nowhere: Iterable[str],
    outstanding: bool,
    lost: Callable[[tuple[tuple[str, int], ...]], int] | None,
) -> list[Bite]:
    """Of a crash. `lost` says how many messages are lost with incarnations, where they are."""
    bites = [Bite(target, None, (), outstanding, gone=False) for target in nowhere]
    hit_somebody = any(begun for *_, begun in ran)
    for target, node, actors, incarnations, _ in ran:
        proof = None if hit_somebody else _NOBODY
        if lost is not None:
            proof = Proof(lost(incarnations), _LOST_WITH_IT)
        bites.append(Bite(target, node, actors, outstanding, gone=True, proof=proof))
    return bites


def _nodes(
    world: Victims, places: Places, random: Random, targets: Iterable[str]
) -> tuple[list[tuple[str, SimulatedNode]], list[str]]:
    """The nodes that are alive, each with the first target that stands for it; and the targets that stand for none."""
    hit: list[tuple[str, SimulatedNode]] = []
    nowhere: list[str] = []
    for target in targets:
        meant = places.stands_for(target, random) or (target,)
        for name in meant:
            node = world.node_of(name)
            label = target if len(meant) == 1 else f"{name} of {target}"
            if node is None or not node.alive:
                nowhere.append(label)
            elif all(node is not other for _, other in hit):
                hit.append((label, node))
    return hit, nowhere
