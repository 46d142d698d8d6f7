"""HTTP/1.1: a request is its method and path, without what names one thing of many (`PUT /orders` of /orders/17).

Methods that are safe by the standard change nothing. What follows an upgrade is read as bursts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...core.wire import Endpoint
from .framing import FramedPart, Request, Unreadable

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_START: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (\S+) HTTP/1\.[01]")
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})(?: .*)?")
_HEX: Final = re.compile(rb"[0-9a-fA-F]{1,16}")
_VERSION: Final = re.compile(r"v\d{1,3}", re.IGNORECASE)
_LONGEST_HEAD: Final = 256 << 10
_SWITCHING, _NO_CONTENT, _NOT_MODIFIED = 101, 204, 304


def kind_of_path(target: str) -> str:
    """A path without its query, and without the parts that hold a digit or are long: identifiers, but for versions."""
    path = re.sub(r"^[a-z]+://[^/]*", "", target.partition("?")[0].partition("#")[0])
    kept = [part for part in path.split("/") if part and not _is_identifier(part)]
    return "/" + "/".join(kept)


def _is_identifier(part: str) -> bool:
    return not _VERSION.fullmatch(part) and (any(map(str.isdigit, part)) or len(part) > 40)


@dataclass
class _Body:
    """What is left of a message's body."""

    left: int = 0
    """Bytes until something else comes: of the body, or of a chunk with its end of line."""
    chunked: bool = False
    trailer: bool = False
    """Whether the last chunk was there."""
    until_close: bool = False


class _Stream:
    """One direction: heads and bodies, one message after the other."""

    def __init__(self) -> None:
        self.held = b""
        """What has come and was given to nobody."""
        self.body: _Body | None = None
        """None: a head comes next."""

    def head(self) -> bytes | None:
        """The next one, with its empty line; None while it is not whole."""
        head, found, _ = self.held.partition(b"\r\n\r\n")
        if not found:
            if len(self.held) > _LONGEST_HEAD:
                raise Unreadable(f"a head of more than {_LONGEST_HEAD:,} bytes")
            return None
        size = len(head) + 4
        taken, self.held = self.held[:size], self.held[size:]
        return taken

    def of_body(self) -> tuple[bytes, bool]:
        """What there is of it, and whether it is whole now."""
        body = self.body
        assert body is not None
        given = b""
        while True:
            if body.until_close:
                given, self.held = given + self.held, b""
                return given, False
            taken, self.held = self.held[: body.left], self.held[body.left :]
            given += taken
            body.left -= len(taken)
            if body.left:
                return given, False
            if not body.chunked:
                self.body = None
                return given, True
            line, found, _ = self.held.partition(b"\r\n")
            if not found:
                if len(self.held) > _LONGEST_HEAD:
                    self.held = given + self.held
                    raise Unreadable("a chunk without a size")
                return given, False
            size = len(line) + 2
            if body.trailer:
                given, self.held = given + self.held[:size], self.held[size:]
                if not line:
                    self.body = None
                    return given, True
                continue
            digits = line.partition(b";")[0].strip()
            if not _HEX.fullmatch(digits):
                self.held = given + self.held
                raise Unreadable(f"a chunk's size {line[:20]!r}")
            chunk = int(digits, 16)
            given, self.held = given + self.held[:size], self.held[size:]
            if chunk:
                body.left = chunk + 2
            else:
                body.trailer = True

    def put_back(self, head: bytes, why: str) -> Unreadable:
        self.held = head + self.held
        return Unreadable(why)


class Http:
    def __init__(self) -> None:
        self._up, self._down = _Stream(), _Stream()
        self._methods: deque[str] = deque()
        """Of the requests that have not been answered."""

    def asked(self, data: bytes) -> Iterator[FramedPart]:
        stream = self._up
        stream.held += data
        while True:
            if stream.body is None:
                # A client may send an empty line after a body.
                head = stream.head() if stream.held else None
                if head is None:
                    self._see_start(stream.held)
                    return
                found = _START.match(head.lstrip(b"\r\n"))
                if found is None:
                    raise stream.put_back(head, f"a request that begins {head[:20]!r}")
                method, target = found[1].decode(), found[2].decode("latin-1")
                stream.body = _body_of(head, default=0, rest=stream)
                self._methods.append(method)
                yield FramedPart(head, Request(f"{method} {kind_of_path(target)}", method not in _SAFE))
            else:
                given, whole = stream.of_body()
                if given:
                    yield FramedPart(given)
                if not whole:
                    return

    def answered(self, data: bytes) -> Iterator[FramedPart]:
        stream = self._down
        stream.held += data
        while True:
            if stream.body is None:
                head = stream.head() if stream.held else None
                if head is None:
                    return
                status = _STATUS.match(head)
                if status is None or not self._methods:
                    raise stream.put_back(head, f"an answer that begins {head[:20]!r}")
                code = int(status[1])
                if code == _SWITCHING or (self._methods[0] == "CONNECT" and 200 <= code < 300):
                    raise stream.put_back(head, "another protocol from here on")
                if code < 200:
                    yield FramedPart(head, needed=True)
                    continue
                if self._methods[0] == "HEAD" or code in (_NO_CONTENT, _NOT_MODIFIED):
                    stream.body = _Body()
                else:
                    stream.body = _body_of(head, default=None, rest=stream)
                given, whole = stream.of_body()
                yield self._answer(head + given, whole)
            else:
                given, whole = stream.of_body()
                if given or whole:
                    yield self._answer(given, whole)
            if not whole:
                return

    def ended(self) -> Iterator[FramedPart]:
        body = self._down.body
        if body is not None and body.until_close:
            self._down.body = None
            yield self._answer(b"", whole=True)

    def unread(self) -> tuple[bytes, bytes]:
        return self._up.held, self._down.held

    def _answer(self, data: bytes, whole: bool) -> FramedPart:
        if whole:
            self._methods.popleft()
        return FramedPart(data, ends=int(whole))

    def _see_start(self, held: bytes) -> None:
        """That what comes may become a request: else, nothing would ever be passed on."""
        start = held.lstrip(b"\r\n")[:1]
        if start and not (start.isalpha() or start in b"!#$%&'*+.^_`|~-"):
            raise Unreadable(f"a request that begins {held[:20]!r}")


def _body_of(head: bytes, default: int | None, rest: _Stream) -> _Body:
    """By its head; `default` is its length where none is said, None: until the connection is closed."""
    fields: dict[bytes, bytes] = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields[name.strip().lower()] = value.strip()
    if b"chunked" in fields.get(b"transfer-encoding", b"").lower():
        return _Body(chunked=True)
    length = fields.get(b"content-length")
    if length is None:
        return _Body(until_close=True) if default is None else _Body(default)
    if not length.isdigit():
        raise rest.put_back(head, f"a length of {length[:20]!r}")
    return _Body(int(length))


def http(store: Endpoint, relay: Endpoint) -> Http:
    return Http()
