"""A real PostgreSQL of a test's own: on loopback, in a folder of its own, as a user without rights."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pg8000.native

from streamproof.harness.core.waiting import wait_until

USER = "tester"
START_SECONDS = 60.0


@cache
def why_no_postgres() -> str | None:
    """Why none can be started here, or None if one can."""
    if _programs() is None:
        return "needs PostgreSQL: apt-get install postgresql"
    if os.geteuid() == 0 and (_unprivileged() is None or shutil.which("setpriv") is None):
        return "PostgreSQL does not run as root, and there is no other user to be"
    return None


def _programs() -> Path | None:
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).parent
    # Where Debian has it, which keeps several versions side by side.
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    return found[-1].parent if found else None


def _unprivileged() -> pwd.struct_passwd | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


@contextmanager
def postgres_server() -> Iterator[int]:
    """Gives the port. It is gone when the context is left, and when this process dies."""
    programs = _programs()
    assert programs is not None, why_no_postgres()
    folder = Path(tempfile.mkdtemp(prefix="streamproof-postgres-"))
    try:
        become: list[str] = []
        if os.geteuid() == 0:
            user = _unprivileged()
            assert user is not None, why_no_postgres()
            os.chown(folder, user.pw_uid, user.pw_gid)
            become = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            become.append("--pdeathsig=KILL")
        data, port = folder / "data", _free_port()
        initdb = [*become, str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", USER, "--no-sync"]
        made = subprocess.run(initdb, cwd=folder, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        settings = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", f"port={port}")
        options = [word for setting in settings for word in ("-c", setting)]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [*become, str(programs / "postgres"), "-D", str(data), *options], cwd=folder, stdout=log, stderr=log
            )
        try:
            wait_until(lambda: _answers(port), START_SECONDS, "PostgreSQL to answer", (folder / "log").read_text)
            yield port
        finally:
            server.send_signal(signal.SIGQUIT)
            server.wait(30)
    finally:
        shutil.rmtree(folder)


def connect(port: int, host: str = "127.0.0.1") -> pg8000.native.Connection:
    return pg8000.native.Connection(USER, host, port=port, database="postgres")


def rows(port: int, select: str) -> list[list[Any]]:
    with closing(connect(port)) as connection:
        return [list(row) for row in connection.run(select) or []]


def _answers(port: int) -> bool:
    try:
        return rows(port, "select 1") == [[1]]
    except (pg8000.native.Error, OSError):
        return False


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
