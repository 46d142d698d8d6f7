"""Whom a process is connected to, as the kernel has it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from streamproof.harness.crash_points.outside.peers import Peers

CONNECTS = """\
import socket, sys
kept = socket.create_connection((sys.argv[1], int(sys.argv[2])))
listens = socket.create_server(("127.0.0.1", 0))
print(listens.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_others_are_peers_and_ours_are_not_nor_who_has_connected(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"{host} is no address of this machine")
    with server:
        place = host, server.getsockname()[1]
        command = [sys.executable, "-c", CONNECTS, host, str(place[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdin is not None
            with socket.create_connection(("127.0.0.1", int(process.stdout.readline()))):
                strangers = Peers(lambda pid: False)
                assert list(strangers.new(process.pid)) == [place]
                assert list(strangers.new(process.pid)) == []
                assert list(Peers(lambda pid: pid == os.getpid()).new(process.pid)) == []
            process.stdin.close()
    assert list(Peers(lambda pid: False).new(process.pid)) == []
