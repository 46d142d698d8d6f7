"""Crash points in the user's own Python code, in the driver and in Spark's Python workers."""

from __future__ import annotations

import os
import socket
import sys

from ...core.addresses import Point, Side
from ...core.errors import InvalidScenario, OwnFailure
from ...core.wire import Endpoint

POINTS = "STREAMPROOF_POINTS"
"""The environment variable that says where a process of a run announces its points; none: nowhere."""
CONNECT_SECONDS = 10.0


def points_environment(place: Endpoint, token: str, node: str, incarnation: int) -> dict[str, str]:
    """What the driver and the Python workers of a run must find in their environment."""
    return {POINTS: f"{place[0]}:{place[1]} {token} {node} {incarnation}"}


def crash_point(name: str) -> None:
    """A place where streamproof may kill this process; in a run it waits here for the answer, else nothing happens.

    `name` is the same whenever the place is the same: letters, digits, "-", "_" and ".". Raises InvalidScenario for any
    other, in a run or not.
    """
    if not name.isascii() or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise InvalidScenario(f"crash_point({name!r}): a name has letters, digits, '-', '_' and '.'")
    told = os.environ.get(POINTS)
    if told:
        _announce(told, name)


def _announce(told: str, name: str) -> None:
    try:
        place, token, node, incarnation = told.split(" ")
        host, port = place.rsplit(":", 1)
        address = (host, int(port))
    except ValueError as error:
        raise OwnFailure(f"the environment variable {POINTS} is malformed") from error
    line = f"{token} {node} {incarnation} {os.getpid()} {Side.AFTER} {Point.USER} {_where()}/{name}\n"
    try:
        with socket.create_connection(address, CONNECT_SECONDS) as connection:
            connection.settimeout(None)
            connection.sendall(line.encode())
            connection.recv(1)
    except OSError:
        # A harness that is gone holds nobody.
        return


def _where() -> str:
    """Whether the driver calls this or a task, and the batch, as far as it is known."""
    from .batches import where

    actor, batch = where(sys._getframe(1))
    return f"{actor}:{batch}"
