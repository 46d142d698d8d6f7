"""Which process of this machine is at the other end of a connection: the kernel lists the sockets, and /proc who has
them."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...core.wire import Endpoint

PROC = Path("/proc")
_ESTABLISHED = "01"


def pid_of(peer: Endpoint, ours: Endpoint, first: Iterable[int] = ()) -> int:
    """Of the process that has connected from `peer` to `ours`; 0: none of this machine that can be seen. Those named
    `first` are looked at before all others."""
    inode = _inode(peer, ours)
    if not inode:
        return 0
    wanted = f"socket:[{inode}]"
    seen = set()
    for pid in (*first, *_pids()):
        if pid not in seen:
            seen.add(pid)
            if _has(pid, wanted):
                return pid
    return 0


def _inode(peer: Endpoint, ours: Endpoint) -> str:
    """Of the peer's socket. One that speaks both versions of IP is listed with the newer."""
    plain = (_hex(peer), _hex(ours))
    mapped = tuple(f"{_MAPPED}{text}" for text in plain)
    for table, (local, remote) in (("tcp", plain), ("tcp6", mapped)):
        try:
            lines = (PROC / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[1] == local and fields[2] == remote and fields[9] != "0":
                return fields[9]
    return ""


def _hex(place: Endpoint) -> str:
    """As the kernel writes an address: four bytes in the machine's order, and the port."""
    packed = socket.inet_aton(place[0])
    return f"{int.from_bytes(packed, sys.byteorder):08X}:{place[1]:04X}"


_MAPPED = "0000000000000000" + f"{int.from_bytes(bytes((0, 0, 0xFF, 0xFF)), sys.byteorder):08X}"


def _pids() -> Iterator[int]:
    # The newest first: whoever connects has mostly been started lately.
    return iter(sorted((int(name) for name in os.listdir(PROC) if name.isdecimal()), reverse=True))


def _has(pid: int, wanted: str) -> bool:
    folder = PROC / str(pid) / "fd"
    try:
        for name in os.listdir(folder):
            try:
                if os.readlink(folder / name) == wanted:
                    return True
            except OSError:
                # Closed since it was listed.
                continue
    except OSError:
        # Gone, or not ours to see.
        return False
    return False
