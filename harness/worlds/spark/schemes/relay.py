"""Where the links between slices pass through when a scenario disturbs them: cut, they hold what is sent; broken, they
lose it.

An agent dials the relay instead of its peer, and its greeting says who is meant. So every link has two connections,
and what passes between them is bytes, as on a network. A link that a scenario slows has two more between those, through
a proxy that leads from the relay back to it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec

from ....core.errors import OwnFailure, ProtocolBroken, StreamproofError
from ....core.wire import VERSION, Endpoint, Greeting, accept, frame
from ....recording.history import Proof
from ..control.slowing import Between, Passage, ProxiedLinks, Slowing
from ..control.toxics import Toxic

_CHUNK = 64 << 10
_RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing throws away what has not been sent, and tells the other side at once."""

_THROUGH = "through a proxy"
"""The purpose of a connection that comes back from a proxy."""
_PROBE = "probe"
"""That of one which is to be closed at once."""
_PROBE_SECONDS = 5.0
_GREETING_SECONDS = 5.0
_SLOW_GREETING_SECONDS = 60.0
"""How long the first frame of a connection may take, from an agent, and through a proxy that makes it late."""


class CutLinks:
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

    def __init__(self, ends: tuple[str, str], incarnations: set[tuple[str, int]]) -> None:
        self.dialler, self.dialled = ends
        self.incarnations = incarnations
        self.writers: list[asyncio.StreamWriter] = []
        self.passages: dict[tuple[str, str], Passage] = {}
        """(sender, receiver) -> what is inside the proxy; none without a proxy."""
        self.breaks: list[Break] = []
        self.dead = False

    def reset(self) -> None:
        self.dead = True
        for writer in self.writers:
            with suppress(OSError):  # It is closed already.
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()


