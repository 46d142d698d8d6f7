"""A disk that takes no more: one clear error, and no half of a record that could be taken for the whole."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = "import sys; from streamproof.harness.command_line.cli import main; sys.argv[0] = 'streamproof'; main()"


@pytest.mark.parametrize("limit", [2_000, 60_000], ids=["while it records", "while it seals"])
def test_a_disk_that_is_full_ends_the_run_with_one_error(limit: int, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = subprocess.run(
        [
            *(sys.executable, "-c", COMMAND, "run", "word-count.gap"),
            *("--cluster", "simulated", "--folder", str(folder)),
        ],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    assert str(folder) in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "seal.json").exists()
    assert not (folder / "verdicts.json").exists()
