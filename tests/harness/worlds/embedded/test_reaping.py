"""Processes are found by their labels and ended for certain, and no others are. No Spark: plain Python processes."""

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamproof.harness.core.waiting import wait_until
from streamproof.harness.worlds.embedded.reaping import (
    MARKER,
    Labels,
    ProcessId,
    end_all,
    labelled_processes,
    mark_scratch,
    reap,
    remove_scratch,
    this_process,
)

Start = Callable[..., "subprocess.Popen[bytes]"]

# Says on its output that it is up, and stays.
STAY = "import signal; print(flush=True); signal.pause()"

# Forks a child every few milliseconds; every second one in a session of its own, where only the label tells.
FORK = """
import os, time
print(flush=True)
n = 0
while True:
    n += 1
    if os.fork() == 0:
        if n % 2: os.setsid()
        time.sleep(60)
    time.sleep(0.002)
"""


@pytest.fixture
def run_id() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def dead() -> ProcessId:
    """The name of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    name = ProcessId.of_child(process.pid)
    process.wait()
    return name


@pytest.fixture
def scratch(tmp_path: Path, run_id: str, dead: ProcessId) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    mark_scratch(folder, run_id, dead)
    return folder


@pytest.fixture
def start(run_id: str, scratch: Path) -> Iterator[Start]:
    started = []

    def launch(code: str = STAY, owner: ProcessId | None = None, run: str = run_id) -> "subprocess.Popen[bytes]":
        labels = Labels(run, owner or this_process(), scratch).environment("node-0", "worker-0")
        process = subprocess.Popen(
            [sys.executable, "-c", code], env={**os.environ, **labels}, stdout=subprocess.PIPE, start_new_session=True
        )
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield launch
    for process in started:
        process.kill()
        process.communicate()


def test_a_process_is_named_by_pid_and_start(dead: ProcessId) -> None:
    me = this_process()
    assert me.alive()
    assert ProcessId.parse(str(me)) == me
    assert ProcessId.parse("none") is None
    assert not dead.alive()
    assert dead.wait_gone(0)


def test_a_pid_that_was_given_away_is_not_hit(start: Start) -> None:
    process = start()
    former = ProcessId(process.pid, ProcessId.of_child(process.pid).started - 1)
    former.end()
    assert former.wait_gone(0)
    assert process.poll() is None


def test_labels_are_read_back(start: Start, run_id: str, scratch: Path) -> None:
    process = start()
    start(run=run_id + "-other")
    (found,) = labelled_processes(run_id)
    assert (found.pid, found.session, found.parent) == (process.pid, process.pid, os.getpid())
    assert (found.run, found.node, found.owner, found.scratch) == (run_id, "node-0", this_process(), str(scratch))


def test_the_session_tells_when_the_environment_does_not(run_id: str) -> None:
    process = subprocess.Popen(["sleep", "60"], env={}, start_new_session=True)
    try:
        assert labelled_processes(run_id) == []
        (found,) = labelled_processes(run_id, {process.pid: "node-3"})
        assert (found.pid, found.node, found.run) == (process.pid, "node-3", run_id)
    finally:
        process.kill()
        process.wait()


def test_a_zombie_counts_as_gone(start: Start, run_id: str) -> None:
    process = start()
    (found,) = labelled_processes(run_id)
    process.send_signal(signal.SIGKILL)
    assert found.process.wait_gone(10)
    assert not found.process.alive()
    assert labelled_processes(run_id) == []


def test_a_process_lives_as_long_as_any_of_its_threads(start: Start) -> None:
    # The first thread ends (exit is number 60 of x86-64's calls, 93 of arm64's), another one stays.
    process = start(
        "import ctypes, os, threading, time; threading.Thread(target=time.sleep, args=(60,)).start();"
        "print(flush=True);"
        "ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)"
    )
    state = Path(f"/proc/{process.pid}/stat")
    wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "Z", 10, "the first thread to end")
    name = ProcessId.of_child(process.pid)
    assert name.alive()
    assert not name.wait_gone(0)
    name.end()
    assert name.wait_gone(10)
    assert not name.alive()


def test_whatever_forks_meanwhile_is_ended_too(start: Start, run_id: str) -> None:
    start(FORK)
    wait_until(lambda: len(labelled_processes(run_id)) > 20, 30, "20 forks")
    ended = end_all(lambda: labelled_processes(run_id))
    assert labelled_processes(run_id) == []
    assert ended.survivors == ()
    assert len(ended.processes) > 20
    assert ended.when < ended.gone_at


def test_what_is_stopped_is_ended(start: Start, run_id: str) -> None:
    start().send_signal(signal.SIGSTOP)
    assert end_all(lambda: labelled_processes(run_id)).survivors == ()
    assert labelled_processes(run_id) == []


def test_only_runs_without_an_owner_are_reaped(start: Start, run_id: str, dead: ProcessId, scratch: Path) -> None:
    mine, orphan = start(), start(owner=dead)
    (reaped,) = (reaped for reaped in reap() if reaped.run == run_id)
    assert [process.pid for process in reaped.processes] == [orphan.pid]
    assert [process.pid for process in labelled_processes(run_id)] == [mine.pid]
    assert not scratch.exists()


def test_no_folder_is_removed_that_is_not_the_runs(tmp_path: Path, scratch: Path, run_id: str, dead: ProcessId) -> None:
    remove_scratch(scratch, "another run", dead)
    remove_scratch(scratch, run_id, this_process())
    remove_scratch(tmp_path, run_id, dead)
    remove_scratch(tmp_path / "missing", run_id, dead)
    assert scratch.exists()
    remove_scratch(scratch, run_id, dead)
    assert not scratch.exists()


def test_a_removal_that_was_cut_short_is_finished_by_the_next(
    scratch: Path, run_id: str, dead: ProcessId, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("before", "zone"):
        (scratch / name).mkdir()
        (scratch / name / "file").touch()
    remove, listed = shutil.rmtree, Path.iterdir
    with monkeypatch.context() as patched:
        # A file system lists in any order.
        patched.setattr(Path, "iterdir", lambda folder: sorted(listed(folder), key=lambda path: path.name != MARKER))
        patched.setattr(shutil, "rmtree", lambda folder: (remove(folder), os.kill(os.getpid(), signal.SIGINT)))
        with pytest.raises(KeyboardInterrupt):
            remove_scratch(scratch, run_id, dead)
    assert scratch.exists()
    remove_scratch(scratch, run_id, dead)
    assert not scratch.exists()
