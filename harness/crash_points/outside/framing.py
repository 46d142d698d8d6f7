"""What a protocol is to the relay: where in the bytes of a connection a request begins, and where its answer ends.

A *conversation* reads one connection, both ways, and never waits or sends anything itself. The parts that it gives make
up the bytes that came, in order, but for what it says is to be answered here, or to be said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ...core.wire import Endpoint


class Unreadable(Exception):
    """What came is not of the protocol. From there on the connection is read as bursts, beginning with what came and
    was given in no part."""


@dataclass(frozen=True)
class Request:
    """What a client asks of a store."""

    name: str
    """Its kind, the same in every run: no identifiers, no values."""
    changes: bool = True
    """Whether the store may be another one afterwards; when in doubt, it may."""


@dataclass(frozen=True)
class FramedPart:
    """Bytes of one direction that are passed on as a whole."""

    data: bytes
    begins: Request | None = None
    """The request whose first bytes these are. A client's only."""
    ends: int = 0
    """How many requests are answered with the last of these bytes, the oldest first. A store's only."""
    needed: bool = False
    """Whether the client waits for it in the midst of a request, so that it cannot be held. A store's only."""
    reply: bytes = b""
    """What the client is told in the store's stead; then `data` is for nobody."""


class Conversation(Protocol):
    """One connection. Raises Unreadable."""

    def asked(self, data: bytes) -> Iterator[FramedPart]:
        """What the client has sent."""

    def answered(self, data: bytes) -> Iterator[FramedPart]:
        """What the store has sent."""

    def ended(self) -> Iterator[FramedPart]:
        """The store has ended what it sends."""

    def unread(self) -> tuple[bytes, bytes]:
        """What the client, and the store, have sent and was given in no part."""


Converse = Callable[[Endpoint, Endpoint], Conversation]
"""A new connection's, with the store's place, as the store says it itself, and the relay's."""


def no_more() -> Iterator[FramedPart]:
    """Of a protocol in which the end of a connection ends no answer."""
    return iter(())
