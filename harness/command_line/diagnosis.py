"""What this machine can run, and the command that adds the rest."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from ..core.errors import MissingTool, StreamproofError
from ..crash_points.files.mounting import FUSE_DEVICE, check_mounts
from ..crash_points.inside_spark.agent import FETCH, VERSION, find_agent
from ..install.class_archive import BUILD_ARCHIVE, archive_path
from ..install.machine import OLDEST_JAVA, find_java, find_spark, find_toxiproxy, install_toxiproxy
from ..install.spark_environments import ADD, SparkEnvironment, environments

if TYPE_CHECKING:
    from docker import DockerClient

GIB = 1 << 30
SOCKET = "/var/run/docker.sock"
WANTED_MEMORY = 4 * GIB
"""What embedded Spark with three nodes is at ease with."""


@dataclass(frozen=True)
class Finding:
    """One thing that a cluster needs, and whether it is there."""

    what: str
    found: str
    good: bool
    needed: bool
    """Whether embedded Spark cannot run without it."""
    add: str = ""
    """The command that adds it."""
    containers: bool = False
    """Whether Spark in containers cannot run without it, and nothing else needs it."""


@dataclass(frozen=True)
class Diagnosis:
    findings: tuple[Finding, ...]

    @property
    def embedded(self) -> bool:
        """Whether embedded Spark can run here."""
        return all(finding.good for finding in self.findings if finding.needed)

    @property
    def docker(self) -> bool:
        """Whether Spark in containers can run here; it needs no Java."""
        needed = [finding for finding in self.findings if finding.containers]
        pyspark = [finding for finding in self.findings if finding.what == "PySpark"]
        return bool(needed) and all(finding.good for finding in (*needed, *pyspark))

    @property
    def commands(self) -> tuple[str, ...]:
        """What to run so that embedded Spark can."""
        return tuple(finding.add for finding in self.findings if finding.add and finding.needed)

    @property
    def docker_commands(self) -> tuple[str, ...]:
        """What to run so that Spark in containers can, in this order."""
        return tuple(finding.add for finding in self.findings if finding.add and finding.containers)


def diagnose() -> Diagnosis:
    """Look at this machine. Starts nothing but `java -version` and, without a Java, the package manager's search."""
    return Diagnosis(
        (
            _system(),
            _python(),
            _java(),
            _pyspark(),
            *_other_sparks(),
            _cores(),
            _memory(),
            _archive(),
            _toxiproxy(),
            _agent(),
            _files(),
            *_containers(),
        )
    )


def _containers() -> Iterator[Finding]:
    """The engine, the image that fits this installation, and room for the nodes."""
    try:
        from ..worlds.docker import image
        from ..worlds.docker.cluster import memory_for
        from ..worlds.docker.engine import connect
        from ..worlds.docker.options import ContainerOptions
    except ImportError as error:
        yield Finding("engine", str(error), False, False, f"{sys.executable} -m pip install docker", containers=True)
        return
    memory = memory_for(ContainerOptions().workers)
    yield Finding("room", str(memory), good=memory.enough, needed=False, containers=True)
    try:
        engine = connect(seconds=10)
    except StreamproofError as error:
        # An engine on another machine is of no use: the one of this machine is to be found instead.
        elsewhere = "unset DOCKER_HOST" if "DOCKER_HOST" in os.environ else ""
        add = install_engine() if isinstance(error, MissingTool) else elsewhere
        yield Finding("engine", str(error), good=False, needed=False, add=add, containers=True)
        yield Finding(
            "image", "not known without an engine", good=False, needed=False, add=image.build_command(), containers=True
        )
        return
    with closing(engine):
        answer = engine.version()
        yield Finding("engine", f"Docker {answer['Version']}", good=True, needed=False, containers=True)
        yield _own_image(engine)
        for one in environments():
            if one.whole:
                yield _image_with(engine, one)


def _own_image(engine: DockerClient) -> Finding:
    from ..worlds.docker import image

    try:
        name = image.require(engine)
        size = int(engine.images.get(name).attrs["Size"])
    except StreamproofError as error:
        # Of another Python there is none to be built.
        add = image.build_command() if isinstance(error, MissingTool) else ""
        return Finding("image", str(error), good=False, needed=False, add=add, containers=True)
    return Finding("image", f"{name}, {size / 1e9:.2f} GB", good=True, needed=False, containers=True)


def _image_with(engine: DockerClient, added: SparkEnvironment) -> Finding:
    """That of another Spark, which only queries that name it need."""
    from ..worlds.docker import image

    python = str(added.python)
    try:
        name = image.built_with(engine, python)
    except StreamproofError as error:
        return Finding("image", str(error), good=False, needed=False)
    if name is None:
        build = image.build_command(python)
        said = f"none with Spark {added.version}, which queries on it need in containers: {build}"
        return Finding("image", said, good=False, needed=False, add=build)
    return Finding("image", f"{name}, with Spark {added.version}", good=True, needed=False)


