"""The Python workers of a session: what they work for, and their end between two attempts, so that what they remember
is not remembered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from ..core.waiting import wait_until
from ..install.settings import DAEMON_MODULE, READER_MODULE

GONE_SECONDS = 90.0
"""How long a process may take to go that was killed."""
_FOR_DRIVERS = b"\0pyspark.sql."
"""How the module begins that a worker runs which has no task, in the command line of its daemon and its own."""


def end_python_workers(session: int, daemons: bool = False) -> None:
    """End what the daemons below this process have forked, whichever of its other children come and go meanwhile, and
    the daemons, too, where nobody uses them again. Raises DeadlinePassed where one does not go."""
    above = list(_daemons_of(session))
    # A daemon that has gone first leaves no children to be found.
    workers = [worker for daemon in above for worker in _children_of(daemon)] + (above if daemons else [])
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.kill()
    wait_until(lambda: not any(map(_lives, workers)), GONE_SECONDS, f"Python workers of process {session} to be gone")


def works_for_task(pid: int) -> bool:
    """Whether a process, or thread, of this machine is a Python worker that runs tasks; a Python data source is made,
    plans and commits in others."""
    command = _command(pid)
    return DAEMON_MODULE.encode() in command and _FOR_DRIVERS not in command


def works_for_driver(pid: int) -> bool:
    """Whether it is one of the others."""
    command = _command(pid)
    return READER_MODULE.encode() in command or (DAEMON_MODULE.encode() in command and _FOR_DRIVERS in command)


def _command(pid: int) -> bytes:
    """Empty: it has gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _daemons_of(session: int) -> Iterator[psutil.Process]:
    found: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(session).children(recursive=True)
    for one in found:
        # Those of data sources last for a moment, and others are about to go.
        with suppress(psutil.NoSuchProcess):
            if DAEMON_MODULE in one.cmdline():
                yield one


def _children_of(daemon: psutil.Process) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        return daemon.children()
    return []
