"""Ends the Python workers of a session between two attempts, so that what they remember is not remembered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import psutil

from ..core.waiting import wait_until
from ..install.settings import DAEMON_MODULE

GONE_SECONDS = 90.0
"""How long a process may take to go that was killed."""


def end_python_workers(session: int) -> None:
    """End what the daemons below this process have forked, whichever of its other children come and go meanwhile. Spark
    looks whether a worker lives before it is used again. Raises DeadlinePassed where one does not go."""
    workers = list(_workers_of(session))
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.kill()
    wait_until(lambda: not any(map(_lives, workers)), GONE_SECONDS, f"Python workers of process {session} to be gone")


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _workers_of(session: int) -> Iterator[psutil.Process]:
    found: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(session).children(recursive=True)
    for one in found:
        # Those of data sources last for a moment, and others are about to go.
        with suppress(psutil.NoSuchProcess):
            if DAEMON_MODULE in one.cmdline():
                yield from one.children()
