"""The relay between the processes of a run and the stores outside: every request that may change a store is held before
it leaves and once it is answered.

Whoever listens says what becomes of what is held. Where its sender has died meanwhile, it goes nowhere: a request that
was held never leaves, an answer is lost, and the store sees the connection end.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final, Protocol

from ...core.addresses import Side
from ...core.errors import StoreUnreachable
from ...core.wire import Endpoint
from .bursts import Bursts
from .framing import Conversation, Converse, FramedPart, Request, Unreadable
from .senders import pid_of

CONNECT_SECONDS: Final = 10.0
_CHUNK: Final = 64 << 10
_LONGEST_HELD: Final = 4 << 20
"""Bytes of an answer that wait for its end; of a longer one, its last bytes alone are held."""
_HELD_SECONDS: Final = 1.0
"""How long they wait: an answer may never end."""
_LONGEST_NAME: Final = 120
_RESET: Final = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing throws away what has not been sent, and tells the other side at once."""
_ESTABLISHED: Final = 1
"""The first byte of TCP_INFO while both sides are there."""


@dataclass(frozen=True)
class RelayedStore:
    """A store that is reached through the relay."""

    name: str
    place: Endpoint
    converse: Converse


@dataclass(frozen=True)
class Sender:
    """Who sends a request."""

    node: str
    actor: str
    incarnation: int


@dataclass(frozen=True)
class HeldMessage:
    """A request that has not left, or the answer to one."""

    sender: Sender
    side: Side
    key: str
    """`3/postgres COMMIT#1`."""
    size: int
    """Of the answer, in bytes."""


ANSWERS_LOST: Final = "bytes of an answer lost, and its connection reset"
REQUESTS_LOST: Final = "requests lost, and their connection reset"
"""What a record says of what was lost."""


class Fate(Enum):
    """What becomes of what was held, if its sender lives."""

    GOES_ON = "goes on"
    LOST = "lost"
    """A request before it leaves, or an answer; and its connection breaks."""


class Listens(Protocol):
    """Who hears of the messages of a run. All is called in the relay's event loop."""

    def sender(self, pid: int, address: str, incarnation: int) -> Sender | None:
        """Who has connected from there, as what that incarnation runs; None: nobody who is listened to now.
        `pid` is 0 where the process is not of this machine."""

    def batch(self) -> str:
        """The newest that a crash point has named."""

    async def arrived(self, held: HeldMessage) -> Fate:
        """A fault that strikes there has struck when this returns. Until then, it is held."""


@dataclass
class Seen:
    """What came through for one store."""

    requests: int = 0
    """Of those who are listened to, those that change nothing included."""
    by_strangers: int = 0
    """Of whom it is not known who they are, or who are not listened to."""
    unread: str = ""
    """Why a connection could not be read by the store's protocol, if one could not."""
    unreachable: str = ""
    """Why the store could not be reached, if so."""


@dataclass(eq=False)
class _Asked:
    """A request that was not answered yet."""

    sender: Sender | None
    key: str
    """Empty where it is not announced."""


@dataclass(eq=False)
class _Door:
    """Where one incarnation of a query reaches one store."""

    store: RelayedStore
    incarnation: int | None
    """None: what passes is nobody's."""
    label: re.Pattern[str]
    seen: Seen
    place: Endpoint = ("", 0)


@dataclass(eq=False)
class _Connection:
    """Of a client, and of the relay in its stead."""

    door: _Door
    peer: Endpoint
    pid: int
    client: asyncio.StreamWriter
    store: asyncio.StreamWriter
    conversation: Conversation
    asked: deque[_Asked] = field(default_factory=deque)
    held: list[bytes] = field(default_factory=list)
    """Of an answer whose end has not come."""
    patience: asyncio.TimerHandle | None = None
    """Until it is let go without its end."""
    unreadable: str = ""
    """Why it has just turned out to be of another protocol."""

    @property
    def is_open(self) -> bool:
        """Whether the client's side of it is there, as the kernel knows it."""
        sock: socket.socket = self.client.get_extra_info("socket")
        try:
            return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED
        except OSError:
            return False

    def break_off(self) -> None:
        """The client hears that it is reset, the store that it is over."""
        with suppress(OSError):  # It is closed already.
            sock: socket.socket = self.client.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.client.transport.abort()
        self.store.close()

    def stay(self) -> None:
        """What is held of an answer is not let go because of time."""
        if self.patience is not None:
            self.patience.cancel()
            self.patience = None

    def forget(self) -> None:
        """What is held of an answer goes nowhere."""
        self.held.clear()
        self.stay()


