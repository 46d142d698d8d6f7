"""PostgreSQL's protocol, version 3: a request is a statement, by its first word and what it is about.

An exchange ends where the server says that it is ready for the next. Statements that are alike, and sent in a row
before that, are one request. The client is told that there is no encryption, so that the rest can be read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...core.wire import Endpoint
from .framing import FramedPart, Request, Unreadable, no_more
from .statements import kind_of_sql

_LENGTH: Final = struct.Struct(">i")
_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102
_VERSION: Final = 3
"""Its major number."""
_LONGEST: Final = 1 << 30
_LONGEST_STARTUP: Final = 64 << 10
_READY: Final = ord("Z")
_COPY: Final = frozenset(b"GW")
"""The server waits for what is to be copied, and the client for that word."""


@dataclass
class _Exchange:
    """What the server answers with one word that it is ready."""

    requests: int = 0
    by_sync: bool = False
    """Whether the client has ended it by asking for the end."""


class Postgres:
    def __init__(self) -> None:
        self._up = b""
        self._down = b""
        self._started = False
        self._statements: dict[bytes, str] = {}
        """Name -> text."""
        self._portals: dict[bytes, str] = {}
        self._last = ""
        """The kind of request that was sent last, without the end of its exchange having been asked for."""
        self._exchanges = [_Exchange()]
        """Those that the client has ended, and the one that it has not."""
        self._ready = False
        """Whether the server has been ready once, which answers no request."""
        self._flushed = False
        """Whether the client waits for what is answered in the midst of an exchange."""

    def asked(self, data: bytes) -> Iterator[FramedPart]:
        self._up += data
        while True:
            part = self._startup() if not self._started else self._message()
            if part is None:
                return
            yield part

    def answered(self, data: bytes) -> Iterator[FramedPart]:
        self._down += data
        while len(self._down) >= 5:
            (length,) = _LENGTH.unpack_from(self._down, 1)
            if not 4 <= length <= _LONGEST:
                raise Unreadable(f"an answer of {length:,} bytes")
            if len(self._down) <= length:
                return
            message, self._down = self._down[: length + 1], self._down[length + 1 :]
            ends = 0
            if message[0] == _READY:
                ends = self._exchanges.pop(0).requests if self._ready and len(self._exchanges) > 1 else 0
                self._ready = True
            elif message[0] in _COPY:
                self._begin_copy()
            yield FramedPart(message, ends=ends, needed=message[0] in _COPY or (self._flushed and not ends))

    def ended(self) -> Iterator[FramedPart]:
        return no_more()

    def unread(self) -> tuple[bytes, bytes]:
        return self._up, self._down

    def _startup(self) -> FramedPart | None:
        if len(self._up) < 8:
            return None
        (length,) = _LENGTH.unpack_from(self._up)
        (code,) = _LENGTH.unpack_from(self._up, 4)
        if not 8 <= length <= _LONGEST_STARTUP or (code >> 16 != _VERSION and code not in (_SSL, _GSS, _CANCEL)):
            raise Unreadable(f"a connection that begins {self._up[:8]!r}")
        if len(self._up) < length:
            return None
        message, self._up = self._up[:length], self._up[length:]
        if code in (_SSL, _GSS):
            return FramedPart(message, reply=b"N")
        self._started = True
        return FramedPart(message)

    def _message(self) -> FramedPart | None:
        if len(self._up) < 5:
            return None
        (length,) = _LENGTH.unpack_from(self._up, 1)
        if not 4 <= length <= _LONGEST:
            raise Unreadable(f"a message of {length:,} bytes")
        if len(self._up) <= length:
            return None
        message, self._up = self._up[: length + 1], self._up[length + 1 :]
        return FramedPart(message, self._request(chr(message[0]), message[5:]))

    def _request(self, kind: str, body: bytes) -> Request | None:
        match kind:
            case "P":
                name, text = _texts(body, 2)
                self._statements[name] = text.decode(errors="replace")
            case "B":
                portal, name = _texts(body, 2)
                self._portals[portal] = self._statements.get(name, "")
            case "E":
                (portal,) = _texts(body, 1)
                return self._begin(*self._known(portal))
            case "Q":
                (text,) = _texts(body, 1)
                request = self._begin(*kind_of_sql(text.decode(errors="replace")))
                self._end()
                return request
            case "F":
                request = self._begin("function", True)
                self._end()
                return request
            case "S":
                self._end(by_sync=True)
            case "H":
                self._flushed = True
        return None

    def _known(self, portal: bytes) -> tuple[str, bool]:
        text = self._portals.get(portal, "")
        # What was prepared before anybody listened can be anything.
        return kind_of_sql(text) if text else ("unknown", True)

    def _begin(self, name: str, changes: bool) -> Request | None:
        """None where it is one with the request before it."""
        if name == self._last:
            return None
        self._last = name
        self._exchanges[-1].requests += 1
        return Request(name, changes)

    def _end(self, by_sync: bool = False) -> None:
        """The client has asked for the end of an exchange."""
        self._last, self._flushed = "", False
        self._exchanges[-1].by_sync = by_sync
        self._exchanges.append(_Exchange())

    def _begin_copy(self) -> None:
        """From now on the server does not heed that it was asked for an end; it will be asked again."""
        if len(self._exchanges) > 1 and self._exchanges[0].by_sync:
            first = self._exchanges.pop(0)
            self._exchanges[0].requests += first.requests


def _texts(body: bytes, count: int) -> list[bytes]:
    parts = body.split(b"\0", count)
    if len(parts) <= count:
        return [*parts, *[b""] * count][:count]
    return parts[:count]


def postgres(store: Endpoint, relay: Endpoint) -> Postgres:
    return Postgres()
