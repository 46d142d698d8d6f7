"""Whom a process of this machine is connected to: the kernel lists its sockets, whoever has opened them."""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

from ...core.wire import Endpoint
from .senders import PROC, pids

_LISTENS = "0A"
_CONNECTED = frozenset({"01", "02", "08"})
"""The states of a socket, as the kernel writes them: connected, about to be, and so until we hang up as well."""
_SOCKET = "socket:["
_LOOKS = 3
"""How often a socket is looked for that is connected to nobody, as those within a machine are."""


@dataclass(frozen=True)
class _Socket:
    here: Endpoint
    there: Endpoint
    state: str
    inode: str


class Peers:
    """Of a process, which is asked after again and again."""

    def __init__(self, is_ours: Callable[[int], bool]) -> None:
        """`is_ours` says of a process whether it belongs to the one that is looked at."""
        self._is_ours = is_ours
        self._looked: Counter[str] = Counter()
        """By inode, sockets of which all is known, or that were looked for in vain."""
        self._known: set[Endpoint] = set()

    def new(self, pid: int) -> Iterator[Endpoint]:
        """Whom it is connected to, that is none of ours, has not connected to it, and was not named before. Nobody,
        where it is gone, or not ours to see."""
        inodes = _inodes(pid)
        if all(self._looked[inode] >= _LOOKS for inode in inodes):
            return
        sockets = list(_sockets(pid, inodes))
        self._looked.update(inodes)
        self._looked.update({one.inode: _LOOKS for one in sockets})
        listening = {one.here[1]: one.inode for one in sockets if one.state == _LISTENS}
        own = {port for port, inode in listening.items() if inode in inodes}
        for one in sockets:
            if one.state not in _CONNECTED or one.here[1] in own or one.there in self._known:
                continue
            self._known.add(one.there)
            listener = listening.get(one.there[1]) if one.there[0] == one.here[0] else None
            if listener is None or not self._has_ours(listener):
                yield one.there

    def _has_ours(self, inode: str) -> bool:
        return any(self._is_ours(pid) and inode in _inodes(pid) for pid in pids())


def _inodes(pid: int) -> set[str]:
    folder = PROC / str(pid) / "fd"
    found = set()
    try:
        for name in os.listdir(folder):
            try:
                link = os.readlink(folder / name)
            except OSError:
                # Closed since it was listed.
                continue
            if link.startswith(_SOCKET):
                found.add(link.removeprefix(_SOCKET).removesuffix("]"))
    except OSError:
        return set()
    return found


def _sockets(pid: int, inodes: Set[str]) -> Iterator[_Socket]:
    """These, and all that listen: what was hung up on is listed by the thousand."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (PROC / str(pid) / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENS or fields[9] in inodes:
                yield _Socket(_endpoint(fields[1]), _endpoint(fields[2]), fields[3], fields[9])


def _endpoint(text: str) -> Endpoint:
    """From how the kernel writes it: words of four bytes in the machine's order, and the port."""
    host, _, port = text.partition(":")
    words = (int(host[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(host), 8))
    packed = b"".join(words)
    if len(packed) == 16 and packed.startswith(_MAPPED):
        packed = packed[12:]
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed), int(port, 16)


_MAPPED = bytes(10) + b"\xff\xff"
"""How an address of IP's version 4 begins as one of version 6."""
