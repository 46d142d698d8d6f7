"""Whom Spark's JVM is connected to: a store that one of its connectors writes to, and that the query does not name."""

from __future__ import annotations

import ipaddress
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

_ESTABLISHED, _LEFT_BY_THE_OTHER, _LISTENING = "01", "08", "0A"
_STATES: Final = frozenset({_ESTABLISHED, _LEFT_BY_THE_OTHER, _LISTENING})
_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")
_JVM: Final = "java"
_NOBODYS: Final = "0"
"""The inode of a connection of which the process is gone."""
_V4: Final = 8
"""Digits of an address."""


@dataclass(frozen=True)
class _Process:
    number: int
    name: str
    """Of its program."""
    parent: int
    session: int


@dataclass(frozen=True)
class _Connection:
    port: int
    peer: str
    peer_port: int
    state: str
    inode: str


def peers_of_jvms(session: int, ours: int) -> set[str]:
    """`host:port` of each that a JVM among a process's children, or theirs, has a connection to that it has opened. But
    for what `ours`, or a child of it, has at its other end. What is opened and closed between two questions is not
    seen."""
    there = {one.number: one for one in _processes()}
    below = _below(ours, there)
    # An orphan among the children has another parent, and is in their session still.
    sessions = {there[number].session for number in below} - {there[ours].session if ours in there else 0}
    own = _sockets_of({ours, *below, *(one.number for one in there.values() if one.session in sessions)})
    of_jvms = _sockets_of(number for number in _below(session, there) if there[number].name == _JVM)
    found = list(_connections(session))
    listening = {one.port for one in found if one.state == _LISTENING and one.inode in own}
    others = {(one.peer_port, one.port): one.inode for one in found if one.state != _LISTENING}

    def is_ours(one: _Connection) -> bool:
        if {one.port, one.peer_port} & listening:
            return True
        # Who has accepted it may listen no more, as when a daemon has ended and its worker has not, or be gone, too.
        other = others.get((one.port, one.peer_port), _NOBODYS)
        return other in own or (other == _NOBODYS and ipaddress.ip_address(one.peer).is_loopback)

    of_them = (one for one in found if one.state != _LISTENING and one.inode in of_jvms)
    return {f"{one.peer}:{one.peer_port}" for one in of_them if not is_ours(one)}


def _processes() -> Iterator[_Process]:
    for number in filter(str.isdecimal, os.listdir("/proc")):
        # It may have gone since it was listed.
        with suppress(OSError), open(f"/proc/{number}/stat", errors="replace") as file:
            before, _, rest = file.read().rpartition(")")
            _, parent, _, session, *_ = rest.split()
            yield _Process(int(number), before.partition("(")[2], int(parent), int(session))


def _below(process: int, there: Mapping[int, _Process]) -> set[int]:
    found: set[int] = set()
    new = {process}
    while new:
        new = {one.number for one in there.values() if one.parent in new} - found
        found |= new
    return found


def _sockets_of(processes: Iterable[int]) -> set[str]:
    """The inodes of their sockets."""
    found: set[str] = set()
    for number in processes:
        with suppress(OSError):
            for file in os.listdir(f"/proc/{number}/fd"):
                with suppress(OSError):
                    match = _SOCKET.match(os.readlink(f"/proc/{number}/fd/{file}"))
                    found |= {match[1]} if match else set()
    return found


def _connections(process: int) -> Iterator[_Connection]:
    """Of the network that a process is in, those that somebody has."""
    for table in ("tcp", "tcp6"):
        # There may be no IPv6.
        with suppress(OSError), open(f"/proc/{process}/net/{table}") as file:
            for line in file.read().splitlines()[1:]:
                _, here, there, state, *rest = line.split(maxsplit=10)
                # There may be thousands that are over.
                if state not in _STATES:
                    continue
                host, port = there.split(":")
                yield _Connection(int(here.split(":")[1], 16), _address(host), int(port, 16), state, rest[5])


def _address(digits: str) -> str:
    """The kernel writes it down in words of the machine's own order."""
    words = (int(digits[at : at + _V4], 16) for at in range(0, len(digits), _V4))
    packed = b"".join(struct.pack("=I", word) for word in words)
    if len(digits) == _V4:
        return str(ipaddress.IPv4Address(packed))
    given = ipaddress.IPv6Address(packed)
    return str(given.ipv4_mapped or given)
