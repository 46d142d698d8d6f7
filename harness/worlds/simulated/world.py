"""A deterministic discrete-event world for slices: virtual time, hosts that die, links that lose what was on its way
to them.

Everything that happens has a number, its step. Same plan, seed and schedule: same history, byte for byte. Nothing in
here reads a clock, an environment, or the order of a hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop
from random import Random
from typing import Any, Final

from ...contracts.injection import FaultKind
from ...core.addresses import Address, Point, Side
from ...core.costs import Costs
from ...core.errors import InvalidScheme
from ...core.events import Event
from ...core.places import numbered_workers
from ...core.quantities import Duration
from ...core.schedule import Fault
from ...core.slice_names import operator_of, replica_name, slice_of
from ...core.topology import Role
from ...protocol.controller import Controller
from ...protocol.coordinator import CoordinatorSpec
from ...protocol.effects import Fire, Inspect, Reroute, Timer
from ...protocol.making import Feed
from ...protocol.manager import (
    ActiveReplicas,
    Manager,
    NodeJoined,
    NodeLost,
    PlaceSlice,
)
from ...protocol.messages import Checkpoint, Items, Message, identity_of
from ...protocol.outside import Outside
from ...protocol.placement import Placement
from ...protocol.progress import COUNTED, Progress
from ...protocol.spec import SliceSpec
from ...protocol.stores import CheckpointStore, put
from ...recording.history import Drained, FaultMissed, NodeGone, NodeUp, Stalled, Stamp
from ...recording.recorder import Recorder
from ...recording.records import Delivered, Record
from .capturing import Capture
from .disk import Disks
from .event_queue import Action, EventQueue
from .injector import Injector
from .injector import SimulatedNode as Victim
from .network import Direction, Network
from .node import HARNESS, WorldNode
from .options import SimulationOptions
from .placing import Placing
from .working import Workforce


class _Watched(dict[str, frozenset[Point]]):
    """Actor -> its points that have to be announced, as long as the controller waits for the same; asked of it once."""

    __slots__ = ("controller",)

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self.controller = controller

    def __missing__(self, actor: str) -> frozenset[Point]:
        watched = self[actor] = self.controller.watched(actor)
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


TIME_TRIGGERS: Final = 1 << 16
"""More than a schedule has."""
Captured = tuple[Capture, int]
"""What everything held, and how many machines there were."""


class SimulatedWorld:
    """One run."""

    def __init__(
        self,
        specs: Sequence[SliceSpec],
        replicas: int,
        active_replicas: ActiveReplicas,
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
        self.left_nodes = 0
        """How often something has left a node otherwise than by a link or a write, so that its death takes none of it:
        an output was delivered, the manager or the store was told something."""
        self._recorder = recorder
        self._note = recorder.note
        every: tuple[SliceSpec | CoordinatorSpec, ...] = (*specs, *coordinators)
        self._specs: dict[str, SliceSpec | CoordinatorSpec] = {spec.slice_id: spec for spec in every}
        self._harness_ends = [spec.slice_id for spec in specs if not spec.on_nodes]
        self._batches = batches
        self._controller = controller
        self._watched = _Watched(controller)
        self.watched = self._watched.__getitem__
        """The points of an actor that have to be announced: asked for with every input."""
        self._awaits_delivery = controller.watches(Point.SEND_DELIVERED)
        self._options = options
        self._random = Random(seed).random
        self._event_queue = EventQueue()
        self._later = self._event_queue.later
        self._places_of_times = 0
        self.workforce = None if costs is None else Workforce(self._event_queue, costs)
        self._outside = Outside(specs)
        self._nodes: dict[str, WorldNode] = {}
        self.placing = Placing(
            Manager(
                [spec.slice_id for spec in specs if spec.on_nodes],
                options.nodes,
                replicas,
                active_replicas,
                coordinators=[spec.slice_id for spec in coordinators],
                placement=placement,
                restarts_by=restarts_by,
                alone=self._outside.sinks,
            ),
            self._specs,
            self._nodes,
            Feed(lambda source: _Batches(batches[source]), interval, stretch),
            store,
            options,
            seed,
            self._event_queue,
            recorder,
            self.note,
            self.stamp,
        )
        self._places = self.placing.places
        self.network = network(
            self._event_queue,
            self._random,
            options.link_delay,
            self._arrive,
            self._reopen,
            self.placing.name_of,
            self.placing.runs_somewhere,
            self.placing.directory.feed_one_another,
        )
        self.disks = Disks(self._event_queue, self._draw, options.disk_delay)
        self._store = store
        self._nodes.update((f"node-{i}", WorldNode(f"node-{i}", self)) for i in range(options.nodes))
        self._harness = WorldNode(HARNESS, self)
        self._ends = [
            replica_name(spec.slice_id, replica)
            for spec in specs
            for replica in range(replicas if spec.role is Role.OPERATOR else 1)
        ] + [spec.slice_id for spec in coordinators]
        self.progress = Progress(specs)
        places = numbered_workers(options.nodes)
        self._injector = Injector(self, kinds, self._event_queue, recorder, self.stamp, places, seed)

    # Running

    def prepare(self) -> None:
        """Let the nodes join and place the slices; nothing has happened yet."""
        for name in self._nodes:
            self.placing.manage(NodeJoined(name))

    def start(self) -> None:
        """Let the sources offer; from here on time triggers count."""
        for end in self._harness_ends:
            self.placing.start(self._harness, self._harness.boot, PlaceSlice(end, 0, 1, HARNESS, initial=True))
        # Kept free, so that time triggers that are known only later find the place that is theirs.
        self._places_of_times = self._event_queue.keep_free(TIME_TRIGGERS)
        self._strike_in_time()

    def _strike_in_time(self) -> None:
        for place, when in enumerate(self._controller.times()):
            self._event_queue.at_place(self._places_of_times + place, when.micros, self._strike_due, when)

    def rest(self) -> bool:
        """Run until nothing more is due. Returns whether the subject was drained.

        Raises UsersCodeFailed when the user's code does, InvalidScheme where not all of the input was offered.
        """
        self._drain_queue()
        while self._injector.heal_all():
            self._drain_queue()
        drained = self.progress.drained(self.placing.current)
        self.at_rest = drained or not (self._event_queue.queue or self.placing.manager.homeless)
        if drained:
            self._require_all_offered()
            self._recorder.log(Drained(self.stamp(), self.placing.manager.behind))
        elif self.at_rest:
            self._recorder.log(Stalled(self.stamp(), self.waiting_for()))
        return drained

    def _require_all_offered(self) -> None:
        """Raises InvalidScheme where the input came to its end before all of it was offered: nobody would miss the
        rest."""
        due = sum(len(batch) for batches in self._batches.values() for batch in batches)
        if self.progress.offered != due:
            raise InvalidScheme(
                f"{', '.join(self._batches)} offered {self.progress.offered:,} events, of {due:,}, and said that there "
                "are no more: a mechanism of a source lets its machine take from the input and end it"
            )

    def waiting_for(self) -> str:
        waiting = self.progress.waiting_for(self.placing.current)
        if self._event_queue.queue:
            return f"{waiting}; the world has taken {self.steps:,} steps, and is given up"
        if self.placing.manager.homeless:
            return f"{waiting}; no node is left for {', '.join(self.placing.manager.homeless)}"
        if self.placing.manager.undecided:
            return f"{waiting}; {self.placing.manager.undecided} has not said from where all slices start together"
        return waiting

    def inspect(self) -> None:
        """Record what is kept at the end, and the faults that never came."""
        for node in (*self._nodes.values(), self._harness):
            if node.alive:
                for slice_id, machine in node.host.slices.items():
                    if machine.incarnation in self.placing.directory.of(slice_id):
                        node.host.feed(slice_id, Inspect())
        for number, fault in self._controller.pending():
            self._recorder.log(FaultMissed(self.stamp(), number, str(fault)))

    def release(self) -> None:
        """It is over, and its parts refer to it no more: so its memory is free at once, and not only once the collector
        has found the circles."""
        made = self.placing.made
        for part in (
            *self._nodes.values(),
            self._harness,
            self.network,
            self.disks,
            self._injector,
            self.placing,
            *made,
        ):
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

    def control(self, controller: Controller) -> None:
        """From now on this one decides when faults strike. It waits for no time that has passed."""
        self._controller = self._watched.controller = controller
        self._watched.clear()
        self._awaits_delivery = controller.watches(Point.SEND_DELIVERED)
        self._strike_in_time()

    def capture(self) -> Captured:
        """Everything as it is now, between two steps. Raises NotCapturable."""
        fixed = (self._specs, self._batches, *self._batches.values(), self._ends, self.placing.made)
        # What is due is called with messages, and with nodes, which are reached anyway.
        return Capture(self, fixed, [self._event_queue.queue]), len(self.placing.made)

    def restore(self, captured: Captured) -> None:
        """Go on from there."""
        capture, machines = captured
        capture.restore()
        for machine in self.placing.made[machines:]:
            vars(machine).clear()
        del self.placing.made[machines:]

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

    def has_left(self) -> int:
        return self.left_nodes

    # What nodes ask for

    def note(self, record: Record) -> None:
        kind = type(record)
        if kind is Delivered and self._outside.sinks:
            self.left_nodes += 1
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

    def _deliver(self, node: WorldNode, link: Direction, message: Message) -> None:
        """What a frozen node was about to take in."""
        sender, _, to, receiver = link
        if not node.puts_off(self._deliver, node, link, message) and self.placing.runs(node, node.boot, to, receiver):
            node.host.deliver(sender, to, message)

    def _delivered(self, node: WorldNode, link: Direction, message: Message) -> bool:
        """Announce that a message has arrived; it is a point of its sender. Returns whether the receiver goes on."""
        sender, incarnation, to, receiver = link
        replica = self.placing.replica(sender, incarnation)
        if Point.SEND_DELIVERED not in self.watched(replica_name(sender, replica)):
            return True
        key = f"{to}#{receiver} {identity_of(sender, message)}"
        address = Address(sender, incarnation, Point.SEND_DELIVERED, key, Side.AFTER, replica)
        return self.arrive(node, address, 0) and not node.puts_off(self._deliver, node, link, message)

    def persist(self, node: WorldNode, checkpoint: Checkpoint | Items) -> None:
        self.disks.begin(node.name, self._write, node, node.boot, checkpoint)

    def _write(self, node: WorldNode, boot: int, checkpoint: Checkpoint | Items) -> None:
        if not self._writing(self._write, node, boot, checkpoint):
            return
        if self.disks.refuses(node.name, self._write, node, boot, checkpoint):
            return
        machine = node.host.slices[checkpoint.slice]
        if Point.CHECKPOINT_DURABLE not in self.watched(machine.name):
            # As below, where nobody can be struck in between.
            if self._is_put(checkpoint):
                node.host.durable(checkpoint.slice, checkpoint.id)
        elif self._passes(node, checkpoint, Side.BEFORE):
            self._put(node, boot, checkpoint)

    def _is_put(self, checkpoint: Checkpoint | Items) -> bool:
        """Whether the store takes it."""
        if not put(self._store, checkpoint):
            return False
        for delivered in checkpoint.delivers if isinstance(checkpoint, Checkpoint) else ():
            self.note(delivered)
        return True

    def _put(self, node: WorldNode, boot: int, checkpoint: Checkpoint | Items) -> None:
        if not self._writing(self._put, node, boot, checkpoint) or not self._is_put(checkpoint):
            return
        if self._passes(node, checkpoint, Side.AFTER):
            self._done(node, boot, checkpoint)

    def _done(self, node: WorldNode, boot: int, checkpoint: Checkpoint | Items) -> None:
        if self._writing(self._done, node, boot, checkpoint):
            node.host.durable(checkpoint.slice, checkpoint.id)

    def _writing(self, stage: Action, node: WorldNode, boot: int, checkpoint: Checkpoint | Items) -> bool:
        """Whether a write goes on with this stage now."""
        running = self.placing.runs(node, boot, checkpoint.slice, checkpoint.id.incarnation)
        return running and not (node.freezes and node.puts_off(stage, node, boot, checkpoint))

    def _passes(self, node: WorldNode, checkpoint: Checkpoint | Items, side: Side) -> bool:
        slice_id, number = checkpoint.slice, str(checkpoint.id.number)
        machine = node.host.slices[slice_id]
        if Point.CHECKPOINT_DURABLE not in self.watched(machine.name):
            return True
        incarnation, replica = checkpoint.id.incarnation, machine.replica
        address = Address(slice_id, incarnation, Point.CHECKPOINT_DURABLE, number, side, replica)
        return self.arrive(node, address, machine.taken)

    def set_timer(self, node: WorldNode, slice_id: str, timer: Timer, delay: int) -> None:
        incarnation = node.host.slices[slice_id].incarnation
        self._later(delay or self._options.turn, self._fire, node, node.boot, slice_id, incarnation, timer)

    def _fire(self, node: WorldNode, boot: int, slice_id: str, incarnation: int, timer: Timer) -> None:
        if node.freezes and node.puts_off(self._fire, node, boot, slice_id, incarnation, timer):
            return
        if self.placing.runs(node, boot, slice_id, incarnation):
            node.host.feed(slice_id, Fire(timer, self._event_queue.now // 1_000))

    # Faults

    def arrive(self, node: WorldNode, address: Address, taken: int) -> bool:
        if node.freezes:
            # Its host cannot be made to wait here, but none of what it does next leaves the node before.
            return node.puts_off(self.arrive, node, address, taken)
        strikes = self._controller.arrived(address, taken)
        if strikes:
            self._watched.clear()
            boot = node.boot
            for strike in strikes:
                self._injector.strike(strike)
            return node.alive and node.boot == boot
        return True

    def would_bite(self, number: int, fault: Fault) -> bool:
        return self._injector.would_bite(number, fault)

    def _strike_due(self, when: Duration) -> None:
        for strike in self._controller.elapsed(when):
            self._injector.strike(strike)

    def outstanding(self) -> bool:
        return not self.progress.drained(self.placing.current)

    def ends_of(self, name: str) -> tuple[str, ...]:
        return tuple(end for end in self._ends if name in (end, operator_of(slice_of(end))))

    def node_of(self, target: str) -> WorldNode | None:
        return self.placing.node_of(target)

    def has_begun(self, node: Victim) -> bool:
        return bool(node.actors) or self.placing.has_begun(node.name)

    def kill(self, node: Victim) -> None:
        assert isinstance(node, WorldNode)
        node.alive = False
        node.forget()
        self._stand_down(node)
        node.host.forget()
        if not node.lost:
            self._later(self._options.detection, self._lose, node, node.boot)
        node.lost = False
        if self._options.restart_node_after is not None:
            self._later(max(self._options.restart_node_after, self._options.detection), self._restart, node, node.boot)

    def _stand_down(self, node: WorldNode) -> None:
        for slice_id, machine in node.host.slices.items():
            self.placing.current.get(slice_id, set()).discard(machine.incarnation)

    def freeze(self, node: Victim) -> None:
        assert isinstance(node, WorldNode)
        node.freeze()
        if node.freezes == 1 and node.work is not None:
            node.work.pause()
        if node.freezes == 1 and not node.lost:
            self._later(self._options.detection, self._give_up, node, node.boot, node.times_frozen)

    def _give_up(self, node: WorldNode, boot: int, times_frozen: int) -> None:
        """It has not been heard of for so long that it is taken for lost."""
        still = node.freezes and node.times_frozen == times_frozen
        if node.alive and node.boot == boot and still and not node.lost:
            node.lost = True
            self._stand_down(node)
            if self.workforce is not None:
                self.workforce.eased()
            self._lose(node, boot)

    def let_go(self, node: Victim) -> None:
        """It does what it had put off, then hears that it was given up, if it was."""
        assert isinstance(node, WorldNode)
        for action, given in node.let_go():
            self._event_queue.next(self._go_on, node, node.boot, action, given)
        if node.work is not None and not node.freezes:
            node.put_off += node.work.resume()
        if node.lost and not node.freezes:
            self._later(self._options.control_delay, self._give_in, node, node.boot)

    def _go_on(self, node: WorldNode, boot: int, action: Action, given: tuple[Any, ...]) -> None:
        if node.alive and node.boot == boot and not node.puts_off(self._go_on, node, boot, action, given):
            action(*given)

    def _give_in(self, node: WorldNode, boot: int) -> None:
        """It hears that its slices were given to others: it forgets them, and joins as if it were new."""
        if not node.alive or node.boot != boot or node.puts_off(self._give_in, node, boot):
            return
        node.host.forget()
        node.lost = False
        self._restart(node, boot)

    def reconnect(self, link: Direction) -> None:
        self._later(self._options.control_delay, self._reconnect, link)

    def _reconnect(self, link: Direction) -> None:
        """One end of a connection notices that it is broken. On a channel it is for the receiver to begin."""
        slice_id, incarnation, peer, other = link
        if not (self.placing.runs_somewhere(slice_id, incarnation) and self.placing.runs_somewhere(peer, other)):
            self.network.mend(link)
        elif self._listens(slice_id, peer, other):
            self.placing.tell(slice_id, incarnation, Reroute(peer, other))
        elif not self._listens(peer, slice_id, incarnation):
            self.network.mend(link)
            spec = self._specs[slice_id]
            if peer in (slice_id, *spec.addressees, *spec.coordinators, *spec.members):
                self.placing.tell(slice_id, incarnation, Reroute(peer, other))

    def _listens(self, slice_id: str, upstream: str, incarnation: int) -> bool:
        """Whether a slice takes input from an incarnation of another."""
        return upstream in self._specs[slice_id].upstream and self.placing.directory.of(upstream).get(
            incarnation, False
        )

    def _lose(self, node: WorldNode, boot: int) -> None:
        self._recorder.log(NodeGone(self.stamp(), node.name))
        self.placing.manage(NodeLost(node.name))

    def _restart(self, node: WorldNode, boot: int) -> None:
        node.alive = True
        node.boot = boot + 1
        self._recorder.log(NodeUp(self.stamp(), node.name))
        self.placing.manage(NodeJoined(node.name))
