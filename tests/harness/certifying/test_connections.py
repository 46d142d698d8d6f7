"""Whom Spark's JVM is connected to. A Python by the name of a JVM's program stands for one."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamproof.harness.certifying.connections import peers_of_jvms
from streamproof.harness.core.waiting import wait_until

CONNECTS = """
import socket, subprocess, sys
if sys.argv[1] == "session":
    sys.exit(subprocess.call([*sys.argv[2:]]))
ends = [socket.create_connection((host, int(port))) for host, port in (one.rsplit(":", 1) for one in sys.argv[1:])]
print("connected", flush=True)
sys.stdin.read()
"""
LISTENS = """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
accepted, _ = server.accept()
sys.stdin.read()
"""


@contextmanager
def program(*given: str) -> Iterator[tuple[int, str]]:
    """Its process, and what it says first."""
    with subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.pid, process.stdout.readline().strip()
        finally:
            process.communicate()


@pytest.fixture
def session(tmp_path: Path) -> list[str]:
    """Of a Python process that has a JVM for a child."""
    java = tmp_path / "java"
    shutil.copy(os.path.realpath(sys.executable), java)
    return [sys.executable, "-c", CONNECTS, "session", str(java), "-c", CONNECTS]


def test_it_is_who_listens_outside_of_the_harness(session: list[str]) -> None:
    with program(sys.executable, "-c", LISTENS) as (stranger, port):
        with program(*session, f"127.0.0.1:{port}") as (process, said):
            assert said == "connected"
            wait_until(lambda: bool(peers_of_jvms(process, process)), 30, "that it is accepted")
            # As if the harness were the process of that session, which has not started who listens.
            assert peers_of_jvms(process, process) == {f"127.0.0.1:{port}"}
            assert peers_of_jvms(process, stranger) == set()
            assert peers_of_jvms(process, os.getpid()) == set()
        assert peers_of_jvms(process, process) == set()


def test_what_the_harness_itself_listens_at_is_none(session: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with program(*session, f"127.0.0.1:{port}") as (process, said):
            assert said == "connected"
            assert peers_of_jvms(process, os.getpid()) == set()


@pytest.mark.parametrize("stays", [True, False])
def test_nor_is_what_it_or_a_child_has_accepted_that_listens_no_more(session: list[str], stays: bool) -> None:
    """As a worker whose daemon has ended, or one that has ended with it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with program(*session, f"127.0.0.1:{port}") as (process, said):
            assert said == "connected"
            accepted, _ = server.accept()
            server.close()
            with accepted:
                if not stays:
                    accepted.close()
                assert peers_of_jvms(process, os.getpid()) == set()


def test_connections_of_what_is_no_jvm_are_none() -> None:
    with (
        program(sys.executable, "-c", LISTENS) as (_, port),
        program(sys.executable, "-c", CONNECTS, f"127.0.0.1:{port}") as (process, said),
    ):
        assert said == "connected"
        assert peers_of_jvms(process, process) == set()
