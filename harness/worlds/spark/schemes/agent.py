"""The node agent: one event loop that hosts the slices placed on its node.

The same class runs in every executor, and in the harness's own process for the sources and sinks. A slice dials the
slices upstream of it, so each channel has a TCP connection of its own: data comes down, control goes up. It also dials
the replicas of its slice that were there before it, and the sources that follow their events. A slice whose own outputs
are congested stops reading its inputs; as topologies are acyclic, that cannot deadlock.
"""

from __future__ import annotations

import asyncio
import fcntl
import struct
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from ....core.addresses import Address, Moment, Point, Side
from ....core.errors import ProtocolBroken, StorageRefused, StreamproofError
from ....core.wire import VERSION, Endpoint, Greeting, accept, decoded, frame, read_frame
from ....protocol.coordinator import CoordinatorSpec
from ....protocol.directory import Directory, Told
from ....protocol.effects import Fire, Gone, Inspect, Promote, Reroute, RestartAll, Start, Stopped, Timer
from ....protocol.host import Actor, Host
from ....protocol.messages import Checkpoint, CheckpointId, Flow, Items, Message, Open, decoder
from ....protocol.spec import SliceSpec
from ....protocol.starting import starting_point
from ....protocol.stores import CheckpointStore, FencedOff, put
from ....recording.records import Record, Refused
from ..control.run_messages import Route, StartSlice, Welcome
from .outgoing import Outgoing

T = TypeVar("T")

_CONGESTED = 4 << 20
"""Bytes waiting to be sent on one link from which on its slice reads no more input."""

_REDIAL_SECONDS = (0.01, 0.5)
"""The first pause before a link that broke is dialled again, and the longest: each is twice the one before."""

_REWRITE_SECONDS = (0.05, 1.0)
"""The first pause before the store is tried again that has refused a write, and the longest."""

_DELIVERY_SECONDS = 1.0
"""How long a host waits, at a crash point that asks for it, until the other side's kernel has all that was sent."""

_TURN_SECONDS = 0.02
"""For which a slice may take in what one peer has sent before others of its node have their turn."""
_SIOCOUTQ = 0x5411

_Found = tuple[Checkpoint | None, list[Items]]
_GoOn = Callable[[Checkpoint | None, list[Items]], None]


def _unacknowledged(socket: int) -> int:
    """Bytes of a TCP connection that the other side's kernel has not acknowledged."""
    answer = fcntl.ioctl(socket, _SIOCOUTQ, struct.pack("i", 0))
    return int(struct.unpack("i", answer)[0])


class Surroundings(Protocol):
    """What an agent is given to talk to the harness; on a link of its own that no fault touches."""

    def note(self, record: Record) -> None:
        """Hand a record over; when this returns it will reach the recorder even if the node dies."""

    def begun(self, start: StartSlice) -> None: ...

    def arrive(self, address: Address, taken: int, exact: bool) -> None:
        """Announce a point. Returns when the controller says go. `exact` is False where the point cannot be vouched
        for."""

    def refused(self, slice_id: str, incarnation: int, refusal: StorageRefused, began: int) -> None:
        """The store has refused a write that began then, ns; it is tried again. Whether that is a fault of the run's or
        a disk that is really full is for the harness to say: it knows what is in force."""

    def failed(self, error: StreamproofError) -> None: ...


