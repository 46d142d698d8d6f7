"""Whenever and however the harness ends, what it has started goes: with it, or when the next one reaps."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import docker
import pytest

from streamproof.harness.core.errors import DeadlinePassed
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.install.machine import inherited_import_path
from streamproof.harness.worlds.docker import labels, spark
from streamproof.harness.worlds.docker.engine import connect
from streamproof.harness.worlds.docker.options import ContainerOptions
from streamproof.harness.worlds.docker.reaping import reap_containers, resource_name
from streamproof.harness.worlds.embedded.reaping import ProcessId, labelled_processes

pytestmark = pytest.mark.docker

SCENARIOS = """
from streamproof import *
from streamproof.faults.partition import partition
from streamproof.faults.pause import pause
from streamproof.scenarios.workloads import words


def disturbed():
    faults = [
        pause("count-0").after(seconds(0.2)).lasting(seconds(2)),
        partition("node-1", "node-2").after(seconds(0.7)).lasting(seconds(1)),
        crash("split-0").after(seconds(3)),
    ]
    subject = passive_replication(word_count(), checkpoint_every=events(60), sink_filter=True)
    return Scenario(subject, words(events=4_000, rate=1_000), faults)


class Broken(Operator[None]):
    def initial_state(self):
        return None

    def process(self, event, state):
        raise ValueError("not this one")


def failing():
    topology = Topology("broken", {"broken": Stage(Broken())}, (Edge("source", "broken"), Edge("broken", "sink")))
    return Scenario(passive_replication(topology, checkpoint_every=events(60)), words(events=100))
"""
RUN_SECONDS = 30.0
"""About what two runs of `disturbed` take on one cluster: moments to kill at are drawn from it."""


class Harness:
    """A harness in a process of its own, and what can be seen of it from outside."""

    def __init__(self, folder: Path, engine: docker.DockerClient, *scenarios: str) -> None:
        (folder / "cases.py").write_text(SCENARIOS)
        self.folder = folder
        self.engine = engine
        command = "import sys; from streamproof.harness.command_line.cli import main; sys.exit(main())"
        named = [f"cases:{scenario}" for scenario in scenarios]
        self.process = subprocess.Popen(
            [sys.executable, "-c", command, "run", *named, "--cluster", "docker"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.id = ProcessId.of_child(self.process.pid)

    def left(self) -> list[str]:
        """Containers, networks and volumes of the engine, processes, and folders that are no records."""
        filters = {"label": f"{labels.OWNER}={self.id}"}
        on_engine = [
            *self.engine.containers.list(all=True, filters=filters, sparse=True),
            *self.engine.networks.list(filters=filters),
            *self.engine.volumes.list(filters=filters),
        ]
        processes = [f"process {one.pid}" for one in labelled_processes() if one.owner == self.id]
        runs = self.folder / "runs"
        folders = [f"{path}" for pattern in ("*-cluster", "*/scratch") for path in runs.glob(pattern)]
        return [*map(resource_name, on_engine), *processes, *folders]

    def is_in(self, word: str) -> bool:
        """Whether the newest run's timeline has come to an entry of this kind."""
        timelines = sorted(self.folder.glob("runs/*/timeline.jsonl"))
        return bool(timelines) and f'"{word}"' in timelines[-1].read_text()


Start = Callable[..., Harness]


@pytest.fixture
def engine() -> Iterator[docker.DockerClient]:
    client = connect()
    yield client
    client.close()


@pytest.fixture
def start(engine: docker.DockerClient, tmp_path: Path) -> Iterator[Start]:
    """Starts harnesses that run these scenarios, one after the other on one cluster."""
    started = []

    def start(*scenarios: str) -> Harness:
        started.append(Harness(tmp_path, engine, *scenarios))
        return started[-1]

    yield start
    for harness in started:
        harness.process.kill()
        harness.process.wait()
    reap_containers(engine)


def _kill_at_a_random_moment(seed: int, engine: docker.DockerClient, start: Start) -> None:
    harness = start("disturbed", "disturbed")
    moment = Random(seed).uniform(0, RUN_SECONDS)
    try:
        harness.process.wait(moment)
    except subprocess.TimeoutExpired:
        harness.process.kill()
    said, _ = harness.process.communicate()
    # It was killed, or both runs came to their verdicts before that.
    assert harness.process.returncode in (-signal.SIGKILL, 0, 1, 2), said
    print(f"killed after {moment:.1f} s, which left {', '.join(harness.left()) or 'nothing'}; it said: {said}")
    reap_containers(engine)
    assert harness.left() == []
    assert reap_containers(engine) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 5])
def test_nothing_is_left_of_a_harness_that_was_killed_at_some_moment(
    seed: int, engine: docker.DockerClient, start: Start
) -> None:
    _kill_at_a_random_moment(seed, engine, start)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 120))
def test_nothing_is_left_of_a_harness_that_was_killed_at_any_moment(
    seed: int, engine: docker.DockerClient, start: Start
) -> None:
    _kill_at_a_random_moment(seed, engine, start)


KILLED_WHILE_IT_ENDS_A_RUN = """
import os, signal, sys
from pathlib import Path
from streamproof.harness.worlds.docker import spark
from streamproof.harness.worlds.docker.options import ContainerOptions

with spark.SparkContainers(sys.argv[1], Path(sys.argv[2]), ContainerOptions(workers=1)):
    spark.remove_scratch = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_reaper_goes_on_with_the_end_of_a_run(engine: docker.DockerClient, tmp_path: Path) -> None:
    run = f"test-{uuid.uuid4().hex[:12]}"
    harness = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_IT_ENDS_A_RUN, run, str(tmp_path / "run")],
        env={**os.environ, "PYTHONPATH": inherited_import_path()},
        check=False,
    )
    assert harness.returncode == -signal.SIGKILL
    (reaped,) = (reaped for reaped in reap_containers(engine) if reaped.run == run)
    assert reaped.survivors == ()
    assert not (tmp_path / "run" / "scratch").exists()


def test_a_folder_that_cannot_be_removed_is_said_and_keeps_nothing_else(
    engine: docker.DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(scratch: Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(scratch))

    run = f"test-{uuid.uuid4().hex[:12]}"
    monkeypatch.setattr(spark, "remove_scratch", refuse)
    with (
        pytest.raises(DeadlinePassed, match=r"left: .*Permission denied: '.*scratch'"),
        spark.SparkContainers(run, tmp_path / "run", ContainerOptions(workers=1)),
    ):
        pass
    filters = {"label": f"{labels.RUN}={run}"}
    assert engine.containers.list(all=True, filters=filters) == []
    assert engine.networks.list(filters=filters) == []


def test_nothing_is_left_after_an_interrupt_while_a_fault_is_in_force(start: Start) -> None:
    harness = start("disturbed", "disturbed")
    wait_until(lambda: harness.is_in("fault-struck"), 90, "a fault to strike")
    assert len(harness.left()) > 5
    harness.process.send_signal(signal.SIGINT)
    said, _ = harness.process.communicate(timeout=60)
    assert harness.process.returncode == 130, said
    assert harness.left() == []


@pytest.mark.long
def test_nothing_is_left_after_a_run_that_failed(start: Start) -> None:
    harness = start("failing", "disturbed")
    said, _ = harness.process.communicate(timeout=120)
    assert harness.process.returncode == 3, said
    assert "not this one" in said
    assert harness.left() == []
