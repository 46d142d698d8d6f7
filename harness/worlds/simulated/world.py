"""A deterministic discrete-event world for slices: virtual time, hosts that die, links that lose what was on its way
to them.

Everything that happens has a number, its step. Same plan, seed and schedule: same history, byte for byte. Nothing in
here reads a clock, an environment, or the order of a hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop
from random import Random
from typing import Any, Final

from ...contracts.injection import FaultKind
from ...core.addresses import Address, Point, Side
from ...core.costs import Costs
from ...core.errors import InvalidScenario
from ...core.model import Event, Role, operator_of, replica_name, slice_of
from ...core.places import numbered_workers
from ...core.quantities import Duration
from ...core.schedule import Fault
from ...core.workload import Workload
from ...protocol.controller import Controller
from ...protocol.coordinator import CoordinatorSpec
from ...protocol.directory import Directory, Told
from ...protocol.effects import Fire, Gone, Input, Inspect, Promote, Reroute, RestartAll, Start, Stopped, Timer
from ...protocol.host import Actor, Host
from ...protocol.making import Feed, make_actor, make_machine, wrapped
from ...protocol.manager import (
    Announce,
    Manager,
    ManagerInput,
    NodeJoined,
    NodeLost,
    PlaceSlice,
    PromoteSlice,
    SayStopped,
    SliceFenced,
    SliceReady,
    SliceUp,
    Speaking,
    TogetherFrom,
    Trust,
    Withdraw,
)
from ...protocol.messages import Checkpoint, Items, Message
from ...protocol.outside import Outside
from ...protocol.placement import Placement
from ...protocol.progress import COUNTED, Progress
from ...protocol.spec import SliceSpec
from ...protocol.starting import starting_point
from ...protocol.stores import CheckpointStore, FencedOff, put
from ...recording.history import Drained, FaultMissed, NodeGone, NodeUp, Placed, Stalled, Stamp
from ...recording.recorder import Recorder
from ...recording.records import Delivered, InStep, Record
from .capturing import Capture
from .disk import Disks
from .event_queue import Action, EventQueue
from .freezing import Freezable
from .injector import Injector
from .injector import SimulatedNode as Victim
from .network import Direction, Network
from .working import Workforce

HARNESS = "harness"
"""The host of the sources and sinks that are outside every fault domain."""


MOST_NODES: Final = 10_000


@dataclass(frozen=True)
class SimulationOptions:
    """How the simulated machines behave; times in microseconds of virtual time."""

    nodes: int = 3
    offer_interval: int = 1_000
    """Between two batches of a source, of a workload without a rate."""
    obeys_rate: bool = True
    """Whether a workload's own rate is kept to, where it states one. A search makes its own world, whose proportions it
    has chosen: there input comes as `offer_interval` says."""
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
    turn: int = 100
    """What a slice puts off for a moment, to let others in between, comes so much later."""
    step_limit: int = 5_000_000
    """A run that takes more steps than this is given up as not coming to rest."""

    def __post_init__(self) -> None:
        """Raises InvalidScenario."""
        if not 1 <= self.nodes <= MOST_NODES:
            raise InvalidScenario(f"a simulated world of {self.nodes:,} nodes: give it 1 to {MOST_NODES:,}")
        for name, (low, high) in (("link_delay", self.link_delay), ("disk_delay", self.disk_delay)):
            if not 0 <= low <= high:
                raise InvalidScenario(f"{name} is ({low}, {high}): give a lower and an upper bound, in microseconds")
        times = ("offer_interval", "detection", "redeployment", "restart_node_after", "control_delay", "turn")
        for name in (*times, "step_limit"):
            if (value := getattr(self, name)) is not None and value < 0:
                raise InvalidScenario(f"{name} is {value}: it cannot be below zero")

    def interval(self, workload: Workload) -> int:
        """Between two batches of each source of this workload."""
        return workload.interval if self.obeys_rate and workload.rate is not None else self.offer_interval


LIKE_EMBEDDED: Final = SimulationOptions(
    offer_interval=250_000,
    obeys_rate=False,
    link_delay=(100, 1_000),
    disk_delay=(1_000, 20_000),
    detection=30_000,
    redeployment=10_000,
    restart_node_after=6_000_000,
    control_delay=500,
)
"""A world whose times are those of embedded Spark, with input that comes slowly enough for a recovery to be over before
the next batch. What is found here does not rest on proportions that a real cluster does not have, such as a checkpoint
that takes as long as three batches, and so it replays there (see `exploration.counterexample.replay`)."""


class _Node(Freezable):
    """One simulated machine, and the world as its host sees it. Its memory is its host, which goes when it dies."""

    def __init__(self, name: str, world: SimulatedWorld) -> None:
        super().__init__(world.note, world.network.send)
        self.name = name
        self.alive = True
        self.life = 1
        """Rises with each restart, so that what was under way in an earlier life is void."""
        self.lost = False
        """Whether it was given up for lost though it is alive, and has not heard of it yet."""
        self.work = None if world.workforce is None else world.workforce.host(self, cores=name != HARNESS)
        """Where work takes time: the host, as what works."""
        self.host = self.work or Host(self)
        self._world = world
        self.watched: Callable[[str], frozenset[Point]] = world.watched
        self.arrive: Callable[[Address, int], bool] = partial(world.arrive, self)

    def send(self, sender: str, to: str, incarnation: int, message: Message) -> None:
        self.send_on((sender, message.incarnation, to, incarnation), message)

    def has_delivered(self, address: Address, taken: int, to: str, incarnation: int) -> bool:
        """Delivery takes time, and is announced when the message arrives."""
        return False

    def persist(self, checkpoint: Checkpoint | Items) -> None:
        if not (self.freezes and self.puts_off(self.persist, checkpoint)):
            self._world.persist(self, checkpoint)

    def set_timer(self, slice_id: str, timer: Timer, delay: int) -> None:
        if not (self.freezes and self.puts_off(self.set_timer, slice_id, timer, delay)):
            self._world.set_timer(self, slice_id, timer, delay)

    def drop_below(self, slice_id: str, incarnation: int, below: int) -> None:
        if not self.puts_off(self.drop_below, slice_id, incarnation, below):
            self._world.drop_below(slice_id, incarnation, below)

    def restart_all(self, coordinator: str, incarnation: int, given: RestartAll) -> None:
        if not self.puts_off(self.restart_all, coordinator, incarnation, given):
            self._world.restart_all(coordinator, incarnation, given)

    def ready(self, slice_id: str, incarnation: int) -> None:
        if not self.puts_off(self.ready, slice_id, incarnation):
            self._world.ready(slice_id, incarnation)

    @property
    def actors(self) -> tuple[str, ...]:
        return tuple(machine.name for machine in self.host.slices.values())

    @property
    def incarnations(self) -> tuple[tuple[str, int], ...]:
        return tuple((slice_id, machine.incarnation) for slice_id, machine in self.host.slices.items())

    @property
    def under_way(self) -> tuple[str, ...]:
        return () if self.work is None else self.work.under_way


class _Watched(dict[str, frozenset[Point]]):
    """Actor -> its points that have to be announced, as long as the controller waits for the same; asked of it once."""

    __slots__ = ("_controller",)

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller

    def __missing__(self, actor: str) -> frozenset[Point]:
        watched = self[actor] = self._controller.watched(actor)
        return watched


class _Batches:
    """The input of a source, in order. Unlike a list's own iterator, it can be put back."""

    def __init__(self, batches: Sequence[list[Event]]) -> None:
        self._batches = batches
        self._next = 0

    def __iter__(self) -> Iterator[list[Event]]:
        return self

    def __next__(self) -> list[Event]:
        if self._next == len(self._batches):
            raise StopIteration
        self._next += 1
        return self._batches[self._next - 1]