class LinkRelay:
    """Everything in here happens in one event loop."""

    def __init__(
        self, token: str, name_of: Callable[[str, int], str], failed: Callable[[StreamproofError], None]
    ) -> None:
        """`name_of` gives an incarnation of a slice the name of its replica."""
        self._token = token
        self._name_of = name_of
        self._failed = failed
        self._places: dict[tuple[str, int], Endpoint] = {}
        self._links: set[_Link] = set()
        self._cuts: list[CutLinks] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._proxied: ProxiedLinks | None = None
        self._slowings: list[Slowing] = []
        self._inside: dict[str, _Link] = {}
        """Links on their way through a proxy, by the number that their greeting there has."""
        self._numbers = count()

    async def listen(self, address: str) -> Endpoint:
        self._server = await asyncio.start_server(self._answer, address, 0)
        host, port = self._server.sockets[0].getsockname()
        return host, port

    async def close(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        for link in self._links:
            link.reset()
        if self._proxied is not None:
            self._proxied.close()

    def pass_through(self, proxied: ProxiedLinks) -> None:
        """From now on, the links that these are for."""
        self._proxied = proxied

    def lead(self, slice_id: str, incarnation: int, place: Endpoint) -> None:
        """This incarnation takes links there."""
        self._places[slice_id, incarnation] = place

    def forget(self, slice_id: str, incarnation: int) -> None:
        """It is gone: what it has sent, and is held, gets through no more."""
        self._places.pop((slice_id, incarnation), None)
        for link in list(self._links):
            if (slice_id, incarnation) in link.incarnations and self._is_cut(link):
                link.reset()

    # Faults

    def cut(self, between: Between) -> CutLinks:
        cut = CutLinks(between)
        self._cuts.append(cut)
        return cut

    def mend(self, cut: CutLinks) -> None:
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

    def slow(self, between: Between, toxic: Toxic) -> Slowing:
        """Raises OwnFailure when no proxy does it."""
        if self._proxied is None:
            raise OwnFailure("links are to be slowed, and none passes through a proxy")
        slowing = self._proxied.slow(between, toxic)
        self._slowings.append(slowing)
        return slowing

    async def hasten(self, slowing: Slowing) -> Proof:
        """Raises OwnFailure when a proxy goes on."""
        assert self._proxied is not None
        try:
            healed = await self._proxied.heal(slowing)
        finally:
            self._slowings.remove(slowing)
        # What else slows them would be taken for this.
        for place in () if self._slowings else healed:
            await self._probe(place, slowing.toxic)
        return slowing.proof

    async def _probe(self, place: Endpoint, toxic: Toxic) -> None:
        """See that a connection through a proxy takes its usual time again."""
        clock = asyncio.get_running_loop().time
        least, deadline = toxic.least.seconds, clock() + _PROBE_SECONDS
        while True:
            began = clock()
            try:
                async with asyncio.timeout(_PROBE_SECONDS):
                    reader, writer = await asyncio.open_connection(*place)
                    writer.write(frame(Greeting(VERSION, self._token, _PROBE, "relay")))
                    await reader.read()
                    writer.close()
            except OSError as error:  # A time-out is one too.
                raise OwnFailure(f"nothing passes through a proxy whose {toxic.type} has ended: {error}") from error
            took = clock() - began
            if not least or took < least:
                return
            if clock() > deadline:
                raise OwnFailure(f"a {toxic.type} has ended, and what passes still takes {took * 1e3:.0f} ms")

    def _is_cut(self, link: _Link) -> bool:
        return any(
            cut.between(link.dialler, link.dialled) or cut.between(link.dialled, link.dialler) for cut in self._cuts
        )

    # Carrying

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxied = self._proxied is not None
        greeting = await accept(reader, self._token, _SLOW_GREETING_SECONDS if proxied else _GREETING_SECONDS)
        if greeting is None:
            writer.transport.abort()
        elif greeting.purpose == _PROBE:
            writer.close()
        elif greeting.purpose == _THROUGH:
            self._comes_out(greeting, reader, writer)
        else:
            self._goes_in(greeting, reader, writer)

    def _goes_in(self, greeting: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here, there = (greeting.local, greeting.incarnation), (greeting.peer, greeting.peer_incarnation)
        place = self._places.get(there)
        if place is None:
            writer.transport.abort()
            return
        link = _Link((self._name_of(*here), self._name_of(*there)), {here, there})
        link.writers.append(writer)
        self._links.add(link)
        self._spawn(link, self._from_dialler(link, reader, writer, place, greeting))

    def _comes_out(self, greeting: Greeting, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = self._places.get((greeting.peer, greeting.peer_incarnation))
        link = self._inside.pop(greeting.node, None)
        if link is None:
            writer.transport.abort()
            return
        link.writers.append(writer)
        if link.dead or place is None:
            link.reset()
            return
        self._spawn(link, self._to_dialled(link, reader, writer, place))

    async def _from_dialler(
        self,
        link: _Link,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        place: Endpoint,
        greeting: Greeting,
    ) -> None:
        dialler, dialled = link.dialler, link.dialled
        proxy = None if self._proxied is None else await self._proxied.place(dialler, dialled)
        found = await _dial(link, proxy or place)
        if found is None:
            return
        onward_reader, onward = found
        if proxy is None:
            self._spawn(link, self._carry(link, onward_reader, writer, dialled, dialler))
        else:
            number = str(next(self._numbers))
            self._inside[number] = link
            for ends in ((dialler, dialled), (dialled, dialler)):
                link.passages[ends] = Passage(ends, self._slowings)
            onward.write(frame(msgspec.structs.replace(greeting, purpose=_THROUGH, node=number)))
            self._spawn(link, self._carry_out(link, onward_reader, onward, writer, link.passages[dialled, dialler]))
        if await self._pass(link, onward, frame(greeting), dialler, dialled):
            await self._carry(link, reader, onward, dialler, dialled)

    async def _to_dialled(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: Endpoint
    ) -> None:
        found = await _dial(link, place)
        if found is not None:
            there_reader, there = found
            self._spawn(link, self._carry(link, there_reader, writer, link.dialled, link.dialler))
            await self._carry_out(link, reader, writer, there, link.passages[link.dialler, link.dialled])

    async def _carry(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sender: str, receiver: str
    ) -> None:
        """All that one side sends, to the other, or into the proxy, until it ends."""
        try:
            while chunk := await reader.read(_CHUNK):
                if not await self._pass(link, writer, chunk, sender, receiver):
                    return
        except ConnectionError:
            pass
        if passage := link.passages.get((sender, receiver)):
            passage.close()
            # The proxy tells the other side, and that, when it closes, this one.
            with suppress(OSError):
                writer.write_eof()
        else:
            writer.close()

    async def _carry_out(
        self,
        link: _Link,
        reader: asyncio.StreamReader,
        proxy: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
        passage: Passage,
    ) -> None:
        """All that comes out of the proxy. What the receiver does not take yet waits here: the proxy throws away what
        cannot be read while it is healed."""
        with suppress(ConnectionError):
            while (chunk := await reader.read(_CHUNK)) and not link.dead:
                passage.leave(len(chunk))
                if not writer.is_closing():
                    writer.write(chunk)
        if not link.dead:
            passage.closed()
        proxy.close()
        writer.close()

    async def _pass(self, link: _Link, writer: asyncio.StreamWriter, chunk: bytes, sender: str, receiver: str) -> bool:
        """Returns whether the link still stands."""
        holding: set[CutLinks] = set()
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
        if passage := link.passages.get((sender, receiver)):
            passage.enter(len(chunk))
        writer.write(chunk)
        await writer.drain()
        return True

    def _spawn(self, link: _Link, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if all(writer.is_closing() for writer in link.writers) and link not in self._inside.values():
                self._links.discard(link)
            error = None if task.cancelled() else task.exception()
            if isinstance(error, StreamproofError):
                self._failed(error)
            elif error is not None and not isinstance(error, ConnectionError):
                self._failed(ProtocolBroken(f"the relay of links failed: {type(error).__name__}: {error}"))

        task.add_done_callback(done)


async def _dial(link: _Link, place: Endpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """One more connection of the link; None when there is none to be had, or the link was reset meanwhile."""
    try:
        reader, writer = await asyncio.open_connection(*place)
    except OSError:
        link.reset()
        return None
    link.writers.append(writer)
    if link.dead:
        link.reset()
        return None
    return reader, writer
