"""What a process has open that Python has said nothing of: files and connections of libraries in C, and maps of files.

The kernel lists what is open, not who has opened it. So what Python was heard to open is left out, whoever did that,
and what is new is looked for often: what was opened and closed since then is not seen.

A log may be written by other processes, too: that it is another one by now says nothing of this process. What this
process writes to it moves its own place in it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import socket
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Final

OPEN: Final = "/proc/self/fd"
_SOCKET: Final = "socket:"
_MAPS: Final = "/proc/self/maps"
_SHARED: Final = re.compile(rb"^\S+ .w.s \S+ \S+ \d+ +(/.*)$", re.MULTILINE)
_NAMELESS: Final = "/memfd:"
"""How memory is called that is gone with who has it."""
_PRINTED: Final = (1, 2)
"""Standard output and standard error."""

_KCMP: Final = {"x86_64": 312, "aarch64": 272}
"""The number of the system call on each machine; Python has none of it."""
_KCMP_FILE: Final = 0

Positions = Mapping[tuple[int, str], int]
"""Of files that are open to be written, by their number and their path: how far this process has come in each."""


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
        self._open_before: set[str] = set()
        """Paths of what was open before anybody listened."""
        self._inherited: set[tuple[int, str]] = set()
        """Of that, what was inherited from the parent: this process's place in it is the parent's."""

    def begin(self) -> None:
        """What is open by now is nobody's."""
        before = {(number, link) for number, link in _links() if link.startswith("/") and link not in self._known}
        self._open_before |= {link for _, link in before} - self.heard_files
        for number, link in before:
            if not (number in _PRINTED and _print_alone(number)) and _is_shared_with_parent(number, link):
                self._inherited.add((number, link))
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

    def files(self, counts: Callable[[str], bool], logs: Collection[str]) -> list[str]:
        """All that were heard of or found, of those that count; and, of those that are open, by which path they are
        reached though they may have no name any more. But for what others write to as well, `logs` among them: how far
        this process has come there says more."""
        here = [(number, link) for number, link in _links() if _is_file(link, counts)]
        others = {link for number, link in here if self._is_others(number, link, logs)} - _stored_into()
        there = [f"{OPEN}/{number}" for number, link in here if link not in others]
        return there + [path for path in (self._known | self.heard_files) - others if _is_file(path, counts)]

    def positions(self, counts: Callable[[str], bool], logs: Collection[str]) -> Positions:
        """In what others write to as well, `logs` among them, of files that count."""
        found = {}
        for number, link in _links():
            if not self._is_others(number, link, logs) or (number, link) in self._inherited:
                continue
            if _is_file(link, counts) and is_written(number):
                with suppress(OSError):
                    found[number, link] = os.lseek(number, 0, os.SEEK_CUR)
        return found

    def _is_others(self, number: int, link: str, logs: Collection[str]) -> bool:
        """Whether an open file is somebody else's, who may write to it from elsewhere: it was inherited, or is a log.
        Only what is appended to moves a process's place in it: a database is written to anywhere."""
        if (number, link) in self._inherited:
            return True
        return (link in logs or link in self._open_before) and is_appended(number)

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


def _is_file(path: str, counts: Callable[[str], bool]) -> bool:
    return path.startswith("/") and counts(path)


def _print_alone(number: int) -> bool:
    """Where standard output or error is a file, have a place of this process's own in it from now on: Spark's JVM has
    been given the one until now. False: it is none, or cannot be opened again, or is not appended to: who writes to it
    at two places writes over what is there."""
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode) or not is_appended(number):
            return False
        alone = os.open(f"{OPEN}/{number}", os.O_WRONLY | os.O_APPEND)
    except OSError:
        return False
    try:
        os.dup2(alone, number)
    finally:
        os.close(alone)
    return True


def _is_shared_with_parent(number: int, link: str) -> bool:
    """Whether a file that is open here is at the parent's place in it. False where the kernel does not say."""
    parent = os.getppid()
    alike = [theirs for theirs, there in _links(f"/proc/{parent}/fd") if there == link]
    return any(_same_place(os.getpid(), number, parent, theirs) for theirs in alike)


def _same_place(process: int, file: int, other: int, others: int) -> bool:
    """Of one process's open file and another one's: kcmp(2)."""
    call = _KCMP.get(os.uname().machine)
    if call is None:
        return False
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    given = (ctypes.c_long(one) for one in (process, other, _KCMP_FILE, file, others))
    return int(syscall(ctypes.c_long(call), *given)) == 0


def is_written(file: int) -> bool:
    """Whether an open file is open to be written."""
    return _flags(file) & os.O_ACCMODE != os.O_RDONLY


def is_appended(file: int) -> bool:
    """Whether whatever is written to an open file goes to its end."""
    return bool(_flags(file) & os.O_APPEND)


def _flags(file: int) -> int:
    """With which it was opened; none where it is open no more."""
    try:
        return fcntl.fcntl(file, fcntl.F_GETFL)
    except OSError:
        return os.O_RDONLY


def _stored_into() -> set[str]:
    """The files that are mapped to be stored into, and what has a name like one: a segment of memory that processes
    share. Whoever has mapped it may have closed it at once."""
    with open(_MAPS, "rb") as maps:
        found = {os.fsdecode(path) for path in _SHARED.findall(maps.read())}
    return {path for path in found if not path.startswith(_NAMELESS)}


def _links(folder: str = OPEN) -> Iterator[tuple[int, str]]:
    """Of this process, or of the one whose folder it is: none where that may not be looked at."""
    try:
        numbers = os.listdir(folder)
    except OSError:
        return
    for number in numbers:
        try:
            yield int(number), os.readlink(f"{folder}/{number}")
        except OSError:
            # Closed since it was listed.
            continue
