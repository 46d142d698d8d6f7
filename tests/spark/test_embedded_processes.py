"""The embedded cluster is a real one: its nodes die whole, come back when they should, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from held_operations import Controller, needs_mounts
from process_ends import has_ended
from streamproof.harness.contracts.injection import Part
from streamproof.harness.core.errors import ProcessDied, StorageFailed, UnknownName, Unsupported, UserMistake
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.crash_points.files.mounting import MountedFolder
from streamproof.harness.install.machine import inherited_import_path
from streamproof.harness.worlds.embedded import processes
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.node_processes import DriverProcess
from streamproof.harness.worlds.embedded.options import EmbeddedOptions
from streamproof.harness.worlds.embedded.processes import MASTER, SparkProcesses
from streamproof.harness.worlds.embedded.proofs import KillProof
from streamproof.harness.worlds.embedded.reaping import labelled_processes, reap

pytestmark = pytest.mark.spark

PROGRAMS = Path(__file__).parent / "programs"
SECONDS = 90.0


@pytest.fixture(autouse=True)
def importable_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROGRAMS))


@pytest.fixture
def run_id() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True)
class Task:
    """One attempt of a task of `long_tasks`, as it noted itself."""

    partition: int
    node: str
    pid: int


@dataclass(frozen=True)
class Notes:
    folder: Path

    def tasks(self) -> set[Task]:
        fields = (name.split("_") for name in os.listdir(self.folder) if name != "end")
        return {Task(int(partition), node, int(pid)) for partition, node, pid in fields}

    def await_tasks(self, number: int) -> set[Task]:
        return wait_until(
            lambda: tasks if len(tasks := self.tasks()) >= number else None,
            SECONDS,
            f"{number} attempts of tasks",
            lambda: str(self.tasks()),
        )

    def end(self) -> None:
        (self.folder / "end").touch()


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    folder = tmp_path / "notes"
    folder.mkdir()
    return Notes(folder)


def start_tasks(cluster: SparkProcesses, notes: Notes, number: int) -> DriverProcess:
    return cluster.start_driver("driver", "long_tasks", [str(notes.folder), str(number)])


def kinds(proof: KillProof) -> set[str]:
    return {process.kind for process in proof.processes}


def test_a_node_dies_whole_and_alone(tmp_path: Path, run_id: str, notes: Notes) -> None:
    folder = tmp_path / "a run"  # Paths with blanks must survive Spark's option parsing.
    with SparkProcesses(run_id, folder, EmbeddedOptions(workers=3)) as cluster:
        driver = start_tasks(cluster, notes, 2)
        first = notes.await_tasks(2)
        victim = min(first, key=lambda task: task.node)
        before = cluster.nodes()
        assert list(before) == [MASTER, "node-0", "node-1", "node-2", "driver"]
        assert victim.pid in before[victim.node].pids

        proof = cluster.kill_node(victim.node)

        assert proof.bit
        assert kinds(proof) == {"worker", "executor", "python-worker"}
        assert {process.pid for process in proof.processes} >= set(before[victim.node].pids)
        assert all(has_ended(process.pid) for process in proof.processes)
        assert proof.when <= proof.gone_at
        after = cluster.nodes()
        assert not after[victim.node].alive
        assert after[victim.node].processes == ()
        for name, state in before.items():
            if name != victim.node:
                assert set(state.pids) <= set(after[name].pids)
        (again,) = notes.await_tasks(3) - first
        assert again.partition == victim.partition
        assert again.node != victim.node
        assert not cluster.kill_node(victim.node).bit

        notes.end()
        assert driver.wait(SECONDS) == 0
        assert driver.stdout.read_text() == "done [0, 1]\n"
        logs = cluster.logs()
    assert labelled_processes(run_id) == []
    assert not cluster.scratch.exists()
    assert any("executor" in log.read_text().lower() for log in logs if log.name == "stderr")
    assert {path.name for path in folder.iterdir()} == {"logs"}


def test_what_is_killed_comes_back(tmp_path: Path, run_id: str, notes: Notes) -> None:
    options = EmbeddedOptions(workers=1, restart_worker_after=0.0, profile="slices")
    with SparkProcesses(run_id, tmp_path, options) as cluster:
        start_tasks(cluster, notes, 1)
        notes.await_tasks(1)
        worker = cluster.nodes()["node-0"]

        executor = cluster.kill_part("node-0", Part.EXECUTOR)
        assert executor.bit
        assert kinds(executor) == {"executor", "python-worker"}
        notes.await_tasks(2)
        assert cluster.nodes()["node-0"].incarnation == worker.incarnation

        assert kinds(cluster.kill_node("node-0")) == {"worker", "executor", "python-worker"}
        notes.await_tasks(3)
        assert cluster.nodes()["node-0"].incarnation == worker.incarnation + 1

        driver = cluster.kill_node("driver")
        assert driver.bit
        assert kinds(driver) == {"driver", "driver-jvm"}
        assert cluster.nodes()["driver"].processes == ()
        start_tasks(cluster, notes, 1)
        notes.await_tasks(4)

        assert kinds(cluster.kill_node(MASTER)) == {"master"}
        address = cluster.master_url
        cluster.start_node(MASTER)
        assert cluster.master_url == address
        # The new master knows the worker and the application: it brings an executor back.
        assert cluster.kill_part("node-0", Part.EXECUTOR).bit
        notes.await_tasks(5)
    assert labelled_processes(run_id) == []


class TestWhenTheHarnessIsKilled:
    @pytest.fixture
    def harness(self, tmp_path: Path, run_id: str, notes: Notes) -> "subprocess.Popen[bytes]":
        arguments = [run_id, str(tmp_path / "run"), str(notes.folder)]
        process = subprocess.Popen(
            [sys.executable, "-m", "harness_to_kill", *arguments],
            env={**os.environ, "PYTHONPATH": inherited_import_path()},
            cwd=tmp_path,
        )
        notes.await_tasks(1)
        return process

    def test_its_watchdog_ends_the_run(
        self, harness: "subprocess.Popen[bytes]", tmp_path: Path, run_id: str, notes: Notes
    ) -> None:
        assert {process.kind for process in labelled_processes(run_id)} == {
            *("watchdog", "master", "worker", "executor", "python-worker", "driver", "driver-jvm")
        }
        harness.kill()
        harness.wait()
        wait_until(lambda: not labelled_processes(run_id), SECONDS, "the run to end", lambda: left(run_id))
        assert not (tmp_path / "run" / "scratch").exists()

    def test_the_next_start_reaps_what_it_left(
        self, harness: "subprocess.Popen[bytes]", tmp_path: Path, run_id: str, notes: Notes
    ) -> None:
        assert run_id not in {reaped.run for reaped in reap()}, "a run whose owner is alive is not reaped"
        assert not harness.poll()
        for process in labelled_processes(run_id):
            if process.kind == "watchdog":
                process.process.end()
                process.process.wait_gone()
        harness.kill()
        harness.wait()
        (reaped,) = (reaped for reaped in reap() if reaped.run == run_id)
        assert {process.kind for process in reaped.processes} >= {"master", "worker", "executor", "driver"}
        assert reaped.survivors == ()
        assert labelled_processes(run_id) == []
        assert not (tmp_path / "run" / "scratch").exists()

    def test_its_watchdog_goes_on_with_the_end_of_the_run(self, tmp_path: Path, run_id: str) -> None:
        harness = subprocess.run(
            [sys.executable, "-c", KILLED_WHILE_IT_ENDS_A_RUN, run_id, str(tmp_path / "run")],
            env={**os.environ, "PYTHONPATH": inherited_import_path()},
            cwd=tmp_path,
            check=False,
        )
        assert harness.returncode == -signal.SIGKILL
        wait_until(lambda: not labelled_processes(run_id), SECONDS, "the run to end", lambda: left(run_id))
        assert not (tmp_path / "run" / "scratch").exists()


KILLED_WHILE_IT_ENDS_A_RUN = """
import os, signal, sys
from pathlib import Path
from streamproof.harness.worlds.embedded import reaping
from streamproof.harness.worlds.embedded.options import EmbeddedOptions
from streamproof.harness.worlds.embedded.processes import SparkProcesses

