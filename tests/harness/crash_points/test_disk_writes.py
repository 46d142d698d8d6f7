"""What a process has written elsewhere than in the run's folders, beside threads of it that write there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from held_operations import needs_mounts
from streamproof.harness.crash_points.files.mounting import MountedFolder
from streamproof.harness.crash_points.inside_python.disk_writes import DiskWrites


@needs_mounts
def test_what_comes_to_the_runs_folders_while_they_are_asked_is_nothing_that_is_written_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = os.getxattr
    with MountedFolder(tmp_path, "disk-writes", os.environ, tmp_path / "log") as mounted:
        disks = DiskWrites((str(mounted.mount),))
        (mounted.mount / "first").write_bytes(b"x" * 9_000)

        def written_to_meanwhile(path: str, name: str) -> bytes:
            monkeypatch.undo()
            (mounted.mount / "second").write_bytes(b"x" * 9_000)
            return answered(path, name)

        monkeypatch.setattr(os, "getxattr", written_to_meanwhile)
        before = disks.elsewhere()
        assert not disks.has_written(before)
        (tmp_path / "elsewhere").write_bytes(b"x")
        assert disks.has_written(before)
