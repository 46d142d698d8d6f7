"""The file layer is a real file system: what is tested is what the kernel makes of it."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from held_operations import Controller, needs_mounts
from streamproof.harness.certifying.crash_states import CrashState, Looks, StateEntry
from streamproof.harness.certifying.journaled_folders import JournaledFolders
from streamproof.harness.certifying.sqlite_rollback import rolled_back
from streamproof.harness.core.addresses import Side
from streamproof.harness.core.errors import MissingTool
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.crash_points.files.mounting import MountedFolder, check_mounts
from streamproof.harness.crash_points.files.mounts import mounts_of, unmount_all
from streamproof.harness.crash_points.files.naming import FilePoints, FilePointsOfNodes, without_randoms
from streamproof.harness.crash_points.files.operations import WRITTEN, Operation, OperationKind, read_operations
from streamproof.harness.crash_points.files.serving import FORGOTTEN_SECONDS
from streamproof.harness.crash_points.files.trees import File, Meeting, Symlink, Tree, remove_folder
from streamproof.harness.crash_points.inside_python.maps import JVM, SharedMaps

RUN = f"tests-of-mounts-{os.getpid()}"


def told(tree: Tree) -> dict[str, object]:
    def one(node: object) -> object:
        match node:
            case File():
                return (bytes(node.content), node.attributes) if node.attributes else bytes(node.content)
            case Symlink():
                return node
        return "folder"

    return {path: one(node) for path, node in tree.nodes.items()}


def journalled(folder: MountedFolder, base: Tree | None = None, begin: int = 0) -> Tree:
    tree = Tree() if base is None else base
    for _, operation in read_operations(folder.journal, begin, folder.position):
        tree.apply(operation)
    return tree


MARK = "user.done"
OTHERS = 12345
"""A group that nobody is in: root alone can give it a file."""
NAMES = st.sampled_from(["a", "b", "d/a", "d/b"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.binary(max_size=9)),
        st.tuples(st.just("append"), NAMES, st.binary(max_size=9)),
        st.tuples(st.just("truncate"), NAMES, st.integers(0, 20)),
        st.tuples(st.just("rename"), NAMES, NAMES),
        st.tuples(st.just("exchange"), st.sampled_from(["a", "b", "d/a", "d"]), NAMES),
        st.tuples(st.just("link"), NAMES, NAMES),
        st.tuples(st.just("unlink"), NAMES, st.none()),
        st.tuples(st.just("folder"), st.just("d"), st.just("e")),
        st.tuples(st.just("hold"), NAMES, st.binary(max_size=9)),
        st.tuples(st.just("mark"), NAMES, st.binary(max_size=9)),
        st.tuples(st.just("unmark"), NAMES, st.none()),
        st.tuples(st.just("mark"), st.sampled_from(["d", "d/e"]), st.binary(max_size=9)),
        st.tuples(st.just("make"), st.sampled_from(["d/e", "e"]), st.none()),
        st.tuples(st.just("remove"), st.sampled_from(["d/e", "e"]), st.none()),
        st.tuples(st.just("permit"), st.sampled_from(["a", "d/a", "d", "d/e"]), st.sampled_from([0o500, 0o700, 0o744])),
        st.tuples(st.just("own"), st.sampled_from(["a", "d/a", "d", "d/e"]), st.sampled_from([0, OTHERS])),
        st.tuples(st.just("touch"), st.sampled_from(["a", "d/a", "d", "d/e"]), st.integers(1, 9)),
    ),
    max_size=25,
)


Store = Callable[[int, bytes], object]
"""Where, and what."""


STORES_WHEN_TOLD = """
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    memory = mmap.mmap(file.fileno(), 0)
print("mapped", flush=True)
for line in sys.stdin:
    memory[:1] = line[:1].encode()
    print("stored", flush=True)
"""


@contextmanager
def mapped_by_python(path: Path) -> Iterator[Store]:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        yield lambda place, said: memory.__setitem__(slice(place, place + len(said)), said)


@contextmanager
def mapped_by_a_library(path: Path) -> Iterator[Store]:
    """Python is told nothing of it."""
    with pa.memory_map(str(path), "r+b") as memory:
        yield lambda place, said: (memory.seek(place), memory.write(said))


def exchange(one: Path, other: Path) -> None:
    """As who swaps a folder for another does."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(one))


def act(root: Path, step: tuple[str, str, object], held: list[int]) -> None:
    """As a program would; what cannot be done is an error of its own."""
    kind, name, more = step
    path = root / name
    try:
        match kind, more:
            case "write", bytes():
                path.write_bytes(more)
            case "append", bytes():
                with path.open("ab") as file:
                    file.write(more)
            case "truncate", int():
                os.truncate(path, more)
            case "rename", str():
                os.rename(path, root / more)
            case "exchange", str():
                exchange(path, root / more)
            case "link", str():
                os.link(path, root / more)
            case "unlink", _:
                path.unlink()
            case "folder", str():
                os.rename(path, root / more)
                os.rename(root / more, path)
            case "hold", bytes():
                # It is open while others rename and remove it.
                held.append(os.open(path, os.O_RDWR))
                os.pwrite(held[-1], more, 3)
            case "mark", bytes():
                os.setxattr(path, MARK, more)
            case "unmark", _:
                os.removexattr(path, MARK)
            case "make", _:
                path.mkdir()
            case "remove", _:
                path.rmdir()
            case "permit", int():
                path.chmod(more)
            case "own", int():
                os.chown(path, -1, more)
            case "touch", int():
                os.utime(path, (more, more))
    except OSError:
        return


def seen(folder: Path) -> dict[str, object]:
    """All that a consumer can tell of a folder, but for when what changed was changed."""

    def one(path: Path) -> object:
        about = path.lstat()
        time_set = about.st_mtime if about.st_mtime < 10 else None
        marks = {name: os.getxattr(path, name) for name in os.listxattr(path)}
        owner = about.st_uid, about.st_gid
        if path.is_dir():
            return stat.S_IMODE(about.st_mode), owner, time_set, marks
        return stat.S_IMODE(about.st_mode), owner, time_set, marks, about.st_nlink, path.read_bytes()

    return {str(path.relative_to(folder)): one(path) for path in sorted(folder.rglob("*"))}


@needs_mounts
def test_a_file_is_appended_to_as_long_as_it_is_used_so(mounted: MountedFolder, controller: Controller) -> None:
    file = mounted.mount / "a"
    file.write_bytes(b"1234")
    controller.ways.clear()
    opened = os.open(file, os.O_WRONLY | os.O_APPEND)
    os.write(opened, b"5")
    fcntl.fcntl(opened, fcntl.F_SETFL, 0)
    os.pwrite(opened, b"x", 0)
    fcntl.fcntl(opened, fcntl.F_SETFL, os.O_APPEND)
    os.write(opened, b"6")
    os.close(opened)
    assert controller.ways == ["O_APPEND", "at 0", "O_APPEND"]
    assert file.read_bytes() == b"x23456"
    assert told(journalled(mounted))["a"] == b"x23456"


