"""Holds packets that the kernel hands over, and lets each go on when its time has come.

It runs in a sidecar, where there is nothing but Python's own library, with these arguments:

    QUEUE BY JITTER FILES ADDRESS=SEED...

QUEUE is the number that a rule of the packet filter names (NFQUEUE, iptables-extensions(8)). A packet of the sender at
ADDRESS is held for BY microseconds, give or take JITTER, as drawn from its SEED. Once the queue is its own, the program
goes on in the background, until SIGTERM: then it lets everything go. FILES.pid says who it is, FILES.count, in the end,
how many packets were held and for how many microseconds in all, and FILES.log what went wrong.

The messages are those of linux/netlink.h and linux/netfilter/nfnetlink_queue.h.
"""

from __future__ import annotations

import heapq
import os
import random
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

_NETLINK_NETFILTER = 12
_SO_RCVBUFFORCE = 33
_SOL_NETLINK, _NO_ENOBUFS = 270, 5
_SUBSYSTEM = 3 << 8  # NFNL_SUBSYS_QUEUE
_PACKET, _VERDICT, _CONFIG = (_SUBSYSTEM | number for number in range(3))
_ERROR = 2  # NLMSG_ERROR
_REQUEST, _ACKNOWLEDGE = 1, 4
_CFG_CMD, _CFG_PARAMS, _CFG_MAXLEN, _CFG_MASK, _CFG_FLAGS = range(1, 6)
_BIND = 1
_COPY_PACKET = 2
_FLAGS = 1 | 4  # Let pass what there is no room for, and hand over large segments whole.
_PACKET_HEADER, _VERDICT_HEADER, _PAYLOAD = 1, 2, 10
_ACCEPT = 1
_IP_HEADER = 20
_ROOM = 1 << 20
"""In packets."""
_BUFFER = 16 << 20
"""In bytes."""


class Delays:
    """When packets may go on: never before one of the same sender that came earlier."""

    def __init__(self, by: int, jitter: int, seeds: Mapping[str, str]) -> None:
        """In microseconds; a seed for each sender's address."""
        self._by = by
        self._jitter = jitter
        self._draws = {address: random.Random(seed) for address, seed in seeds.items()}
        self._last = dict.fromkeys(seeds, 0)

    def due(self, sender: str, now: int) -> int:
        """Of a packet that comes now."""
        drawn = self._by + (self._draws[sender].uniform(-self._jitter, self._jitter) if self._jitter else 0)
        self._last[sender] = max(self._last[sender], now + max(0, round(drawn)))
        return self._last[sender]


def _message(kind: int, flags: int, queue: int, *attributes: tuple[int, bytes]) -> bytes:
    body = struct.pack(">BBH", socket.AF_UNSPEC, 0, queue)
    for number, value in attributes:
        body += struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 0, 0) + body


def configuration(queue: int) -> list[bytes]:
    """Messages that make a queue the sender's own, each to be acknowledged."""
    settings: tuple[tuple[tuple[int, bytes], ...], ...] = (
        ((_CFG_CMD, struct.pack(">BxH", _BIND, socket.AF_INET)),),
        ((_CFG_PARAMS, struct.pack(">IB", _IP_HEADER, _COPY_PACKET)),),
        ((_CFG_MAXLEN, struct.pack(">I", _ROOM)),),
        ((_CFG_FLAGS, struct.pack(">I", _FLAGS)), (_CFG_MASK, struct.pack(">I", _FLAGS))),
    )
    return [_message(_CONFIG, _REQUEST | _ACKNOWLEDGE, queue, *attributes) for attributes in settings]


def verdict(queue: int, packet: int) -> bytes:
    """The message that lets a packet go on."""
    return _message(_VERDICT, _REQUEST, queue, (_VERDICT_HEADER, struct.pack(">II", _ACCEPT, packet)))


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The type and body of each that a datagram holds."""
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        yield kind, data[16:length]
        data = data[length + -length % 4 :]


def packet_in(body: bytes) -> tuple[int, str]:
    """Its number, and its sender's address."""
    found: dict[int, bytes] = {}
    rest = body[4:]
    while len(rest) >= 4:
        length, number = struct.unpack_from("=HH", rest)
        found[number & 0x3FFF] = rest[4:length]
        rest = rest[length + -length % 4 :]
    return struct.unpack_from(">I", found[_PACKET_HEADER])[0], socket.inet_ntoa(found[_PAYLOAD][12:16])


def _open(queue: int) -> socket.socket:
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER)
    netlink.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
    netlink.setsockopt(_SOL_NETLINK, _NO_ENOBUFS, 1)  # What there is no room for passes, and is no error.
    netlink.bind((0, 0))
    netlink.connect((0, 0))
    for message in configuration(queue):
        netlink.send(message)
        for kind, body in messages(netlink.recv(1 << 16)):
            status = struct.unpack_from("=i", body)[0] if kind == _ERROR else 0
            if status:
                raise OSError(-status, f"queue {queue}: {os.strerror(-status)}")
    netlink.setblocking(False)
    return netlink


class Holding:
    """The packets of one queue."""

    def __init__(self, netlink: socket.socket, queue: int, delays: Delays) -> None:
        self.packets = 0
        self.micros = 0
        self._netlink = netlink
        self._queue = queue
        self._delays = delays
        self._held: list[tuple[int, int, int]] = []
        """When each is due, its number, and when it came."""

    def hold_until(self, ended: int) -> None:
        """Until there is something to be read there; then let all go."""
        while True:
            wait = max(0.0, (self._held[0][0] - _now()) / 1e6) if self._held else None
            ready, _, _ = select.select([self._netlink.fileno(), ended], [], [], wait)
            self._take()
            self._let_go(None if ended in ready else _now())
            if ended in ready:
                return

    def _take(self) -> None:
        with suppress(BlockingIOError):
            while True:
                for kind, body in messages(self._netlink.recv(1 << 16)):
                    if kind == _PACKET:
                        number, sender = packet_in(body)
                        now = _now()
                        heapq.heappush(self._held, (self._delays.due(sender, now), number, now))

    def _let_go(self, until: int | None) -> None:
        while self._held and (until is None or self._held[0][0] <= until):
            _, number, came = heapq.heappop(self._held)
            self._netlink.send(verdict(self._queue, number))
            self.packets += 1
            self.micros += _now() - came


def _now() -> int:
    return time.monotonic_ns() // 1000


def main(queue: int, by: int, jitter: int, files: str, seeds: Mapping[str, str]) -> None:
    netlink = _open(queue)
    child = os.fork()
    if child:
        with open(f"{files}.pid", "w") as file:
            print(child, file=file)
        return
    os.setsid()
    log = os.open(f"{files}.log", os.O_WRONLY | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_RDWR)
    for inherited, ours in enumerate((nothing, nothing, log)):
        os.dup2(ours, inherited)
    ended, end = os.pipe()
    signal.signal(signal.SIGTERM, lambda number, frame: os.close(end))
    holding = Holding(netlink, queue, Delays(by, jitter, seeds))
    holding.hold_until(ended)
    with open(f"{files}.count", "w") as file:
        print(holding.packets, holding.micros, file=file)


if __name__ == "__main__":
    _, number, mean, spread, path, *given = sys.argv
    main(int(number), int(mean), int(spread), path, dict(seed.split("=", 1) for seed in given))
