"""How the processes of a run talk: length-prefixed frames over TCP on loopback or the run's own network.

Whoever connects greets first, with the version of the protocol and the run's token; a listener closes any connection
that greets otherwise. What follows depends on what the connection is for. Nothing is ever unpickled from a socket.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
import struct
from typing import Final, TypeVar

import msgspec

from .errors import InvalidOperator, ProtocolBroken

VERSION = 2
LONGEST_FRAME = 256 << 20
LONGEST_GREETING = 4 << 10
"""Of somebody who has not shown the token yet."""
_HEAD = struct.Struct(">I")
T = TypeVar("T")

Endpoint = tuple[str, int]
"""Host and port."""
ITSELF: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""The hosts by which any machine calls itself: one store may be declared by one, and say another of itself."""


class Greeting(msgspec.Struct, frozen=True):
    """The first frame of every connection."""

    version: int
    token: str
    purpose: str
    """What the connection is for: `manager`, `pulse`, `agent`, `link`, `driver`."""
    node: str
    """The node that connects."""
    local: str = ""
    """For a link: the slice that dials, and which of its incarnations."""
    incarnation: int = 0
    peer: str = ""
    """For a link: the slice that is dialled."""
    peer_incarnation: int = 0


_encode = msgspec.msgpack.Encoder().encode
_greeting = msgspec.msgpack.Decoder(Greeting).decode


def frame(message: object) -> bytes:
    """Raises InvalidOperator for a value that no message can carry."""
    try:
        body = _encode(message)
    except OverflowError as error:
        raise InvalidOperator(f"a value cannot be sent ({error}); integers have 64 bits") from error
    return _HEAD.pack(len(body)) + body


async def read_frame(reader: asyncio.StreamReader, longest: int = LONGEST_FRAME) -> bytes | None:
    """The next frame's body; None when the other side has ended. Raises ProtocolBroken for a frame that is too long."""
    try:
        (length,) = _HEAD.unpack(await reader.readexactly(_HEAD.size))
        if length > longest:
            raise ProtocolBroken(f"a frame of {length:,} bytes was announced; at most {longest:,} are allowed")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


async def accept(reader: asyncio.StreamReader, token: str, seconds: float = 5.0) -> Greeting | None:
    """The greeting of a connection that may stay; None for one that has to be closed."""
    try:
        body = await asyncio.wait_for(read_frame(reader, LONGEST_GREETING), seconds)
        greeting = None if body is None else _greeting(body)
    except (TimeoutError, ProtocolBroken, msgspec.MsgspecError):
        return None
    # As bytes: of texts it compares ASCII alone, and raises otherwise.
    if greeting is None or greeting.version != VERSION:
        return None
    if not hmac.compare_digest(greeting.token.encode(), token.encode()):
        return None
    return greeting


def decoded(decode: msgspec.msgpack.Decoder[T], body: bytes) -> T:
    """Raises ProtocolBroken for a body that is not of the decoder's type."""
    try:
        return decode.decode(body)
    except msgspec.MsgspecError as error:
        raise ProtocolBroken(f"a peer sent a message that cannot be read: {error}") from error


class BlockingConnection:
    """A connection on which the caller waits, and with it everything that it runs: for records, which must be on
    their way before anything else goes out, and for the controller, whose answer is waited for."""

    def __init__(self, place: Endpoint, greeting: Greeting) -> None:
        self._socket = socket.create_connection(place, timeout=10)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.send(greeting)

    def send(self, message: object) -> None:
        self._socket.sendall(frame(message))

    def receive(self) -> bytes | None:
        """The next frame's body; None when the other side has ended."""
        return receive_frame(self._socket)

    def close(self) -> None:
        self._socket.close()


def receive_frame(connection: socket.socket) -> bytes | None:
    """Wait for the next frame's body; None when the other side has ended."""
    head = _exactly(connection, _HEAD.size)
    return None if head is None else _exactly(connection, _HEAD.unpack(head)[0])


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        try:
            part = connection.recv(size - len(parts))
        except ConnectionResetError:
            # So ends one who was killed before it had read all that it was sent.
            return None
        if not part:
            return None
        parts += part
    return bytes(parts)
