"""Says which addresses can be reached, and answer. It runs in a sidecar, with SECONDS ADDRESS... as its arguments."""

from __future__ import annotations

import errno
import socket
import sys

_PORT = 1
"""Nobody listens there: a network that lets packets through both ways answers with a refusal."""


def answers(address: str, seconds: float) -> bool:
    with socket.socket() as probing:
        probing.settimeout(seconds)
        try:
            return probing.connect_ex((address, _PORT)) in (0, errno.ECONNREFUSED)
        except TimeoutError:
            return False


if __name__ == "__main__":
    for address in sys.argv[2:]:
        if answers(address, float(sys.argv[1])):
            print(address)
