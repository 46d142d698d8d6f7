"""The second half of the tutorial: its sink is refuted, and after the repair it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tutorial import tutorial_blocks

pytestmark = [pytest.mark.spark, pytest.mark.long]

PROGRAM = [sys.executable, "-c", "from streamproof.harness.command_line.cli import main; main()"]
STATUSES = {"refuted": {1}, "certified": {0, 2}, "report": {0}}
"""What no time is left for is UNKNOWN."""


def test_what_it_tells_of_its_sink_comes_true(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    ended: list[str] = []
    for block in tutorial_blocks():
        if block.language == "python":
            (tmp_path / block.file).write_text(block.content)
        elif block.content.startswith(("streamproof certify", "streamproof report")) and block.language == "text":
            asked = block.content.split()[1:]
            done = subprocess.run(
                [*PROGRAM, *asked], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            what = asked[-1] if asked[0] == "certify" else "report"
            assert done.returncode in STATUSES[what], done.stdout + done.stderr
            assert ("exactly-once VIOLATED" in done.stdout) == (what == "refuted")
            ended.append(what)
    assert ended == ["refuted", "certified", "report"]
    assert (tmp_path / "refuted" / "certificate.html").exists()
    assert (tmp_path / "refuted" / "counterexample.json").exists()
    assert (tmp_path / "comparison.html").exists()
