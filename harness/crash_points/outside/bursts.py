"""Any protocol at all: what a client sends until the store says something is a request, and that is its answer.

Where an answer ends cannot be told: it is over with the first bytes of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...core.wire import Endpoint
from .framing import FramedPart, Request, no_more

NAME = "burst"


class Bursts:
    def __init__(self, outstanding: int = 0) -> None:
        """`outstanding` requests were begun by another protocol, which could not go on."""
        self._outstanding = outstanding
        self._asking = False

    def asked(self, data: bytes) -> Iterator[FramedPart]:
        if not data:
            return
        begins = None if self._asking else Request(NAME)
        if begins is not None:
            self._asking = True
            self._outstanding += 1
        yield FramedPart(data, begins)

    def answered(self, data: bytes) -> Iterator[FramedPart]:
        if not data:
            return
        ends, self._outstanding, self._asking = self._outstanding, 0, False
        yield FramedPart(data, ends=ends)

    def ended(self) -> Iterator[FramedPart]:
        return no_more()

    def unread(self) -> tuple[bytes, bytes]:
        return b"", b""


def bursts(store: Endpoint, relay: Endpoint) -> Bursts:
    return Bursts()
