"""The node agent: one event loop that hosts the slices placed on its node.

The same class runs in every executor, and in the harness's own process for the sources and sinks. A slice dials the
slices upstream of it, so each channel has a TCP connection of its own: data comes down, control goes up. A slice
whose own outputs are congested stops reading its inputs; as topologies are acyclic, that cannot deadlock.
"""

from __future__ import annotations

import asyncio
import fcntl
import struct
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

import msgspec

from ..addresses import Address, Moment, Point, Side
from ..errors import ProtocolBroken, StreamproofError
from ..host import Host
from ..recording.records import Record
from ..slices.effects import Checkpoint, CheckpointId, Fire, Inspect, Reroute, Start
from ..slices.machine import Slice, SliceSpec
from ..slices.messages import Batch, End, Message
from ..stores import CheckpointStore
from ..wire import VERSION, Greeting, Place, accept, decoded, frame, read_frame
from .protocol import Route

_messages = msgspec.msgpack.Decoder(Message)
_CONGESTED = 4 << 20
"""Bytes waiting to be sent on one link from which on its slice reads no more input."""


_DELIVERY_SECONDS = 1.0
"""How long a host waits, at a crash point that asks for it, until the other side's kernel has all that was sent."""
_SIOCOUTQ = 0x5411


def _unacknowledged(socket: int) -> int:
    """Bytes of a TCP connection that the other side's kernel has not acknowledged."""
    answer = fcntl.ioctl(socket, _SIOCOUTQ, struct.pack("i", 0))
    return int(struct.unpack("i", answer)[0])


class Surroundings(Protocol):
    """What an agent is given to talk to the harness; on a link of its own that no fault touches."""

    def note(self, record: Record) -> None:
        """Hand a record over; when this returns it will reach the recorder even if the node dies."""

    def begun(self, slice_id: str, incarnation: int) -> None: ...

    def arrive(self, address: Address, taken: int, exact: bool) -> None:
        """Announce a point. Returns when the controller says go. `exact` is False where the point cannot be vouched
        for."""

    def failed(self, error: StreamproofError) -> None: ...


