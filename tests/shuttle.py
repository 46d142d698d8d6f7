"""A world without time: whatever is under way can come next, and only links and the manager's word keep their order.

So it shows interleavings that bounded delays rule out. What a dead slice had sent arrives all the same, until its loss
is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random

from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.events import Event
from streamproof.harness.core.topology import Role
from streamproof.harness.protocol.directory import Directory
from streamproof.harness.protocol.effects import (
    Durable,
    Fire,
    Gone,
    Input,
    Inspect,
    Note,
    Persist,
    PersistItems,
    Promote,
    Receive,
    Reroute,
    Send,
    SetTimer,
    Start,
    Timer,
)
from streamproof.harness.protocol.machine import Slice
from streamproof.harness.protocol.making import Feed, make_slice
from streamproof.harness.protocol.manager import (
    Announce,
    Manager,
    ManagerInput,
    NodeJoined,
    NodeLost,
    PlaceSlice,
    PromoteSlice,
    SliceReady,
    SliceUp,
    Trust,
    Withdraw,
)
from streamproof.harness.protocol.messages import Checkpoint, Items, Message
from streamproof.harness.protocol.stores import MemoryStore, put
from streamproof.harness.recording.records import Delivered, Kept, Record

Life = tuple[str, int]
"""A slice, and which incarnation of it."""
_ENDS = "ends"
"""The node of the sources and sinks."""


class Shuttle:
    """Runs a subject on `nodes` nodes, choosing at every step what happens next."""

    def __init__(
        self,
        subject: SchemeSubject,
        batches: Mapping[str, Sequence[list[Event]]],
        stretch: int,
        random: Random,
        nodes: int = 3,
    ) -> None:
        self.subject = subject
        self.specs = {spec.slice_id: spec for spec in subject.specs}
        self.machines: dict[Life, Slice] = {}
        self.node_of: dict[Life, str] = {}
        self.records: list[Record] = []
        self.in_sync: set[Life] = set()
        self.steps = 0
        self._feed = Feed(lambda source: iter(batches[source]), 1, stretch)
        self._random = random
        self._links: dict[tuple[Life, Life], deque[Message]] = {}
        self._told: dict[Life, deque[Input]] = {}
        self._timers: list[tuple[Life, Timer]] = []
        self._writes: list[tuple[Life, Checkpoint | Items]] = []
        self._reports: deque[ManagerInput] = deque()
        self._store = MemoryStore()
        self._directory = Directory(subject.specs)
        slices = [name for name, spec in self.specs.items() if spec.role is Role.OPERATOR]
        self.manager = Manager(slices, nodes, subject.replicas, subject.active_replicas)
        self.live = [f"node-{i}" for i in range(nodes)]
        for node in self.live:
            self._manage(NodeJoined(node))
        for name, spec in self.specs.items():
            if spec.role is not Role.OPERATOR:
                self._start(PlaceSlice(name, 0, 1, _ENDS, initial=True))
                self._announce(name, 1, active=True)

    # What can happen

    def step(self) -> bool:
        """One thing that is under way comes to pass; False: nothing is."""
        self.steps += 1
        choices: list[Callable[[], None]] = []
        choices += [lambda key=key: self._deliver(*key) for key, queue in self._links.items() if queue]  # type: ignore[misc]
        choices += [lambda life=life: self._tell(life) for life, queue in self._told.items() if queue]  # type: ignore[misc]
        choices += [lambda timer=timer: self._fire(timer) for timer in self._timers]  # type: ignore[misc]
        choices += [lambda write=write: self._write(write) for write in self._writes]  # type: ignore[misc]
        if self._reports:
            choices.append(lambda: self._manage(self._reports.popleft()))
        if not choices:
            return False
        self._random.choice(choices)()
        return True

    def rest(self, limit: int = 200_000) -> None:
        while self.step():
            assert self.steps < limit, "it does not come to rest"

    def crash(self, node: str) -> None:
        """Its slices are gone; the manager learns of it later, and that it is back later still."""
        self.live.remove(node)
        for life in [life for life, where in self.node_of.items() if where == node]:
            self.machines.pop(life, None)
        self._reports.append(NodeLost(node))

    def join(self, node: str) -> None:
        self.live.append(node)
        self._reports.append(NodeJoined(node))

    def expendable(self, node: str) -> bool:
        """Whether every slice has a replica in sync elsewhere."""
        if node not in self.live:
            return False
        others = {
            name for name, incarnation in self.in_sync & self.machines.keys() if self.node_of[name, incarnation] != node
        }
        return all(spec.role is not Role.OPERATOR or name in others for name, spec in self.specs.items())

    def break_link(self, one: Life, other: Life) -> None:
        """What is on its way between two lives is lost, and they are in touch again."""
        for key in ((one, other), (other, one)):
            self._links.pop(key, None)
        for life, peer in ((one, other), (other, one)):
            if life in self.machines and (life[0] == peer[0] or peer[0] in self.specs[life[0]].upstream):
                self.tell(life, Reroute(*peer))

    def tell(self, life: Life, given: Input) -> None:
        self._told.setdefault(life, deque()).append(given)

    # How it happens

    def feed(self, life: Life, given: Input) -> None:
        machine = self.machines.get(life)
        if machine is None:
            return
        for effect in machine.on(given):
            match effect:
                case Note(record=record):
                    self.records.append(record)
                case Send(to=to, incarnation=incarnation, message=message):
                    self._links.setdefault((life, (to, incarnation)), deque()).append(message)
                case SetTimer(timer=timer):
                    self._timers.append((life, timer))
                case Persist(checkpoint=checkpoint):
                    self._writes.append((life, checkpoint))
                case PersistItems(items=items):
                    self._writes.append((life, items))
                case _:
                    self._reports.append(SliceReady(*life))

    def _deliver(self, sender: Life, receiver: Life) -> None:
        self.feed(receiver, Receive(sender[0], self._links[sender, receiver].popleft()))

    def _tell(self, life: Life) -> None:
        given = self._told[life].popleft()
        if isinstance(given, Promote) and self.specs[life[0]].setup.promoted_from_store:
            given = Promote(self._store.fence(*life))
        self.feed(life, given)

    def _fire(self, timer: tuple[Life, Timer]) -> None:
        self._timers.remove(timer)
        self.feed(timer[0], Fire(timer[1]))

    def _write(self, write: tuple[Life, Checkpoint | Items]) -> None:
        self._writes.remove(write)
        life, checkpoint = write
        if life in self.machines and put(self._store, checkpoint):
            self.feed(life, Durable(checkpoint.id))

    def _manage(self, given: ManagerInput) -> None:
        for effect in self.manager.on(given):
            match effect:
                case PlaceSlice(node=node):
                    if node in self.live:
                        self._start(effect)
                        self._reports.append(SliceUp(effect.slice_id, effect.incarnation))
                case PromoteSlice(slice_id=slice_id, incarnation=incarnation):
                    self.tell((slice_id, incarnation), Promote(None))
                case Announce(slice_id=slice_id, incarnation=incarnation, active=active):
                    self._announce(slice_id, incarnation, active)
                case Withdraw(slice_id=slice_id, incarnation=incarnation):
                    self._withdraw(slice_id, incarnation)
                case Trust(slice_id=slice_id, incarnation=incarnation):
                    self.in_sync.add((slice_id, incarnation))

    def _start(self, place: PlaceSlice) -> None:
        life = place.slice_id, place.incarnation
        self.machines[life], self.node_of[life] = make_slice(self.specs[place.slice_id], self._feed), place.node
        checkpoint = self._store.fence(*life) if place.initial else None
        kept = self._store.items(place.slice_id) if place.initial else []
        self.feed(life, Start(place.incarnation, checkpoint, place.replica, place.initial, 0, kept))

    def _announce(self, slice_id: str, incarnation: int, active: bool) -> None:
        for told in self._directory.announce(slice_id, incarnation, active):
            self.tell((told.slice_id, told.incarnation), Reroute(told.of, told.other))

    def _withdraw(self, slice_id: str, incarnation: int) -> None:
        for told in self._directory.withdraw(slice_id, incarnation):
            self.tell((told.slice_id, told.incarnation), Gone(slice_id, incarnation))

    # What came of it

    def delivered(self) -> dict[str, list[Event]]:
        """Channel -> what the recorder took from it, in order."""
        found: dict[str, list[Event]] = {}
        for record in self.records:
            if isinstance(record, Delivered):
                found.setdefault(record.channel, []).extend(record.rows)
        return found

    def kept(self) -> list[Kept]:
        for life in list(self.machines):
            self.feed(life, Inspect())
        return [record for record in self.records if isinstance(record, Kept)]
