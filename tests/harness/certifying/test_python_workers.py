"""Between two attempts no Python worker of a session is left that could remember the first of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from process_ends import has_ended
from streamproof.harness.certifying.python_workers import end_python_workers
from streamproof.harness.install.settings import DAEMON_MODULE

SESSION = f"""
import os, subprocess, sys, time
# Whose end nobody has waited for.
gone = subprocess.Popen([sys.executable, "-c", ""])
os.waitid(os.P_PID, gone.pid, os.WEXITED | os.WNOWAIT)
forks = "import os, time; worker = os.fork(); worker and print(worker, flush=True); time.sleep(600)"
daemon = subprocess.Popen([sys.executable, "-c", forks, "{DAEMON_MODULE}"], stdout=subprocess.PIPE, text=True)
worker = int(daemon.stdout.readline())
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(worker, daemon.pid, other.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def session() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", SESSION], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            for one in psutil.Process(process.pid).children(recursive=True):
                # What a daemon has forked goes with it, where the machine's first process waits for it at once.
                with suppress(psutil.NoSuchProcess):
                    one.kill()
            process.kill()


def test_workers_are_ended_also_beside_a_process_that_has_just_gone(session: subprocess.Popen[str]) -> None:
    assert session.stdout is not None
    worker, daemon, other = map(int, session.stdout.readline().split())
    assert [one.status() for one in psutil.Process(session.pid).children()].count(psutil.STATUS_ZOMBIE) == 1
    end_python_workers(session.pid)
    assert has_ended(worker)
    assert not has_ended(daemon)
    assert not has_ended(other)


def test_of_a_session_that_is_gone_nothing_is_left(session: subprocess.Popen[str]) -> None:
    assert session.stdout is not None
    session.stdout.readline()
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    end_python_workers(gone.pid)