class NodeAgent:
    """Hosts slices on one node."""

    def __init__(
        self,
        node: str,
        token: str,
        make: Callable[[str], Slice],
        specs: Mapping[str, SliceSpec],
        store: CheckpointStore,
        armed: tuple[Moment, ...],
        surroundings: Surroundings,
    ) -> None:
        self.node = node
        self._token = token
        self._make = make
        self._specs = specs
        self._store = store
        self._armed = armed
        self._watched: dict[str, frozenset[Point]] = {}
        self._around = surroundings
        self._host = Host(self)
        self._routes: dict[str, Route] = {}
        self._links: dict[tuple[str, str, int], asyncio.StreamWriter] = {}
        """(slice here, peer, its incarnation) -> the connection between them."""
        self._accepted: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    # Life

    async def listen(self) -> Place:
        """Take links from now on. Returns where."""
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        for writer in (*self._links.values(), *self._accepted):
            writer.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

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

    def start(self, slice_id: str, incarnation: int) -> None:
        """Run an incarnation here, from its newest durable checkpoint. Raises what the store or the user's code
        raises."""
        self._around.begun(slice_id, incarnation)
        checkpoint = self._store.fence(slice_id, incarnation)
        self._host.start(self._make(slice_id), Start(incarnation, checkpoint))
        for upstream in self._specs[slice_id].upstream:
            if upstream in self._routes:
                self._spawn(self._dial(slice_id, incarnation, self._routes[upstream]))

    def route(self, route: Route) -> None:
        """Someone speaks for a slice now; those here that it feeds dial it."""
        self._routes[route.slice] = route
        for slice_id, machine in list(self._host.slices.items()):
            if route.slice in self._specs[slice_id].upstream:
                self._spawn(self._dial(slice_id, machine.incarnation, route))

    def inspect(self) -> None:
        for slice_id in list(self._host.slices):
            self._host.feed(slice_id, Inspect())

    # Links

    async def _dial(self, slice_id: str, incarnation: int, route: Route) -> None:
        try:
            reader, writer = await asyncio.open_connection(*route.links)
        except OSError:
            # The node is gone already. The manager will say who comes after it.
            return
        greeting = Greeting(
            VERSION, self._token, "link", self.node, slice_id, incarnation, route.slice, route.incarnation
        )
        writer.write(frame(greeting))
        if not self._runs(slice_id, incarnation) or self._routes[route.slice] != route:
            writer.close()
            return
        self._keep(slice_id, route.slice, route.incarnation, writer)
        self._host.feed(slice_id, Reroute(route.slice, route.incarnation))
        await self._read(reader, writer, slice_id, incarnation, route.slice, route.incarnation)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting = await accept(reader, self._token)
        if greeting is None or greeting.purpose != "link" or not self._runs(greeting.peer, greeting.peer_incarnation):
            writer.close()
            return
        self._accepted.add(writer)
        local, incarnation = greeting.peer, greeting.peer_incarnation
        self._keep(local, greeting.local, greeting.incarnation, writer)
        self._spawn(self._read(reader, writer, local, incarnation, greeting.local, greeting.incarnation))

    def _keep(self, slice_id: str, peer: str, peer_incarnation: int, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=_CONGESTED)
        self._links[slice_id, peer, peer_incarnation] = writer

    async def _read(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        slice_id: str,
        incarnation: int,
        peer: str,
        peer_incarnation: int,
    ) -> None:
        """Give a slice what its peer sends, until either is gone."""
        from_upstream = peer in self._specs[slice_id].upstream
        try:
            while self._runs(slice_id, incarnation):
                if from_upstream:
                    await self._room(slice_id)
                body = await read_frame(reader)
                if body is None or not self._runs(slice_id, incarnation):
                    return
                message = decoded(_messages, body)
                if isinstance(message, Batch | End) is not from_upstream:
                    raise ProtocolBroken(f"{peer} sent {slice_id} a message that flows the other way: {message}")
                self._host.deliver(peer, slice_id, message)
        finally:
            if self._links.get((slice_id, peer, peer_incarnation)) is writer:
                del self._links[slice_id, peer, peer_incarnation]
            self._accepted.discard(writer)
            writer.close()

    async def _room(self, slice_id: str) -> None:
        """Wait until no output of the slice is congested."""
        downstream = self._specs[slice_id].downstream
        for (local, peer, _), writer in list(self._links.items()):
            if local == slice_id and peer in downstream:
                try:
                    await writer.drain()
                except ConnectionError:
                    continue

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
        if any(moment.matches(address, taken) for moment in self._armed):
            self._around.arrive(address, taken, self._exact(address))
        return True

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
        writer = self._links.get((sender, to, incarnation))
        if writer is not None and not writer.is_closing():
            writer.write(frame(message))

    def has_delivered(self, sender: str, to: str, incarnation: int) -> bool:
        """The kernel of the receiver's host has acknowledged every byte. While this waits, nothing here goes on."""
        writer = self._links.get((sender, to, incarnation))
        if writer is None or writer.transport.get_write_buffer_size() > 0:
            return False
        deadline = time.monotonic() + _DELIVERY_SECONDS
        while _unacknowledged(writer.get_extra_info("socket").fileno()):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.0005)
        return True

    def persist(self, checkpoint: Checkpoint) -> None:
        """The disk works in a thread of its own: the slice goes on meanwhile."""
        self._passes(checkpoint.slice, checkpoint.id, Side.BEFORE)
        self._spawn(self._write(checkpoint))

    async def _write(self, checkpoint: Checkpoint) -> None:
        slice_id, id_ = checkpoint.slice, checkpoint.id
        durable = await asyncio.get_running_loop().run_in_executor(None, self._store.write, checkpoint)
        if not self._runs(slice_id, id_.incarnation):
            return
        if not durable:
            # A later incarnation runs elsewhere: this one must not speak any more.
            del self._host.slices[slice_id]
            return
        self._passes(slice_id, id_, Side.AFTER)
        self._host.durable(slice_id, id_)

    def _passes(self, slice_id: str, checkpoint: CheckpointId, side: Side) -> None:
        if Point.CHECKPOINT_DURABLE in self.watched(slice_id):
            address = Address(slice_id, checkpoint.incarnation, Point.CHECKPOINT_DURABLE, str(checkpoint.number), side)
            self.arrive(address, self._host.slices[slice_id].taken)

    def set_timer(self, slice_id: str, timer: str, delay: int) -> None:
        incarnation = self._host.slices[slice_id].incarnation
        self._spawn(self._fire(slice_id, incarnation, timer, delay))

    async def _fire(self, slice_id: str, incarnation: int, timer: str, delay: int) -> None:
        await asyncio.sleep(delay / 1e6)
        await self._room(slice_id)
        if self._runs(slice_id, incarnation):
            self._host.feed(slice_id, Fire(timer))