class _Over(Exception):
    """A connection goes on no more."""


class StoreRelay:
    """Of one run. It lives in the event loop in which it is opened."""

    def __init__(self, stores: Sequence[RelayedStore], address: str, listens: Listens) -> None:
        """`address` is where it listens, so that every node of the run reaches it."""
        self._stores = stores
        self._address = address
        self._listens = listens
        self._servers: dict[int | None, list[asyncio.Server]] = {}
        """By who reaches the stores there, or None for what is no part of a query."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._times: Counter[tuple[int, str]] = Counter()
        """How often an incarnation has sent each request of each batch."""
        self._senders: dict[int, None] = {}
        """Processes that have connected, the last one last."""
        self.seen = {store.name: Seen() for store in stores}
        self.places: set[str] = set()
        """`host:port` of each at which it has listened."""
        self.unreachable = ""
        """Which store could not be reached since it last began to count, and why."""

    async def open(self, incarnation: int, label: str) -> dict[str, str]:
        """Listen to one incarnation of a query, whose stores hold things named after `label`: where each store is
        reached. Whoever had that number before, in another run, reaches none any more."""
        return await self._open(incarnation, label)

    async def open_aside(self) -> dict[str, str]:
        """The same, for what is no part of the query, and is not listened to. Nodes may reach no store but so."""
        return await self._open(None, "")

    async def _open(self, incarnation: int | None, label: str) -> dict[str, str]:
        places = {}
        for server in self._servers.get(incarnation, ()):
            server.close()
        servers = self._servers[incarnation] = []
        for store in self._stores:
            door = _Door(store, incarnation, _pattern(label), self.seen[store.name])
            server = await asyncio.start_server(partial(self._serve, door), self._address, 0)
            servers.append(server)
            host, port = server.sockets[0].getsockname()[:2]
            door.place = (host, port)
            places[store.name] = f"{host}:{port}"
        self.places.update(places.values())
        return places

    async def close(self) -> None:
        """End all that passes."""
        for server in itertools.chain.from_iterable(self._servers.values()):
            server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def begin_anew(self) -> None:
        """Count from the beginning: what is sent from now on is another attempt's."""
        self._times.clear()
        self.unreachable = ""

    def require_stores(self) -> None:
        """For who was sent away by what it depends on. Raises StoreUnreachable where a store could not be reached."""
        if self.unreachable:
            raise StoreUnreachable(f"the store {self.unreachable}; start it, or correct its address in the query")

    async def _serve(self, door: _Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._converse(door, reader, writer)
        except asyncio.CancelledError:
            # Only `close` cancels. asyncio would print what a connection's task raises at its end.
            return
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _converse(self, door: _Door, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")[:2]
        try:
            opening = asyncio.open_connection(*door.store.place)
            from_store, to_store = await asyncio.wait_for(opening, CONNECT_SECONDS)
        except (OSError, TimeoutError) as error:
            host, port = door.store.place
            door.seen.unreachable = f"{host}:{port} cannot be reached: {error or 'no answer'}"
            self.unreachable = f"{door.store.name} at {door.seen.unreachable}"
            return
        for stream in (writer, to_store):
            stream.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        conversation = door.store.converse(door.store.place, door.place)
        connection = _Connection(door, peer, self._pid_of(peer, door.place), writer, to_store, conversation)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._upward(connection, reader))
                both.create_task(self._downward(connection, from_store))
        except* (_Over, OSError):
            # Broken off on purpose, or by one of the ends: the other is told below.
            pass
        finally:
            connection.forget()
            to_store.close()

    def _pid_of(self, peer: Endpoint, ours: Endpoint) -> int:
        pid = pid_of(peer, ours, reversed(self._senders))
        if pid:
            self._senders.pop(pid, None)
            self._senders[pid] = None
        return pid

    async def _upward(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(_CHUNK):
            for part in _parts(connection, lambda: connection.conversation.asked(data)):
                await self._ask(connection, part)
            await self._read_as_bursts(connection)
            await connection.store.drain()
        if connection.store.can_write_eof():
            connection.store.write_eof()

    async def _downward(self, connection: _Connection, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(_CHUNK):
            for part in _parts(connection, lambda: connection.conversation.answered(data)):
                await self._answer(connection, part)
            await self._read_as_bursts(connection)
            await connection.client.drain()
        for part in connection.conversation.ended():
            await self._answer(connection, part)
        self._let_go(connection)
        await connection.client.drain()
        # Nothing more comes of the store, so that nothing more is to be asked.
        raise _Over

    async def _read_as_bursts(self, connection: _Connection) -> None:
        """From now on, if it has turned out that it cannot be read otherwise."""
        if not connection.unreadable:
            return
        connection.door.seen.unread, connection.unreadable = connection.unreadable, ""
        asked, answered = connection.conversation.unread()
        connection.conversation = Bursts(len(connection.asked))
        for part in connection.conversation.answered(answered):
            await self._answer(connection, part)
        for part in connection.conversation.asked(asked):
            await self._ask(connection, part)

    async def _ask(self, connection: _Connection, part: FramedPart) -> None:
        if part.reply:
            connection.client.write(part.reply)
            return
        if part.begins is not None:
            await self._begin(connection, part.begins)
        connection.store.write(part.data)

    async def _begin(self, connection: _Connection, request: Request) -> None:
        """Before it leaves. Raises _Over where it never does."""
        door, listens = connection.door, self._listens
        if door.incarnation is None:
            connection.asked.append(_Asked(None, ""))
            return
        sender = listens.sender(connection.pid, connection.peer[0], door.incarnation)
        if sender is None:
            door.seen.by_strangers += 1
        else:
            door.seen.requests += 1
        if sender is None or not request.changes:
            connection.asked.append(_Asked(sender, ""))
            return
        name = f"{listens.batch()}/{door.store.name} {without_label(request.name, door.label)}"
        self._times[sender.incarnation, name] += 1
        asked = _Asked(sender, f"{name}#{self._times[sender.incarnation, name]}")
        await self._hold(connection, asked, Side.BEFORE, 0)
        connection.asked.append(asked)

    async def _answer(self, connection: _Connection, part: FramedPart) -> None:
        connection.held.append(part.data)
        waits = any(asked.key for asked in connection.asked)
        for _ in range(min(part.ends, len(connection.asked))):
            asked = connection.asked.popleft()
            if asked.key:
                connection.stay()
                await self._hold(connection, asked, Side.AFTER, sum(map(len, connection.held)))
        if part.ends or part.needed or not waits or sum(map(len, connection.held)) > _LONGEST_HELD:
            self._let_go(connection)
        elif connection.patience is None:
            connection.patience = asyncio.get_running_loop().call_later(_HELD_SECONDS, self._let_go, connection)

    def _let_go(self, connection: _Connection) -> None:
        connection.stay()
        for data in connection.held:
            connection.client.write(data)
        connection.held.clear()

    async def _hold(self, connection: _Connection, asked: _Asked, side: Side, size: int) -> None:
        """Raises _Over where its sender has died, or what is held is to be lost."""
        assert asked.sender is not None
        was_there = connection.is_open
        fate = await self._listens.arrived(HeldMessage(asked.sender, side, asked.key, size))
        if fate is Fate.LOST:
            connection.break_off()
            raise _Over
        # One that has ended its side before, and waits for its answer, lives.
        if was_there and not connection.is_open:
            connection.break_off()
            raise _Over


def _parts(connection: _Connection, read: Callable[[], Iterator[FramedPart]]) -> Iterator[FramedPart]:
    """As far as it can be read."""
    try:
        yield from read()
    except Unreadable as error:
        connection.unreadable = str(error)


def _pattern(label: str) -> re.Pattern[str]:
    """A run's label, however a store's names allow it to be written; the beginning of one that was cut short too."""
    words = [re.escape(word) for word in re.findall(r"[A-Za-z0-9]+", label)]
    return re.compile(r"[^A-Za-z0-9]*".join(words) or r"(?!)", re.IGNORECASE)


def without_label(name: str, label: re.Pattern[str]) -> str:
    """The name of a request, the same in every run."""
    plain = re.sub(r"\d{4,}", "*", label.sub("*", name))
    return re.sub(r"\s+", " ", plain)[:_LONGEST_NAME]
