"""A process that is killed in the middle of a write leaves a part of it: the kernel copies page by page."""

from __future__ import annotations

import errno
import mmap
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from held_operations import Controller, needs_mounts
from streamproof.harness.certifying.journaled_folders import JournaledFolders
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.crash_points.files.mounting import MountedFolder
from streamproof.harness.crash_points.files.operations import Operation, read_operations
from streamproof.harness.crash_points.files.trees import File, Tree

pytestmark = needs_mounts

PAGE = mmap.PAGESIZE


def done(folder: MountedFolder) -> list[Operation]:
    return [one for _, one in read_operations(folder.journal) if one.is_point]


def sizes(folder: MountedFolder, name: str) -> list[int]:
    """Of a file, after each operation that was journalled."""
    tree, found = Tree(), []
    for one in done(folder):
        tree.apply(one)
        if isinstance(file := tree.nodes.get(name), File):
            found.append(len(file.content))
    return found


ROWS = 6_000
"""In bytes: more than a page, and what Python keeps in a buffer."""


def test_a_write_of_several_pages_has_a_crash_point_inside(mounted: MountedFolder, controller: Controller) -> None:
    (mounted.mount / "a").write_bytes(b"x" * ROWS)
    assert controller.heard == ["create a", "half-write a", "write a"]
    assert controller.ways == ["O_TRUNC", "at 0", "at 0"]
    assert sizes(mounted, "a") == [0, PAGE, ROWS]
    assert (mounted.mount / "a").read_bytes() == b"x" * ROWS == (mounted.below / "a").read_bytes()


@pytest.mark.parametrize(
    ("there", "size", "half"),
    [
        (0, PAGE, 0),
        (0, PAGE + 1, PAGE),
        (0, 2 * PAGE, PAGE),
        (0, 7 * PAGE, 4 * PAGE),
        (PAGE, PAGE, 0),
        (PAGE - 6, 6, 0),
        (PAGE - 6, 10, 6),
        (PAGE - 6, PAGE + 7, 6),
        (10, 3 * PAGE, 2 * PAGE - 10),
        (PAGE - 1, 2 * PAGE, PAGE + 1),
    ],
)
def test_it_is_cut_between_two_pages_near_its_middle_and_what_is_in_one_page_is_not_cut(
    there: int, size: int, half: int, mounted: MountedFolder
) -> None:
    with (mounted.mount / "a").open("wb", buffering=0) as file:
        file.truncate(there)
        file.seek(there)
        assert file.write(b"x" * size) == size
    ends = [one.offset + len(one.data) for one in done(mounted) if one.data]
    assert ends[-1] == there + size == (mounted.mount / "a").stat().st_size
    if half:
        # Where a write begins within a page, some kernels hand on by itself what is in that page, and then the rest.
        assert there + half in ends
        assert all(end % PAGE == 0 for end in ends[:-1])
        assert sum(one.half for one in done(mounted)) <= 1
    else:
        assert len(ends) == 1


def test_what_is_appended_is_cut_as_well(mounted: MountedFolder, controller: Controller) -> None:
    for batch in (b"0", b"1", b"2"):
        with (mounted.mount / "a").open("ab") as file:
            file.write(batch * 3_000)
    assert controller.ways == ["O_APPEND"] * 6
    assert sizes(mounted, "a") == [0, 3_000, PAGE, 6_000, 2 * PAGE, 9_000]
    assert (mounted.below / "a").read_bytes() == b"0" * 3_000 + b"1" * 3_000 + b"2" * 3_000


def test_of_writes_that_follow_each_other_one_is_cut(mounted: MountedFolder, controller: Controller) -> None:
    with (mounted.mount / "a").open("wb", buffering=0) as file:
        for _ in range(5):
            file.write(b"x" * (2 * PAGE))
    assert controller.heard == ["create a", "half-write a", *["write a"] * 5]


@pytest.mark.parametrize(
    ("between", "heard"),
    [
        (lambda root, file: os.fsync(file.fileno()), "fsync a"),
        (lambda root, file: (root / "b").touch(), "create b"),
        (lambda root, file: file.seek(0), ""),
    ],
)
def test_who_does_something_else_between_two_writes_can_die_in_each_of_them(
    between: Callable[[Path, object], object], heard: str, mounted: MountedFolder, controller: Controller
) -> None:
    with (mounted.mount / "a").open("wb", buffering=0) as file:
        file.write(b"x" * (2 * PAGE))
        between(mounted.mount, file)
        file.write(b"x" * (2 * PAGE))
    others = [heard] if heard else []
    kinds = [one for one in controller.heard if not one.startswith("times")]
    assert kinds == ["create a", "half-write a", "write a", *others, "half-write a", "write a"]


def test_what_another_batch_writes_is_cut_too_though_it_follows_in_the_file(
    mounted: MountedFolder, controller: Controller
) -> None:
    offsets = mounted.mount / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    controller.heard.clear()
    with (mounted.mount / "a").open("wb", buffering=0) as file:
        for number in range(2):
            subprocess.run(["touch", offsets / str(number)], check=True)
            file.write(b"x" * (2 * PAGE))
            file.write(b"x" * (2 * PAGE))
    assert controller.heard.count("half-write a") == 2
    assert controller.heard.count("write a") == 4


def test_nothing_is_cut_where_nobody_is_told(mounted: MountedFolder, controller: Controller) -> None:
    mounted.be_quiet()
    (mounted.mount / "a").write_bytes(b"x" * ROWS)
    assert controller.heard == []
    assert done(mounted) == []