@needs_mounts
def test_room_that_is_asked_for_in_a_file_is_there_and_what_is_punched_out_is_gone(
    mounted: MountedFolder, controller: Controller
) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    library.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
    file = mounted.mount / "a"
    file.write_bytes(b"x" * 9000)
    opened = os.open(file, os.O_RDWR)

    def asked(mode: int, offset: int, size: int) -> tuple[list[str], int]:
        controller.heard.clear()
        done = library.fallocate(opened, mode, offset, size)
        return list(controller.heard), ctypes.get_errno() if done else 0

    keeps, punches, collapses, zeroes = 0x1, 0x2, 0x8, 0x10
    assert asked(keeps | punches, 4096, 4096) == (["write a"], 0)
    assert file.read_bytes() == b"x" * 4096 + bytes(4096) + b"x" * (9000 - 8192)
    assert asked(keeps | punches, 8192, 4096) == (["write a"], 0)
    assert asked(keeps | punches, 16384, 4096) == ([], 0)
    assert asked(keeps, 0, 1 << 20) == ([], 0)
    assert asked(0, 0, 4096) == ([], 0)
    assert file.stat().st_size == 9000
    assert asked(0, 0, 1 << 20) == (["truncate a"], 0)
    assert asked(zeroes, 0, 4096) == (["write a"], 0)
    assert asked(zeroes, 1 << 20, 4096) == (["truncate a"], 0)
    assert asked(collapses, 0, 4096) == ([], errno.EOPNOTSUPP)
    assert asked(0, 0, 1 << 31) == ([], errno.EFBIG)
    controller.heard.clear()
    os.posix_fallocate(opened, 0, 2 << 20)
    assert controller.heard == ["truncate a"]
    os.close(opened)
    assert file.read_bytes() == bytes(2 << 20)
    assert told(journalled(mounted))["a"] == bytes(2 << 20)


@needs_mounts
def test_who_hears_of_an_operation_is_told_how_its_file_is_used(mounted: MountedFolder, controller: Controller) -> None:
    file = mounted.mount / "a"

    def ways_of(act: Callable[[], object]) -> list[tuple[str, str]]:
        controller.heard.clear()
        controller.ways.clear()
        act()
        return list(zip((one.partition(" ")[0] for one in controller.heard), controller.ways, strict=True))

    def write_at(offset: int) -> None:
        opened = os.open(file, os.O_WRONLY)
        os.pwrite(opened, b"x", offset)
        os.close(opened)

    def write_in(mode: str) -> None:
        with open(file, mode) as out:
            out.write("x")

    assert ways_of(lambda: write_in("x")) == [("create", "O_EXCL"), ("write", "at 0")]
    assert ways_of(lambda: write_in("w")) == [("truncate", "O_TRUNC"), ("write", "at 0")]
    assert ways_of(lambda: write_in("a")) == [("write", "O_APPEND")]
    assert ways_of(lambda: write_at(0)) == [("write", "at 0")]
    assert ways_of(lambda: write_at(3)) == [("write", "")]
    assert ways_of(lambda: os.truncate(file, 2)) == [("truncate", "")]
    assert ways_of(lambda: os.truncate(file, 0)) == [("truncate", "to 0")]
    file.unlink()
    assert ways_of(lambda: write_in("a")) == [("create", "O_APPEND"), ("write", "O_APPEND")]
    file.unlink()
    assert ways_of(lambda: write_in("w")) == [("create", "O_TRUNC"), ("write", "at 0")]