with SparkProcesses(sys.argv[1], Path(sys.argv[2]), EmbeddedOptions(workers=0)):
    reaping.remove_scratch = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""


def left(run: str) -> str:
    return str([(process.pid, process.kind) for process in labelled_processes(run)])


def test_nobody_on_a_node_that_is_killed_sees_another_die(tmp_path: Path, run_id: str) -> None:
    with SparkProcesses(run_id, tmp_path / "run", EmbeddedOptions(workers=0)) as processes:
        processes.start_driver("driver", "tidying", [str(tmp_path)], master="local[1]")
        wait_until((tmp_path / "ready").exists, 30, "the driver and its children to run")
        proof = processes.kill_node("driver")
    assert proof.gone
    assert len(proof.processes) == 202
    assert not (tmp_path / "tidied").exists()


@needs_mounts
def test_nodes_of_which_one_waits_for_an_operation_of_another_die_together(tmp_path: Path, run_id: str) -> None:
    controller, held, over = Controller(), threading.Event(), threading.Event()

    def answers(thread: int, key: str) -> bool:
        if key.endswith("/mkdir held"):
            held.set()
            over.wait(60)
        return True

    controller.answers = answers
    with (
        SparkProcesses(run_id, tmp_path / "run", EmbeddedOptions(workers=0)) as processes,
        MountedFolder(tmp_path / "files", run_id, os.environ, tmp_path / "log") as files,
    ):
        files.announce(controller.place, "token", "node", 1)
        processes.start_driver("waits", "making_folders", [str(files.mount / "a"), "again"], master="local[1]")
        wait_until(lambda: "mkdir a" in controller.heard, 30, "a node that works on files")
        processes.start_driver("held", "making_folders", [str(files.mount / "held"), "once"], master="local[1]")
        assert held.wait(30)
        proof = processes.kill_together(["waits", "held"])
        over.set()
    controller.close()
    assert proof.gone
    assert len(proof.processes) == 2


def test_a_process_that_dies_at_its_start_is_reported_with_its_log(
    tmp_path: Path, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "QUICK_JVM", ("-XX:+NoSuchOption",))
    with pytest.raises(ProcessDied, match=r"master ended with status 1 at its start[\s\S]*NoSuchOption"):
        SparkProcesses(run_id, tmp_path).__enter__()
    assert labelled_processes(run_id) == []


def test_what_cannot_be_done_is_said(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(UserMistake, match="has -1 workers"):
        SparkProcesses(run_id, tmp_path, EmbeddedOptions(workers=-1))
    with pytest.raises(UserMistake, match="at least one worker"):
        EmbeddedCluster(EmbeddedOptions(workers=0))
    with pytest.raises(UnknownName, match="default, slices, tuned"):
        SparkProcesses(run_id, tmp_path, EmbeddedOptions(profile="fast"))
    cluster = SparkProcesses(run_id, tmp_path)
    with pytest.raises(Unsupported, match="has not been started"):
        _ = cluster.master_url
    with pytest.raises(Unsupported, match="there is no node 'node-7'"):
        cluster.kill_node("node-7")
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match="cannot be made"):
        SparkProcesses(run_id, tmp_path / "file" / "run").__enter__()