STORES = """
import mmap, sys
with open(sys.argv[1], "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
    memory[:] = b"x" * len(memory)
    memory.flush()
"""


def test_pages_that_were_stored_in_a_map_of_memory_are_no_halves(mounted: MountedFolder) -> None:
    with (mounted.mount / "a").open("wb") as file:
        file.truncate(4 * PAGE)
    subprocess.run([sys.executable, "-c", STORES, mounted.mount / "a"], check=True, timeout=30)
    assert (mounted.below / "a").read_bytes() == b"x" * (4 * PAGE)
    assert not any(one.half for _, one in read_operations(mounted.journal))


def test_a_transaction_of_sqlite_is_cut_a_few_times_and_not_at_each_page(
    mounted: MountedFolder, controller: Controller
) -> None:
    with closing(sqlite3.connect(mounted.mount / "db")) as database:
        database.execute("CREATE TABLE rows (value TEXT)")
        database.executemany("INSERT INTO rows VALUES (?)", [("x" * 500,) for _ in range(200)])
        database.commit()
        controller.heard.clear()
        database.execute("UPDATE rows SET value = value || 'y'")
        database.commit()
    halves = [one for one in controller.heard if one.startswith("half-write")]
    assert len(controller.heard) > 60
    assert len(halves) <= 2


WRITES = """
import os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
os.write(file, b"x" * int(sys.argv[2]))
"""


@pytest.mark.parametrize("others_live", [False, True])
def test_who_is_killed_there_leaves_the_first_half(
    others_live: bool, mounted: MountedFolder, controller: Controller
) -> None:
    mounted.announce(controller.place, "token", "node", 1, others_live=others_live)
    controller.answers = lambda thread, key: "half-write" not in key
    path = mounted.mount / "a"
    with subprocess.Popen([sys.executable, "-c", WRITES, path, str(ROWS)]) as writer:
        wait_until(lambda: "half-write a" in controller.heard, 10, "the writer to come there")
        writer.send_signal(signal.SIGKILL)
        assert writer.wait(10) == -signal.SIGKILL
    assert (mounted.below / "a").stat().st_size == PAGE
    assert controller.heard == ["create a", "half-write a"]
    assert sizes(mounted, "a") == [0, PAGE]
    if others_live:
        (mounted.mount / "b").touch()
    else:
        with pytest.raises(OSError, match="Input/output error"):
            (mounted.mount / "b").touch()


def test_the_rest_of_a_write_is_refused_as_by_a_disk_that_is_full(
    mounted: MountedFolder, controller: Controller
) -> None:
    mounted.announce(controller.place, "token", "node", 1, asks_before=True)
    controller.refuses = "half-write a".__eq__
    with (mounted.mount / "a").open("wb", buffering=0) as file:
        assert file.write(b"x" * ROWS) == PAGE
        assert mounted.refused() == 1
        # It goes on with the rest, and hears of it.
        with pytest.raises(OSError, match="Input/output error") as error:
            file.write(b"x" * (ROWS - PAGE))
        assert error.value.errno == errno.EIO
    assert controller.about == ["create a", "write a", "half-write a"]
    assert controller.heard == ["create a", "half-write a"]
    assert (mounted.below / "a").stat().st_size == PAGE
    assert mounted.refused() == 2
    # Once nobody refuses it, all of it is written.
    controller.refuses = lambda key: False
    (mounted.mount / "a").write_bytes(b"y" * ROWS)
    assert (mounted.below / "a").read_bytes() == b"y" * ROWS


def test_who_is_refused_a_write_has_nothing_of_it_done(mounted: MountedFolder, controller: Controller) -> None:
    mounted.announce(controller.place, "token", "node", 1, asks_before=True)
    controller.refuses = "write a".__eq__
    with (mounted.mount / "a").open("wb", buffering=0) as file, pytest.raises(OSError, match="Input/output error"):
        file.write(b"x" * ROWS)
    assert controller.about == ["create a", "write a"]
    assert (mounted.below / "a").stat().st_size == 0


def put(path: Path, rows: str) -> None:
    """A sink that takes what is there, and is not empty, for all there is to be."""
    if path.exists() and path.stat().st_size:
        return
    path.write_text(rows)


def put_and_rename(path: Path, rows: str) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(rows)
    draft.rename(path)


@pytest.mark.parametrize(("sink", "loses"), [(put, True), (put_and_rename, False)])
def test_a_sink_that_takes_what_is_not_empty_for_whole_loses_rows_in_one_of_its_states(
    sink: Callable[[Path, str], None], loses: bool, mounted: MountedFolder, controller: Controller
) -> None:
    store = JournaledFolders(mounted, "token", "node")
    marks = []

    def marked(thread: int, key: str) -> bool:
        marks.append(store.mark())
        return True

    controller.answers = marked
    path, rows = mounted.mount / "0.jsonl", "".join(f'{{"seq": {number}}}\n' for number in range(500))
    assert len(rows) < 8_192, "of one write"
    store.begin(controller.place, 1)
    sink(path, rows)
    store.begin(None, 2)
    lost = 0
    states = store.states(marks)
    assert len({state.digest for state in states}) == len(states)
    for state in states:
        store.restore(state)
        sink(path, rows)
        lost += path.read_text() != rows
        with suppress(FileNotFoundError):
            path.with_suffix(".draft").unlink()
    assert lost == loses