def install_engine() -> str:
    """The command that makes this machine's engine answer this user."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    if Path(SOCKET).exists() and not os.access(SOCKET, os.W_OK):
        return f"{sudo}usermod -aG docker $USER  # and log in again"
    if shutil.which("dockerd"):
        by_hand = f"{sudo}sh -c 'setsid dockerd > /var/log/dockerd.log 2>&1 &'"
        return f"{sudo}systemctl start docker" if Path("/run/systemd/system").is_dir() else by_hand
    return f"{sudo}apt-get install -y docker.io" if shutil.which("apt-get") else "install and start Docker"


def _system() -> Finding:
    return Finding("system", platform.platform(), sys.platform == "linux", needed=True)


def _python() -> Finding:
    return Finding("Python", f"{platform.python_version()}, {sys.executable}", good=True, needed=True)


def _java() -> Finding:
    try:
        java = find_java()
    except MissingTool as error:
        return Finding("Java", str(error), good=False, needed=True, add=install_java())
    return Finding("Java", f"{java.version}, {java.home}", good=True, needed=True)


def _pyspark() -> Finding:
    try:
        spark = find_spark()
        return Finding("PySpark", f"{version('pyspark')}, {spark.home}", good=True, needed=True)
    except (MissingTool, PackageNotFoundError) as error:
        command = f"{sys.executable} -m pip install 'pyspark>=4.3,<4.4'"
        return Finding("PySpark", str(error), good=False, needed=True, add=command)


def _other_sparks() -> Iterator[Finding]:
    """Those that queries can be certified on, beside streamproof's own."""
    for one in environments():
        if one.whole:
            yield Finding("Spark", f"{one.version}, {one.python}", good=True, needed=False)
        else:
            said = f"{one.version}, {one.folder} is not whole: somebody makes it, or was interrupted"
            yield Finding("Spark", said, good=False, needed=False, add=ADD.format(version=one.version))


def _archive() -> Finding:
    try:
        path = archive_path(find_java(), find_spark())
    except MissingTool:
        return Finding("archive", "not known without Java and PySpark", good=False, needed=False)
    if path.exists():
        return Finding("archive", f"Spark's classes, {path}", good=True, needed=False)
    said = "none of Spark's classes, without which its processes take twice as long to start"
    return Finding("archive", said, good=False, needed=False, add=f"{sys.executable} -m {BUILD_ARCHIVE}")


def _toxiproxy() -> Finding:
    try:
        return Finding("toxiproxy", str(find_toxiproxy()), good=True, needed=False)
    except MissingTool as error:
        return Finding("toxiproxy", str(error), good=False, needed=False, add=install_toxiproxy(os.environ))


def _agent() -> Finding:
    try:
        return Finding("agent", f"Byteman {VERSION}, {find_agent()}", good=True, needed=False)
    except MissingTool as error:
        return Finding("agent", str(error), good=False, needed=False, add=FETCH)


def _files() -> Finding:
    """Without it, what lies between two points of Spark's or the user's is one step to a certificate."""
    try:
        check_mounts()
    except MissingTool as error:
        sudo = "" if os.geteuid() == 0 else "sudo "
        return Finding("files", str(error), good=False, needed=False, add=f"{sudo}apt-get install -y fuse3")
    return Finding("files", f"FUSE, {FUSE_DEVICE}", good=True, needed=False)


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Finding("cores", f"{cores}", good=cores >= 2, needed=False)


def _memory() -> Finding:
    memory = psutil.virtual_memory()
    total, free = memory.total, memory.available
    limit = _memory_limit()
    if limit is not None and limit < total:
        total, free = limit, min(free, limit)
    text = f"{free / GIB:.1f} GiB free of {total / GIB:.1f}"
    good = free >= WANTED_MEMORY
    return Finding(
        "memory", text if good else f"{text}; embedded Spark wants {WANTED_MEMORY // GIB}", good, needed=False
    )


def _memory_limit() -> int | None:
    """A container's limit, where there is one."""
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def install_java() -> str:
    """The command that installs a Java which fits, for this system's package manager."""
    sudo = "" if os.geteuid() == 0 else "sudo "
    if shutil.which("apt-get"):
        versions = _offered_by_apt()
        if versions:
            return f"{sudo}apt-get install -y openjdk-{max(versions)}-jre-headless"
        return f"{sudo}apt-get update && {sudo}apt-get install -y openjdk-{OLDEST_JAVA}-jre-headless"
    if shutil.which("dnf"):
        return f"{sudo}dnf install -y java-21-openjdk-headless"
    return f"install Java {OLDEST_JAVA} or newer, and point JAVA_HOME to it"


def _offered_by_apt() -> list[int]:
    """Of the versions that Spark is tested with, those that the system's packages have."""
    pattern = r"^openjdk-(17|21)-jre-headless$"
    try:
        answer = subprocess.run(
            ["apt-cache", "search", "--names-only", pattern], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [int(number) for number in re.findall(r"^openjdk-(\d+)-jre-headless", answer.stdout, re.MULTILINE)]
