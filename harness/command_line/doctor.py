"""What this machine can run, and the command that adds the rest."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from ..embedded.machine import OLDEST_JAVA, find_java, find_spark
from ..errors import MissingTool

GIB = 1 << 30
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


@dataclass(frozen=True)
class Diagnosis:
    findings: tuple[Finding, ...]

    @property
    def embedded(self) -> bool:
        """Whether embedded Spark can run here."""
        return all(finding.good for finding in self.findings if finding.needed)

    @property
    def commands(self) -> tuple[str, ...]:
        """What to run so that it can."""
        return tuple(finding.add for finding in self.findings if finding.add)


def diagnose() -> Diagnosis:
    """Look at this machine. Starts nothing but `java -version` and, without a Java, the package manager's search."""
    return Diagnosis((_system(), _python(), _java(), _pyspark(), _cores(), _memory()))


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
