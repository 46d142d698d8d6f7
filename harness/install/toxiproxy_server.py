"""A toxiproxy server: how it is started, and whether it is there."""

from __future__ import annotations

import socket

import psutil

from ..core.wire import Endpoint

PORT = 8474
"""Where a server listens that has an address of its own."""


def server_command(binary: str, host: str, port: int, seed: int) -> list[str]:
    """What jitter it adds is drawn from the seed."""
    return [binary, "-host", host, "-port", str(port), "-seed", str(seed)]


def listening_port(pid: int) -> int | None:
    """Of a server that was told to take a free one, 0; it says nowhere which."""
    connections = psutil.Process(pid).net_connections("tcp")
    return next((one.laddr.port for one in connections if one.status == psutil.CONN_LISTEN), None)


def toxiproxy_answers(place: Endpoint) -> bool:
    """Whether a server listens there."""
    try:
        socket.create_connection(place, timeout=1).close()
    except OSError:
        return False
    return True
