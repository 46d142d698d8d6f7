"""A deterministic discrete-event world for slices: virtual time, hosts that die, links that lose what was on its way
to them.

Everything that happens has a number, its step. Same plan, seed and schedule: same history, byte for byte. Nothing in
here reads a clock, an environment, or the order of a hash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import Any
from zlib import crc32

from ..addresses import Address, Point, Side
from ..controller import Controller, Strike
from ..host import Host
from ..injection import FaultKind
from ..manager import (
    Announce,
    Manager,
    ManagerInput,
    NodeJoined,
    NodeLost,
    Place,
    PromoteSlice,
    SliceReady,
    SliceUp,
    Speaking,
    Withdraw,
)
from ..model import Event, Role, operator_of, replica_name
from ..progress import Progress
from ..quantities import Duration
from ..recording.history import Bite, Drained, FaultMissed, FaultStruck, NodeGone, NodeUp, Placed, Stamp
from ..recording.recorder import Recorder
from ..recording.records import Record, Taken
from ..slices.components import Standby
from ..slices.effects import Fire, Gone, Input, Inspect, Promote, Reroute, Start
from ..slices.machine import Slice, SliceSpec, wrapped
from ..slices.messages import Checkpoint, CheckpointId, Message, identity
from ..slices.operator import OperatorSlice
from ..slices.sink import SinkSlice
from ..slices.source import SourceSlice
from ..stores import MemoryStore

HARNESS = "harness"
"""The host of the sources and sinks, outside every fault domain."""


@dataclass(frozen=True)
class SimulationOptions:
    """How the simulated machines behave; times in microseconds of virtual time."""

    nodes: int = 3
    offer_interval: int = 1_000
    """Between two batches of a source."""
    link_delay: tuple[int, int] = (200, 800)
    """Bounds of a message's delay, drawn uniformly for each; channels stay FIFO."""
    disk_delay: tuple[int, int] = (500, 3_000)
    detection: int = 5_000
    """From the death of a node until the manager knows."""
    redeployment: int = 3_000
    """From the manager's decision until a slice starts."""
    restart_node_after: int | None = 20_000
    """Until a dead node joins again; None: never."""
    control_delay: int = 200
    step_limit: int = 5_000_000
    """A run that takes more steps than this is given up as not coming to rest."""


_Link = tuple[str, int, str, int]
"""Sender, its incarnation, receiver, its incarnation."""


class _Node:
    """One simulated machine, and the world as its host sees it. Its memory is its host, which goes when it dies."""

    def __init__(self, name: str, world: SimulatedWorld) -> None:
        self.name = name
        self.alive = True
        self.life = 1
        """Rises with each restart, so that what was under way in an earlier life is void."""
        self.host = Host(self)
        self._world = world
        self._send = world.send
        self.watched = world.watched
        self.note = world.note
        self.ready = world.ready

    def arrive(self, address: Address, taken: int) -> bool:
        return self._world.arrive(self, address, taken)

    def send(self, sender: str, to: str, incarnation: int, message: Message) -> None:
        self._send((sender, message.incarnation, to, incarnation), message)

    def has_delivered(self, sender: str, to: str, incarnation: int) -> bool:
        """Delivery takes time, and is announced when the message arrives."""
        return False

    def persist(self, checkpoint: Checkpoint) -> None:
        self._world.persist(self, checkpoint)

    def set_timer(self, slice_id: str, timer: str, delay: int) -> None:
        self._world.set_timer(self, slice_id, timer, delay)


