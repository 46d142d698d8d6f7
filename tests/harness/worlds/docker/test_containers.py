"""What is said, and when, where containers cannot be used; and what runs of others leave alone. No engine is needed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from docker.errors import ImageNotFound

from streamproof.faults.crash import crash
from streamproof.harness.command_line import diagnosis
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import MissingTool, Unsupported, UserMistake
from streamproof.harness.core.quantities import events
from streamproof.harness.install.machine import TOXIPROXY
from streamproof.harness.running.run import new_run_id
from streamproof.harness.worlds.docker import cluster, engine, image, labels, network
from streamproof.harness.worlds.docker.cluster import DockerCluster
from streamproof.harness.worlds.docker.code import code_under_test
from streamproof.harness.worlds.docker.labels import RunLabels, owner_is_gone
from streamproof.harness.worlds.docker.options import ContainerOptions
from streamproof.harness.worlds.docker.proofs import ContainerKill
from streamproof.harness.worlds.docker.reaping import reap_containers
from streamproof.harness.worlds.docker.spark import SparkContainers
from streamproof.harness.worlds.embedded.reaping import ProcessId, this_process
from streamproof.harness.worlds.spark.control.warm import WarmCluster
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.gap import gap
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words


def scenario() -> Scenario:
    return Scenario(
        gap(word_count(), checkpoint_every=events(60)), words(events=100), [crash("count-0").after(events(9))]
    )


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process looks for an engine."""
    path = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    return path


@contextmanager
def answering(path: Path, body: bytes) -> Iterator[None]:
    """Somebody behind the socket who says the same to everything."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    if not connection.recv(4096):
                        continue
                    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                    connection.sendall(f"{head}Connection: close\r\n\r\n".encode() + body)

        threading.Thread(target=serve, daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)


def test_an_engine_on_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for host in ("tcp://10.0.0.1:2375", "ssh://me@there", "npipe:////./pipe/docker_engine"):
        monkeypatch.setenv("DOCKER_HOST", host)
        with pytest.raises(Unsupported, match=r"not on this machine.*unset DOCKER_HOST"):
            DockerCluster().check(scenario())


def test_a_tunnel_to_another_machine_is_refused(path: Path) -> None:
    answer = b'{"ApiVersion": "1.41", "KernelVersion": "4.4.0-other"}'
    with answering(path, answer), pytest.raises(Unsupported, match=r"another machine \(its kernel is 4.4.0-other"):
        DockerCluster().check(scenario())


def test_without_an_engine_the_way_to_one_is_named(path: Path) -> None:
    with pytest.raises(MissingTool, match=r"no Docker engine: there is no .*apt-get install docker.io"):
        DockerCluster().check(scenario())
    assert reap_containers() == []


def test_an_engine_that_does_not_run_is_not_taken_for_one_that_is_not_there(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(MissingTool, match="no Docker engine runs behind"):
        DockerCluster().check(scenario())


def test_who_may_not_use_the_engine_is_told_how_to(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Guarded(socket.socket):
        def connect(self, address: object) -> None:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(engine.socket, "socket", Guarded)
    with pytest.raises(MissingTool, match=r"no permission to use the Docker engine.*usermod -aG docker"):
        DockerCluster().check(scenario())


def test_what_is_no_engine_is_not_used(path: Path) -> None:
    with answering(path, b"good day"), pytest.raises(MissingTool, match="does not answer as one"):
        engine.connect()


@pytest.fixture
def fitting_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever runs these tests."""
    monkeypatch.setattr(image, "PYTHON", sys.version_info[:2])


class Engine:
    """One that runs, and has no image."""

    @property
    def images(self) -> Engine:
        return self

    def get(self, name: str) -> None:
        raise ImageNotFound(name)

    def list(self, name: str) -> list[str]:
        return []

    def version(self) -> dict[str, str]:
        return {"Version": "1"}

    def close(self) -> None:
        pass


@pytest.mark.usefixtures("fitting_python")
def test_without_the_image_the_command_that_builds_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "connect", Engine)
    monkeypatch.setattr(engine, "connect", lambda seconds: Engine())
    wanted = (
        r"no image streamproof/spark-node:.* Build it \(.*minutes.*\): .* -m streamproof.harness.worlds.docker.build"
    )
    with pytest.raises(MissingTool, match=wanted):
        DockerCluster().check(scenario())
    found = diagnosis.diagnose()
    assert found.docker is False
    assert [command.split(" -m ")[1] for command in found.docker_commands] == [image.BUILD_MODULE]


@pytest.mark.usefixtures("fitting_python")
def test_too_little_memory_is_said_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Present(Engine):
        def get(self, name: str) -> Any:
            return Mock(attrs={"Size": 1_000_000_000}, labels={image.CONTENT: image._content()})

    monkeypatch.setattr(cluster, "connect", Present)
    monkeypatch.setattr(engine, "connect", lambda seconds: Present())
    free = DockerCluster(ContainerOptions(workers=3))
    monkeypatch.setattr(cluster.psutil, "virtual_memory", lambda: Mock(available=2 << 30))
    with pytest.raises(MissingTool, match=r"too little memory is free: 3 workers .* want 3\.2 GiB; 2\.0 are free"):
        free.check(scenario())
    with WarmCluster[SparkContainers](tmp_path) as warm:
        kept = cluster._WarmDockerCluster(free.options, warm)
        with pytest.raises(MissingTool, match="too little memory is free"):
            kept.check(scenario())
        monkeypatch.setattr(WarmCluster, "keeps_one", True)
        kept.check(scenario())
    monkeypatch.setattr(diagnosis, "_memory", lambda: diagnosis.Finding("memory", "much", True, False))
    found = diagnosis.diagnose()
    assert found.docker is False
    assert [finding.what for finding in found.findings if not finding.good and finding.containers] == ["room"]


