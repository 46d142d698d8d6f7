"""What runs inside containers, as far as it needs none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamproof.harness.install.settings import DAEMON_MODULE
from streamproof.harness.worlds.docker import inside

WORKER = ["/opt/java/bin/java", "-cp", "jars", "org.apache.spark.deploy.worker.Worker", ""]
EXECUTOR = ["/opt/java/bin/java", "org.apache.spark.executor.CoarseGrainedExecutorBackend", "--executor-id", "0", ""]
DAEMON = ["python3", "-m", "pyspark.daemon", "pyspark.worker", ""]
WARM_DAEMON = ["python3", "-m", DAEMON_MODULE, ""]
OURS = ["python3", "-c", "... pyspark.daemon ... org.apache.spark.executor. ...", "kill_part", "executor", ""]
LIVING = {
    1: (0, ["/sbin/docker-init", ""]),
    7: (1, WORKER),
    20: (7, EXECUTOR),
    31: (20, DAEMON),
    32: (31, WARM_DAEMON),
    33: (32, ["cat", ""]),
    40: (0, OURS),
}


@pytest.mark.parametrize(("part", "pids"), [("executor", {20, 31, 32, 33}), ("python", {31, 32})])
def test_a_part_of_a_node_is_what_spark_started_and_not_who_looks_for_it(part: str, pids: set[int]) -> None:
    assert inside.part_of(part, LIVING) == pids


def test_a_disk_is_throttled_with_cgroups_of_version_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroups"
    limits = cgroups / "system.slice" / "docker-1.scope" / "io.max"
    for folder in (proc / "7", limits.parent):
        folder.mkdir(parents=True)
    (proc / "7" / "cgroup").write_text("0::/system.slice/docker-1.scope\n")
    monkeypatch.setattr(inside, "PROC", proc)
    inside.throttle("7", str(cgroups), "8:0", "operations=10", "bytes=0")
    assert limits.read_text() == "8:0 wiops=10 wbps=max"
    inside.throttle("7", str(cgroups), "8:0", "operations=0", "bytes=4096")
    assert limits.read_text() == "8:0 wiops=max wbps=4096"
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"operations": "10", "bytes": "0"},
        {"operations": "0", "bytes": "4096"},
    ]


def test_who_has_just_ended_is_gone_and_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """The engine hears of an end some ms after the kernel has seen to it."""
    inside.remount("4194305", "/checkpoints", "rw")
    inside.throttle("4194305", "/sys/fs/cgroup", "8:0", "operations=0", "bytes=0")
    inside.disk_writes("4194305", "/sys/fs/cgroup", "8:0")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"gone": True}] * 3


@pytest.mark.parametrize("version", [1, 2])
def test_the_writes_that_processes_wait_for_are_counted(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroups"
    folder = cgroups / ("blkio" if version == 1 else "") / "docker" / "1"
    for made in (proc / "7", folder):
        made.mkdir(parents=True)
    (proc / "7" / "cgroup").write_text("4:blkio:/docker/1\n" if version == 1 else "0::/docker/1\n")
    monkeypatch.setattr(inside, "PROC", proc)
    (folder / "blkio.throttle.io_serviced").write_text("8:0 Write 71\n8:0 Async 40\n8:16 Write 9\nTotal 80\n")
    (folder / "io.stat").write_text("8:16 rbytes=1 wios=9\n8:0 rbytes=1 wbytes=4096 wios=71\n")
    inside.disk_writes("7", str(cgroups), "8:0")
    (folder / "io.pressure").write_text("some avg10=0.00 total=1500000\nfull avg10=0.00 total=9\n")
    inside.disk_writes("7", str(cgroups), "8:0")
    inside.disk_writes("8", str(cgroups), "8:0")
    wanted = [{"writes": 31}] * 2 if version == 1 else [{"writes": 71, "waited": w} for w in (0.0, 1.5)]
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [*wanted, {"gone": True}]
