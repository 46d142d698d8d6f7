"""What a fault can do to the nodes of a real cluster, of processes or of containers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from random import Random
from typing import TypeVar

import msgspec

from ....contracts.injection import Link, Machines, Part
from ....core.places import numbered_workers
from ....core.quantities import Duration
from ....core.slice_names import slice_of
from ....recording.history import Bite, Proof
from .crash_loop import CrashLoop
from .disturbances import (
    CutPackets,
    DelayPackets,
    Disturbance,
    DropPackets,
    ExhaustMemory,
    FailStore,
    FillStore,
    LimitMemory,
    LoseStore,
    NarrowDisk,
    NarrowPackets,
    NodePairs,
    ResetPackets,
    SlowDisk,
    ThrottleCpu,
)
from .flapping import Flapping
from .freezes import Freezes
from .nodes import OTHER_NODES, Kill, Nodes, Stop

T = TypeVar("T")
Heal = Callable[[], Proof]
SlowHeal = Callable[[], Awaitable[Proof]]
"""One that the loop must not be held for."""
SaysIdle = Callable[[], Proof | None]
"""The proof that what was hit had nothing of the subject on it; None where it had."""


@dataclass(frozen=True)
class Striking:
    """One fault, as it strikes."""

    exact: bool
    """Whether the host of its point vouches for it."""
    heal: Callable[[], None]
    """Ends it before its time."""
    random: Random
    """Its own, from the run's seed."""
    heal_target: Callable[[str], None] = lambda target: None
    """Ends what it does to one of its targets before its time. Any thread may ask for it."""
    freezes: Freezes = field(default_factory=Freezes)
    """The run's."""
    by_the_clock: bool = False
    """Whether its time had come, and no point is held."""
    refused: Callable[[], int] = lambda: 0
    """How many checkpoints the nodes have said to be refused while it was in force."""


