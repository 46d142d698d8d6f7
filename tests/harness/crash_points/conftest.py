"""What the tests of the file layer share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from held_operations import Controller
from streamproof.harness.crash_points.files.mounting import MountedFolder


@pytest.fixture
def controller() -> Iterator[Controller]:
    made = Controller()
    yield made
    made.close()


@pytest.fixture
def mounted(tmp_path: Path, controller: Controller) -> Iterator[MountedFolder]:
    """A folder each of whose operations is announced once it is done."""
    with MountedFolder(tmp_path, f"tests-of-files-{os.getpid()}", os.environ, tmp_path / "log") as folder:
        folder.announce(controller.place, "token", "node", 1)
        yield folder
