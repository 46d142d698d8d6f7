"""Where threads of Spark, and of the user's code, say which crash point they have come to, and wait."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ...core.addresses import DRIVER, TASK, Point, Side
from ...core.wire import Endpoint

LONGEST_LINE = 4 << 10
LINE_SECONDS = 5.0
"""How long a connection may take to say what it is for."""
GO, REFUSE = b"g", b"r"
"""What who waits is answered. Only an operation on a file can be refused, before it is done."""


@dataclass(frozen=True)
class HeldPoint:
    """A thread that waits at a crash point."""

    node: str
    incarnation: int
    pid: int
    """As the process itself sees it."""
    peer: Endpoint
    """From where it has connected."""
    side: Side
    point: Point
    key: str
    """The batch comes first; "?" where the thread does not know it."""
    actor: str = ""
    """Whether the driver passes it, or a task; empty where only the point tells."""
    text: str = ""
    """Of the line of code that is meant, where it is one; of an operation on a file, how that is used."""


@dataclass(frozen=True)
class SaidInPassing:
    """What a process says without anybody waiting for what becomes of it."""

    node: str
    incarnation: int
    content: bytes
    """JSON; whoever it is for can read it."""
    elsewhere: str = ""
    """A file that Spark writes where nothing can be held or copied, and then nothing else."""


NOTE = b"note"
ELSEWHERE = b"elsewhere"


class PointListener:
    """Tells `arrived` of each thread that waits at a point; the thread goes on when `arrived` has returned, or has what
    it was about to do refused where that returns REFUSE. `noted` is told what is said in passing.

    It lives in the event loop in which it is started. Whoever shows another token, or says what cannot be read, is
    hung up on. Where `arrived` raises, the thread goes on, and the loop's exception handler has the error.
    """

    def __init__(
        self,
        address: Endpoint,
        token: str,
        arrived: Callable[[HeldPoint], Awaitable[bytes | None]],
        noted: Callable[[SaidInPassing], None] = lambda said: None,
    ) -> None:
        self._noted = noted
        self._address = address
        self._token = token.encode()
        self._arrived = arrived
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    async def start(self) -> Endpoint:
        """Listen; returns where, with the port that was taken for port 0."""
        loop = asyncio.get_running_loop()
        host, port = self._address
        self._server = await loop.create_server(lambda: _Connection(self), host, port, backlog=1024)
        return host, self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Listen no more, and let every thread go that still waits."""
        if self._server is not None:
            self._server.close()
        tasks = [connection.task for connection in self._connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        for connection in list(self._connections):
            connection.hang_up()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()

    async def __aenter__(self) -> PointListener:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _read(self, line: bytes, peer: Endpoint) -> HeldPoint | SaidInPassing | None:
        """None for a line that is not as it should be."""
        try:
            token, node, incarnation, pid, side, rest = line.split(b" ", 5)
            if not hmac.compare_digest(token, self._token):
                return None
            if side == ELSEWHERE:
                return SaidInPassing(node.decode(), int(incarnation), b"", rest.decode())
            if side == NOTE:
                return SaidInPassing(node.decode(), int(incarnation), rest)
            point, key = rest.split(b" ", 1)
            where, _, text = key.decode().partition("\t")
            actor, colon, told = where.partition(":")
            if not colon or actor not in (DRIVER, TASK):
                actor, told = "", where
            return HeldPoint(
                node.decode(),
                int(incarnation),
                int(pid),
                peer,
                Side(side.decode()),
                Point(point.decode()),
                told,
                actor,
                text,
            )
        except ValueError:
            return None


class _Connection(asyncio.Protocol):
    def __init__(self, owner: PointListener) -> None:
        self._owner = owner
        self._received = b""
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._deadline = asyncio.get_running_loop().call_later(LINE_SECONDS, self.hang_up)
        self._owner._connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self.task is None:
            self._next()

    def _next(self) -> None:
        line, found, rest = self._received.partition(b"\n")
        if found or len(line) > LONGEST_LINE:
            self._deadline.cancel()
            self._received = rest
            host, port = self._transport.get_extra_info("peername")[:2]
            held = self._owner._read(line, (host, port)) if found else None
            if held is None:
                self.hang_up()
            else:
                self.task = asyncio.get_running_loop().create_task(self._hold(held))

    async def _hold(self, held: HeldPoint | SaidInPassing) -> None:
        try:
            answer: bytes | None = None
            if isinstance(held, SaidInPassing):
                self._owner._noted(held)
            else:
                answer = await self._owner._arrived(held)
            self._transport.write(answer or GO)
        except Exception as error:
            self.hang_up()
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"what listens to crash points failed at {held}", "exception": error}
            )
        finally:
            self.task = None
            if self._transport.is_closing():
                self._owner._connections.discard(self)
        if self._received:
            self._next()

    def hang_up(self) -> None:
        self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._deadline.cancel()
        if self.task is None:
            self._owner._connections.discard(self)