class ClusterMachines(Machines):
    """The cluster, as one fault sees it, while its point is held."""

    def __init__(
        self, nodes: Nodes, node_of: Mapping[str, str], outstanding: Callable[[], bool], striking: Striking
    ) -> None:
        """`node_of` says which actor runs where."""
        self.lasting: list[tuple[str, Heal | SlowHeal]] = []
        """Targets, and what ends what is done to them."""
        self.hit: set[str] = set()
        """The nodes that it does something to, or to what passes between them."""
        self.ended: set[str] = set()
        """The nodes that it ended as a whole."""
        self.frozen: dict[str, str] = {}
        """The nodes that it froze, and the targets that they stand for: there it is over when they end."""
        self.refusing: set[str] = set()
        """The nodes whose checkpoints the disk may refuse while it is in force."""
        self._places = numbered_workers(nodes.workers, OTHER_NODES)
        self._cluster = nodes
        self._node_of = node_of
        self._outstanding = outstanding
        self._striking = striking
        self._stands_for: dict[str, tuple[str, ...]] = {}
        """What the names mean to this fault: what is drawn is drawn once."""

    # Nodes

    def crash(self, targets: Sequence[str], *, lose_handed_over: bool = False) -> list[Bite]:
        """Kill every process of the nodes, all at once."""
        if lose_handed_over:
            return super().crash(targets, lose_handed_over=True)
        return self._end_nodes(targets, self._cluster.kill_node)

    def terminate(self, targets: Sequence[str]) -> list[Bite]:
        """Send SIGTERM to the nodes, all at once, and see that they end."""
        return self._end_nodes(targets, self._cluster.terminate_node)

    def crash_part(self, targets: Sequence[str], part: Part) -> list[Bite]:
        """Kill the processes of that part of the nodes, all at once."""
        return self._end(targets, lambda node: self._cluster.kill_part(node, part))

    def crash_again(self, targets: Sequence[str]) -> list[Bite]:
        bites = []
        for bite in self._end_nodes(targets, self._cluster.kill_node):
            if bite.node is not None:
                loop = CrashLoop(self._cluster, bite.node)
                self.lasting.append((bite.target, healed_aside(loop.heal)))
                bite = msgspec.structs.replace(bite, lasting=True, proof=None)
            bites.append(bite)
        return bites

    def _end_nodes(self, targets: Sequence[str], end: Callable[[str], Kill]) -> list[Bite]:
        bites = self._end(targets, end)
        self.ended |= {bite.node for bite in bites if bite.node is not None and bite.gone}
        return bites

    def _end(self, targets: Sequence[str], end: Callable[[str], Kill]) -> list[Bite]:
        outstanding = self._outstanding()
        hit, nowhere = self._nodes(targets)
        idle = self._idle(hit)
        proofs = _at_once(end, hit)
        self.hit |= hit.keys()
        bites = [Bite(target, None, (), outstanding, gone=False) for target in nowhere]
        for node, target in hit.items():
            proof = proofs[node]
            on, held = self._on(node), self._striking.exact
            seen = idle() or proof.proof
            bites.append(Bite(target, node, on, outstanding, proof.bit, proof.pids, held_at_address=held, proof=seen))
        return bites

    def pause(self, targets: Sequence[str]) -> list[Bite]:
        """Stop every process of the nodes; letting them go on heals."""
        outstanding = self._outstanding()
        hit, nowhere = self._nodes(targets)
        idle = self._idle(hit)
        proofs = _at_once(self._cluster.stop_node, hit)
        bites = [Bite(target, None, (), outstanding) for target in nowhere]
        for node, target in hit.items():
            proof = proofs[node]
            if not proof.pids:
                bites.append(Bite(target, None, (), outstanding))
                continue
            self.hit.add(node)
            self.frozen[node] = target
            self._striking.freezes.hold(proof)
            self.lasting.append((target, self._resume(proof, idle)))
            bites.append(self._lasting_bite(target, node, self._on(node), proof.pids))
        return bites

    def _resume(self, proof: Stop, idle: SaysIdle) -> Heal:
        def heal() -> Proof:
            for stopped in self._striking.freezes.let_go(proof):
                self._cluster.resume(stopped)
            return idle() or proof.proof

        return heal

    def throttle_cpu(self, targets: Sequence[str], cores: float) -> list[Bite]:
        return self._on_each(targets, lambda node: ThrottleCpu(node, cores))

    def limit_memory(self, targets: Sequence[str], size: int) -> list[Bite]:
        return self._on_each(targets, lambda node: LimitMemory(node, size))

    def exhaust_memory(self, targets: Sequence[str]) -> list[Bite]:
        """Over, node by node, as soon as the kernel has ended something there."""
        hit, _ = self._nodes(targets)
        heal = self._striking.heal_target
        return self._on_each(targets, lambda node: ExhaustMemory(node, partial(heal, hit[node])))

    def slow_disk(self, targets: Sequence[str], by: Duration) -> list[Bite]:
        return self._on_each(targets, lambda node: SlowDisk(node, by))

    def narrow_disk(self, targets: Sequence[str], rate: int) -> list[Bite]:
        return self._on_each(targets, lambda node: NarrowDisk(node, rate))

    def _on_each(
        self,
        targets: Sequence[str],
        disturbance: Callable[[str], Disturbance],
        proven: Callable[[Heal], Heal] = lambda heal: heal,
    ) -> list[Bite]:
        outstanding = self._outstanding()
        hit, nowhere = self._nodes(targets)
        idle = self._idle(hit)
        begun = _at_once(lambda node: self._cluster.disturb(disturbance(node)), hit)
        self.hit |= hit.keys()
        bites = [Bite(target, None, (), outstanding) for target in nowhere]
        for node, target in hit.items():
            self.lasting.append((target, healed_aside(_unless_idle(idle, proven(begun[node].heal)))))
            bites.append(self._lasting_bite(target, node, self._on(node)))
        return bites

    def _idle(self, nodes: Iterable[str]) -> SaysIdle:
        """Asked before a fault hits these nodes. What it says is asked again when the fault is over."""
        return lambda: None

    # The store of the checkpoints, which the nodes share

    def fail_writes(self, targets: Sequence[str], *, once: bool = False) -> list[Bite]:
        if once:
            return super().fail_writes(targets, once=True)
        bites = self._on_each(targets, FailStore, self._on_store)
        self.refusing |= {bite.node for bite in bites if bite.node is not None}
        return bites

    def fill_disk(self, targets: Sequence[str]) -> list[Bite]:
        """The store is one for all nodes: none finds room."""
        every = set(self._cluster.nodes())
        self.hit |= every
        self.refusing |= every
        begun = self._cluster.disturb(FillStore())
        name = ", ".join(targets)
        self.lasting.append((name, healed_aside(self._on_store(begun.heal))))
        hit, _ = self._nodes(targets)
        return [self._lasting_bite(name, "checkpoints", self._actors(hit))]

    def lose_store(self, targets: Sequence[str]) -> list[Bite]:
        """Over at once: nothing brings it back."""
        hit, _ = self._nodes(targets)
        actors = self._actors(hit)
        kept = tuple(sorted({slice_of(actor) for actor in actors}))
        lost = self._cluster.disturb(LoseStore(kept)).heal()
        self.hit |= hit.keys()
        name, held = ", ".join(targets), self._striking.exact
        return [Bite(name, "checkpoints", actors, self._outstanding(), held_at_address=held, proof=lost)]

    def _on_store(self, heal: Heal) -> Heal:
        """With what shows that the subject met a store that takes nothing."""
        return heal

    # What passes between nodes

    def isolate(self, targets: Sequence[str]) -> list[Bite]:
        inside, _ = self._nodes(targets)
        outside = [node for node in self._cluster.nodes() if node not in inside]
        there = tuple(product(inside, outside))
        return self._between(", ".join(targets), CutPackets((*there, *_back(there)), tuple(inside)))

    def cut(self, links: Sequence[Link]) -> list[Bite]:
        return self._between(_named(links), CutPackets(self._pairs(*links)))

    def flap(self, link: Link, every: Duration) -> list[Bite]:
        pairs = self._pairs(link)
        if not pairs:
            return [Bite(str(link), None, (), self._outstanding())]
        flapping = Flapping(lambda: self._cluster.disturb(CutPackets(pairs)).heal, every, asyncio.to_thread)
        ends = _ends_of(pairs)
        self.hit.update(ends)
        self.lasting.append((str(link), flapping.heal))
        return [self._lasting_bite(str(link), str(link), self._actors(ends))]

    def slow_link(self, link: Link, by: Duration, jitter: Duration | None) -> list[Bite]:
        seed = self._striking.random.getrandbits(32)
        return self._between(str(link), DelayPackets(self._pairs(link), by, jitter, seed))

    def reset(self, link: Link) -> list[Bite]:
        return self._between(str(link), ResetPackets(self._pairs(link)))

    def drop(self, link: Link, share: float) -> list[Bite]:
        return self._between(str(link), DropPackets(self._pairs(link), share))

    def narrow(self, link: Link, rate: int) -> list[Bite]:
        return self._between(str(link), NarrowPackets(self._pairs(link), rate))

    def _between(
        self, name: str, disturbance: CutPackets | ResetPackets | DropPackets | DelayPackets | NarrowPackets
    ) -> list[Bite]:
        if not disturbance.pairs:
            return [Bite(name, None, (), self._outstanding())]
        ends = _ends_of(disturbance.pairs)
        self.lasting.append((name, healed_aside(self._cluster.disturb(disturbance).heal)))
        self.hit.update(ends)
        return [self._lasting_bite(name, name, self._actors(ends))]

    def _pairs(self, *links: Link) -> NodePairs:
        """The nodes at both ends, each with each that is another."""
        pairs: list[tuple[str, str]] = []
        for link in links:
            firsts, _ = self._nodes([link.first])
            seconds, _ = self._nodes([link.second])
            there = tuple((one, other) for one, other in product(firsts, seconds) if one != other)
            pairs += there if link.one_way else (*there, *_back(there))
        return tuple(dict.fromkeys(pairs))

    # Names

    def _nodes(self, targets: Sequence[str]) -> tuple[dict[str, str], list[str]]:
        """The nodes that the targets stand for, each under the name of the first that does; and the targets that stand
        for none."""
        known = self._cluster.nodes()
        hit: dict[str, str] = {}
        nowhere: list[str] = []
        for target in targets:
            runs_on = self._node_of.get(target)
            meant = self._meant_by(target) if runs_on is None else (runs_on,)
            there = [node for node in meant if node in known]
            for node in there:
                hit.setdefault(node, target if len(meant) == 1 else f"{node} of {target}")
            if not there:
                nowhere.append(target)
        return hit, nowhere

    def _meant_by(self, place: str) -> tuple[str, ...]:
        if place not in self._stands_for:
            self._stands_for[place] = self._places.stands_for(place, self._striking.random)
        return self._stands_for[place]

    def _on(self, node: str) -> tuple[str, ...]:
        return tuple(actor for actor, runs_on in self._node_of.items() if runs_on == node)

    def _actors(self, nodes: Iterable[str]) -> tuple[str, ...]:
        return tuple(actor for node in nodes for actor in self._on(node))

    def _lasting_bite(self, target: str, node: str, actors: tuple[str, ...], pids: tuple[int, ...] = ()) -> Bite:
        """Of a fault whose proof comes when it heals."""
        held = self._striking.exact
        return Bite(target, node, actors, self._outstanding(), pids=pids, held_at_address=held, lasting=True)


def _at_once(do: Callable[[str], T], nodes: Mapping[str, str]) -> dict[str, T]:
    with ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
        return dict(zip(nodes, pool.map(do, nodes), strict=True))


def _unless_idle(idle: SaysIdle, heal: Heal) -> Heal:
    def healed() -> Proof:
        seen = heal()
        return idle() or seen

    return healed


def healed_aside(heal: Heal) -> SlowHeal:
    """In a thread: the engine takes its time, and what comes in meanwhile must be taken."""
    return lambda: asyncio.to_thread(heal)


def _back(pairs: NodePairs) -> NodePairs:
    return tuple((other, one) for one, other in pairs)


def _ends_of(pairs: NodePairs) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node for pair in pairs for node in pair))


def _named(links: Sequence[Link]) -> str:
    return ", ".join(map(str, links))
