"""An operation on a file that is refused: its caller lives and has an error, and nothing was done, by all that can be
seen."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from held_operations import Controller, needs_mounts
from streamproof.harness.core.addresses import Side
from streamproof.harness.crash_points.files.mounting import MountedFolder
from streamproof.harness.crash_points.files.naming import FilePoints
from streamproof.harness.crash_points.files.operations import read_operations
from streamproof.harness.crash_points.files.trees import Tree

pytestmark = needs_mounts
MARK = "user.done"
LARGE = 5 << 20
"""Bytes, which the kernel hands on in parts."""


@pytest.fixture
def mounted(tmp_path: Path, controller: Controller) -> Iterator[MountedFolder]:
    with MountedFolder(tmp_path, "tests-of-refused", os.environ, tmp_path / "log") as folder:
        folder.announce(controller.place, "token", "node", 1, asks_before=True)
        yield folder


def held(root: Path) -> dict[str, object]:
    """All that can be seen of a folder, from outside of the file layer."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        about = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        marks = tuple((name, os.getxattr(path, name)) for name in os.listxattr(path, follow_symlinks=False))
        found[str(path.relative_to(root))] = (about.st_mode, about.st_uid, about.st_gid, content, marks)
    return found


def synced(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def extended(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def overwritten(path: Path) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.pwrite(fd, b"other", 0)
    finally:
        os.close(fd)


DEEDS: dict[str, Callable[[Path], object]] = {
    "create new": lambda root: (root / "new").touch(),
    "write rows": lambda root: overwritten(root / "rows"),
    "truncate rows": lambda root: os.truncate(root / "rows", 2),
    "truncate other": lambda root: (root / "other").write_bytes(b""),
    "rename rows > named": lambda root: os.rename(root / "rows", root / "named"),
    "rename rows > other": lambda root: os.rename(root / "rows", root / "other"),
    "link linked": lambda root: os.link(root / "rows", root / "linked"),
    "symlink pointer": lambda root: os.symlink("rows", root / "pointer"),
    "mknod pipe": lambda root: os.mkfifo(root / "pipe"),
    "unlink rows": lambda root: os.unlink(root / "rows"),
    "mkdir made": lambda root: os.mkdir(root / "made"),
    "rmdir empty": lambda root: os.rmdir(root / "empty"),
    "fsync rows": lambda root: synced(root / "rows"),
    "chmod rows": lambda root: os.chmod(root / "rows", 0o600),
    f"setxattr rows > {MARK}": lambda root: os.setxattr(root / "rows", MARK, b"1"),
    f"removexattr other > {MARK}": lambda root: os.removexattr(root / "other", MARK),
    "write other": lambda root: extended(root / "other"),
}


@pytest.mark.parametrize("key", DEEDS)
def test_is_not_done_nor_journalled_and_its_caller_has_an_error(
    key: str, mounted: MountedFolder, controller: Controller
) -> None:
    root, deed = mounted.mount, DEEDS[key]
    (root / "rows").write_bytes(b"what was there")
    (root / "other").write_bytes(b"another")
    (root / "rows").chmod(0o640)
    os.setxattr(root / "other", MARK, b"0")
    (root / "empty").mkdir()
    before, begin = held(mounted.below), mounted.position
    controller.heard.clear()
    controller.refuses = key.__eq__
    with pytest.raises(OSError) as refused:  # noqa: PT011 - its number is asked below
        deed(root)
    assert refused.value.errno == errno.EIO
    assert mounted.refused() == 1
    assert controller.heard == []
    assert held(mounted.below) == held(root) == before
    done = [one for _, one in read_operations(mounted.journal, begin) if one.is_point]
    assert done == []
    # Once nobody refuses it, the same is done.
    controller.refuses = lambda key: False
    deed(root)
    assert controller.heard == [key]
    assert mounted.refused() == 1


def test_a_file_that_somebody_has_open_keeps_its_name_where_another_may_not_take_it(
    mounted: MountedFolder, controller: Controller
) -> None:
    root = mounted.mount
    (root / "new").write_bytes(b"new")
    (root / "kept").write_bytes(b"kept")
    controller.refuses = "rename new > kept".__eq__
    with (root / "kept").open("r+b") as file:
        with pytest.raises(OSError, match="Input/output error"):
            os.rename(root / "new", root / "kept")
        assert (root / "kept").read_bytes() == b"kept"
        controller.heard.clear()
        file.write(b"K")
        file.flush()
        assert controller.heard == ["write kept"]
    assert held(mounted.below).keys() == {"new", "kept"}
    assert (root / "kept").read_bytes() == b"Kept"
    os.rename(root / "new", root / "kept2")
    assert {path.name for path in root.iterdir()} == {"kept", "kept2"}


def test_a_write_of_which_a_part_was_done_is_refused_again_so_that_its_caller_hears_of_it(
    mounted: MountedFolder, controller: Controller
) -> None:
    """The kernel tells of no error then, but of fewer bytes."""
    root, times = mounted.mount, iter(range(1, 1_000))
    controller.refuses = lambda key: key == "write rows" and next(times) == 2
    with pytest.raises(OSError, match="Input/output error"):
        (root / "rows").write_bytes(b"x" * LARGE)
    assert 0 < (mounted.below / "rows").stat().st_size < LARGE
    # Who opens it anew is not refused.
    (root / "rows").write_bytes(b"y" * LARGE)
    assert (mounted.below / "rows").read_bytes() == b"y" * LARGE


def test_what_was_refused_is_in_no_state(mounted: MountedFolder, controller: Controller) -> None:
    root = mounted.mount
    controller.refuses = "create b".__eq__
    (root / "a").write_bytes(b"a")
    with pytest.raises(OSError, match="Input/output error"):
        (root / "b").write_bytes(b"b")
    tree = Tree()
    for _, one in read_operations(mounted.journal):
        tree.apply(one)
    assert tree.nodes.keys() == {"a"}


def test_nobody_is_asked_before_an_operation_unless_the_owner_wants_it(
    mounted: MountedFolder, controller: Controller
) -> None:
    mounted.announce(controller.place, "token", "node", 1)
    controller.refuses = lambda key: True
    (mounted.mount / "rows").write_bytes(b"x")
    assert controller.about == []
    assert controller.heard == ["create rows", "write rows"]


@pytest.mark.parametrize("others_live", [True, False])
def test_who_dies_at_an_operation_takes_others_along_only_where_none_is_to_live_on(
    others_live: bool, mounted: MountedFolder, controller: Controller
) -> None:
    mounted.announce(controller.place, "token", "node", 1, asks_before=True, others_live=others_live)
    victim = subprocess.Popen([sys.executable, "-c", f"import os; os.mkdir({str(mounted.mount / 'fatal')!r})"])

    def kill(thread: int, key: str) -> bool:
        if key.endswith("mkdir fatal"):
            victim.kill()
            return False
        return True

    controller.answers = kill
    assert victim.wait(10) != 0
    if others_live:
        (mounted.mount / "rows").write_bytes(b"x")
        assert (mounted.below / "rows").read_bytes() == b"x"
    else:
        with pytest.raises(OSError, match="Input/output error"):
            (mounted.mount / "rows").write_bytes(b"x")
    # It was no refusal of the harness's.
    assert mounted.refused() == 0


def test_an_operation_is_called_before_it_is_done_as_it_is_once_it_was() -> None:
    points = FilePoints()
    assert points.name("3", "write sink/a", Side.BEFORE) == "write sink/a#1"
    # It was refused: the next is the first still.
    assert points.name("3", "write sink/a", Side.BEFORE) == "write sink/a#1"
    assert points.name("3", "write sink/a", Side.AFTER) == "write sink/a#1"
    assert points.name("3", "write sink/a", Side.BEFORE) == "write sink/a#2"