class NodeAgent:
    """Hosts slices on one node."""

    def __init__(
        self,
        node: str,
        token: str,
        make: Callable[[str], Actor],
        specs: Mapping[str, SliceSpec | CoordinatorSpec],
        store: CheckpointStore,
        armed: tuple[Moment, ...],
        surroundings: Surroundings,
        up: Callable[[str, int], None],
        ready: Callable[[str, int], None],
        fenced: Callable[[str, int], None],
        restart_all: Callable[[str, int, RestartAll], None],
    ) -> None:
        """`up` tells the manager that a slice runs, `ready` that it is in sync, `fenced` that it was to be active and
        the store does not let it, `restart_all` what a coordinator says."""
        self.node = node
        self.ready = ready
        self.restart_all = restart_all
        self._up = up
        self._fenced = fenced
        self.relay: Endpoint | None = None
        """Where links are dialled instead of at their peers."""
        self._token = token
        self._make = make
        self._specs = specs
        self._decoder = decoder(kind for spec in specs.values() for kind in spec.messages)
        self._store = store
        self._armed = armed
        self._watched: dict[str, frozenset[Point]] = {}
        self._around = surroundings
        self._host = Host(self)
        self._routes: dict[str, dict[int, Route]] = {}
        """Slice -> its incarnations that are announced."""
        self._directory = Directory(specs.values())
        """Those that run here stand in it too, from their start."""
        self._dials: dict[Told, asyncio.Task[None]] = {}
        """The links that this side makes, and makes again when they break."""
        self._links: dict[tuple[str, str, int], asyncio.StreamWriter] = {}
        """(slice here, peer, its incarnation) -> the connection between them."""
        self._opened: set[tuple[str, str, int]] = set()
        """Those over which the peer has opened the channel from here, by the connection that there is now. Before, it
        must not hear what it would take for the answer, such as the end of a replay that an earlier connection began:
        that is lost, as with the connection."""
        self._outgoing = Outgoing(exact=bool(armed))
        self._eased: dict[str, asyncio.Event] = {}
        """Slices here that had too much to do when somebody looked."""
        self._accepted: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    # Life cycle

    async def listen(self, address: str) -> Endpoint:
        """Take links from now on. Returns where."""
        self._server = await asyncio.start_server(self._answer, address, 0)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        for writer in (*self._links.values(), *self._accepted):
            writer.transport.abort()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, StreamproofError):
            self._around.failed(error)
        elif error is not None:
            self._around.failed(ProtocolBroken(f"{self.node} failed: {type(error).__name__}: {error}"))

    # What the manager says

    def start(self, start: StartSlice) -> None:
        """Run an incarnation here, unless a later one has been started: an initial one from its slice's newest durable
        checkpoint, as soon as the store gives it. Raises what the store or the user's code raises."""
        self._around.begun(start)
        if start.initial:
            self._fence(start.slice, start.incarnation, lambda *found: self._begin(start, *found), start.cut)
        else:
            self._begin(start, None, [])

    def _begin(self, start: StartSlice, checkpoint: Checkpoint | None, kept: list[Items]) -> None:
        slice_id, incarnation = start.slice, start.incarnation
        given = Start(incarnation, checkpoint, start.replica, start.initial, start.seed, kept)
        self._host.start(self._make(slice_id), given)
        self._ease(slice_id)
        self._reach(self._directory.announce(slice_id, incarnation, active=False))
        self._up(slice_id, incarnation)

    def promote(self, slice_id: str, incarnation: int) -> None:
        """Let an incarnation that runs here be active."""
        if not self._runs(slice_id, incarnation):
            return
        if self._specs[slice_id].promoted_from_store:
            self._fence(slice_id, incarnation, lambda found, _: self._promoted(slice_id, incarnation, found))
        else:
            self._host.feed(slice_id, Promote(None))

    def _promoted(self, slice_id: str, incarnation: int, checkpoint: Checkpoint | None) -> None:
        if self._runs(slice_id, incarnation):
            self._host.feed(slice_id, Promote(checkpoint))

    def _fence(self, slice_id: str, incarnation: int, go_on: _GoOn, cut: int | None = None) -> None:
        """Fence the slice, and go on with the checkpoint that it starts from, and the items beside it: at once, or when
        the disk takes the fence. One that has been fenced off itself does not go on."""
        began = time.monotonic_ns()
        work = partial(starting_point, self._store, self._specs[slice_id], incarnation, cut)
        try:
            found = work()
        except FencedOff:
            self._fenced_off(slice_id, incarnation)
            return
        except StorageRefused as refusal:
            self._around.refused(slice_id, incarnation, refusal, began)
            self._spawn(self._fence_later(slice_id, incarnation, work, go_on))
            return
        go_on(*found)

    async def _fence_later(self, slice_id: str, incarnation: int, work: Callable[[], _Found], go_on: _GoOn) -> None:
        def wanted() -> bool:
            return not self._directory.is_gone(slice_id, incarnation)

        try:
            found = await self._insist(slice_id, incarnation, wanted, work)
        except FencedOff:
            self._fenced_off(slice_id, incarnation)
            return
        if wanted() and found is not None:
            go_on(*found)

    def _fenced_off(self, slice_id: str, incarnation: int) -> None:
        if self._runs(slice_id, incarnation):
            self._drop(slice_id)
            self._fenced(slice_id, incarnation)

    def route(self, route: Route) -> None:
        """An incarnation is there, or is active now; those here that deal with it dial it."""
        if self._directory.is_gone(route.slice, route.incarnation):
            return
        self._routes.setdefault(route.slice, {})[route.incarnation] = route
        self._reach(self._directory.announce(route.slice, route.incarnation, route.active))

    def withdraw(self, slice_id: str, incarnation: int) -> None:
        """An incarnation is to be listened to no more."""
        told = self._directory.withdraw(slice_id, incarnation)
        self._routes.get(slice_id, {}).pop(incarnation, None)
        if self._runs(slice_id, incarnation):
            self._drop(slice_id)
        for link, dial in list(self._dials.items()):
            if (link.of, link.other) == (slice_id, incarnation):
                dial.cancel()
        for (local, peer, peer_incarnation), writer in list(self._links.items()):
            if (peer, peer_incarnation) == (slice_id, incarnation):
                del self._links[local, peer, peer_incarnation]
                # Not `close`, which would go on trying to send what is buffered: its host may be stopped.
                writer.transport.abort()
        for one in told:
            if self._runs(one.slice_id, one.incarnation):
                self._host.feed(one.slice_id, Gone(slice_id, incarnation))

    def stopped(self, coordinator: str, incarnation: int, number: int) -> None:
        """All slices have stopped, for so many times now: a coordinator that runs here is to say how they go on."""
        if self._runs(coordinator, incarnation):
            self._host.feed(coordinator, Stopped(number))

    def inspect(self) -> None:
        for slice_id in list(self._host.slices):
            self._host.feed(slice_id, Inspect())

    def _drop(self, slice_id: str) -> None:
        """A slice here must not be active any more: others are."""
        del self._host.slices[slice_id]
        self._ease(slice_id)
        for link, dial in list(self._dials.items()):
            if link.slice_id == slice_id:
                dial.cancel()
        for link_here, writer in list(self._links.items()):
            if link_here[0] == slice_id:
                del self._links[link_here]
                writer.transport.abort()

    # Links

    def _reach(self, told: Iterable[Told]) -> None:
        """Dial those whom somebody here hears of, if it is for this side to do so and it does not do so already."""
        for one in told:
            if self._directory.calls(one) and one not in self._dials and self._runs(one.slice_id, one.incarnation):
                dial = self._dials[one] = self._spawn(self._dial(*one))
                dial.add_done_callback(lambda _, one=one: self._dials.pop(one, None))  # type: ignore[misc]

    async def _dial(self, slice_id: str, incarnation: int, peer: str, peer_incarnation: int) -> None:
        """Hold a link to a peer for as long as both are there: `withdraw` ends this."""
        first, longest = _REDIAL_SECONDS
        pause = first
        while self._runs(slice_id, incarnation):
            if await self._talk(slice_id, incarnation, self._routes[peer][peer_incarnation]):
                pause = first
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    async def _talk(self, slice_id: str, incarnation: int, route: Route) -> bool:
        """One connection, from its beginning to its end. Returns whether the peer took it."""
        try:
            reader, writer = await asyncio.open_connection(*(self.relay or route.links))
        except OSError:
            return False
        greeting = Greeting(
            VERSION, self._token, "link", self.node, slice_id, incarnation, route.slice, route.incarnation
        )
        try:
            writer.write(frame(greeting))
            if await read_frame(reader) is None or not self._runs(slice_id, incarnation):
                return False
            self._keep(slice_id, route.slice, route.incarnation, writer)
            self._host.feed(slice_id, Reroute(route.slice, route.incarnation))
            await self._read(reader, writer, slice_id, incarnation, route.slice, route.incarnation)
            return True
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting = await accept(reader, self._token)
        if greeting is None or greeting.purpose != "link" or not self._runs(greeting.peer, greeting.peer_incarnation):
            writer.transport.abort()
            return
        local, incarnation = greeting.peer, greeting.peer_incarnation
        peer, peer_incarnation = greeting.local, greeting.incarnation
        if self._directory.is_gone(peer, peer_incarnation):
            self.note(Refused(local, incarnation, peer, peer_incarnation, "link"))
            writer.transport.abort()
            return
        self._accepted.add(writer)
        self._keep(local, peer, peer_incarnation, writer)
        writer.write(frame(Welcome()))
        self._spawn(self._serve(reader, writer, local, incarnation, peer, peer_incarnation))

    async def _serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        slice_id: str,
        incarnation: int,
        peer: str,
        peer_incarnation: int,
    ) -> None:
        """The answering side of a connection."""
        try:
            meets = peer == slice_id or self._directory.leads(slice_id, peer)
            meets = meets or self._directory.feed_one_another(slice_id, peer)
            if meets and self._links.get((slice_id, peer, peer_incarnation)) is writer:
                self._host.feed(slice_id, Reroute(peer, peer_incarnation))
            await self._read(reader, writer, slice_id, incarnation, peer, peer_incarnation)
        finally:
            self._accepted.discard(writer)
            writer.transport.abort()

    def _keep(self, slice_id: str, peer: str, peer_incarnation: int, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=_CONGESTED)
        before = self._links.get((slice_id, peer, peer_incarnation))
        if before is not None:
            # The other side has noticed earlier that it broke.
            before.transport.abort()
        self._links[slice_id, peer, peer_incarnation] = writer
        self._opened.discard((slice_id, peer, peer_incarnation))

    async def _read(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        slice_id: str,
        incarnation: int,
        peer: str,
        peer_incarnation: int,
    ) -> None:
        """Give a slice what its peer sends, until either is gone or another connection has taken the place of this."""
        link = slice_id, peer, peer_incarnation
        sender, receiver = self._specs.get(peer), self._specs[slice_id]
        # Who held back what is fed back could wait for one who waits for it.
        from_upstream = peer in receiver.upstream
        if isinstance(receiver, SliceSpec):
            from_upstream = from_upstream and not receiver.topology.leads_back(peer, slice_id)
        turn_ends = time.monotonic() + _TURN_SECONDS
        try:
            while True:
                if time.monotonic() > turn_ends:
                    # What was read already is given out without a pause; what the node sends, and does else, waits.
                    await asyncio.sleep(0)
                    turn_ends = time.monotonic() + _TURN_SECONDS
                if from_upstream:
                    await self._room(slice_id)
                    await self._uncrowded(slice_id)
                body = await read_frame(reader)
                if body is None or not self._runs(slice_id, incarnation) or self._links.get(link) is not writer:
                    return
                message = decoded(self._decoder, body)
                if sender is None or not sender.may_send(slice_id, message):
                    raise ProtocolBroken(f"{peer} sent {slice_id} what is not for it to send: {message.identity}")
                if isinstance(message, Open):
                    self._opened.add(link)
                self._host.deliver(peer, slice_id, message)
                self._ease(slice_id)
        finally:
            if self._links.get(link) is writer:
                del self._links[link]

    async def _room(self, slice_id: str) -> None:
        """Wait until no output of the slice is congested."""
        downstream = self._specs[slice_id].downstream
        for (local, peer, _), writer in list(self._links.items()):
            if local == slice_id and peer in downstream:
                try:
                    await writer.drain()
                except ConnectionError:
                    continue

    async def _uncrowded(self, slice_id: str) -> None:
        """Wait until the slice wants more, or is there no more."""
        while slice_id in self._host.slices and self._host.slices[slice_id].crowded:
            await self._eased.setdefault(slice_id, asyncio.Event()).wait()

    def _ease(self, slice_id: str) -> None:
        """Something has happened in a slice here, or to it."""
        if slice_id in self._eased:
            self._eased.pop(slice_id).set()

    def _runs(self, slice_id: str, incarnation: int) -> bool:
        machine = self._host.slices.get(slice_id)
        return machine is not None and machine.incarnation == incarnation

    # The world under the host

    def watched(self, actor: str) -> frozenset[Point]:
        watched = self._watched.get(actor)
        if watched is None:
            points = frozenset(m.point for m in self._armed if m.actor is None or m.actor == actor)
            watched = self._watched[actor] = points
        return watched

    def arrive(self, address: Address, taken: int) -> bool:
        if self._awaited(address, taken):
            # What was sent before the point outlives a crash at it.
            self._outgoing.flush()
            self._around.arrive(address, taken, self._exact(address))
        return True

    def _awaited(self, address: Address, taken: int) -> bool:
        return any(moment.matches(address, taken) for moment in self._armed)

    def _exact(self, address: Address) -> bool:
        """A message is handed over when the kernel has it, not while it waits in this process."""
        if address.point is not Point.SEND_HANDED_OVER:
            return True
        peer, _, incarnation = address.key.partition(" ")[0].partition("#")
        writer = self._links.get((address.actor, peer, int(incarnation)))
        return writer is not None and writer.transport.get_write_buffer_size() == 0

    def note(self, record: Record) -> None:
        self._around.note(record)

    def send(self, sender: str, to: str, incarnation: int, message: Message) -> None:
        link = sender, to, incarnation
        writer = self._links.get(link)
        if writer is None or writer.is_closing() or (message.flow is Flow.DOWNSTREAM and link not in self._opened):
            return
        self._outgoing.send(writer, message)

    def has_delivered(self, address: Address, taken: int, to: str, incarnation: int) -> bool:
        """The kernel of the receiver's host has acknowledged every byte. While this waits, nothing here goes
        on but the pulse; and it can take 40 ms, since kernels put acknowledgements off. So not for any message."""
        if self.relay is not None or not self._awaited(address, taken):
            return False
        self._outgoing.flush()
        writer = self._links.get((address.actor, to, incarnation))
        if writer is None or writer.is_closing() or writer.transport.get_write_buffer_size() > 0:
            return False
        deadline = time.monotonic() + _DELIVERY_SECONDS
        while _unacknowledged(writer.get_extra_info("socket").fileno()):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.0005)
        return True

    def persist(self, checkpoint: Checkpoint | Items) -> None:
        """The disk works in a thread of its own: the slice goes on meanwhile."""
        self._passes(checkpoint.slice, checkpoint.id, Side.BEFORE)
        self._spawn(self._write(checkpoint))

    async def _write(self, checkpoint: Checkpoint | Items) -> None:
        slice_id, id_ = checkpoint.slice, checkpoint.id
        durable = await self._insist(
            slice_id,
            id_.incarnation,
            lambda: self._runs(slice_id, id_.incarnation),
            lambda: put(self._store, checkpoint),
        )
        if not self._runs(slice_id, id_.incarnation):
            return
        if not durable:
            self._drop(slice_id)
            return
        self._passes(slice_id, id_, Side.AFTER)
        self._host.durable(slice_id, id_)
        self._ease(slice_id)

    def drop_below(self, slice_id: str, incarnation: int, below: int) -> None:
        self._spawn(self._drop_below(slice_id, incarnation, below))

    async def _drop_below(self, slice_id: str, incarnation: int, below: int) -> None:
        def dropped() -> bool:
            self._store.drop(slice_id, incarnation, below)
            return True

        await self._insist(slice_id, incarnation, lambda: self._runs(slice_id, incarnation), dropped)

    async def _insist(
        self, slice_id: str, incarnation: int, wanted: Callable[[], bool], work: Callable[[], T]
    ) -> T | None:
        """What the store answers once the disk takes it; None where that is not wanted any more."""
        pause, longest = _REWRITE_SECONDS
        while wanted():
            began = time.monotonic_ns()
            try:
                return await asyncio.get_running_loop().run_in_executor(None, work)
            except StorageRefused as refusal:
                self._around.refused(slice_id, incarnation, refusal, began)
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)
        return None

    def _passes(self, slice_id: str, checkpoint: CheckpointId, side: Side) -> None:
        machine = self._host.slices[slice_id]
        if Point.CHECKPOINT_DURABLE in self.watched(machine.name):
            number = str(checkpoint.number)
            address = Address(slice_id, checkpoint.incarnation, Point.CHECKPOINT_DURABLE, number, side, machine.replica)
            self.arrive(address, machine.taken)

    def set_timer(self, slice_id: str, timer: Timer, delay: int) -> None:
        incarnation = self._host.slices[slice_id].incarnation
        self._spawn(self._fire(slice_id, incarnation, timer, delay))

    async def _fire(self, slice_id: str, incarnation: int, timer: Timer, delay: int) -> None:
        await asyncio.sleep(delay / 1e6)
        await self._room(slice_id)
        if self._runs(slice_id, incarnation):
            self._host.feed(slice_id, Fire(timer, time.time_ns() // 1_000_000))
