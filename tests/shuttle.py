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

SliceIncarnation = tuple[str, int]
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
        self.machines: dict[SliceIncarnation, Slice] = {}
        self.node_of: dict[SliceIncarnation, str] = {}
        self.records: list[Record] = []
        self.in_sync: set[SliceIncarnation] = set()
        self.steps = 0
        self._feed = Feed(lambda source: iter(batches[source]), 1, stretch)
        self._random = random
        self._links: dict[tuple[SliceIncarnation, SliceIncarnation], deque[Message]] = {}
        self._told: dict[SliceIncarnation, deque[Input]] = {}
        self._timers: list[tuple[SliceIncarnation, Timer]] = []
        self._writes: list[tuple[SliceIncarnation, Checkpoint | Items]] = []
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
        choices += [lambda who=who: self._tell(who) for who, queue in self._told.items() if queue]  # type: ignore[misc]
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
        for who in [who for who, where in self.node_of.items() if where == node]:
            self.machines.pop(who, None)
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

    def break_link(self, one: SliceIncarnation, other: SliceIncarnation) -> None:
        """What is on its way between two incarnations is lost, and they are in touch again."""
        for key in ((one, other), (other, one)):
            self._links.pop(key, None)
        for who, peer in ((one, other), (other, one)):
            if who in self.machines and (who[0] == peer[0] or peer[0] in self.specs[who[0]].upstream):
                self.tell(who, Reroute(*peer))

    def tell(self, who: SliceIncarnation, given: Input) -> None:
        self._told.setdefault(who, deque()).append(given)

    # How it happens

    def feed(self, who: SliceIncarnation, given: Input) -> None:
        machine = self.machines.get(who)
        if machine is None:
            return
        for effect in machine.on(given):
            match effect:
                case Note(record=record):
                    self.records.append(record)
                case Send(to=to, incarnation=incarnation, message=message):
                    self._links.setdefault((who, (to, incarnation)), deque()).append(message)
                case SetTimer(timer=timer):
                    self._timers.append((who, timer))
                case Persist(checkpoint=checkpoint):
                    self._writes.append((who, checkpoint))
                case PersistItems(items=items):
                    self._writes.append((who, items))
                case _:
                    self._reports.append(SliceReady(*who))

    def _deliver(self, sender: SliceIncarnation, receiver: SliceIncarnation) -> None:
        self.feed(receiver, Receive(sender[0], self._links[sender, receiver].popleft()))

    def _tell(self, who: SliceIncarnation) -> None:
        given = self._told[who].popleft()
        if isinstance(given, Promote) and self.specs[who[0]].setup.promoted_from_store:
            given = Promote(self._store.fence(*who))
        self.feed(who, given)

    def _fire(self, timer: tuple[SliceIncarnation, Timer]) -> None:
        self._timers.remove(timer)
        self.feed(timer[0], Fire(timer[1]))

    def _write(self, write: tuple[SliceIncarnation, Checkpoint | Items]) -> None:
        self._writes.remove(write)
        who, checkpoint = write
        if who in self.machines and put(self._store, checkpoint):
            self.feed(who, Durable(checkpoint.id))

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
        who = place.slice_id, place.incarnation
        self.machines[who], self.node_of[who] = make_slice(self.specs[place.slice_id], self._feed), place.node
        checkpoint = self._store.fence(*who) if place.initial else None
        kept = self._store.items(place.slice_id) if place.initial else []
        self.feed(who, Start(place.incarnation, checkpoint, place.replica, place.initial, 0, kept))

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
        for who in list(self.machines):
            self.feed(who, Inspect())
        return [record for record in self.records if isinstance(record, Kept)]
