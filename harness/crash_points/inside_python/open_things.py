"""What a process has open that Python has said nothing of: files and connections of libraries in C, and maps of files.

The kernel lists what is open, not who has opened it. So what Python was heard to open is left out, whoever did that,
and what is new is looked for often: what was opened and closed since then is not seen.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Callable, Iterator
from typing import Final

OPEN: Final = "/proc/self/fd"
_SOCKET: Final = "socket:"
_MAPS: Final = "/proc/self/maps"
_SHARED: Final = re.compile(rb"^\S+ .w.s \S+ \S+ \d+ +(/.*)$", re.MULTILINE)
_NAMELESS: Final = "/memfd:"
"""How memory is called that is gone with who has it."""


class OpenThings:
    """Of this process."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._listening: set[int] = set()
        """Ports: who is connected to one was taken in there."""
        self.heard_files: set[str] = set()
        """Paths that Python was heard to open."""
        self.heard_peers: set[str] = set()
        """Whom Python was heard to connect to: ports, and paths."""

    def begin(self) -> None:
        """What is open by now is nobody's."""
        for _ in self.new():
            pass
        self._known.update(link for _, link in _links())
        self._known |= _stored_into()

    def new(self) -> Iterator[tuple[str, str]]:
        """Since it was last asked: a kind of effect and its target, of files that are open to be written, or mapped to
        be stored into, and of connections."""
        sockets = []
        for number, link in _links():
            if link in self._known:
                continue
            if link.startswith(_SOCKET):
                sockets.append((number, link))
                continue
            self._known.add(link)
            named = link.startswith("/") and not link.startswith(_NAMELESS)
            if named and link not in self.heard_files and is_written(number):
                yield "file", link
        for path in _stored_into() - self._known - self.heard_files:
            self._known.add(path)
            yield "file", path
        connected = []
        for number, link in sockets:
            found = self._peer(number)
            if found is not None:
                self._known.add(link)
                connected.append(found)
        for port, peer in connected:
            name = peer.rpartition(":")[2]
            if peer and port not in self._listening and name not in self.heard_peers:
                yield "connection", peer

    def files(self, counts: Callable[[str], bool]) -> list[str]:
        """All that were heard of or found, of those that count; and, of those that are open, by which path they are
        reached though they may have no name any more."""
        there = [f"{OPEN}/{number}" for number, link in _links() if link.startswith("/") and counts(link)]
        return there + [path for path in self._known | self.heard_files if path.startswith("/") and counts(path)]

    def has(self, kind: str, target: str) -> bool:
        """Whether a file is open to be written, or a connection is there to who was called so."""
        if kind == "file":
            return any(link == target and is_written(number) for number, link in _links())
        peers = [self._peer(number) for number, link in _links() if link.startswith(_SOCKET)]
        # Its name leads to some address.
        return target.rpartition(":")[2] in {found[1].rpartition(":")[2] for found in peers if found is not None}

    def _peer(self, number: int) -> tuple[int, str] | None:
        """The port here, and whom it is connected to; empty for nobody that has a name. None: that is still open."""
        try:
            with socket.socket(fileno=os.dup(number)) as end:
                here = end.getsockname()
                port = here[1] if isinstance(here, tuple) and len(here) > 1 else 0
                if end.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    self._listening.add(port)
                    return port, ""
                peer = end.getpeername()
        except OSError:
            return None
        if isinstance(peer, tuple):
            return port, f"{str(peer[0]).removeprefix('::ffff:')}:{peer[1]}" if len(peer) > 1 else ""
        return port, os.fsdecode(peer)


def is_written(file: int) -> bool:
    """Whether an open file is open to be written."""
    try:
        return fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        return False


def _stored_into() -> set[str]:
    """The files that are mapped to be stored into, and what has a name like one: a segment of memory that processes
    share. Whoever has mapped it may have closed it at once."""
    with open(_MAPS, "rb") as maps:
        found = {os.fsdecode(path) for path in _SHARED.findall(maps.read())}
    return {path for path in found if not path.startswith(_NAMELESS)}


def _links() -> Iterator[tuple[int, str]]:
    for number in os.listdir(OPEN):
        try:
            yield int(number), os.readlink(f"{OPEN}/{number}")
        except OSError:
            # Closed since it was listed.
            continue
