"""Who runs where in the simulated world: what the manager decides is carried out here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...core.slice_names import replica_name
from ...protocol.coordinator import CoordinatorSpec
from ...protocol.directory import Directory, Told
from ...protocol.effects import Gone, Input, Promote, Reroute, RestartAll, Start, Stopped
from ...protocol.host import Actor
from ...protocol.making import Feed, make_actor, make_machine, wrapped
from ...protocol.manager import (
    Announce,
    Manager,
    ManagerInput,
    PlaceSlice,
    PromoteSlice,
    SayStopped,
    SliceFenced,
    SliceReady,
    SliceUp,
    TogetherFrom,
    Trust,
    Withdraw,
)
from ...protocol.messages import Items
from ...protocol.spec import SliceSpec
from ...protocol.starting import starting_point
from ...protocol.stores import CheckpointStore, FencedOff
from ...recording.history import Placed, Stamp
from ...recording.recorder import Recorder
from ...recording.records import InSync
from .event_queue import EventQueue
from .freezing import NoteRecord
from .node import HARNESS, WorldNode
from .options import SimulationOptions


class Placing:
    """Has slices started, promoted, announced and ended, and knows which incarnation is where."""

    def __init__(
        self,
        manager: Manager,
        specs: Mapping[str, SliceSpec | CoordinatorSpec],
        nodes: Mapping[str, WorldNode],
        feed: Feed,
        store: CheckpointStore,
        options: SimulationOptions,
        seed: int,
        event_queue: EventQueue,
        recorder: Recorder,
        note: NoteRecord,
        stamp: Callable[[], Stamp],
    ) -> None:
        self.manager = manager
        self.specs = specs
        self.directory = Directory(specs.values())
        self.made: list[object] = []
        """Every machine there was, dead ones too."""
        self.places: dict[tuple[str, int], WorldNode] = {}
        """(slice, incarnation) -> where it was started."""
        self.current: dict[str, set[int]] = {}
        """Slice -> those that are active, and alive."""
        self._replicas: dict[tuple[str, int], int] = {}
        self._nodes = nodes
        self._feed = feed
        self._store = store
        self._options = options
        self._seed = seed
        self._later = event_queue.later
        self._recorder = recorder
        # Not its `log` by itself: one that is carried to another process is the recorder that it passes on to.
        self._note = note
        self._stamp = stamp

    def manage(self, given: ManagerInput) -> None:
        """Let the manager hear of something, and carry out what it decides."""
        for effect in self.manager.on(given):
            match effect:
                case PlaceSlice(node=name):
                    node = self._nodes[name]
                    self._later(self._options.redeployment, self.start, node, node.boot, effect)
                case PromoteSlice(slice_id=slice_id, incarnation=incarnation):
                    self._later(self._options.control_delay, self._promote, slice_id, incarnation)
                case Announce(slice_id=slice_id, incarnation=incarnation, active=active):
                    self._announce(slice_id, incarnation, active)
                case Withdraw(slice_id=slice_id, incarnation=incarnation, runs_on=runs_on):
                    self._withdraw(slice_id, incarnation)
                    if runs_on:
                        self._later(self._options.control_delay, self._end, slice_id, incarnation)
                case SayStopped(slice_id=slice_id, incarnation=incarnation, round=number):
                    self._later(self._options.control_delay, self.tell, slice_id, incarnation, Stopped(number))
                case Trust(slice_id=slice_id, incarnation=incarnation):
                    self._note(InSync(slice_id, incarnation))

    def start(self, node: WorldNode, boot: int, place: PlaceSlice) -> None:
        """Start an incarnation on a node, unless that has been restarted since."""
        if not node.alive or node.boot != boot or node.puts_off(self.start, node, boot, place):
            return
        slice_id, incarnation = place.slice_id, place.incarnation
        if node.name != HARNESS:
            name = replica_name(slice_id, place.replica)
            self._recorder.log(Placed(self._stamp(), name, incarnation, node.name))
        try:
            checkpoint, kept = None, list[Items]()
            if place.initial:
                checkpoint, kept = starting_point(self._store, self.specs[slice_id], incarnation, place.cut)
        except FencedOff:
            # It was frozen, and another has been started in its place.
            return
        self.places[slice_id, incarnation] = node
        self._replicas[slice_id, incarnation] = place.replica
        seed = self.specs[slice_id].seed_of(incarnation, self._seed)
        start = Start(incarnation, checkpoint, place.replica, place.initial, seed, kept)
        node.host.start(self._actor(self.specs[slice_id]), start)
        if not self.runs(node, boot, slice_id, incarnation):
            return
        if node.name == HARNESS:
            self._announce(slice_id, incarnation, active=True)
        else:
            self._later(self._options.control_delay, self.manage, SliceUp(slice_id, incarnation))

    def drop_below(self, slice_id: str, incarnation: int, below: int) -> None:
        self._store.drop(slice_id, incarnation, below)

    def restart_all(self, coordinator: str, incarnation: int, given: RestartAll) -> None:
        """A coordinator says where all go on."""
        said = TogetherFrom(coordinator, incarnation, given.round, given.cut)
        self._later(self._options.control_delay, self.manage, said)

    def _actor(self, spec: SliceSpec | CoordinatorSpec) -> Actor:
        if isinstance(spec, CoordinatorSpec):
            leader = make_actor(spec)
            self.made.append(leader)
            return leader
        machine = make_machine(spec, self._feed)
        self.made.append(machine)
        return wrapped(machine)

    def ready(self, slice_id: str, incarnation: int) -> None:
        self._later(self._options.control_delay, self.manage, SliceReady(slice_id, incarnation))

    def _promote(self, slice_id: str, incarnation: int) -> None:
        checkpoint = None
        if self.specs[slice_id].promoted_from_store:
            try:
                checkpoint = self._store.fence(slice_id, incarnation)
            except FencedOff:
                if self.runs_somewhere(slice_id, incarnation):
                    del self.places[slice_id, incarnation].host.slices[slice_id]
                self._later(self._options.control_delay, self.manage, SliceFenced(slice_id, incarnation))
                return
        self.tell(slice_id, incarnation, Promote(checkpoint))

    def _announce(self, slice_id: str, incarnation: int, active: bool) -> None:
        was_active = self.directory.of(slice_id).get(incarnation)
        if active and not was_active and self.runs_somewhere(slice_id, incarnation):
            self.current.setdefault(slice_id, set()).add(incarnation)
        for told in self.directory.announce(slice_id, incarnation, active):
            self._later_tell(told, Reroute(told.of, told.other))

    def _withdraw(self, slice_id: str, incarnation: int) -> None:
        """Nobody listens to it any more."""
        self.current.get(slice_id, set()).discard(incarnation)
        for told in self.directory.withdraw(slice_id, incarnation):
            self._later_tell(told, Gone(slice_id, incarnation))

    def _end(self, slice_id: str, incarnation: int) -> None:
        """It runs no more, and its node goes on."""
        if self.runs_somewhere(slice_id, incarnation):
            node = self.places[slice_id, incarnation]
            if not node.puts_off(self._end, slice_id, incarnation):
                del node.host.slices[slice_id]

    def _later_tell(self, told: Told, given: Input) -> None:
        self._later(self._options.control_delay, self.tell, told.slice_id, told.incarnation, given)

    def tell(self, slice_id: str, incarnation: int, given: Input) -> None:
        if self.runs_somewhere(slice_id, incarnation):
            node = self.places[slice_id, incarnation]
            if not node.puts_off(self.tell, slice_id, incarnation, given):
                node.host.feed(slice_id, given)

    def runs_somewhere(self, slice_id: str, incarnation: int) -> bool:
        node = self.places.get((slice_id, incarnation))
        return node is not None and self.runs(node, node.boot, slice_id, incarnation)

    def name_of(self, slice_id: str, incarnation: int) -> str:
        return replica_name(slice_id, self.replica(slice_id, incarnation))

    def replica(self, slice_id: str, incarnation: int) -> int:
        return self._replicas.get((slice_id, incarnation), 0)

    def runs(self, node: WorldNode, boot: int, slice_id: str, incarnation: int) -> bool:
        """Whether an incarnation is there on a node that has not been restarted since this boot."""
        machine = node.host.slices.get(slice_id)
        return node.alive and node.boot == boot and machine is not None and machine.incarnation == incarnation

    def node_of(self, target: str) -> WorldNode | None:
        if target in self._nodes:
            return self._nodes[target]
        name = self.manager.node_of.get(target)
        return None if name is None else self._nodes[name]

    def has_begun(self, node: str) -> bool:
        """Whether any of those that run on a node, or are about to be started there, was ever started."""
        begun = {replica_name(slice_id, replica) for (slice_id, _), replica in self._replicas.items()}
        return any(at == node and actor in begun for actor, at in self.manager.node_of.items())