def test_the_doctor_knows_that_an_engine_elsewhere_is_of_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    found = diagnosis.diagnose()
    assert found.docker is False
    assert found.docker_commands[0] == "unset DOCKER_HOST"


@pytest.mark.parametrize(
    ("socket_there", "dockerd", "systemd", "command"),
    [
        (True, True, True, "usermod -aG docker $USER  # and log in again"),
        (False, True, True, "systemctl start docker"),
        (False, True, False, "sh -c 'setsid dockerd > /var/log/dockerd.log 2>&1 &'"),
        (False, False, False, "apt-get install -y docker.io"),
    ],
)
def test_the_doctor_says_what_brings_an_engine(
    socket_there: bool, dockerd: bool, systemd: bool, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {diagnosis.SOCKET: socket_there, "/run/systemd/system": systemd}
    monkeypatch.setattr(diagnosis.Path, "exists", lambda path: there[str(path)])
    monkeypatch.setattr(diagnosis.Path, "is_dir", lambda path: there[str(path)])
    monkeypatch.setattr(diagnosis.os, "access", lambda path, mode: False)
    monkeypatch.setattr(diagnosis.os, "geteuid", lambda: 0)
    monkeypatch.setattr(diagnosis.shutil, "which", lambda name: name if name == "apt-get" or dockerd else None)
    assert diagnosis.install_engine() == command


def test_another_python_than_the_image_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "PYTHON", (3, 4))
    with pytest.raises(Unsupported, match=r"containers have Python 3\.4"):
        image.tag()


@pytest.mark.usefixtures("fitting_python")
def test_the_images_name_says_what_goes_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    name = image.tag()
    assert name.startswith("streamproof/spark-node:")
    image._content.cache_clear()
    assert image.tag() == name
    monkeypatch.setattr(image, "BASE", "another:base")
    image._content.cache_clear()
    assert image.tag() != name
    image._content.cache_clear()


def test_the_image_has_the_toxiproxy_that_is_asked_for_elsewhere() -> None:
    assert f"ARG TOXIPROXY={TOXIPROXY}\n" in image._dockerfile().read_text()


def test_more_replicas_than_nodes_are_refused() -> None:
    with pytest.raises(Unsupported, match="needs as many nodes, and there are 2"):
        DockerCluster(ContainerOptions(workers=2)).check(
            Scenario(active_replication(word_count(), replicas=3), words(events=100))
        )


def test_a_cluster_without_workers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match="at least one worker"):
        SparkContainers("none", tmp_path, ContainerOptions(workers=0))


def test_the_doctor_knows_about_containers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "install_engine", lambda: "get docker")
    found = diagnosis.diagnose()
    assert found.docker is False
    assert found.docker_commands[0] == "get docker"
    assert found.docker_commands[1].endswith("-m streamproof.harness.worlds.docker.build_image")
    assert not set(found.docker_commands) & set(found.commands)


def test_only_what_has_no_owner_is_reaped(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = RunLabels("run", this_process(), Path("/scratch")).of("node-0")
    dead = {**mine, labels.OWNER: str(ProcessId(os.getpid(), 1))}
    assert not owner_is_gone(mine)
    assert owner_is_gone(dead)
    boot, namespace, user = labels.home().split(" ")
    assert owner_is_gone({**mine, labels.HOME: f"another-boot {namespace} {user}"})
    assert not owner_is_gone({**dead, labels.HOME: f"{boot} pid:[1] {user}"})
    assert not owner_is_gone({**dead, labels.HOME: f"another-boot {namespace} {int(user) + 1}"})
    assert not owner_is_gone({labels.RUN: "somebody's"})


def test_a_kill_bites_only_what_ran_and_was_ended_by_it() -> None:
    kill = ContainerKill("node-0", "0123456789abcdef", signal.SIGKILL, (7,), True, 137, "2026-01-01T00:00:00Z")
    assert kill.bit
    assert str(kill.proof) == "exit status of container 0123456789ab, ended 2026-01-01T00:00:00Z: 137"
    assert not replace(kill, pids=()).bit
    assert not replace(kill, exit_code=0).bit
    assert not replace(kill, ended=False, exit_code=None).bit
    assert replace(kill, number=signal.SIGTERM, exit_code=0).bit


def test_networks_of_two_runs_begin_their_search_apart() -> None:
    first, second = (next(network._candidates(run)) for run in ("a", "b"))
    assert first != second
    assert len(set(network._candidates("a"))) == 256


def test_the_code_under_test_comes_first_and_what_else_is_installed_last() -> None:
    code = code_under_test()
    found = code.import_path.split(os.pathsep)
    assert found[0] == "/opt/streamproof/package"
    assert (Path(code.mounts["/opt/streamproof/package/streamproof"]) / "harness").is_dir()
    assert all("/installed/" in entry for entry in found[found.index(str(image.SITE)) + 1 :])
    assert all(folder.is_dir() for folder in code.mounts.values())


def test_what_trains_the_image_needs_no_package_that_is_not_in_it() -> None:
    """While it is built there is nothing beside Spark and what that needs."""
    lacking = ("docker", "requests", "rich", "toxiproxy", "typer")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({lacking}))\n"
        "import streamproof.harness.worlds.embedded.build_class_archive, streamproof.harness.worlds.embedded.training\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_is_started_for_a_run_can_be_called_by_its_label() -> None:
    """Also for that of a mutant, whose name has a sign that the engine does not take."""
    label = new_run_id("passive-replication-without-vector@trace.passive-replication")
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", label)
    assert "without-vector-trace.passive" in label
