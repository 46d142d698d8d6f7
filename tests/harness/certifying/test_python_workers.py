"""Between two attempts no Python worker of a session is left that could remember the first of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

import psutil
import pytest

from process_ends import has_ended
from streamproof.harness.certifying.python_workers import end_python_workers, works_for_driver, works_for_task
from streamproof.harness.install.settings import DAEMON_MODULE, READER_MODULE

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


def test_their_daemons_are_ended_too_where_nobody_uses_them_again(session: subprocess.Popen[str]) -> None:
    assert session.stdout is not None
    worker, daemon, other = map(int, session.stdout.readline().split())
    end_python_workers(session.pid, daemons=True)
    assert has_ended(worker)
    assert has_ended(daemon)
    assert not has_ended(other)


def test_of_a_session_that_is_gone_nothing_is_left(session: subprocess.Popen[str]) -> None:
    assert session.stdout is not None
    session.stdout.readline()
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    end_python_workers(gone.pid)


@pytest.mark.parametrize(
    ("modules", "of_task", "of_driver"),
    [
        ((DAEMON_MODULE, "pyspark.worker"), True, False),
        ((DAEMON_MODULE, "pyspark.sql.worker.python_streaming_sink_runner"), False, True),
        ((DAEMON_MODULE, "pyspark.sql.worker.write_into_data_source"), False, True),
        ((READER_MODULE,), False, True),
    ],
    ids=lambda one: one[-1].rpartition(".")[2] if isinstance(one, tuple) else None,
)
def test_a_worker_is_a_tasks_or_a_drivers_by_what_it_runs(
    modules: Sequence[str], of_task: bool, of_driver: bool
) -> None:
    waits = "print(flush=True); input()"
    command = [sys.executable, "-c", waits, *modules]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        assert (works_for_task(worker.pid), works_for_driver(worker.pid)) == (of_task, of_driver)
        worker.communicate("\n")
    assert not works_for_task(worker.pid)
    assert not works_for_driver(worker.pid)


def test_another_process_is_no_worker() -> None:
    command = [sys.executable, "-c", "input()", "pyspark.sql.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as other:
        assert not works_for_task(other.pid)
        assert not works_for_driver(other.pid)
        other.communicate("\n")