Captured = tuple[Capture, int]
"""What everything held, and how many machines there were."""


class SimulatedWorld:
    """One run."""

    def __init__(
        self,
        specs: Sequence[SliceSpec],
        replicas: int,
        speaking: Speaking,
        store: CheckpointStore,
        batches: Mapping[str, Sequence[list[Event]]],
        stretch: int,
        interval: int,
        controller: Controller,
        kinds: Mapping[str, FaultKind],
        recorder: Recorder,
        options: SimulationOptions,
        seed: int,
        costs: Costs | None = None,
        coordinators: Sequence[CoordinatorSpec] = (),
        placement: Placement = Placement.LEAST_LOADED,
        restarts_by: str = "",
        network: type[Network] = Network,
    ) -> None:
        self.steps = 0
        self.at_rest = False
        """Whether it has come to rest, and nothing that is lacking could set it going again."""
        self._recorder = recorder
        self._note = recorder.note
        every: tuple[SliceSpec | CoordinatorSpec, ...] = (*specs, *coordinators)
        self._specs = {spec.slice_id: spec for spec in every}
        self._directory = Directory(self._specs.values())
        self._harness_ends = [spec.slice_id for spec in specs if not spec.on_nodes]
        self._batches = batches
        self._feed = Feed(lambda source: _Batches(batches[source]), interval, stretch)
        self._controller = controller
        self._watched = _Watched(controller)
        self.watched = self._watched.__getitem__
        """The points of an actor that have to be announced: asked for with every input."""
        self._awaits_delivery = controller.watches(Point.SEND_DELIVERED)
        self._options = options
        self._seed = seed
        self._random = Random(seed).random
        self._event_queue = EventQueue()
        self._later = self._event_queue.later
        self.workforce = None if costs is None else Workforce(self._event_queue, costs)
        self.network = network(
            self._event_queue,
            self._random,
            options.link_delay,
            self._arrive,
            self._reopen,
            self._name_of,
            self._running_somewhere,
            self._directory.feed_one_another,
        )
        self.disks = Disks(self._event_queue, self._draw, options.disk_delay)
        self._store = store
        self._made: list[object] = []
        """Every machine there was, dead ones too."""
        self._places: dict[tuple[str, int], _Node] = {}
        """(slice, incarnation) -> where it was started."""
        self._replicas: dict[tuple[str, int], int] = {}
        self._current: dict[str, set[int]] = {}
        """Slice -> those that speak, and are alive."""
        self._nodes = {f"node-{i}": _Node(f"node-{i}", self) for i in range(options.nodes)}
        self._harness = _Node(HARNESS, self)
        self._outside = Outside(specs)
        self._ends = [
            replica_name(spec.slice_id, replica)
            for spec in specs
            for replica in range(replicas if spec.role is Role.OPERATOR else 1)
        ] + [spec.slice_id for spec in coordinators]
        self._manager = Manager(
            [spec.slice_id for spec in specs if spec.on_nodes],
            options.nodes,
            replicas,
            speaking,
            coordinators=[spec.slice_id for spec in coordinators],
            placement=placement,
            restarts_by=restarts_by,
            alone=self._outside.sinks,
        )
        self.progress = Progress(specs)
        places = numbered_workers(options.nodes)
        self._injector = Injector(self, kinds, self._event_queue, recorder.log, self.stamp, places, seed)

    # Running

    def prepare(self) -> None:
        """Let the nodes join and place the slices; nothing has happened yet."""
        for name in self._nodes:
            self._manage(NodeJoined(name))

    def start(self) -> None:
        """Let the sources offer; from here on time triggers count."""
        for end in self._harness_ends:
            self._start(self._harness, self._harness.life, PlaceSlice(end, 0, 1, HARNESS, initial=True))
        for when in self._controller.times():
            self._event_queue.at(when.micros, self._strike_due, when)

    def rest(self) -> bool:
        """Run until nothing more is due. Returns whether the subject was drained.

        Raises UsersCodeFailed when the user's code does.
        """
        self._drain_queue()
        while self._injector.heal_all():
            self._drain_queue()
        drained = self.progress.drained(self._current)
        self.at_rest = drained or not (self._event_queue.queue or self._manager.homeless)
        if drained:
            self._recorder.log(Drained(self.stamp(), self._manager.behind))
        elif self.at_rest:
            self._recorder.log(Stalled(self.stamp(), self.waiting_for()))
        return drained

    def waiting_for(self) -> str:
        waiting = self.progress.waiting_for(self._current)
        if self._event_queue.queue:
            return f"{waiting}; the world has taken {self.steps:,} steps, and is given up"
        if self._manager.homeless:
            return f"{waiting}; no node is left for {', '.join(self._manager.homeless)}"
        if self._manager.undecided:
            return f"{waiting}; {self._manager.undecided} has not said from where all slices start together"
        return waiting

    def inspect(self) -> None:
        """Record what is kept at the end, and the faults that never came."""
        for node in (*self._nodes.values(), self._harness):
            if node.alive:
                for slice_id, machine in node.host.slices.items():
                    if machine.incarnation in self._directory.of(slice_id):
                        node.host.feed(slice_id, Inspect())
        for number, fault in self._controller.pending():
            self._recorder.log(FaultMissed(self.stamp(), number, str(fault)))

    def release(self) -> None:
        """It is over, and its parts refer to it no more: so its memory is free at once, and not only once the collector
        has found the circles."""
        for part in (*self._nodes.values(), self._harness, self.network, self.disks, self._injector, *self._made):
            vars(part).clear()
        if self.workforce is not None:
            self.workforce.release()
        # What was still due when it was given up.
        self._event_queue.queue.clear()

    # Being put back

    def run_to(self, step: int) -> bool:
        """Run until so many steps have been taken. Returns whether more is due."""
        self._drain_queue(min(step, self._options.step_limit))
        return bool(self._event_queue.queue) and self.steps < self._options.step_limit

    def watch_anew(self) -> None:
        """The controller waits for something else from now on."""
        self._watched.clear()
        self._awaits_delivery = self._controller.watches(Point.SEND_DELIVERED)

    def capture(self) -> Captured:
        """Everything as it is now, between two steps. Raises NotCapturable."""
        fixed = (self._specs, self._batches, *self._batches.values(), self._ends, self._made)
        # What is due is called with messages, and with nodes, which are reached anyway.
        return Capture(self, fixed, [self._event_queue.queue]), len(self._made)

    def restore(self, captured: Captured) -> None:
        """Go on from there."""
        capture, machines = captured
        capture.restore()
        for machine in self._made[machines:]:
            vars(machine).clear()
        del self._made[machines:]

    def _drain_queue(self, limit: int | None = None) -> None:
        event_queue, queue = self._event_queue, self._event_queue.queue
        limit = self._options.step_limit if limit is None else limit
        while queue and self.steps < limit:
            event_queue.now, _, action, given = heappop(queue)
            self.steps += 1
            action(*given)

    def _draw(self, bounds: tuple[int, int]) -> int:
        low, high = bounds
        return low + int((high - low) * self._random())

    def stamp(self) -> Stamp:
        return Stamp(self._event_queue.now, self.steps)

    # What nodes ask for

    def note(self, record: Record) -> None:
        kind = type(record)
        if kind is Delivered and self._outside.sinks:
            record = self._outside.numbered(record)  # type: ignore[arg-type]
        self._note(self._event_queue.now, record)
        if kind in COUNTED:
            self.progress.note(record)

    def _arrive(self, link: Direction, message: Message) -> None:
        sender, _, to, receiver = link
        node = self._places.get((to, receiver))
        if node is None or not node.alive:
            return
        if node.freezes:
            node.puts_off(self._arrive, link, message)
            return
        machine = node.host.slices.get(to)
        if machine is None or machine.incarnation != receiver:
            return
        if self._awaits_delivery and not self._delivered(node, link, message):
            return
        node.host.deliver(sender, to, message)

    def _reopen(self, link: Direction, message: Message) -> None:
        """As `_arrive`, on a new connection. What a frozen node had sent before goes out on the old one."""
        node = self._places.get(link[2:])
        if node is None or not node.puts_off(self._reopen, link, message):
            self.network.accept(link)
            self._arrive(link, message)

    def _deliver(self, node: _Node, link: Direction, message: Message) -> None:
        """What a frozen node was about to take in."""
        sender, _, to, receiver = link
        if not node.puts_off(self._deliver, node, link, message) and self._running(node, node.life, to, receiver):
            node.host.deliver(sender, to, message)

    def _delivered(self, node: _Node, link: Direction, message: Message) -> bool:
        """Announce that a message has arrived; it is a point of its sender. Returns whether the receiver goes on."""
        sender, incarnation, to, receiver = link
        replica = self._replica(sender, incarnation)
        if Point.SEND_DELIVERED not in self.watched(replica_name(sender, replica)):
            return True
        key = f"{to}#{receiver} {message.identity}"
        address = Address(sender, incarnation, Point.SEND_DELIVERED, key, Side.AFTER, replica)
        return self.arrive(node, address, 0) and not node.puts_off(self._deliver, node, link, message)

    def _replica(self, slice_id: str, incarnation: int) -> int:
        return self._replicas.get((slice_id, incarnation), 0)

    def persist(self, node: _Node, checkpoint: Checkpoint | Items) -> None:
        self.disks.begin(node.name, self._write, node, node.life, checkpoint)

    def _write(self, node: _Node, life: int, checkpoint: Checkpoint | Items) -> None:
        if not self._writing(self._write, node, life, checkpoint):
            return
        if self.disks.refuses(node.name, self._write, node, life, checkpoint):
            return
        machine = node.host.slices[checkpoint.slice]
        if Point.CHECKPOINT_DURABLE not in self.watched(machine.name):
            # As below, where nobody can be struck in between.
            if self._is_put(checkpoint):
                node.host.durable(checkpoint.slice, checkpoint.id)
        elif self._passes(node, checkpoint, Side.BEFORE):
            self._put(node, life, checkpoint)

    def _is_put(self, checkpoint: Checkpoint | Items) -> bool:
        """Whether the store takes it."""
        if not put(self._store, checkpoint):
            return False
        for delivered in checkpoint.delivers if isinstance(checkpoint, Checkpoint) else ():
            self.note(delivered)
        return True

    def _put(self, node: _Node, life: int, checkpoint: Checkpoint | Items) -> None:
        if not self._writing(self._put, node, life, checkpoint) or not self._is_put(checkpoint):
            return
        if self._passes(node, checkpoint, Side.AFTER):
            self._done(node, life, checkpoint)

    def _done(self, node: _Node, life: int, checkpoint: Checkpoint | Items) -> None:
        if self._writing(self._done, node, life, checkpoint):
            node.host.durable(checkpoint.slice, checkpoint.id)

    def _writing(self, stage: Action, node: _Node, life: int, checkpoint: Checkpoint | Items) -> bool:
        """Whether a write goes on with this stage now."""
        running = self._running(node, life, checkpoint.slice, checkpoint.id.incarnation)
        return running and not (node.freezes and node.puts_off(stage, node, life, checkpoint))

    def _passes(self, node: _Node, checkpoint: Checkpoint | Items, side: Side) -> bool:
        slice_id, number = checkpoint.slice, str(checkpoint.id.number)
        machine = node.host.slices[slice_id]
        if Point.CHECKPOINT_DURABLE not in self.watched(machine.name):
            return True
        incarnation, replica = checkpoint.id.incarnation, machine.replica
        address = Address(slice_id, incarnation, Point.CHECKPOINT_DURABLE, number, side, replica)
        return self.arrive(node, address, machine.taken)

    def set_timer(self, node: _Node, slice_id: str, timer: Timer, delay: int) -> None:
        incarnation = node.host.slices[slice_id].incarnation
        self._later(delay or self._options.turn, self._fire, node, node.life, slice_id, incarnation, timer)

    def _fire(self, node: _Node, life: int, slice_id: str, incarnation: int, timer: Timer) -> None:
        if node.freezes and node.puts_off(self._fire, node, life, slice_id, incarnation, timer):
            return
        if self._running(node, life, slice_id, incarnation):
            node.host.feed(slice_id, Fire(timer, self._event_queue.now // 1_000))

    def _running(self, node: _Node, life: int, slice_id: str, incarnation: int) -> bool:
        machine = node.host.slices.get(slice_id)
        return node.alive and node.life == life and machine is not None and machine.incarnation == incarnation

    # Management

    def _manage(self, given: ManagerInput) -> None:
        for effect in self._manager.on(given):
            match effect:
                case PlaceSlice(node=name):
                    node = self._nodes[name]
                    self._later(self._options.redeployment, self._start, node, node.life, effect)
                case PromoteSlice(slice_id=slice_id, incarnation=incarnation):
                    self._later(self._options.control_delay, self._promote, slice_id, incarnation)
                case Announce(slice_id=slice_id, incarnation=incarnation, speaks=speaks):
                    self._announce(slice_id, incarnation, speaks)
                case Withdraw(slice_id=slice_id, incarnation=incarnation, runs_on=runs_on):
                    self._withdraw(slice_id, incarnation)
                    if runs_on:
                        self._later(self._options.control_delay, self._end, slice_id, incarnation)
                case SayStopped(slice_id=slice_id, incarnation=incarnation, round=number):
                    self._later(self._options.control_delay, self._tell, slice_id, incarnation, Stopped(number))
                case Trust(slice_id=slice_id, incarnation=incarnation):
                    self.note(InStep(slice_id, incarnation))

    def _start(self, node: _Node, life: int, place: PlaceSlice) -> None:
        if not node.alive or node.life != life or node.puts_off(self._start, node, life, place):
            return
        slice_id, incarnation = place.slice_id, place.incarnation
        if node is not self._harness:
            name = replica_name(slice_id, place.replica)
            self._recorder.log(Placed(self.stamp(), name, incarnation, node.name))
        try:
            checkpoint, kept = None, list[Items]()
            if place.initial:
                checkpoint, kept = starting_point(self._store, self._specs[slice_id], incarnation, place.cut)
        except FencedOff:
            # It was frozen, and another has been started in its place.
            return
        self._places[slice_id, incarnation] = node
        self._replicas[slice_id, incarnation] = place.replica
        seed = self._specs[slice_id].seed_of(incarnation, self._seed)
        start = Start(incarnation, checkpoint, place.replica, place.initial, seed, kept)
        node.host.start(self._actor(self._specs[slice_id]), start)
        if not self._running(node, life, slice_id, incarnation):
            return
        if node is self._harness:
            self._announce(slice_id, incarnation, speaks=True)
        else:
            self._later(self._options.control_delay, self._manage, SliceUp(slice_id, incarnation))

    def drop_below(self, slice_id: str, incarnation: int, below: int) -> None:
        self._store.drop(slice_id, incarnation, below)

    def restart_all(self, coordinator: str, incarnation: int, given: RestartAll) -> None:
        said = TogetherFrom(coordinator, incarnation, given.round, given.cut)
        self._later(self._options.control_delay, self._manage, said)

    def _actor(self, spec: SliceSpec | CoordinatorSpec) -> Actor:
        if isinstance(spec, CoordinatorSpec):
            leader = make_actor(spec)
            self._made.append(leader)
            return leader
        machine = make_machine(spec, self._feed)
        self._made.append(machine)
        return wrapped(machine)

    def ready(self, slice_id: str, incarnation: int) -> None:
        self._later(self._options.control_delay, self._manage, SliceReady(slice_id, incarnation))

    def _promote(self, slice_id: str, incarnation: int) -> None:
        checkpoint = None
        if self._specs[slice_id].promoted_from_store:
            try:
                checkpoint = self._store.fence(slice_id, incarnation)
            except FencedOff:
                if self._running_somewhere(slice_id, incarnation):
                    del self._places[slice_id, incarnation].host.slices[slice_id]
                self._later(self._options.control_delay, self._manage, SliceFenced(slice_id, incarnation))
                return
        self._tell(slice_id, incarnation, Promote(checkpoint))

    def _announce(self, slice_id: str, incarnation: int, speaks: bool) -> None:
        silent = not self._directory.of(slice_id).get(incarnation)
        if speaks and silent and self._running_somewhere(slice_id, incarnation):
            self._current.setdefault(slice_id, set()).add(incarnation)
        for told in self._directory.announce(slice_id, incarnation, speaks):
            self._later_tell(told, Reroute(told.of, told.other))

    def _withdraw(self, slice_id: str, incarnation: int) -> None:
        """Nobody listens to it any more."""
        self._current.get(slice_id, set()).discard(incarnation)
        for told in self._directory.withdraw(slice_id, incarnation):
            self._later_tell(told, Gone(slice_id, incarnation))

    def _end(self, slice_id: str, incarnation: int) -> None:
        """It runs no more, and its node goes on."""
        if self._running_somewhere(slice_id, incarnation):
            node = self._places[slice_id, incarnation]
            if not node.puts_off(self._end, slice_id, incarnation):
                del node.host.slices[slice_id]

    def _later_tell(self, told: Told, given: Input) -> None:
        self._later(self._options.control_delay, self._tell, told.slice_id, told.incarnation, given)

    def _tell(self, slice_id: str, incarnation: int, given: Input) -> None:
        if self._running_somewhere(slice_id, incarnation):
            node = self._places[slice_id, incarnation]
            if not node.puts_off(self._tell, slice_id, incarnation, given):
                node.host.feed(slice_id, given)

    def _running_somewhere(self, slice_id: str, incarnation: int) -> bool:
        node = self._places.get((slice_id, incarnation))
        return node is not None and self._running(node, node.life, slice_id, incarnation)

    # Faults

    def arrive(self, node: _Node, address: Address, taken: int) -> bool:
        if node.freezes:
            # Its host cannot be made to wait here, but none of what it does next leaves the node before.
            return node.puts_off(self.arrive, node, address, taken)
        strikes = self._controller.arrived(address, taken)
        if strikes:
            self._watched.clear()
            life = node.life
            for strike in strikes:
                self._injector.strike(strike)
            return node.alive and node.life == life
        return True

    def would_bite(self, number: int, fault: Fault) -> bool:
        return self._injector.would_bite(number, fault)

    def _strike_due(self, when: Duration) -> None:
        for strike in self._controller.elapsed(when):
            self._injector.strike(strike)

    def outstanding(self) -> bool:
        return not self.progress.drained(self._current)

    def ends_of(self, name: str) -> tuple[str, ...]:
        return tuple(end for end in self._ends if name in (end, operator_of(slice_of(end))))

    def _name_of(self, slice_id: str, incarnation: int) -> str:
        return replica_name(slice_id, self._replica(slice_id, incarnation))

    def node_of(self, target: str) -> _Node | None:
        if target in self._nodes:
            return self._nodes[target]
        name = self._manager.node_of.get(target)
        return None if name is None else self._nodes[name]

    def kill(self, node: Victim) -> None:
        assert isinstance(node, _Node)
        node.alive = False
        node.forget()
        self._speak_no_more(node)
        node.host.forget()
        if not node.lost:
            self._later(self._options.detection, self._lose, node, node.life)
        node.lost = False
        if self._options.restart_node_after is not None:
            self._later(max(self._options.restart_node_after, self._options.detection), self._restart, node, node.life)

    def _speak_no_more(self, node: _Node) -> None:
        for slice_id, machine in node.host.slices.items():
            self._current.get(slice_id, set()).discard(machine.incarnation)

    def freeze(self, node: Victim) -> None:
        assert isinstance(node, _Node)
        node.freeze()
        if node.freezes == 1 and node.work is not None:
            node.work.pause()
        if node.freezes == 1 and not node.lost:
            self._later(self._options.detection, self._give_up, node, node.life, node.times_frozen)

    def _give_up(self, node: _Node, life: int, times_frozen: int) -> None:
        """It has not been heard of for so long that it is taken for lost."""
        still = node.freezes and node.times_frozen == times_frozen
        if node.alive and node.life == life and still and not node.lost:
            node.lost = True
            self._speak_no_more(node)
            if self.workforce is not None:
                self.workforce.eased()
            self._lose(node, life)

    def let_go(self, node: Victim) -> None:
        """It does what it had put off, then hears that it was given up, if it was."""
        assert isinstance(node, _Node)
        for action, given in node.let_go():
            self._event_queue.next(self._go_on, node, node.life, action, given)
        if node.work is not None and not node.freezes:
            node.put_off += node.work.resume()
        if node.lost and not node.freezes:
            self._later(self._options.control_delay, self._give_in, node, node.life)

    def _go_on(self, node: _Node, life: int, action: Action, given: tuple[Any, ...]) -> None:
        if node.alive and node.life == life and not node.puts_off(self._go_on, node, life, action, given):
            action(*given)

    def _give_in(self, node: _Node, life: int) -> None:
        """It hears that its slices were given to others: it forgets them, and joins as if it were new."""
        if not node.alive or node.life != life or node.puts_off(self._give_in, node, life):
            return
        node.host.forget()
        node.lost = False
        self._restart(node, life)

    def reconnect(self, link: Direction) -> None:
        self._later(self._options.control_delay, self._reconnect, link)

    def _reconnect(self, link: Direction) -> None:
        """One end of a connection notices that it is broken. On a channel it is for the receiver to speak first."""
        slice_id, incarnation, peer, other = link
        if not (self._running_somewhere(slice_id, incarnation) and self._running_somewhere(peer, other)):
            self.network.mend(link)
        elif self._listens(slice_id, peer, other):
            self._tell(slice_id, incarnation, Reroute(peer, other))
        elif not self._listens(peer, slice_id, incarnation):
            self.network.mend(link)
            spec = self._specs[slice_id]
            if peer in (slice_id, *spec.addressees, *spec.coordinators, *spec.members):
                self._tell(slice_id, incarnation, Reroute(peer, other))

    def _listens(self, slice_id: str, upstream: str, incarnation: int) -> bool:
        """Whether a slice takes input from an incarnation of another."""
        return upstream in self._specs[slice_id].upstream and self._directory.of(upstream).get(incarnation, False)

    def _lose(self, node: _Node, life: int) -> None:
        self._recorder.log(NodeGone(self.stamp(), node.name))
        self._manage(NodeLost(node.name))

    def _restart(self, node: _Node, life: int) -> None:
        node.alive = True
        node.life = life + 1
        self._recorder.log(NodeUp(self.stamp(), node.name))
        self._manage(NodeJoined(node.name))