@needs_mounts
class TestJournal:
    def test_says_how_much_a_process_has_written_there_whichever_thread_did(self, mounted: MountedFolder) -> None:
        def written() -> int:
            return int(os.getxattr(mounted.mount, WRITTEN))

        begin = written()
        (mounted.mount / "a").write_bytes(b"x" * 300_000)
        thread = threading.Thread(target=(mounted.mount / "b").write_bytes, args=(b"x" * 5,))
        thread.start()
        thread.join()
        subprocess.run(["cp", mounted.mount / "a", mounted.mount / "c"], check=True)
        position = mounted.position
        assert written() - begin == 300_005
        assert mounted.looked_at(position) == frozenset()
        with pa.memory_map(str(mounted.mount / "b"), "r+b") as memory:
            memory.write(b"y")
        # By whom, the kernel does not say; and how much, in pages.
        assert written() - begin == 300_005 + mmap.PAGESIZE
        assert os.listxattr(mounted.mount) == []

    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(steps=STEPS)
    def test_gives_what_the_folder_holds_whatever_was_done_to_it(
        self, mounted: MountedFolder, steps: list[tuple[str, str, object]]
    ) -> None:
        for path in mounted.mount.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        begin = mounted.position
        held: list[int] = []
        (mounted.mount / "d").mkdir()
        for step in steps:
            act(mounted.mount, step, held)
            for descriptor in held:
                os.pwrite(descriptor, b"x", 1)
        for descriptor in held:
            os.close(descriptor)
        assert told(journalled(mounted, begin=begin)) == told(Tree.read(mounted.below))

    @pytest.mark.parametrize("mode", ["delete", "wal", "truncate"])
    def test_of_a_database_has_before_or_after_a_transaction_at_every_operation(
        self, mounted: MountedFolder, tmp_path: Path, mode: str
    ) -> None:
        with sqlite3.connect(mounted.mount / "x.db") as database:
            database.execute(f"pragma journal_mode={mode}")
            database.execute("create table t(a, b)")
            database.commit()
            begin = mounted.position
            for number in range(3):
                database.execute("insert into t values(?, 1)", (number,))
                database.execute("insert into t values(?, 2)", (number,))
                database.commit()
        database.close()
        tree, tried, counts = journalled(mounted, begin=mounted.position), 0, set()
        for position, operation in read_operations(mounted.journal, 0, mounted.position):
            tree.apply(operation)
            if operation.is_point and position > begin:
                copy = tmp_path / f"state-{tried}"
                tree.copied().write_to(copy)
                with sqlite3.connect(copy / "x.db") as again:
                    assert again.execute("pragma integrity_check").fetchone() == ("ok",)
                    counts.add(again.execute("select count(*) from t").fetchone()[0])
                again.close()
                tried += 1
        assert tried > 10
        assert counts == {0, 2, 4, 6}

    def test_has_a_rename_over_a_file_that_is_open_as_one_step(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        (mounted.mount / "a").write_text("old")
        (mounted.mount / "b").write_text("new")
        with (mounted.mount / "a").open() as reader:
            os.replace(mounted.mount / "b", mounted.mount / "a")
            assert reader.read() == "old"
        assert controller.heard[-1] == "rename b > a"
        assert [heard for heard in controller.heard if "unlink" in heard] == []

    def test_leaves_both_names_of_one_file_where_one_is_to_replace_the_other(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        one, other = mounted.mount / "one", mounted.mount / "other"
        with one.open("w") as rows:
            os.link(one, other)
            one.rename(other)
            rows.write("kept")
        assert (one.read_text(), other.read_text()) == ("kept", "kept")
        assert told(journalled(mounted)) == {"one": b"kept", "other": b"kept"}

    def test_has_two_folders_that_are_exchanged_as_one_step(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        for name in ("live", "stage"):
            (mounted.mount / name).mkdir()
            (mounted.mount / name / "rows").write_text(name)
        with (mounted.mount / "stage" / "rows").open("a") as still_open:
            exchange(mounted.mount / "stage", mounted.mount / "live")
            still_open.write(", later")
        assert (mounted.mount / "live" / "rows").read_text() == "stage, later"
        assert (mounted.mount / "stage" / "rows").read_text() == "live"
        assert controller.heard[-2:] == ["exchange stage > live", "write live/rows"]
        assert told(journalled(mounted)) == {
            "live": "folder",
            "live/rows": b"stage, later",
            "stage": "folder",
            "stage/rows": b"live",
        }

    def test_exchanges_nothing_for_what_is_not_there(self, mounted: MountedFolder, controller: Controller) -> None:
        (mounted.mount / "live").mkdir()
        with pytest.raises(OSError, match=os.strerror(errno.ENOENT)):
            exchange(mounted.mount / "live", mounted.mount / "stage")
        assert controller.heard == ["mkdir live"]

    def test_has_a_file_that_is_removed_while_it_is_open_as_gone(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        with (mounted.mount / "a").open("w+") as file:
            os.unlink(mounted.mount / "a")
            assert list(mounted.mount.iterdir()) == []
            file.write("still there")
            file.flush()
            assert os.fstat(file.fileno()).st_size == len("still there")
        assert controller.heard == ["create a", "unlink a", "write "]
        assert told(journalled(mounted)) == {}

    def test_has_what_was_written_past_the_kernels_memory(self, mounted: MountedFolder) -> None:
        path = mounted.mount / "direct"
        with mmap.mmap(-1, mmap.PAGESIZE) as page:
            page.write(b"x" * mmap.PAGESIZE)
            for flags in (os.O_CREAT, 0, os.O_TRUNC):
                opened = os.open(path, os.O_RDWR | os.O_DIRECT | flags, 0o600)
                assert os.pwrite(opened, page, 0) == mmap.PAGESIZE
                assert os.preadv(opened, [page], 0) == mmap.PAGESIZE
                os.close(opened)
        assert told(journalled(mounted)) == {"direct": b"x" * mmap.PAGESIZE}

    @pytest.mark.parametrize("maps_it", [mapped_by_python, mapped_by_a_library], ids=["python", "library"])
    def test_has_what_was_stored_in_a_map_of_memory_by_the_time_that_it_is_written_back(
        self,
        maps_it: Callable[[Path], AbstractContextManager[Store]],
        mounted: MountedFolder,
        controller: Controller,
    ) -> None:
        path = mounted.mount / "counts"
        content = bytearray(b"-" * 2 * mmap.PAGESIZE)
        path.write_bytes(content)
        heard = len(controller.heard)
        maps = SharedMaps([str(mounted.mount)])
        open_before = len(os.listdir("/proc/self/fd"))
        with maps_it(path) as store:
            for place, said in ((0, b"1"), (mmap.PAGESIZE, b"2")):
                store(place, said)
                content[place : place + 1] = said
                maps.write_back()
                assert told(journalled(mounted)) == {"counts": bytes(content)}
        maps.write_back()
        assert len(os.listdir("/proc/self/fd")) == open_before
        # It is the kernel that writes, page by page: no death comes in between.
        assert controller.heard[heard:] == []

    def test_has_what_the_jvm_stored_in_a_map_once_the_users_code_has_asked_it_for_something(
        self, mounted: MountedFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = mounted.mount / "counts"
        path.write_bytes(b"-" * mmap.PAGESIZE)
        given = [sys.executable, "-c", STORES_WHEN_TOLD, str(path)]
        with subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            monkeypatch.setenv(JVM, str(process.pid))
            maps = SharedMaps([str(mounted.mount)])
            assert process.stdout.readline() == "mapped\n"
            process.stdin.write("1\n")
            process.stdin.flush()
            assert process.stdout.readline() == "stored\n"
            maps.write_back(asks_the_jvm=True)
            assert told(journalled(mounted)) == {"counts": b"1" + b"-" * (mmap.PAGESIZE - 1)}
        # It is gone.
        maps.write_back(asks_the_jvm=True)

    def test_is_not_told_of_the_index_that_sqlite_maps_and_makes_anew(self, mounted: MountedFolder) -> None:
        with closing(sqlite3.connect(mounted.mount / "rows.db")) as database:
            database.execute("pragma journal_mode = wal")
            database.execute("create table rows (value)")
            assert str(mounted.mount / "rows.db-shm") in Path("/proc/self/maps").read_text()
            before = mounted.position
            SharedMaps([str(mounted.mount)]).write_back()
            assert mounted.position == before

    def test_says_what_was_looked_at_since_it_was_asked(self, mounted: MountedFolder) -> None:
        (mounted.mount / "a").write_text("1")
        (mounted.mount / "b").write_text("1")
        mounted.be_quiet()
        begin = mounted.position
        (mounted.mount / "a").read_text()
        os.listdir(mounted.mount)
        looked = mounted.looked_at(begin)
        assert (OperationKind.OPENED, "a") in looked
        assert (OperationKind.OPENED, "b") not in looked
        assert (OperationKind.LISTED, "") in looked
        mounted.be_quiet()
        assert (OperationKind.OPENED, "a") not in mounted.looked_at(mounted.position)

    def test_who_asks_for_an_attribute_has_looked_at_the_file(self, mounted: MountedFolder) -> None:
        for name in ("asked", "listed", "left"):
            (mounted.mount / name).write_text("1")
        os.setxattr(mounted.mount / "asked", MARK, b"1")
        mounted.be_quiet()
        begin = mounted.position
        assert os.getxattr(mounted.mount / "asked", MARK) == b"1"
        assert os.listxattr(mounted.mount / "listed") == []
        assert {path for kind, path in mounted.looked_at(begin) if kind is OperationKind.OPENED} == {"asked", "listed"}

    def test_keeps_no_attributes_but_those_that_anybody_may_set(self, mounted: MountedFolder) -> None:
        (mounted.mount / "a").write_text("1")
        for path, name in ((mounted.mount, MARK), (mounted.mount / "a", "trusted.done")):
            with pytest.raises(OSError, match="not supported"):
                os.setxattr(path, name, b"1")

    def test_has_nothing_of_the_mounted_folder_itself(self, mounted: MountedFolder, controller: Controller) -> None:
        mounted.mount.chmod(0o700)
        os.utime(mounted.mount, (7, 7))
        assert controller.heard == []
        assert told(journalled(mounted)) == {}

    def test_who_gives_what_was_there_another_name_has_looked_at_all_of_it(self, mounted: MountedFolder) -> None:
        root = mounted.mount
        (root / "staging").mkdir()
        for name in ("staging/part", "whole", "old"):
            (root / name).write_text("1")
        (root / "empty").mkdir()
        mounted.be_quiet()
        begin = mounted.position
        (root / "staging").rename(root / "final")
        os.link(root / "whole", root / "published")
        (root / "new").write_text("1")
        (root / "old").write_text("1")
        for name in ("new", "old"):
            (root / name).rename(root / f"{name}-too")
        (root / "empty").rmdir()
        looked = mounted.looked_at(begin)
        assert {path for kind, path in looked if kind is OperationKind.OPENED} == {"staging/part", "whole"}
        assert {path for kind, path in looked if kind is OperationKind.LISTED} == {"staging", "empty"}

    def test_who_exchanges_two_files_that_were_there_has_looked_at_both(self, mounted: MountedFolder) -> None:
        for name in ("a", "b"):
            (mounted.mount / name).write_text(name)
        mounted.be_quiet()
        begin = mounted.position
        exchange(mounted.mount / "a", mounted.mount / "b")
        assert {path for kind, path in mounted.looked_at(begin) if kind is OperationKind.OPENED} == {"a", "b"}

    def test_a_jvm_skims_a_folder_that_others_list(self, mounted: MountedFolder, tmp_path: Path) -> None:
        shutil.copy(shutil.which("ls") or "", tmp_path / "java")
        (mounted.mount / "of-a-jvm").mkdir()
        begin = mounted.position
        subprocess.run([tmp_path / "java", mounted.mount / "of-a-jvm"], check=True, capture_output=True)
        os.listdir(mounted.mount)
        looked = {(kind, path) for kind, path in mounted.looked_at(begin) if kind is not OperationKind.ASKED}
        assert looked == {(OperationKind.SKIMMED, "of-a-jvm"), (OperationKind.LISTED, "")}

    def test_who_reads_what_it_has_made_itself_has_looked_at_nothing(self, mounted: MountedFolder) -> None:
        (mounted.mount / "there").write_text("1")
        (mounted.mount / "old").write_text("1")
        mounted.be_quiet()
        begin = mounted.position
        for name in ("new", "draft"):
            (mounted.mount / name).write_text("2")
        (mounted.mount / "draft").rename(mounted.mount / "there")
        (mounted.mount / "old").rename(mounted.mount / "moved")
        for name in ("new", "there", "moved"):
            (mounted.mount / name).read_text()
        opened = {path for kind, path in mounted.looked_at(begin) if kind is OperationKind.OPENED}
        assert opened == {"old", "moved"}

    def test_a_database_that_sqlite_opens_is_told_from_one_that_anybody_else_does(self, mounted: MountedFolder) -> None:
        file = mounted.mount / "x.db"
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("create table t(a)")
        mounted.be_quiet()
        begin = mounted.position
        with closing(sqlite3.connect(file)) as database:
            database.execute("select a from t").fetchall()
        kinds = {kind for kind, path in mounted.looked_at(begin) if path == "x.db"}
        assert kinds == {OperationKind.ASKED, OperationKind.OPENED_BY_SQLITE}
        shutil.copy(file, mounted.mount / "copy.db")
        assert (OperationKind.OPENED, "x.db") in mounted.looked_at(begin)
        # What follows no link is not SQLite for that.
        reader = "import os, sys; os.read(os.open(sys.argv[1], os.O_NOFOLLOW), 100)"
        mounted.be_quiet()
        begin = mounted.position
        subprocess.run([sys.executable, "-c", reader, file], check=True)
        assert (OperationKind.OPENED, "x.db") in mounted.looked_at(begin)


def kills_at_fatal(thread: int, key: str) -> bool:
    if "fatal" in key:
        os.kill(thread, signal.SIGKILL)
        return False
    return True


@needs_mounts
class TestKill:
    def test_at_an_operation_nobody_runs_on_and_nothing_else_is_done(
        self, mounted: MountedFolder, controller: Controller, tmp_path: Path
    ) -> None:
        controller.answers = kills_at_fatal
        program = f"""
import os, threading
root, outside = {str(mounted.mount)!r}, {str(tmp_path)!r}
open(root + "/before", "w").close()
def other():
    while True:
        open(root + "/other", "w").close()
threading.Thread(target=other, daemon=True).start()
os.mkdir(root + "/fatal")
open(outside + "/survived", "w").close()
"""
        ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, timeout=60)
        assert ended.returncode == -signal.SIGKILL
        assert not (tmp_path / "survived").exists()
        # It was done, it is the last, and whoever comes now is refused until the next attempt begins.
        assert (mounted.below / "fatal").is_dir()
        assert controller.heard[-1] == "mkdir fatal"
        with pytest.raises(OSError, match="Input/output error"):
            (mounted.mount / "after").touch()
        mounted.be_quiet()
        (mounted.mount / "after").touch()

    def test_leaves_what_was_stored_in_a_map_of_memory_before(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        controller.answers = kills_at_fatal
        (mounted.mount / "counts").write_bytes(b"-" * mmap.PAGESIZE)
        program = f"""
import mmap, os
root = {str(mounted.mount)!r}
with open(root + "/counts", "r+b") as file:
    memory = mmap.mmap(file.fileno(), 0)
memory[0:6] = b"stored"
os.mkdir(root + "/fatal")
"""
        ended = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, timeout=60)
        assert ended.returncode == -signal.SIGKILL
        assert (mounted.below / "counts").read_bytes().startswith(b"stored-")


@needs_mounts
class TestTimes:
    def test_are_set_to_now_or_to_what_was_said_or_left_as_they_are(self, mounted: MountedFolder) -> None:
        path = mounted.mount / "marker"
        path.touch()
        os.utime(path, (5, 7))
        assert (path.stat().st_atime, path.stat().st_mtime) == (5, 7)
        subprocess.run(["touch", "-a", "-d", "@9", path], check=True)
        assert path.stat().st_mtime == 7
        before = time.time()
        path.touch()
        assert path.stat().st_mtime >= before - 1
        path.write_text("1")
        os.utime(path)
        assert path.stat().st_mtime >= before - 1

    def test_that_are_set_are_a_crash_point_since_they_may_be_a_mark(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        """What a library does next, within one call, is the next one."""
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        marker, draft = mounted.mount / "marker", mounted.mount / "draft"
        marker.touch()
        draft.touch()
        os.utime(marker, (5, 5))
        draft.rename(mounted.mount / "rows")
        assert controller.heard[-2:] == ["times marker", "rename draft > rows"]
        assert store.count(store.mark()) == len(controller.heard)

    def test_tell_states_apart_for_who_asks_what_a_file_is_and_are_put_back(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        marker = mounted.mount / "marker"
        marker.touch()
        marks = []
        for at in (5, 7):
            os.utime(marker, (at, at))
            marks.append(store.mark())
        before, after = store.states(marks)
        assert before.digest != after.digest
        asked, listed = (
            Looks(frozenset(), frozenset({str(marker)}), frozenset()),
            Looks(frozenset(), frozenset(), frozenset({str(mounted.mount)})),
        )
        assert asked.tell_apart(before, after)
        assert not listed.tell_apart(before, after)
        for state, at in ((after, 7), (before, 5)):
            store.restore(state)
            assert marker.stat().st_mtime == at

    @pytest.mark.parametrize("is_folder", [False, True])
    def test_of_the_last_access_that_are_set_tell_states_apart_and_are_put_back(
        self, mounted: MountedFolder, controller: Controller, is_folder: bool
    ) -> None:
        """A mark that leaves all else as it is."""
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        marker = mounted.mount / "marker"
        if is_folder:
            marker.mkdir()
        else:
            marker.touch()
        os.utime(marker, (3, 3))
        marks = []
        for at in ("@5", "@7"):
            subprocess.run(["touch", "-a", "-d", at, marker], check=True)
            marks.append(store.mark())
        before, after = store.states(marks)
        assert before.digest != after.digest
        assert Looks(frozenset(), frozenset({str(marker)}), frozenset()).tell_apart(before, after)
        for state, told in ((after, 7), (before, 5)):
            store.restore(state)
            assert (marker.stat().st_atime, marker.stat().st_mtime) == (told, 3)


@needs_mounts
class TestWhatHasBecomeOfFiles:
    """Since some state, whatever was done to them before."""

    @staticmethod
    def lived(
        store: JournaledFolders, controller: Controller, sink: Path, before: Sequence[str], since: Sequence[str]
    ) -> list[set[tuple[str, str | None]]]:
        """What is told after each of the lines that are added since to a log."""
        store.begin(controller.place, 1)
        sink.mkdir(exist_ok=True)
        marks = []
        for number, line in enumerate((*before, *since), start=1 - len(before)):
            with (sink / "log").open("a") as log:
                log.write(line)
            if number == 0:
                (sink / "part-{}".format("0123456789abcdef" if before[0] == "a" else "f" * 16)).touch()
            marks += [store.mark()] if number >= 0 else []
        begin, *states = store.states(marks)
        found = [
            {(without_randoms(one.path), one.content) for one in state.files} for state in store.since(begin, states)
        ]
        store.clear()
        return found

    def test_is_the_same_where_the_same_was_added_to_other_beginnings(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        store, sink = JournaledFolders(mounted, "token", "node"), mounted.mount / "sink"
        one, other, turned, longer = (
            self.lived(store, controller, sink, before, since)
            for before, since in (
                (("a", "bc"), ("d", "e")),
                (("bc", "a"), ("d", "e")),
                (("a", "bc"), ("e", "d")),
                (("a", "bc"), ("d", "e", "f")),
            )
        )
        assert one == other == longer[:2]
        assert all(here != there for here, there in zip(one, turned, strict=True))


@needs_mounts
class TestKernelsMemory:
    def test_is_that_of_one_file_however_many_names_it_has(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        one, other = mounted.mount / "one", mounted.mount / "other"
        one.write_text("1")
        assert one.stat().st_nlink == 1
        os.link(one, other)
        assert (one.stat().st_nlink, other.stat().st_size) == (2, 1)
        with other.open("a") as rows:
            rows.write("2")
        assert (one.stat().st_size, one.read_text()) == (2, "12")
        one.unlink()
        assert other.stat().st_nlink == 1

    def test_of_what_was_asked_is_none_of_the_next_attempts(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        marker = mounted.mount / "marker"
        marker.touch()
        marker.stat()
        store.begin(controller.place, 2)
        marker.stat()
        assert str(marker) in store.looks().asked


@needs_mounts
class TestMount:
    def test_is_gone_when_it_is_left_though_somebody_uses_it(self, tmp_path: Path) -> None:
        with MountedFolder(tmp_path, RUN, os.environ, tmp_path / "log") as folder:
            assert folder.mount in mounts_of(RUN)
            user = os.open(folder.mount / "a", os.O_RDWR | os.O_CREAT)
        assert mounts_of(RUN) == []
        with pytest.raises(OSError, match="not connected"):
            os.write(user, b"x")
        with suppress(OSError):
            os.close(user)

    def test_is_gone_when_its_server_was_killed(self, tmp_path: Path) -> None:
        with MountedFolder(tmp_path, RUN, os.environ, tmp_path / "log") as folder:
            folder._process.kill()
            folder._process.wait()
            assert mounts_of(RUN) == [folder.mount]
        assert mounts_of(RUN) == []

    def test_of_an_owner_that_was_killed_goes_with_it(self, tmp_path: Path) -> None:
        program = f"""
import os, signal
from pathlib import Path
from streamproof.harness.core.addresses import Side
from streamproof.harness.crash_points.files.mounting import MountedFolder
home = Path({str(tmp_path)!r})
MountedFolder(home, "tests-of-orphans", os.environ, home / "log").__enter__()
os.kill(os.getpid(), signal.SIGKILL)
"""
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
        wait_until(lambda: not mounts_of("tests-of-orphans"), 20, "the mount to go")

    def test_whose_server_hangs_is_taken_away_by_whoever_reaps(self, tmp_path: Path) -> None:
        with MountedFolder(tmp_path, RUN, os.environ, tmp_path / "log") as folder:
            os.kill(folder._process.pid, signal.SIGSTOP)
            unmount_all(RUN)
            assert mounts_of(RUN) == []
            # Nobody who asks waits for a server that does not answer.
            listed = subprocess.run(["ls", str(tmp_path)], check=True, capture_output=True, timeout=10)
            assert b"mounted" in listed.stdout
            os.kill(folder._process.pid, signal.SIGCONT)

    def test_that_cannot_be_had_says_what_is_missing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("streamproof.harness.crash_points.files.mounting.FUSE_DEVICE", Path("/dev/no-such-device"))
        with pytest.raises(MissingTool, match="/dev/no-such-device is not there"):
            check_mounts()


@needs_mounts
def test_a_file_cannot_be_made_longer_than_whoever_makes_crash_states_can_hold(mounted: MountedFolder) -> None:
    """As a database sets the size of its map in advance."""
    with (mounted.mount / "rows").open("wb") as file:
        for lengthens in (lambda: file.truncate(1 << 40), lambda: os.pwrite(file.fileno(), b"1", 1 << 40)):
            with pytest.raises(OSError, match="File too large"):
                lengthens()
        file.truncate(1 << 20)
    assert len(journalled(mounted).file_of(Operation(OperationKind.WRITE, "rows")).content) == 1 << 20


@needs_mounts
def test_a_name_can_be_as_long_as_anywhere(mounted: MountedFolder) -> None:
    draft, rows = mounted.mount / "draft", mounted.mount / ("n" * os.pathconf(mounted.mount, "PC_NAME_MAX"))
    draft.write_text("1")
    draft.rename(rows)
    rows.write_text("2")
    assert journalled(mounted).nodes.keys() == {rows.name}
    rows.unlink()


@needs_mounts
def test_who_may_do_what_with_a_file_is_said_as_it_is(mounted: MountedFolder) -> None:
    """Nobody may execute a file without that permission, be it root."""
    script = mounted.mount / "script"
    script.write_text("#!/bin/sh")
    assert not os.access(script, os.X_OK)
    script.chmod(0o700)
    assert os.access(script, os.X_OK)
    assert not os.access(mounted.mount / "nothing", os.F_OK)


@needs_mounts
def test_a_link_into_the_folders_has_a_time_and_an_owner_of_its_own(mounted: MountedFolder) -> None:
    """As who copies a folder with its links sets them. In a process of its own, since nobody can end one that waits for
    an answer in vain."""
    rows, link = mounted.mount / "rows", mounted.mount / "link"
    rows.write_text("1")
    os.utime(rows, (5, 5))
    link.symlink_to(rows)
    body = (
        "import os, sys; os.utime(sys.argv[1], (7, 7), follow_symlinks=False); os.lchown(sys.argv[1], -1, os.getgid())"
    )
    done = subprocess.Popen([sys.executable, "-c", body, link])
    wait_until(lambda: done.poll() is not None, 30.0, "the time of a link to be set")
    assert done.returncode == 0
    assert (rows.stat().st_mtime, link.lstat().st_mtime) == (5, 7)
    copied = mounted.mount / "copied"
    shutil.copytree(mounted.mount, copied, symlinks=True, ignore=lambda folder, names: [*{"copied"} & {*names}])
    assert os.readlink(copied / "link") == str(rows)


MARKS_OF_FOLDERS: dict[str, tuple[Callable[[Path], None], Callable[[Path], object]]] = {
    "permissions": (lambda folder: folder.chmod(0o500), lambda folder: stat.S_IMODE(folder.stat().st_mode)),
    "time": (lambda folder: os.utime(folder, (7, 7)), lambda folder: folder.stat().st_mtime),
    "attribute": (lambda folder: os.setxattr(folder, MARK, b"1"), lambda folder: os.listxattr(folder)),
}
if os.geteuid() == 0:
    MARKS_OF_FOLDERS["group"] = (lambda folder: os.chown(folder, -1, OTHERS), lambda folder: folder.stat().st_gid)


@needs_mounts
class TestStates:
    def test_differ_by_permissions_that_are_set_after_a_content_and_are_put_back(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        sealed = mounted.mount / "sealed"
        sealed.write_text("1")
        usual = stat.S_IMODE(sealed.stat().st_mode)
        marks = [store.mark()]
        for mode in (0o444, 0o444):
            sealed.chmod(mode)
            marks.append(store.mark())
        assert [one for one in controller.heard if one.startswith("chmod")] == ["chmod sealed"]
        before, after, again = store.states(marks)
        assert before.digest != after.digest == again.digest
        asked = Looks(frozenset(), frozenset({str(sealed)}), frozenset())
        assert asked.tell_apart(before, after)
        for state, mode in ((after, 0o444), (before, usual)):
            store.restore(state)
            assert stat.S_IMODE(sealed.stat().st_mode) == mode

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to anybody")
    def test_differ_by_whose_a_file_is_and_that_is_put_back(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        rows, link = mounted.mount / "rows", mounted.mount / "link"
        rows.write_text("1")
        link.symlink_to("rows")
        usual = rows.stat().st_gid
        marks = [store.mark()]
        for path, follows in ((rows, True), (link, True), (link, False)):
            os.chown(path, -1, OTHERS, follow_symlinks=follows)
            marks.append(store.mark())
        assert [one for one in controller.heard if one.startswith("chown")] == ["chown rows"]
        before, after, again, of_link = store.states(marks)
        assert before.digest != after.digest == again.digest == of_link.digest
        asked = Looks(frozenset(), frozenset({str(rows)}), frozenset())
        assert asked.tell_apart(before, after)
        for state, group in ((after, OTHERS), (before, usual)):
            store.restore(state)
            assert rows.stat().st_gid == group

    def test_differ_by_how_many_names_a_file_has_to_who_asks_for_one_of_them(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        """A second name is the mark of a batch: it is written before the rows are."""
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        rows = mounted.mount / "rows"
        rows.write_text("")
        marks = [store.mark()]
        os.link(rows, mounted.mount / "done")
        marks.append(store.mark())
        before, after = store.states(marks)
        store.restore(before)
        store.begin(controller.place, 2)
        assert rows.stat().st_nlink == 1
        assert store.looks().tell_apart(before, after)
        store.restore(after)
        assert rows.stat().st_nlink == 2

    def test_hold_named_pipes_and_sockets_which_work_as_anywhere(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        """A sink hands its rows to a process through one, and finds it there after a crash."""
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        pipe, address, rows = (mounted.mount / name for name in ("pipe", "address", "rows"))
        marks = [store.mark()]
        os.mkfifo(pipe)
        marks.append(store.mark())
        with subprocess.Popen(["sh", "-c", 'cat "$0" > "$1"', pipe, rows]):
            pipe.write_text("1")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(address))
        marks.append(store.mark())
        assert rows.read_text() == "1"
        assert {stat.S_IFMT(entry.stat().st_mode) for entry in os.scandir(mounted.mount)} == {
            stat.S_IFIFO,
            stat.S_IFSOCK,
            stat.S_IFREG,
        }
        nothing, piped, both = store.states(marks)
        asked = Looks(frozenset(), frozenset({str(pipe), str(address)}), frozenset())
        assert asked.tell_apart(nothing, piped)
        assert asked.tell_apart(piped, both)
        for state, names in ((both, {"pipe", "address", "rows"}), (nothing, set()), (piped, {"pipe"})):
            store.restore(state)
            assert set(os.listdir(mounted.mount)) == names
        assert pipe.is_fifo()
        assert Tree.read(mounted.below).nodes["pipe"] == Meeting(pipe.stat().st_mode)
        with pytest.raises(PermissionError):
            os.mknod(mounted.mount / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))

    def test_differ_by_a_mark_in_an_extended_attribute_and_it_is_put_back(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        rows = mounted.mount / "rows"
        rows.write_text("1")
        marks = [store.mark()]
        os.setxattr(rows, MARK, b"yes")
        marks.append(store.mark())
        os.removexattr(rows, MARK)
        marks.append(store.mark())
        assert controller.heard[-2:] == [f"setxattr rows > {MARK}", f"removexattr rows > {MARK}"]
        before, marked, after = store.states(marks)
        opened = Looks(frozenset({str(rows)}), frozenset(), frozenset())
        assert opened.tell_apart(before, marked)
        for state, names in ((marked, [MARK]), (after, []), (before, [])):
            store.restore(state)
            assert os.listxattr(rows) == names
        store.restore(marked)
        assert os.getxattr(rows, MARK) == b"yes"

    @pytest.mark.parametrize("mark", MARKS_OF_FOLDERS)
    def test_differ_by_how_a_folder_is_marked_and_are_put_back(
        self, mounted: MountedFolder, controller: Controller, mark: str
    ) -> None:
        """Who marks a batch so, before or after it is written, dies in between."""
        marks_it, looks = MARKS_OF_FOLDERS[mark]
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        batch = mounted.mount / "batch"
        batch.mkdir()
        (batch / "rows").write_text("1")
        marks, found = [store.mark()], [looks(batch)]
        marks_it(batch)
        marks.append(store.mark())
        found.append(looks(batch))
        before, after = store.states(marks)
        assert found[0] != found[1]
        assert before.digest != after.digest
        store.restore(before)
        store.begin(controller.place, 2)
        looks(batch)
        assert store.looks().tell_apart(before, after)
        store.begin(None, 3)
        for state, expected in ((after, found[1]), (before, found[0]), (after, found[1])):
            store.restore(state)
            # The journal notes a moment later what the clock of the kernel says.
            assert looks(batch) == (pytest.approx(expected, abs=0.5) if mark == "time" else expected)

    def test_are_put_back_with_what_was_touched_last(self, mounted: MountedFolder, controller: Controller) -> None:
        """Who takes the newest by its `st_ctime`, or the folder to which something was added last, takes the same."""
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        one, other = mounted.mount / "a", mounted.mount / "b"
        for folder in (one, other):
            folder.mkdir()
            (folder / "rows").write_text("rows")

        def newest() -> tuple[Path, ...]:
            time.sleep(0.02)  # A clock of the kernel's ticks every few milliseconds.
            folders = [one, other]
            files = [folder / "rows" for folder in folders]
            by_names = (max(folders, key=os.path.getmtime), max(folders, key=os.path.getctime))
            return *by_names, max(files, key=os.path.getctime)

        found, marks = [newest()], [store.mark()]
        for act in (
            lambda: (one / "more").touch(),
            lambda: (one / "rows").chmod(0o600),
            lambda: os.link(other / "rows", other / "link"),
            lambda: (one / "rows").rename(one / "draft").rename(one / "rows"),
            lambda: os.setxattr(other / "rows", "user.mark", b"1"),
            lambda: (other / "link").unlink(),
            lambda: other.chmod(0o700),
        ):
            act()
            found.append(newest())
            marks.append(store.mark())
        states = store.states(marks)
        assert len(set(found)) > 2
        for state, expected in reversed(list(zip(states, found, strict=True))):
            store.restore(state)
            store.begin(None, 2)
            assert newest() == expected
        (one / "rows").chmod(0o644)
        assert newest()[2] == one / "rows"

    def test_are_alike_though_folders_were_changed_at_other_times(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        """Everybody asks for folders, and nobody for when a name was added: each state would be another."""
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        batch = mounted.mount / "batch"
        batch.mkdir()
        os.utime(batch, (7, 7))
        marks = []
        for name in ("a", "b"):
            (batch / name).touch()
            marks.append(store.mark())
        asked = Looks(frozenset(), frozenset({str(batch)}), frozenset())
        assert not asked.tell_apart(*store.states(marks))

    def test_of_an_attempt_are_put_back_as_they_were_after_each_operation(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        store = JournaledFolders(mounted, "token", "node")
        store.begin(controller.place, 1)
        marks, contents = [], []
        for text in ("one", "two", "three"):
            (mounted.mount / "a").write_text(text)
            marks.append(store.mark())
            contents.append(text)
        assert store.count(marks[-1]) == len(controller.heard)
        states = store.states(marks)
        for state, text in reversed(list(zip(states, contents, strict=True))):
            store.restore(state)
            assert (mounted.mount / "a").read_text() == text

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(steps=STEPS)
    def test_show_what_was_there_after_each_operation_whatever_was_done(
        self, mounted: MountedFolder, controller: Controller, steps: list[tuple[str, str, object]]
    ) -> None:
        store = JournaledFolders(mounted, "token", "node")
        store.clear()
        store.begin(controller.place, 1)
        (mounted.mount / "d").mkdir()
        marks, expected, held = [], [], list[int]()
        for step in steps:
            act(mounted.mount, step, held)
            marks.append(store.mark())
            expected.append(seen(mounted.mount))
        for descriptor in held:
            os.close(descriptor)
        states = store.states(marks)
        store.begin(None, 2)
        for state, there in zip(states, expected, strict=True):
            store.restore(state)
            assert seen(mounted.mount) == there

    def test_of_an_attempt_that_goes_on_where_another_ended_begin_with_what_that_left(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        store = JournaledFolders(mounted, "token", "node")
        store.begin(None, 1)
        (mounted.mount / "a").write_text("left")
        store.begin(controller.place, 2)
        with (mounted.mount / "a").open("a") as file:
            file.write(" behind")
        os.rename(mounted.mount / "a", mounted.mount / "b")
        (state,) = store.states([store.mark()])
        store.clear()
        store.restore(state)
        assert (mounted.mount / "b").read_text() == "left behind"


def read_all(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("select a, b from t").fetchall()


def copy_first(file: Path) -> None:
    """A backup by who does not know what he copies."""
    shutil.copy(file, file.with_name("backup"))
    read_all(file)


def look_into_the_journal(file: Path) -> None:
    beside = file.with_name(f"{file.name}-journal")
    if beside.exists():
        beside.read_bytes()
    read_all(file)


def take_away(beside: str) -> Callable[[Path], None]:
    """By who takes it for a lock that somebody has left: then what is half written stays, or what was committed is
    lost."""

    def read(file: Path) -> None:
        file.with_name(file.name + beside).unlink(missing_ok=True)
        look_somehow(file)

    return read


def empty(beside: str) -> Callable[[Path], None]:
    def read(file: Path) -> None:
        path = file.with_name(file.name + beside)
        if path.exists():
            path.open("w").close()
        look_somehow(file)

    return read


def restore_a_backup(file: Path) -> None:
    """Under a journal that belongs to another file: SQLite takes back what never was."""
    with closing(sqlite3.connect(file.with_name("backup"))) as backup, backup:
        backup.execute("create table if not exists t(a, b)")
    file.with_name("backup").rename(file)
    look_somehow(file)


def look_somehow(file: Path) -> None:
    with suppress(sqlite3.DatabaseError):
        read_all(file)


@needs_mounts
class TestTransactions:
    """Of SQLite, cut short."""

    def states(
        self, mounted: MountedFolder, controller: Controller, mode: str = "delete"
    ) -> tuple[JournaledFolders, list[CrashState]]:
        """After each operation of a transaction that writes many pages, of a database that holds others."""
        store, marks = JournaledFolders(mounted, "token", "node"), []

        def mark(thread: int, key: str) -> bool:
            marks.append(store.mark())
            return True

        store.begin(None, 1)
        with closing(sqlite3.connect(mounted.mount / "x.db", isolation_level=None)) as database:
            database.execute("create table t(a integer primary key, b)")
            database.executemany("insert into t values(?, ?)", [(n, "x" * 500) for n in range(100)])
            database.execute(f"pragma journal_mode={mode}")
            store.begin(controller.place, 2)
            controller.answers = mark
            database.execute("begin")
            database.execute("update t set b = ?", ("y" * 500,))
            database.execute("commit")
        return store, store.states(marks)

    def told_apart(
        self,
        store: JournaledFolders,
        states: Sequence[CrashState],
        mounted: MountedFolder,
        read: Callable[[Path], None],
    ) -> list[int]:
        """How many states each recovery stands for, where each is from the first that none stands for."""
        sizes, left = [], list(states)
        while left:
            store.restore(left[0])
            store.begin(None, 3)
            read(mounted.mount / "x.db")
            looks = store.looks()
            apart = [one for one in left[1:] if looks.tell_apart(left[0], one)]
            sizes.append(len(left) - len(apart))
            left = apart
        return sizes

    def test_is_recovered_from_once_for_what_sqlite_takes_back_to_the_same(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        store, states = self.states(mounted, controller)
        assert len({one.digest for one in states}) > 40
        sizes = self.told_apart(store, states, mounted, read_all)
        # An empty journal; one that is not sealed; one that is; a database that is half written; the end.
        assert len(sizes) == 5
        assert sum(sizes) == len(states)

    def test_in_a_log_is_recovered_from_once_for_what_sqlite_takes_from_it(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        store, states = self.states(mounted, controller, mode="wal")
        assert len({one.digest for one in states}) > 40
        # No index of the log yet; not committed; committed, and carried over; no index any more; no log.
        sizes = self.told_apart(store, states, mounted, read_all)
        assert len(sizes) == 5
        assert sum(sizes) == len(states)

    @pytest.mark.parametrize("read", [take_away("-wal"), empty("-wal"), copy_first])
    def test_in_a_log_is_recovered_from_at_each_write_where_anybody_else_looks(
        self, mounted: MountedFolder, controller: Controller, read: Callable[[Path], None]
    ) -> None:
        store, states = self.states(mounted, controller, mode="wal")
        looked_at = "x.db" if read is copy_first else "x.db-wal"
        contents = {file.content for one in states for file in one.files if file.path.endswith(f"/{looked_at}")}
        assert len(self.told_apart(store, states, mounted, read)) >= len(contents)

    @pytest.mark.parametrize("read", [copy_first, look_into_the_journal])
    def test_is_recovered_from_at_each_write_where_anybody_but_sqlite_looks(
        self, mounted: MountedFolder, controller: Controller, read: Callable[[Path], None]
    ) -> None:
        store, states = self.states(mounted, controller)
        sizes = self.told_apart(store, states, mounted, read)
        looked_at = "x.db" if read is copy_first else "x.db-journal"
        entries = [one.entries.get(str(mounted.mount / looked_at)) for one in states]
        assert len(sizes) >= len({one and one.content for one in entries}) > 10

    @pytest.mark.parametrize("read", [take_away("-journal"), empty("-journal"), restore_a_backup])
    def test_is_recovered_from_at_each_write_where_sqlite_is_kept_from_taking_it_back(
        self, mounted: MountedFolder, controller: Controller, read: Callable[[Path], None]
    ) -> None:
        store, states = self.states(mounted, controller)
        torn = {
            one.digest for one in states if one.entries[str(mounted.mount / "x.db")].rolled_back.startswith("put back")
        }
        assert len(torn) > 10
        assert len(self.told_apart(store, [one for one in states if one.digest in torn], mounted, read)) == len(torn)

    def test_is_recovered_from_at_each_write_where_no_journal_takes_it_back(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        store, states = self.states(mounted, controller, mode="memory")
        damaged = {one.digest for one in states}
        assert len(damaged) > 10
        assert len(self.told_apart(store, states, mounted, read_all)) == len(damaged)

    def test_is_told_from_one_that_is_taken_back_to_something_else(
        self, mounted: MountedFolder, controller: Controller
    ) -> None:
        store, states = self.states(mounted, controller)
        half = next(one for one in states if one.entries[str(mounted.mount / "x.db")].rolled_back.startswith("put"))
        files = [
            msgspec.structs.replace(one, rolled_back="put back something else") if one.rolled_back else one
            for one in half.files
        ]
        store.restore(half)
        store.begin(None, 3)
        read_all(mounted.mount / "x.db")
        assert store.looks().tell_apart(half, CrashState(tuple(files)))


def test_a_journal_of_several_databases_is_taken_back_by_nobody() -> None:
    named = bytes.fromhex("d9d505f920a163d7")
    assert rolled_back(b"", {"-journal": b"x" * 512 + named}) == ""
    assert rolled_back(b"no database", {"-journal": b"x" * 512}) == ""
    assert rolled_back(b"no database", {"-wal": b"x" * 512}) == ""


@needs_mounts
@pytest.mark.parametrize("folder", ["checkpoint/offsets", "sink"])
def test_drafts_in_a_checkpoint_are_nothing_to_a_jvm_that_lists_it_and_something_to_anybody_else(
    mounted: MountedFolder, tmp_path: Path, folder: str
) -> None:
    shutil.copy(shutil.which("ls") or "", tmp_path / "java")
    store, place = JournaledFolders(mounted, "token", "node"), mounted.mount / folder
    store.begin(None, 1)
    place.mkdir(parents=True)
    draft = f".1.{TestLooks.TEMPORARY[6:]}"
    hidden = {draft, f".{draft}.crc", ".1.crc", ".draft", ".1.tmp"}
    for name in {*hidden, "1"}:
        (place / name).touch()
    store.begin(None, 2)
    subprocess.run([tmp_path / "java", "-la", place], check=True, capture_output=True)
    asked = {Path(path).name for path in store.looks().asked if Path(path).parent == place}
    drafts = {draft, f".{draft}.crc"} if folder != "sink" else set()
    assert asked == {*hidden, "1"} - drafts
    # By then the kernel asks again.
    time.sleep(FORGOTTEN_SECONDS)
    (place / draft).stat()
    assert str(place / draft) in store.looks().asked


class TestLooks:
    TEMPORARY = "/s/.0.8d777f38-5d3d-4fec-815d-20f7496026dc.tmp"
    """As Spark calls them."""
    FILES = (
        StateEntry("/s", None),
        StateEntry("/s/a", "1", size=1),
        StateEntry("/s/.b.tmp", "2", size=9),
        StateEntry(TEMPORARY, "2", size=9),
    )

    def state(self, *more: StateEntry, without: str = "") -> CrashState:
        files = {entry.path: entry for entry in (*self.FILES, *more) if entry.path != without}
        return CrashState(tuple(files.values()))

    def tell_apart(self, looks: Looks, other: CrashState) -> bool:
        return looks.tell_apart(self.state(), other)

    def test_tell_contents_apart_that_were_read(self) -> None:
        other = self.state(StateEntry("/s/a", "7", size=1))
        assert self.tell_apart(Looks(frozenset({"/s/a"}), frozenset(), frozenset()), other)
        assert not self.tell_apart(Looks(frozenset(), frozenset({"/s/a"}), frozenset({"/s"})), other)

    def test_tell_sizes_and_absence_apart_that_were_asked_for(self) -> None:
        asked = Looks(frozenset(), frozenset({"/s/a", "/s/b"}), frozenset())
        assert self.tell_apart(asked, self.state(StateEntry("/s/a", "7", size=2)))
        assert self.tell_apart(asked, self.state(StateEntry("/s/b", "7", size=2)))
        assert not self.tell_apart(asked, self.state(StateEntry("/s/c", "7", size=2)))

    def test_tell_names_apart_that_were_listed(self) -> None:
        listed = Looks(frozenset(), frozenset(), frozenset({"/s"}))
        assert self.tell_apart(listed, self.state(StateEntry("/s/b", "7")))
        assert self.tell_apart(listed, self.state(without=self.TEMPORARY))

    def test_tell_names_apart_that_were_skimmed_but_for_sparks_temporary_ones_that_nobody_looked_at(self) -> None:
        skimmed = Looks(frozenset(), frozenset(), frozenset(), frozenset({"/s"}))
        assert self.tell_apart(skimmed, self.state(StateEntry("/s/b", "7")))
        assert not self.tell_apart(skimmed, self.state(without=self.TEMPORARY))
        # A marker of the user's, and a file that an attempt before has left.
        assert self.tell_apart(skimmed, self.state(StateEntry("/s/.done-3", "7")))
        assert self.tell_apart(skimmed, self.state(without="/s/.b.tmp"))
        looked = Looks(frozenset(), frozenset({self.TEMPORARY}), frozenset(), frozenset({"/s"}))
        assert self.tell_apart(looked, self.state(without=self.TEMPORARY))


@pytest.fixture
def a_users_folder() -> Iterator[Path]:
    """Of a user who may not do everything."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        nobody, root = 65534, os.geteuid()
        if not root:
            os.chown(folder, nobody, nobody)
            os.seteuid(nobody)
        try:
            yield Path(folder)
        finally:
            os.seteuid(root)


def test_a_folder_is_removed_though_its_owner_has_forbidden_to_change_it(a_users_folder: Path) -> None:
    sealed = a_users_folder / "sealed"
    (sealed / "within").mkdir(parents=True)
    (sealed / "within" / "rows").touch()
    (sealed / "link").symlink_to("/")
    (sealed / "within").chmod(0)
    sealed.chmod(0o500)
    remove_folder(sealed)
    assert not sealed.exists()


def test_an_operation_is_called_the_same_in_every_run() -> None:
    points = FilePoints()
    first = "rename checkpoint/offsets/.3.1f6b7cde-24ba-44cb-9d5d-61df6bb01c6d.tmp > checkpoint/offsets/3"
    assert points.name("3", first) == "rename checkpoint/offsets/.3.*.tmp > checkpoint/offsets/3#1"
    assert points.name("3", first) == "rename checkpoint/offsets/.3.*.tmp > checkpoint/offsets/3#2"
    temporary = "mkdir sink/_temporary/0/_temporary/attempt_202611222205001234567890123456789_0012_m_000003_7"
    assert points.name("4", temporary) == "mkdir sink/_temporary/0/_temporary/attempt_*_*_m_000003#1"
    assert points.name("4", "create sink/tmpab12cd_x") == "create sink/tmp*#1"
    assert points.name("4", "write sink/template") == "write sink/template#1"


def test_an_operation_of_a_task_is_counted_as_if_its_node_were_the_only_one_beside_the_driver() -> None:
    points = FilePointsOfNodes()
    done = [("", 1), ("node-0", 2), ("node-1", 2), ("node-1", 3), ("", 5), ("node-0", 4)]
    for node, number in done:
        assert points.name("3", "unlink sink/a", Side.BEFORE, node) == f"unlink sink/a#{number}"
        assert points.name("3", "unlink sink/a", Side.AFTER, node) == f"unlink sink/a#{number}"
    assert points.name("4", "unlink sink/a", Side.AFTER, "node-0") == "unlink sink/a#1"