class SimulatedWorld:
    """One run."""

    def __init__(
        self,
        specs: Sequence[SliceSpec],
        replicas: int,
        speaking: Speaking,
        batches: Mapping[str, Sequence[list[Event]]],
        controller: Controller,
        kinds: Mapping[str, FaultKind],
        recorder: Recorder,
        options: SimulationOptions,
        seed: int,
    ) -> None:
        self.steps = 0
        self._recorder = recorder
        self._note = recorder.note
        self._kinds = kinds
        self._specs = {spec.slice_id: spec for spec in specs}
        self._batches = batches
        self._controller = controller
        self._watched: dict[str, frozenset[Point]] = {}
        self._awaits_delivery = controller.watches(Point.SEND_DELIVERED)
        self._options = options
        self._seed = seed
        self._random = Random(seed).random
        self._link_delay = (options.link_delay[0], options.link_delay[1] - options.link_delay[0])
        self._now = 0
        self._order = 0
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._channels: dict[_Link, int] = {}
        """When the last message on a link arrives: links are FIFO."""
        self._store = MemoryStore()
        self._places: dict[tuple[str, int], _Node] = {}
        """(slice, incarnation) -> where it was started."""
        self._replicas: dict[tuple[str, int], int] = {}
        self._announced: dict[str, dict[int, bool]] = {}
        """Slice -> the incarnations that have been announced -> whether they speak."""
        self._current: dict[str, set[int]] = {}
        """Slice -> those that speak, and are alive."""
        self._listeners: dict[str, list[str]] = {
            spec.slice_id: [s.slice_id for s in specs if spec.slice_id in (*s.upstream, *s.trackers)] for spec in specs
        }
        self._nodes = {f"node-{i}": _Node(f"node-{i}", self) for i in range(options.nodes)}
        self._harness = _Node(HARNESS, self)
        operator_slices = [s.slice_id for s in specs if s.role is Role.OPERATOR]
        self._manager = Manager(operator_slices, options.nodes, replicas, speaking)
        self.progress = Progress(specs)

    # Running

    def prepare(self) -> None:
        """Let the nodes join and place the slices; nothing has happened yet."""
        for name in self._nodes:
            self._manage(NodeJoined(name))

    def start(self) -> None:
        """Let the sources offer; from here on time triggers count."""
        for spec in self._specs.values():
            if spec.role is not Role.OPERATOR:
                self._start(self._harness, self._harness.life, Place(spec.slice_id, 0, 1, HARNESS, founder=True))
        for when in self._controller.times():
            self._at(when.micros, self._strike_due, when)

    def rest(self) -> bool:
        """Run until nothing more is due. Returns whether the subject was drained.

        Raises InvalidOperator when the user's code fails.
        """
        self._drain_queue()
        drained = self.progress.drained(self._current)
        if drained:
            self._recorder.log(Drained(self._stamp()))
        return drained

    def waiting_for(self) -> str:
        return self.progress.waiting_for(self._current)

    def inspect(self) -> None:
        """Record what is kept at the end, and the faults that never came."""
        for node in (*self._nodes.values(), self._harness):
            if node.alive:
                for slice_id, machine in node.host.slices.items():
                    if machine.incarnation in self._announced.get(slice_id, ()):
                        node.host.feed(slice_id, Inspect())
        for number, fault in self._controller.pending():
            self._recorder.log(FaultMissed(self._stamp(), number, str(fault)))

    def _drain_queue(self) -> None:
        queue, limit = self._queue, self._options.step_limit
        while queue and self.steps < limit:
            self._now, _, action, given = heappop(queue)
            self.steps += 1
            action(*given)

    def _at(self, when: int, action: Callable[..., None], *given: Any) -> None:
        self._order += 1
        heappush(self._queue, (when, self._order, action, given))

    def _later(self, delay: int, action: Callable[..., None], *given: Any) -> None:
        self._at(self._now + delay, action, *given)

    def _draw(self, bounds: tuple[int, int]) -> int:
        low, high = bounds
        return low + int((high - low) * self._random())

    def _stamp(self) -> Stamp:
        return Stamp(self._now, self.steps)

    # What nodes ask for

    def note(self, record: Record) -> None:
        self._note(self._now, record)
        if type(record) is not Taken:
            self.progress.note(record)

    def send(self, link: _Link, message: Message) -> None:
        low, spread = self._link_delay
        when = self._now + low + int(spread * self._random())
        earliest = self._channels.get(link, 0)
        if when < earliest:
            when = earliest
        self._channels[link] = when
        self._order += 1
        heappush(self._queue, (when, self._order, self._arrive, (link, message)))

    def _arrive(self, link: _Link, message: Message) -> None:
        sender, _, to, receiver = link
        node = self._places.get((to, receiver))
        if node is None or not node.alive:
            return
        machine = node.host.slices.get(to)
        if machine is None or machine.incarnation != receiver:
            return
        if self._awaits_delivery and not self._delivered(node, link, message):
            return
        node.host.deliver(sender, to, message)

    def _delivered(self, node: _Node, link: _Link, message: Message) -> bool:
        """Announce that a message has arrived; it is a point of its sender. Returns whether the receiver lives on."""
        sender, incarnation, to, receiver = link
        replica = self._replica(sender, incarnation)
        if Point.SEND_DELIVERED not in self.watched(replica_name(sender, replica)):
            return True
        key = f"{to}#{receiver} {identity(message)}"
        return self.arrive(node, Address(sender, incarnation, Point.SEND_DELIVERED, key, Side.AFTER, replica), 0)

    def _replica(self, slice_id: str, incarnation: int) -> int:
        return self._replicas.get((slice_id, incarnation), 0)

    def persist(self, node: _Node, checkpoint: Checkpoint) -> None:
        self._later(self._draw(self._options.disk_delay), self._write, node, node.life, checkpoint)

    def _write(self, node: _Node, life: int, checkpoint: Checkpoint) -> None:
        slice_id, number = checkpoint.slice, str(checkpoint.id.number)
        if not self._running(node, life, slice_id, checkpoint.id.incarnation):
            return
        if not self._passes(node, slice_id, checkpoint.id, number, Side.BEFORE) or not self._store.write(checkpoint):
            return
        if self._passes(node, slice_id, checkpoint.id, number, Side.AFTER):
            node.host.durable(slice_id, checkpoint.id)

    def _passes(self, node: _Node, slice_id: str, checkpoint: CheckpointId, number: str, side: Side) -> bool:
        machine = node.host.slices[slice_id]
        if Point.CHECKPOINT_DURABLE not in self.watched(machine.name):
            return True
        address = Address(slice_id, checkpoint.incarnation, Point.CHECKPOINT_DURABLE, number, side, machine.replica)
        return self.arrive(node, address, machine.taken)

    def set_timer(self, node: _Node, slice_id: str, timer: str, delay: int) -> None:
        incarnation = node.host.slices[slice_id].incarnation
        self._later(delay, self._fire, node, node.life, slice_id, incarnation, timer)

    def _fire(self, node: _Node, life: int, slice_id: str, incarnation: int, timer: str) -> None:
        if self._running(node, life, slice_id, incarnation):
            node.host.feed(slice_id, Fire(timer))

    def _running(self, node: _Node, life: int, slice_id: str, incarnation: int) -> bool:
        machine = node.host.slices.get(slice_id)
        return node.alive and node.life == life and machine is not None and machine.incarnation == incarnation

    # Management

    def _manage(self, given: ManagerInput) -> None:
        for effect in self._manager.on(given):
            match effect:
                case Place(node=name):
                    node = self._nodes[name]
                    self._later(self._options.redeployment, self._start, node, node.life, effect)
                case PromoteSlice(slice_id=slice_id, incarnation=incarnation):
                    self._later(self._options.control_delay, self._promote, slice_id, incarnation)
                case Announce(slice_id=slice_id, incarnation=incarnation, speaks=speaks):
                    self._announce(slice_id, incarnation, speaks)
                case Withdraw(slice_id=slice_id, incarnation=incarnation):
                    self._withdraw(slice_id, incarnation)

    def _start(self, node: _Node, life: int, place: Place) -> None:
        if not node.alive or node.life != life:
            return
        slice_id, incarnation = place.slice_id, place.incarnation
        if node is not self._harness:
            name = replica_name(slice_id, place.replica)
            self._recorder.log(Placed(self._stamp(), name, incarnation, node.name))
        checkpoint = self._store.fence(slice_id, incarnation) if place.founder else None
        self._places[slice_id, incarnation] = node
        self._replicas[slice_id, incarnation] = place.replica
        start = Start(incarnation, checkpoint, place.replica, place.founder, self._chance(slice_id, incarnation))
        node.host.start(self._machine(slice_id), start)
        if not self._running(node, life, slice_id, incarnation):
            return
        if node is self._harness:
            self._announce(slice_id, incarnation, speaks=True)
        else:
            self._later(self._options.control_delay, self._manage, SliceUp(slice_id, incarnation))

    def _chance(self, slice_id: str, incarnation: int) -> int:
        """The seed of an incarnation's random draws, where it has any."""
        stage = self._specs[slice_id].topology.stages.get(operator_of(slice_id))
        if stage is None or stage.operator.deterministic:
            return 0
        return crc32(f"{self._seed} {slice_id}#{incarnation}".encode())

    def _machine(self, slice_id: str) -> Slice:
        spec = self._specs[slice_id]
        match spec.role:
            case Role.SOURCE:
                return wrapped(SourceSlice(spec, iter(self._batches[slice_id]), self._options.offer_interval))
            case Role.SINK:
                return wrapped(SinkSlice(spec))
            case Role.OPERATOR:
                return wrapped(OperatorSlice(spec))

    def ready(self, slice_id: str, incarnation: int) -> None:
        self._later(self._options.control_delay, self._manage, SliceReady(slice_id, incarnation))

    def _promote(self, slice_id: str, incarnation: int) -> None:
        checkpoint = None
        if self._specs[slice_id].components.standby is Standby.LOADED:
            checkpoint = self._store.fence(slice_id, incarnation)
        self._tell(slice_id, incarnation, Promote(checkpoint))

    def _announce(self, slice_id: str, incarnation: int, speaks: bool) -> None:
        """Those who deal with the slice hear of it, and it hears of them."""
        spec, known = self._specs[slice_id], self._announced.setdefault(slice_id, {})
        first, silent = incarnation not in known, not known.get(incarnation)
        if first:
            for peer in (*spec.upstream, *(s for s in spec.trackers if s not in spec.upstream)):
                for speaker, heard in self._announced.get(peer, {}).items():
                    if heard:
                        self._later_tell(slice_id, incarnation, Reroute(peer, speaker))
            for fellow in known:
                self._later_tell(slice_id, fellow, Reroute(slice_id, incarnation))
                self._later_tell(slice_id, incarnation, Reroute(slice_id, fellow))
        known[incarnation] = speaks
        if speaks and silent:
            if self._running_somewhere(slice_id, incarnation):
                self._current.setdefault(slice_id, set()).add(incarnation)
            for listener in self._listeners[slice_id]:
                for receiver in self._announced.get(listener, ()):
                    self._later_tell(listener, receiver, Reroute(slice_id, incarnation))

    def _withdraw(self, slice_id: str, incarnation: int) -> None:
        """Nobody listens to it any more."""
        self._announced.get(slice_id, {}).pop(incarnation, None)
        self._current.get(slice_id, set()).discard(incarnation)
        spec = self._specs[slice_id]
        for peer in (*spec.upstream, *spec.downstream, slice_id):
            for other in self._announced.get(peer, ()):
                self._later_tell(peer, other, Gone(slice_id, incarnation))

    def _later_tell(self, slice_id: str, incarnation: int, given: Input) -> None:
        self._later(self._options.control_delay, self._tell, slice_id, incarnation, given)

    def _tell(self, slice_id: str, incarnation: int, given: Input) -> None:
        if self._running_somewhere(slice_id, incarnation):
            self._places[slice_id, incarnation].host.feed(slice_id, given)

    def _running_somewhere(self, slice_id: str, incarnation: int) -> bool:
        node = self._places.get((slice_id, incarnation))
        return node is not None and self._running(node, node.life, slice_id, incarnation)

    # Faults

    def watched(self, actor: str) -> frozenset[Point]:
        watched = self._watched.get(actor)
        if watched is None:
            watched = self._watched[actor] = self._controller.watched(actor)
        return watched

    def arrive(self, node: _Node, address: Address, taken: int) -> bool:
        strikes = self._controller.arrived(address, taken)
        if strikes:
            self._watched.clear()
            life = node.life
            for strike in strikes:
                self._strike(strike)
            return node.alive and node.life == life
        return True

    def _strike_due(self, when: Duration) -> None:
        for strike in self._controller.elapsed(when):
            self._strike(strike)

    def _strike(self, strike: Strike) -> None:
        address = None if strike.address is None else str(strike.address)
        for bite in self._kinds[strike.fault.kind].inflict(self, strike.fault):
            self._recorder.log(FaultStruck(self._stamp(), strike.number, str(strike.fault), address, bite))

    def crash(self, targets: Sequence[str]) -> list[Bite]:
        """Kill the nodes that run the targets. Only a node that was alive, before all was drained, counts as a bite."""
        outstanding = not self.progress.drained(self._current)
        bites: list[Bite] = []
        hit: list[_Node] = []
        for target in targets:
            node = self._node_of(target)
            if node is None or not node.alive:
                bites.append(Bite(target, None, (), outstanding, gone=False))
            elif node not in hit:
                hit.append(node)
                actors = tuple(machine.name for machine in node.host.slices.values())
                bites.append(Bite(target, node.name, actors, outstanding, gone=True))
        for node in hit:
            self._kill(node)
        return bites

    def _node_of(self, target: str) -> _Node | None:
        if target in self._nodes:
            return self._nodes[target]
        name = self._manager.node_of.get(target)
        return None if name is None else self._nodes[name]

    def _kill(self, node: _Node) -> None:
        node.alive = False
        for slice_id, machine in node.host.slices.items():
            self._current.get(slice_id, set()).discard(machine.incarnation)
        node.host.slices.clear()
        self._later(self._options.detection, self._lose, node, node.life)
        if self._options.restart_node_after is not None:
            self._later(max(self._options.restart_node_after, self._options.detection), self._restart, node, node.life)

    def _lose(self, node: _Node, life: int) -> None:
        self._recorder.log(NodeGone(self._stamp(), node.name))
        self._manage(NodeLost(node.name))

    def _restart(self, node: _Node, life: int) -> None:
        node.alive = True
        node.life = life + 1
        self._recorder.log(NodeUp(self._stamp(), node.name))
        self._manage(NodeJoined(node.name))
