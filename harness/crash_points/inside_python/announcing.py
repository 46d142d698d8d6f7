"""How a process of a run says where it is, and waits for the answer: a line there, one byte back.

By Python's own sockets, whatever a library puts in the place of `socket.socket`: a cooperative one would let other
greenlets go on while this one is held, and none of these is followed meanwhile.
"""

from __future__ import annotations

import os
import threading
from _socket import IPPROTO_TCP, TCP_NODELAY, socket
from collections.abc import Mapping

from ...core.addresses import Point, Side
from ...core.errors import OwnFailure
from ...core.wire import Endpoint
from .user_points import CONNECT_SECONDS, POINTS

MOST_TEXT = 200
"""Characters of a line's text."""


class Announcer:
    """Each thread has a connection of its own, which is kept: most of what a line costs would be a new one."""

    def __init__(self, place: Endpoint, head: str) -> None:
        self._place = place
        self._head = head
        self._kept = threading.local()

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Announcer | None:
        """None where nobody listens. Raises OwnFailure."""
        told = environment.get(POINTS)
        if not told:
            return None
        try:
            place, token, node, incarnation = told.split(" ")
            host, port = place.rsplit(":", 1)
            return cls((host, int(port)), f"{token} {node} {incarnation}")
        except ValueError as error:
            raise OwnFailure(f"the environment variable {POINTS} is malformed") from error

    @property
    def place(self) -> Endpoint:
        return self._place

    def hold(self, actor: str, side: Side, key: str, text: str) -> None:
        """Returns when the thread may go on. A harness that is gone holds nobody."""
        said = " ".join(text.split())[:MOST_TEXT]
        self._say(f"{side} {Point.LINE} {actor}:{key}\t{said}")

    def note(self, content: str) -> None:
        self._say(f"note {content}")

    def _say(self, what: str) -> None:
        line = f"{self._head} {os.getpid()} {what}\n".encode()
        kept: socket | None = getattr(self._kept, "socket", None)
        # The other side may have closed it since it was used, and a process that was forked has its parent's.
        if kept is not None and self._kept.process == os.getpid() and self._answered(kept, line):
            return
        try:
            kept = _connected(self._place)
        except OSError:
            return
        self._answered(kept, line)

    def _answered(self, kept: socket, line: bytes) -> bool:
        try:
            kept.sendall(line)
            if kept.recv(1):
                self._kept.socket, self._kept.process = kept, os.getpid()
                return True
            self._kept.socket = None
        except OSError:
            # As when the harness hangs up.
            self._kept.socket = None
        kept.close()
        return False


def _connected(place: Endpoint) -> socket:
    """Raises OSError."""
    made = socket()
    try:
        made.settimeout(CONNECT_SECONDS)
        made.connect(place)
        made.settimeout(None)
        made.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
    except OSError:
        made.close()
        raise
    return made
