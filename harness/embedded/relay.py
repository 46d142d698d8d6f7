"""Where the links between slices pass through when a scenario disturbs them: cut, they hold what is sent; broken, they
lose it.

An agent dials the relay instead of its peer, and its greeting says who is meant. So every link has two connections,
and what passes between them is bytes, as on a network.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from ..errors import ProtocolBroken
from ..wire import Place, accept, frame

_CHUNK = 64 << 10
_RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing throws away what has not been sent, and tells the other side at once."""

Between = Callable[[str, str], bool]
"""Whether what the first named sends to the second is meant."""


class Cut:
    """What is sent in some directions waits until this is mended."""

    def __init__(self, between: Between) -> None:
        self.between = between
        self.mended = asyncio.Event()
        self.held = 0
        """Bytes."""


class Break:
    """Some connections lose what is sent on them next, and are reset then."""

    def __init__(self, done: Callable[[], None]) -> None:
        self.pending: set[_Link] = set()
        self.lost = 0
        """Bytes."""
        self._done = done

    def has_lost(self, link: _Link, count: int) -> None:
        self.lost += count
        self.pending.discard(link)
        if not self.pending:
            self._done()


class _Link:
    """One link, on its two connections."""

    def __init__(self, ends: tuple[str, str], lives: set[tuple[str, int]]) -> None:
        self.dialler, self.dialled = ends
        self.lives = lives
        self.writers: list[asyncio.StreamWriter] = []
        self.breaks: list[Break] = []
        self.dead = False

    def reset(self) -> None:
        self.dead = True
        for writer in self.writers:
            with suppress(OSError):  # It is closed already.
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()


class Relay:
    """Everything in here happens in one event loop."""

    def __init__(
        self, token: str, name_of: Callable[[str, int], str], failed: Callable[[ProtocolBroken], None]
    ) -> None:
        """`name_of` gives an incarnation of a slice the name of its replica."""
        self._token = token
        self._name_of = name_of
        self._failed = failed
        self._places: dict[tuple[str, int], Place] = {}
        self._links: set[_Link] = set()
        self._cuts: list[Cut] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, address: str) -> Place:
        self._server = await asyncio.start_server(self._answer, address, 0)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    async def close(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        for link in self._links:
            link.reset()

    def lead(self, slice_id: str, incarnation: int, place: Place) -> None:
        """This incarnation takes links there."""
        self._places[slice_id, incarnation] = place

    def forget(self, slice_id: str, incarnation: int) -> None:
        """It is gone: what it has sent, and is held, gets through no more."""
        self._places.pop((slice_id, incarnation), None)
        for link in list(self._links):
            if (slice_id, incarnation) in link.lives and self._is_cut(link):
                link.reset()

    # Faults

    def cut(self, between: Between) -> Cut:
        cut = Cut(between)
        self._cuts.append(cut)
        return cut

    def mend(self, cut: Cut) -> None:
        self._cuts.remove(cut)
        cut.mended.set()

    def break_links(self, between: Between, done: Callable[[], None]) -> Break:
        """`done` is called once each of them has lost something."""
        broken = Break(done)
        for link in self._links:
            if between(link.dialler, link.dialled) or between(link.dialled, link.dialler):
                link.breaks.append(broken)
                broken.pending.add(link)
        return broken

    def _is_cut(self, link: _Link) -> bool:
        return any(
            cut.between(link.dialler, link.dialled) or cut.between(link.dialled, link.dialler) for cut in self._cuts
        )

    # Carrying

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting = await accept(reader, self._token)
        place = None if greeting is None else self._places.get((greeting.peer, greeting.peer_incarnation))
        if greeting is None or place is None:
            writer.transport.abort()
            return
        here, there = (greeting.local, greeting.incarnation), (greeting.peer, greeting.peer_incarnation)
        link = _Link((self._name_of(*here), self._name_of(*there)), {here, there})
        link.writers.append(writer)
        self._links.add(link)
        self._spawn(link, self._connect(link, reader, writer, place, frame(greeting)))

    async def _connect(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: Place, greeting: bytes
    ) -> None:
        try:
            onward_reader, onward = await asyncio.open_connection(*place)
        except OSError:
            link.reset()
            return
        link.writers.append(onward)
        self._spawn(link, self._carry(link, onward_reader, writer, link.dialled, link.dialler))
        if await self._pass(link, onward, greeting, link.dialler, link.dialled):
            await self._carry(link, reader, onward, link.dialler, link.dialled)

    async def _carry(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sender: str, receiver: str
    ) -> None:
        """All that one side sends, to the other, until it ends."""
        try:
            while chunk := await reader.read(_CHUNK):
                if not await self._pass(link, writer, chunk, sender, receiver):
                    return
        except ConnectionError:
            pass
        writer.close()

    async def _pass(self, link: _Link, writer: asyncio.StreamWriter, chunk: bytes, sender: str, receiver: str) -> bool:
        """Returns whether the link still stands."""
        holding: set[Cut] = set()
        while cut := next((cut for cut in self._cuts if cut.between(sender, receiver)), None):
            if cut not in holding:
                holding.add(cut)
                cut.held += len(chunk)
            await cut.mended.wait()
        if link.breaks and not link.dead:
            link.reset()
            for broken in link.breaks:
                broken.has_lost(link, len(chunk))
        if link.dead:
            return False
        writer.write(chunk)
        await writer.drain()
        return True

    def _spawn(self, link: _Link, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if all(writer.is_closing() for writer in link.writers):
                self._links.discard(link)
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, ConnectionError):
                self._failed(ProtocolBroken(f"the relay of links failed: {type(error).__name__}: {error}"))

        task.add_done_callback(done)
