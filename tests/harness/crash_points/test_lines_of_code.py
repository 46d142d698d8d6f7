"""Lines of the user's code as crash points, without Spark: whose code it is, what its lines are called, who is told of
them, and what it does outside."""

from __future__ import annotations

import _thread
import asyncio
import ctypes
import gzip
import importlib
import importlib.util
import json
import logging
import multiprocessing.pool
import os
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing import shared_memory
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark.sql.utils import ForeachBatchFunction
from pyspark.taskcontext import TaskContext

from held_operations import needs_mounts
from process_ends import has_ended
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.query_parts import as_it_comes, foreach, foreach_batch
from streamproof.harness.core.addresses import DRIVER, TASK, CodeLine, Point, Side
from streamproof.harness.core.errors import OwnFailure
from streamproof.harness.core.waiting import wait_until
from streamproof.harness.crash_points.files.mounting import MountedFolder
from streamproof.harness.crash_points.inside_python import maps, syncing, tracing
from streamproof.harness.crash_points.inside_python.children import children
from streamproof.harness.crash_points.inside_python.effects import Effects
from streamproof.harness.crash_points.inside_python.following import (
    Noted,
    consumed,
    followed,
    followed_each,
    noticed,
    read_noted,
    written_out,
)
from streamproof.harness.crash_points.inside_python.user_points import crash_point, points_environment
from streamproof.harness.crash_points.inside_python.watching import (
    LINES,
    Watching,
    lines_environment,
    read_watching,
    write_watching,
)
from streamproof.harness.crash_points.inside_python.whose import Whose, whose_code
from streamproof.harness.crash_points.inside_spark.listener import HeldPoint, PointListener, SaidInPassing
from streamproof.scenarios.subjects import subject

SINK = """\
import json
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import helper


def write(frame, batch, folder):
    path = os.path.join(folder, "rows")
    helper.store(path)
    os.rename(path, path + ".done")
    return json.dumps([1])


def loop(frame, batch, folder):
    for _ in range(5):
        helper.store(folder)


def fail(frame, batch, folder):
    try:
        os.rename(folder + "/nothing", folder + "/more")
    except OSError:
        return


def in_threads(frame, batch, folder):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(helper.store, folder).result()


def through_a_library(frame, batch, folder):
    return sorted([2, 1], key=helper.same)


def each(rows):
    for row in rows:
        yield row


def add(row):
    seq = row + 1
    return seq


class Writer:
    def process(self, row):
        return row


def work(path, until):
    helper.store(path)
    until.wait(60)


def leaves_a_thread(frame, batch, folder, until):
    threading.Thread(target=work, args=(folder, until), daemon=True).start()
    helper.store(folder)
    sorted([2, 1], key=helper.same)
    json.JSONEncoder(default=helper.same).encode(object)


def keeps_its_pool(frame, batch, folder, pool):
    pool.submit(helper.store, folder).result()


def ends_its_thread(frame, batch, folder, until):
    thread = threading.Thread(target=work, args=(folder, until), daemon=True)
    thread.start()
    json.JSONEncoder(default=helper.named).encode(object)
    until.set()
    thread.join()


import subprocess


def starts_a_process(frame, batch, folder, waits):
    child = subprocess.Popen(["sleep", "0.2"])
    if waits:
        child.wait()


def forgets_one(folder):
    child = subprocess.Popen(["sleep", "0"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def forgets_one_that_has_ended(frame, batch, folder):
    forgets_one(folder)


def runs_in_a_shell(frame, batch, folder, command):
    os.system(command)


def leaves_one_and_goes_on(frame, batch, folder, go_on):
    os.system(f"sh -c 'echo $$ > {folder}/number' &")
    go_on()


class WritesThroughAProcess:
    def open(self, partition_id, epoch_id):
        self.child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        return True

    def process(self, row):
        self.child.stdin.write(b"1")

    def close(self, error):
        self.child.communicate()


import asyncio
import ctypes
import logging
import subprocess
import threading
import time
from logging.handlers import QueueHandler, QueueListener
from queue import Queue


def yields_with_a_thread(rows, folder, until):
    threading.Thread(target=work, args=(folder, until), daemon=True).start()
    for row in rows:
        yield row


def syncs(frame, batch, folder):
    with open(folder + f"/{batch}", "w") as file:
        file.write("1")
    os.getppid()


def syncs_by_c(frame, batch, folder, name, about):
    with open(folder + f"/{batch}", "w") as file:
        file.write("1")
    opened = os.open(about, os.O_RDONLY)
    getattr(ctypes.CDLL(None), name)(opened)
    with open(folder + f"/{batch}", "w") as file:
        file.write("12")
    silent = ctypes.CDLL(None)[name]
    silent.argtypes, silent.restype = [ctypes.c_int], None
    silent(ctypes.c_int(opened))
    os.close(opened)


def syncs_by_a_program(frame, batch, folder, command, by):
    with open(folder + f"/{batch}", "w") as file:
        file.write("1")
    if by == "system":
        os.system(command)
    else:
        subprocess.run(command, shell=by == "shell")


def leaves_it_to_a_timer(frame, batch, folder, left):
    timer = threading.Timer(60, helper.store, [folder])
    timer.start()
    left.append(timer.cancel)


def leaves_it_to_a_pool(frame, batch, folder, pool):
    pool.submit(helper.store, folder)


def submits(frame, batch, folder, pool, file):
    pool.submit(file.read_bytes)


def maps(frame, batch, folder, pool, file):
    pool.map(type(file).read_bytes, [file])


def applies(frame, batch, folder, pool, file):
    multiprocessing.pool.ThreadPool(1).apply_async(file.read_bytes)


def leaves_to_a_loop(frame, batch, folder, pool, file):
    asyncio.run_coroutine_threadsafe(asyncio.to_thread(file.read_bytes), pool.loop)


def begins(frame, batch, folder, pool, file):
    threading.Thread(target=file.read_bytes, daemon=True).start()


SPARKS = '''
def inheriting(target):
    def copy_local_properties(*given):
        return target(*given)
    return copy_local_properties
'''
sparks = {"__name__": "pyspark.util"}
exec(SPARKS, sparks)


def logs_by_a_thread(frame, batch, folder, begun, handler):
    queue = Queue()
    begun.append(QueueListener(queue, handler))
    begun[0].start()
    logger = logging.Logger("rows")
    logger.addHandler(QueueHandler(queue))
    logger.error("row")
    while not queue.empty() or (file := getattr(handler, "baseFilename", "")) and not os.path.getsize(file):
        time.sleep(0.001)


def begins_by_a_library(frame, batch, folder, pool, file):
    exec("def begin(thread): thread.start()", library := {"__name__": "theirs"})
    library["begin"](threading.Thread(target=file.read_bytes, daemon=True))


RENAMES = '''
import os, threading
def begin(rows, file):
    renamed = threading.Event()
    def work():
        os.rename(rows, rows + ".done")
        renamed.set()
        file.read_bytes()
    threading.Thread(target=work, daemon=True).start()
    renamed.wait(30)
'''


def renames_by_a_library(frame, batch, folder, pool, file):
    open(folder + "/rows", "w").close()
    exec(RENAMES, library := {"__name__": "theirs"})
    library["begin"](folder + "/rows", file)


LOOPS = '''
import asyncio, os, threading
def loop(pool, rows):
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    pool.left.append(lambda: loop.call_soon_threadsafe(loop.stop))
    async def work():
        os.rename(rows, rows + ".done")
    asyncio.run_coroutine_threadsafe(work(), loop).result(30)
    return loop
def leave_a_task(pool, rows):
    made = loop(pool, rows)
    async def begin():
        kept.append(made.create_task(asyncio.sleep(600)))
    asyncio.run_coroutine_threadsafe(begin(), made).result(30)
kept = []
def leave_a_callback(pool, rows, file):
    begun = threading.Event()
    def call():
        begun.set()
        file.read_bytes()
    loop(pool, rows).call_soon_threadsafe(call)
    begun.wait(30)
'''


def keeps_a_loop_by_a_library(frame, batch, folder, pool, file, work="loop", *given):
    open(folder + "/rows", "w").close()
    exec(LOOPS, library := {"__name__": "theirs"})
    library[work](pool, folder + "/rows", *given)


def leaves_a_task_by_a_library(frame, batch, folder, pool, file):
    keeps_a_loop_by_a_library(frame, batch, folder, pool, file, "leave_a_task")


def leaves_a_callback_by_a_library(frame, batch, folder, pool, file):
    keeps_a_loop_by_a_library(frame, batch, folder, pool, file, "leave_a_callback", file)


def begins_bare(frame, batch, folder, pool, file):
    _thread.start_new_thread(file.read_bytes, ())


def begins_its_own_bare(frame, batch, folder, pool, file):
    _thread.start_new_thread(store_when_told, (file,))


def waits_for_a_bare_one(frame, batch, folder, pool, file):
    begun = _thread.start_new_thread(helper.store, (folder,))
    while begun in sys._current_frames():
        time.sleep(0.001)


def leaves_a_file_open(frame, batch, folder):
    rows = open(folder + "/rows", "w")
    rows.write("1")


def submits_by_a_library(frame, batch, folder, pool, file):
    exec("def submit(pool, work): pool.submit(work)", library := {"__name__": "theirs"})
    library["submit"](pool, file.read_bytes)


def begins_in_sparks_way(frame, batch, folder, pool, file):
    threading.Thread(target=sparks["inheriting"](file.read_bytes), daemon=True).start()


def begins_its_own_in_sparks_way(frame, batch, folder, pool, file):
    threading.Thread(target=sparks["inheriting"](store_when_told), args=(file,), daemon=True).start()


def store_when_told(file):
    file.read_bytes()
    helper.store(file)


def makes_a_pipe(frame, batch, folder, pool, file):
    os.mkfifo(folder + "/pipe")


def waits_for_each(frame, batch, folder, pool, file):
    pool.submit(file.exists).result()
    thread = threading.Thread(target=file.exists)
    thread.start()
    thread.join()


def leaves_it_to_a_loop(frame, batch, folder, loop):
    asyncio.run_coroutine_threadsafe(store_later(folder), loop)


def calls_a_loop(frame, batch, folder, loop):
    loop.call_soon_threadsafe(helper.store, folder)


def imports_late(frame, batch, folder):
    import importlib
    import late

    importlib.invalidate_caches()
    helper.store(late.FOLLOWED)


async def store_later(folder):
    helper.store(folder)
    await asyncio.sleep(60)
    helper.store(folder)


import _thread
import mmap
import multiprocessing.pool
import sys


def stores_in_a_map(frame, batch, folder):
    with open(folder + "/counts", "r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    memory[0] = 1
    memory[1] = 2
    memory.close()
"""
HELPER = """\
def store(path):
    return path


def same(value):
    return "same"


def named(value):
    return "named"
"""


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module of a user's, beside one that it imports."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "their_sink.py").write_text(SINK)
    (folder / "helper.py").write_text(HELPER)
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module("their_sink")
    for name in ("their_sink", "helper"):
        sys.modules.pop(name, None)


@contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """In a thread that is nobody's."""
    loop = asyncio.new_event_loop()
    runs = threading.Thread(target=loop.run_forever)
    runs.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        runs.join(30)


def whose(sink: ModuleType) -> Whose:
    return whose_code(foreach_batch(partial(sink.write, folder=""), as_it_comes))


def _begun(said: Said) -> int:
    """How often a thread has come to its first line."""
    return len(
        {key for key in said.keys if key.startswith("before") and "their_sink.work:" in key and "calls" not in key}
    )


class Said:
    """What a listener was told, by a thread that is not ours."""

    def __init__(self) -> None:
        self.held: list[HeldPoint] = []
        self.noted: list[Noted] = []

    @property
    def keys(self) -> list[str]:
        return [f"{held.side} {held.key}" for held in self.held]

    @property
    def effects(self) -> set[tuple[str, str, int]]:
        """Those that last."""
        return {(one.kind, one.target, one.times) for noted in self.noted for one in noted.effects if not one.passing}

    @property
    def passing(self) -> set[str]:
        return {one.target for noted in self.noted for one in noted.effects if one.passing}


@contextmanager
def listening(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, watching: Watching) -> Iterator[Said]:
    said = Said()

    async def arrived(held: HeldPoint) -> None:
        said.held.append(held)

    def noted(passing: SaidInPassing) -> None:
        said.noted.append(read_noted(passing.content))

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    points = PointListener(("127.0.0.1", 0), "secret", arrived, noted)
    place = asyncio.run_coroutine_threadsafe(points.start(), loop).result(30)
    path = tmp_path / "lines.json"
    write_watching(path, watching)
    for name, value in {**points_environment(place, "secret", "here", 1), **lines_environment(path)}.items():
        monkeypatch.setenv(name, value)
    try:
        yield said
    finally:
        asyncio.run_coroutine_threadsafe(points.close(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


@pytest.fixture
def waits_for_orphans() -> Iterator[None]:
    """So that other tests do not find them."""
    before = children()
    yield
    for number in children().keys() - before.keys():
        os.waitpid(number, 0)


@pytest.fixture
def as_batch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Calls a function as pyspark does in the driver, for a batch."""
    monkeypatch.setattr("pyspark.sql.session.SparkSession", lambda *_: None)
    monkeypatch.setattr("pyspark.sql.dataframe.DataFrame", lambda *_: None)

    class Frame:
        def sparkSession(self) -> None:
            return None

    class Session:
        sparkContext = None

    def call(function: Callable[..., Any], batch: int) -> None:
        session: Any = Session()
        ForeachBatchFunction(session, function).call(Frame(), batch)  # type: ignore[arg-type]

    return call


@contextmanager
def as_task(batch: str | None) -> Iterator[None]:
    task = TaskContext()
    task._localProperties = {} if batch is None else {"streaming.sql.batchId": batch}
    TaskContext._setTaskContext(task)
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)


class TestWhoseCode:
    def test_is_that_of_what_a_query_hands_over_however_it_is_wrapped(self, sink: ModuleType) -> None:
        folder = str(Path(str(sink.__file__)).parent)
        expected = Whose(("helper", "their_sink"), (folder,))
        alone = Whose(("their_sink",), (folder,))
        assert whose(sink) == expected
        assert whose_code(Query(as_it_comes, write=sink.loop, read=as_it_comes)) == expected
        assert whose_code(foreach(sink.Writer, as_it_comes)) == alone
        assert whose_code(foreach(sink.Writer(), as_it_comes)) == alone
        assert whose_code(Query(sink.Writer().process)) == alone
        assert whose_code(Query(lambda frame: frame.mapInPandas(sink.each, frame.schema))).packages[0]  # type: ignore[no-any-return]

    def test_is_not_that_of_who_reads(self, sink: ModuleType) -> None:
        assert not whose_code(Query(as_it_comes, write=as_it_comes, read=sink.write))

    def test_is_what_lies_beside_a_script(self, tmp_path: Path) -> None:
        space: dict[str, Any] = {"__name__": "__main__", "__file__": str(tmp_path / "job.py")}
        exec(compile("def transform(frame):\n    return frame\n", str(tmp_path / "job.py"), "exec"), space)
        found = whose_code(Query(space["transform"]))
        assert found == Whose((), (str(tmp_path),))
        assert found.owns("anything", str(tmp_path / "beside.py"))
        assert not found.owns("__main__", str(tmp_path / "venv/lib/python3.11/site-packages/x.py"))

    def test_is_the_whole_package_and_nothing_of_others(self) -> None:
        found = whose_code(subject("sqlite-by-batch").query)
        assert found.owns("streamproof.scenarios.subjects.sqlite", "/x/sqlite.py")
        for module in ("streamproof.harness.contracts.query", "pyspark.sql.utils", "sqlite3.dbapi2", "acme.sinks"):
            assert not found.owns(module, "/x/y.py")

    def test_is_an_installed_package_only_where_it_was_handed_over(self) -> None:
        found = Whose(("acme",), ("/home/me",))
        assert found.owns("acme.sinks", "/home/me/.venv/lib/python3.11/site-packages/acme/sinks.py")
        assert not found.owns("other", "/home/me/.venv/lib/python3.11/site-packages/other.py")
        assert not found.owns("acme.rows", "<string>")


class TestLines:
    def test_are_announced_in_order_with_the_calls_that_leave_the_users_code(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        (tmp_path / "rows").touch()
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
            as_batch(partial(sink.write, folder=str(tmp_path)), 3)
        assert said.keys == [
            "before 3/their_sink.write:10#1",
            "before 3/their_sink.write:11#1",
            "before 3/helper.store:2#1",
            "before 3/their_sink.write:12#1",
            "before 3/their_sink.write:12 calls os.rename#1",
            "after 3/their_sink.write:12 calls os.rename#1",
            "before 3/their_sink.write:13#1",
        ]
        assert {held.actor for held in said.held} == {DRIVER}
        assert {held.point for held in said.held} == {Point.LINE}
        assert said.held[4].text == 'os.rename(path, path + ".done")'

    def test_are_announced_the_first_times_of_each_batch_and_the_others_are_counted(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
            for batch in (0, 1):
                as_batch(partial(sink.loop, folder=str(tmp_path)), batch)
        for batch in (0, 1):
            assert [key for key in said.keys if f"{batch}/helper" in key] == [
                f"before {batch}/helper.store:2#{time}" for time in (1, 2, 3)
            ]
        # Of the loop's six, the call's five and the function's five.
        assert sum(noted.unannounced for noted in said.noted) == 2 * (3 + 2 + 2)

    def test_after_a_call_is_also_when_it_has_failed(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
            as_batch(partial(sink.fail, folder=str(tmp_path)), 0)
        assert [key for key in said.keys if "calls" in key] == [
            f"{side} 0/their_sink.fail:23 calls os.rename#1" for side in Side
        ]

    def test_are_announced_after_an_import_and_its_thread_is_not_followed_meanwhile(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        """Else each function that a module calls when it is imported costs an event, and so does each entry of an
        archive on Python's path."""
        (tmp_path / "code" / "late.py").write_text("import sys\nFOLLOWED = [sys.gettrace(), sys.getprofile()]\n")
        with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
            archive.writestr("nothing.py", "")
        monkeypatch.syspath_prepend(str(tmp_path / "archive.zip"))
        assert importlib.util.find_spec("not_in_the_archive") is None
        read: list[Any] = []
        monkeypatch.setattr("zipimport._read_directory", lambda _: read.append(sys.gettrace()) or {})
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
            as_batch(partial(sink.imports_late, folder=str(tmp_path)), 0)
        assert sys.modules.pop("late").FOLLOWED == [None, None]
        assert read == [None]
        assert said.keys[-2:] == [
            f"before 0/their_sink.imports_late:{sink.imports_late.__code__.co_firstlineno + 5}#1",
            "before 0/helper.store:2#1",
        ]

    def test_of_a_thread_that_the_users_code_starts_are_of_its_batch(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
            as_batch(partial(sink.in_threads, folder=str(tmp_path)), 7)
        assert "before 7/helper.store:2#1" in said.keys
        assert all(held.key.startswith("7/") for held in said.held)

    def test_a_thread_that_is_there_when_it_has_returned_is_an_effect_that_is_not_cut(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        until = threading.Event()
        try:
            with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
                for batch in range(2):
                    as_batch(partial(sink.leaves_a_thread, folder=str(tmp_path), until=until), batch)
                    wait_until(lambda: _begun(said) > 0, 30, "the thread to begin")
                as_batch(partial(sink.in_threads, folder=str(tmp_path)), 2)
        finally:
            until.set()
        assert {(kind, target) for kind, target, _ in said.effects} == {("thread", "their_sink.work")}

    @pytest.mark.parametrize("waits", [True, False])
    def test_a_process_that_was_not_waited_for_when_it_has_returned_is_told_for_itself(
        self,
        sink: ModuleType,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        as_batch: Callable[..., None],
        waits: bool,
    ) -> None:
        """In which order that and the user's code come, no run can try."""
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
            for batch in range(2):
                as_batch(partial(sink.starts_a_process, folder=str(tmp_path), waits=waits), batch)
        left = set() if waits else {("process", "sleep (not waited for)", 1)}
        assert said.effects == {("process", "sleep", 1)} | left

    def test_a_process_that_has_ended_by_itself_was_not_waited_for_either(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        """It was quick here. Python has cleaned up after it by now."""
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
            as_batch(partial(sink.forgets_one_that_has_ended, folder=str(tmp_path)), 1)
        assert said.effects == {("process", "sleep", 1), ("process", "sleep (not waited for)", 1)}

    @pytest.mark.usefixtures("waits_for_orphans")
    @pytest.mark.parametrize("command", ["sleep 0.5 &", "setsid sleep 0.5 &", "sh -c 'sleep 0.5 & sleep 0.5 &' &"])
    def test_a_process_that_a_shell_leaves_in_the_background_is_told_for_itself(
        self,
        sink: ModuleType,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        as_batch: Callable[..., None],
        command: str,
    ) -> None:
        """Be it in a session of its own, and whoever is the machine's first process."""
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
            as_batch(partial(sink.runs_in_a_shell, folder=str(tmp_path), command=command), 1)
        left = {target for _, target, _ in said.effects} - {command}
        assert ("process", command, 1) in said.effects
        assert left
        assert left <= {f"{name} (not waited for)" for name in ("sleep", "sh", "setsid")}

    @pytest.mark.usefixtures("waits_for_orphans")
    def test_a_process_that_was_left_behind_is_told_of_although_it_has_ended_since(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
            number = tmp_path / "number"
            ended = partial(
                wait_until,
                lambda: number.exists() and number.read_text().endswith("\n") and has_ended(int(number.read_text())),
                30,
                "the process that was left behind to end",
            )
            as_batch(partial(sink.leaves_one_and_goes_on, folder=str(tmp_path), go_on=ended), 1)
        assert ("process", "sh (not waited for)", 1) in said.effects

    def test_a_process_that_a_task_begins_with_its_rows_and_ends_with_them_is_waited_for(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said:

            @followed_each
            def task() -> None:
                with as_task("3"):
                    writer = sink.WritesThroughAProcess()
                    writer.open(0, 3)
                    writer.process(1)
                    writer.close(None)

            task()
        assert {(kind, target) for kind, target, _ in said.effects} == {("process", "cat")}

    def test_a_thread_that_a_generator_begins_is_such_an_effect_too(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        until = threading.Event()
        try:
            with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said:

                @followed_each
                def task() -> None:
                    with as_task("3"):
                        assert list(sink.yields_with_a_thread([1, 2], str(tmp_path), until)) == [1, 2]
                        wait_until(lambda: _begun(said) > 0, 30, "the thread to begin")

                task()
        finally:
            until.set()
        assert {(kind, target) for kind, target, _ in said.effects} == {("thread", "their_sink.work")}

    def test_what_is_synced_as_a_whole_is_synced_file_by_file_where_it_has_changed(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        folder, synced = tmp_path / "sink", []
        folder.mkdir()
        monkeypatch.setattr(os, "fsync", lambda opened: synced.append(os.readlink(f"/proc/self/fd/{opened}")))
        # So that the test need not wait for all disks of the machine.
        monkeypatch.setattr(tracing, "SYNC", os.getppid)
        watching = Watching(whose(sink), whole=True, folders=(str(folder),))
        with listening(monkeypatch, tmp_path, watching), followed():
            for batch in range(2):
                as_batch(partial(sink.syncs, folder=str(folder)), batch)
                synced.append("")
        assert synced == [f"{folder}/0", str(folder), "", f"{folder}/1", str(folder), ""]

    @pytest.mark.parametrize("elsewhere", [False, True])
    def test_what_c_syncs_as_a_whole_counts_where_it_is_of_the_same_file_system(
        self,
        sink: ModuleType,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        as_batch: Callable[..., None],
        elsewhere: bool,
    ) -> None:
        folder, synced = tmp_path / "sink", []
        folder.mkdir()
        monkeypatch.setattr(os, "fsync", lambda opened: synced.append(os.readlink(f"/proc/self/fd/{opened}")))
        # So that the test need not wait for a disk; of a folder it says 0, too.
        monkeypatch.setattr(syncing, "_OF_A_FILE", "isatty")
        about = "/proc" if elsewhere else str(folder)
        watching = Watching(whose(sink), whole=True, folders=(str(folder),))
        with listening(monkeypatch, tmp_path, watching), followed():
            as_batch(partial(sink.syncs_by_c, folder=str(folder), name="isatty", about=about), 0)
        assert synced == ([] if elsewhere else [f"{folder}/0", str(folder), f"{folder}/0"])

    @pytest.mark.parametrize(
        ("command", "by", "syncs"),
        [
            (["sync"], "run", True),
            (["sync", "--help"], "run", False),
            (["true"], "run", False),
            ("sync ", "shell", True),
            ("sync", "system", True),
            ("sync a b", "system", False),
        ],
    )
    def test_the_program_that_syncs_all_does_so_once_it_was_waited_for(
        self,
        sink: ModuleType,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        as_batch: Callable[..., None],
        command: list[str] | str,
        by: str,
        syncs: bool,
    ) -> None:
        folder, synced = tmp_path / "sink", []
        folder.mkdir()
        (tmp_path / "sync").write_text("#!/bin/sh\n")
        (tmp_path / "sync").chmod(0o700)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        monkeypatch.setattr(os, "fsync", lambda opened: synced.append(os.readlink(f"/proc/self/fd/{opened}")))
        watching = Watching(whose(sink), whole=True, folders=(str(folder),))
        with listening(monkeypatch, tmp_path, watching), followed():
            as_batch(partial(sink.syncs_by_a_program, folder=str(folder), command=command, by=by), 0)
        assert synced == ([f"{folder}/0", str(folder)] if syncs else [])

    def test_what_was_stored_in_a_map_of_memory_is_written_down_before_each_line_while_there_is_one(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        written: list[tuple[str, bytes]] = []

        def write_down(file: int) -> None:
            written.append((os.readlink(f"/proc/self/fd/{file}"), os.pread(file, 2, 0)))

        monkeypatch.setattr(maps, "write_down", write_down)
        for name in ("sink", "elsewhere"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "counts").write_bytes(bytes(10))
        watching = Watching(whose(sink), whole=True, folders=(str(tmp_path / "sink"),))
        with listening(monkeypatch, tmp_path, watching), followed():
            for batch, name in enumerate(("elsewhere", "sink")):
                as_batch(partial(sink.stores_in_a_map, folder=str(tmp_path / name)), batch)
        assert {path for path, _ in written} == {str(tmp_path / "sink" / "counts")}
        assert list(dict.fromkeys(content for _, content in written)) == [b"\0\0", b"\1\0", b"\1\2"]

    def test_what_a_thread_has_not_begun_when_it_has_returned_is_such_an_effect_too(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        left: list[Callable[[], object]] = []
        held, busy, loop = threading.Event(), threading.Event(), asyncio.new_event_loop()
        runs = threading.Thread(target=loop.run_forever)
        runs.start()

        def holds() -> None:
            busy.set()
            held.wait(60)

        def noted(work: Callable[..., None], **more: object) -> set[tuple[str, str]]:
            with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
                as_batch(partial(work, folder=str(tmp_path), **more), 0)
            return {(kind, target) for kind, target, _ in said.effects}

        try:
            assert noted(sink.leaves_it_to_a_timer, left=left) == {("thread", "helper.store")}
            left.pop()()
            with ThreadPoolExecutor(1) as pool:
                pool.submit(holds)
                assert busy.wait(30)
                assert noted(sink.leaves_it_to_a_pool, pool=pool) == {("thread", "helper.store")}
                held.set()
            # It may have begun by then, or not.
            assert noted(sink.leaves_it_to_a_loop, loop=loop) == {("thread", "their_sink.store_later")}
            held.clear()
            busy.clear()
            loop.call_soon_threadsafe(holds)
            assert busy.wait(30)
            assert noted(sink.leaves_it_to_a_loop, loop=loop) == {("thread", "their_sink.store_later")}
            assert noted(sink.calls_a_loop, loop=loop) >= {("thread", "helper.store")}
        finally:
            held.set()
            for cancel in left:
                cancel()
            loop.call_soon_threadsafe(loop.stop)
            runs.join(30)

    @pytest.mark.parametrize(
        ("work", "named"),
        [
            ("submits", {("thread", "pathlib.Path.read_bytes")}),
            ("maps", {("thread", "pathlib.Path.read_bytes")}),
            ("applies", {("thread", "pathlib.Path.read_bytes")}),
            ("leaves_to_a_loop", {("thread", "asyncio.threads.to_thread")}),
            ("begins", {("thread", "pathlib.Path.read_bytes")}),
            ("begins_by_a_library", set()),
            ("renames_by_a_library", {("thread", "theirs.begin.<locals>.work")}),
            ("keeps_a_loop_by_a_library", set()),
            ("leaves_a_task_by_a_library", {("thread", "asyncio.base_events.BaseEventLoop.run_forever")}),
            ("leaves_a_callback_by_a_library", {("thread", "asyncio.base_events.BaseEventLoop.run_forever")}),
            ("begins_bare", {("thread", "pathlib.Path.read_bytes")}),
            ("begins_its_own_bare", {("thread", "their_sink.store_when_told")}),
            ("submits_by_a_library", {("thread", "pathlib.Path.read_bytes")}),
            ("begins_in_sparks_way", {("thread", "pathlib.Path.read_bytes")}),
            ("begins_its_own_in_sparks_way", {("thread", "their_sink.store_when_told")}),
            ("waits_for_each", set()),
        ],
    )
    def test_a_function_of_a_library_that_a_thread_is_left_with_is_such_an_effect_too(
        self,
        work: str,
        named: set[tuple[str, str]],
        sink: ModuleType,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        as_batch: Callable[..., None],
    ) -> None:
        # Who reads a pipe waits for somebody who writes to it.
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        watching = Watching(whose(sink), whole=True, folders=(str(tmp_path),))
        with ThreadPoolExecutor(1) as pool, running_loop() as pool.loop:  # type: ignore[attr-defined]
            pool.left = []  # type: ignore[attr-defined]
            with listening(monkeypatch, tmp_path, watching) as said, followed():
                as_batch(partial(getattr(sink, work), folder=str(tmp_path), pool=pool, file=pipe), 0)
            for end in pool.left:  # type: ignore[attr-defined]
                end()
            if work not in ("waits_for_each", "keeps_a_loop_by_a_library", "leaves_a_task_by_a_library"):
                pipe.write_bytes(b"")
        assert {(kind, target) for kind, target, _ in said.effects} == named

    def test_leave_what_the_users_code_has_let_go_as_free_as_where_nobody_follows(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        """A file that nobody has closed is written when nothing refers to it any more."""
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)), followed():
            as_batch(partial(sink.leaves_a_file_open, folder=str(tmp_path)), 0)
            assert (tmp_path / "rows").read_text() == "1"

    def test_of_a_thread_that_begins_without_a_name_are_announced_too(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
            as_batch(partial(sink.waits_for_a_bare_one, folder=str(tmp_path), pool=None, file=None), 3)
        assert "before 3/helper.store:2#1" in said.keys
        assert said.effects == set()

    @pytest.mark.parametrize("writes", [True, False], ids=["to a file", "nowhere"])
    def test_a_thread_that_a_library_begins_is_such_an_effect_once_it_has_written(
        self,
        writes: bool,
        sink: ModuleType,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        as_batch: Callable[..., None],
    ) -> None:
        """It may be the file of the sink's rows, of which those may be lost that a batch has handed to it. Threads that
        look after connections live on as well."""
        begun: list[Any] = []
        with closing(logging.FileHandler(tmp_path / "rows.log") if writes else logging.NullHandler()) as handler:
            with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
                as_batch(partial(sink.logs_by_a_thread, folder=str(tmp_path), begun=begun, handler=handler), 0)
            begun.pop().stop()
        named = {("thread", "logging.handlers.QueueListener._monitor")} if writes else set()
        assert {one[:2] for one in said.effects} == named

    @pytest.mark.parametrize(
        ("work", "called"),
        [
            ("submits", "concurrent.futures.thread.ThreadPoolExecutor.submit"),
            ("makes_a_pipe", "os.mkfifo"),
        ],
    )
    def test_what_is_told_of_in_passing_is_called_as_where_nobody_asks(
        self,
        work: str,
        called: str,
        sink: ModuleType,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        as_batch: Callable[..., None],
    ) -> None:
        """Whoever is to die at a call is in a process in which nobody tells of effects."""
        (tmp_path / "rows").touch()
        with (
            ThreadPoolExecutor(1) as pool,
            listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said,
            followed(),
        ):
            as_batch(partial(getattr(sink, work), folder=str(tmp_path), pool=pool, file=tmp_path / "rows"), 0)
        assert [key.partition(" calls ")[2] for key in said.keys if called in key] == [f"{called}#1"] * 2
        # Where streamproof lies in a folder of the user's, as a clone does, what tells is no code of theirs.
        everything = Whose((), (str(Path(tracing.__file__).parents[3]),))
        told = (threading.Thread.start, ThreadPoolExecutor.submit, os.mkfifo, multiprocessing.pool.Pool.apply_async)
        files = [(one.__module__, one.__code__.co_filename) for one in told]  # type: ignore[attr-defined]
        assert [everything.owns(*one) for one in files] == [False] * len(told)

    def test_a_thread_that_it_has_waited_for_is_none(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
            for batch in range(2):
                as_batch(partial(sink.ends_its_thread, folder=str(tmp_path), until=threading.Event()), batch)
                as_batch(partial(sink.in_threads, folder=str(tmp_path)), batch)
                with ThreadPoolExecutor(1) as pool:
                    as_batch(partial(sink.keeps_its_pool, folder=str(tmp_path), pool=pool), batch)
        assert said.effects == set()

    def test_of_a_task_say_so_and_know_their_batch_as_far_as_the_task_does(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said:
            work = followed_each(lambda: list(sink.each([1])))
            for batch in ("4", None):
                with as_task(batch):
                    work()
                    crash_point("mine")
        assert {held.actor for held in said.held} == {TASK}
        assert [held.key for held in said.held if held.point is Point.USER] == ["4/mine", "?/mine"]
        assert "before 4/their_sink.each:38#1" in said.keys
        # One worker, whose tasks come one after the other: no line is announced twice under one name.
        assert len(set(said.keys)) == len(said.keys)

    def test_alone_are_announced_where_exactly_they_are_armed(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_batch: Callable[..., None]
    ) -> None:
        armed = ((Side.AFTER, "1/their_sink.write:12 calls os.rename#1"), (Side.BEFORE, "1/helper.store:2#4"))
        with listening(monkeypatch, tmp_path, Watching(whose(sink), armed=armed)) as said, followed():
            for batch in range(3):
                (tmp_path / "rows").touch()
                as_batch(partial(sink.write, folder=str(tmp_path)), batch)
                as_batch(partial(sink.loop, folder=str(tmp_path)), batch)
        assert said.keys == [f"{side} {key}" for side, key in armed]
        assert said.noted == []

    def test_leave_whoever_traced_before_as_it_was(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def other(*_: Any) -> None: ...

        before = sys.gettrace(), threading.gettrace(), sys.getprofile()
        try:
            sys.settrace(other)
            threading.settrace(other)
            sys.setprofile(other)
            with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
                sink.add(1)
                assert sys.getprofile() is other
            assert (sys.gettrace(), threading.gettrace(), sys.getprofile()) == (other, other, other)
        finally:
            sys.settrace(before[0])
            threading.settrace(before[1])  # type: ignore[arg-type]
            sys.setprofile(before[2])
        assert len(said.held) == 2

    def test_are_not_those_of_a_module_that_is_imported(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        late = "import their_sink\n\n\nclass Late:\n    at_once = their_sink.add(1)\n\n\ndef later():\n    return 1\n"
        (Path(str(sink.__file__)).parent / "late.py").write_text(late)
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
            module = importlib.import_module("late")
            assert module.later() == sink.add(0) == 1
        sys.modules.pop("late")
        assert [key.partition("/")[2].partition(":")[0] for key in said.keys] == ["late.later"] + ["their_sink.add"] * 2

    def test_hold_nobody_when_the_harness_is_gone(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)):
            pass
        with followed():
            assert sink.add(1) == 2

    def test_are_nobodys_outside_a_run(self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv(LINES, raising=False)
        with followed():
            assert sys.gettrace() is None or sys.gettrace().__name__ != "_enter"  # type: ignore[union-attr]
        monkeypatch.setenv(LINES, str(tmp_path / "gone.json"))
        assert not read_watching()
        (tmp_path / "gone.json").write_text("nonsense")
        with pytest.raises(OwnFailure, match=LINES):
            read_watching()

    def test_go_over_one_connection_of_each_thread(
        self, sink: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with listening(monkeypatch, tmp_path, Watching(whose(sink), whole=True)) as said, followed():
            sink.add(1)
            sink.loop(None, 0, "")
            with ThreadPoolExecutor(1) as pool:
                pool.submit(sink.through_a_library, None, 0, "").result()
        assert len({held.peer for held in said.held}) == 2


@pytest.mark.parametrize(
    ("key", "side", "words"),
    [
        ("3/sinks.write:17#1", Side.BEFORE, "in batch 3, in sinks.write, before line 17 (`con.commit()`)"),
        (
            "3/sinks.write:17 calls sqlite3.Connection.commit#2",
            Side.AFTER,
            "in batch 3, in sinks.write, after line 17 (`con.commit()`) has called sqlite3.Connection.commit, the "
            "second time",
        ),
    ],
)
def test_a_line_is_said_with_its_text(key: str, side: Side, words: str) -> None:
    line = CodeLine.of(key)
    assert line is not None
    assert line.said(side, "con.commit()") == words


@pytest.mark.parametrize("key", ["", "3", "3/after-upload", "3/sinks.write:x#1", "3/sinks.write:17"])
def test_what_is_no_line_is_not_said_as_one(key: str) -> None:
    assert CodeLine.of(key) is None


# Effects


def does(folder: Path, body: str) -> Callable[[], Any]:
    """A function of the user's that does this."""
    file = folder / "effects_of_theirs.py"
    names = "import importlib, logging, os, signal, socket, sqlite3, subprocess, sys, syslog, tempfile\n"
    file.write_text(names + "def work():\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    space: dict[str, Any] = {"__name__": "effects_of_theirs", "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), space)
    work: Callable[[], Any] = space["work"]
    return work


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Said]:
    """What is said of a function of the user's, whose run has the folder `run`."""
    code, run = tmp_path / "code", tmp_path / "run"
    for folder in (code, run, tmp_path / "other"):
        folder.mkdir()
    (tmp_path / "other" / "there").touch()
    monkeypatch.chdir(tmp_path)

    def of(body: str) -> Said:
        watching = Watching(Whose((), (str(code),)), whole=True, folders=(str(run),))
        work = does(code, body)
        with listening(monkeypatch, tmp_path, watching) as said, followed():
            work()
        return said

    return of


@pytest.fixture
def noted(heard: Callable[[str], Said], tmp_path: Path) -> Callable[[str], set[tuple[str, str, int]]]:
    """Of that, the effects that last."""

    def of(body: str) -> set[tuple[str, str, int]]:
        return {(kind, target.removeprefix(f"{tmp_path}/"), times) for kind, target, times in heard(body).effects}

    return of


PARENT = Path(f"/proc/{os.getppid()}/comm").read_text().strip()
LOGS_TO = (
    "import logging.handlers\nlogging.raiseExceptions = False\nlog = logging.Logger('x')\n"
    "log.addHandler(logging.handlers.{})\nlog"
)
LOGS_SENT = (
    "SocketHandler('127.0.0.1', 9)",
    "HTTPHandler('127.0.0.1:9', '/')",
    "SMTPHandler(('127.0.0.1', 9), 'from@here', 'to@there', 'x')",
    "SysLogHandler(('127.0.0.1', 9))",
)
"""Messages, though a log sends them."""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("open('out.txt', 'w').close()", {("file", "out.txt", 1)}),
        ("for _ in range(3): open('out.txt', 'a').close()", {("file", "out.txt", 3)}),
        ("os.close(os.open('out.txt', os.O_WRONLY | os.O_CREAT))", {("file", "out.txt", 1)}),
        ("open('run/x', 'w').close()\nos.rename('run/x', 'moved')", {("file", "moved", 1)}),
        ("sqlite3.connect('x.db').execute('create table t (a)')", {("file", "x.db", 1)}),
        ("os.mkdir('made')", {("file", "made", 1)}),
        ("os.makedirs('other', exist_ok=True)", set()),
        ("subprocess.run(['true'])", {("process", "true", 1)}),
        ("os.system('true')", {("process", "true", 1)}),
        ("socket.socket().connect_ex(('127.0.0.1', 9))", {("connection", "127.0.0.1:9", 1)}),
        ("socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))", {("connection", "127.0.0.1:9", 1)}),
        (
            "socket.socket(type=socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('127.0.0.1', 9))",
            {("connection", "127.0.0.1:9", 1)},
        ),
        ("os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)", {("process", "/bin/true", 1)}),
        (
            "folder = os.open('.', os.O_RDONLY)\nos.close(os.open('x', os.O_WRONLY | os.O_CREAT, dir_fd=folder))\n"
            "os.close(folder)",
            {("file", "x", 1)},
        ),
        (
            "folder = os.open('other', os.O_RDONLY)\nos.chdir('run')\n"
            "os.close(os.open('x', os.O_WRONLY | os.O_CREAT, dir_fd=folder))\nos.mkdir('y', dir_fd=folder)\n"
            "os.close(folder)",
            {("file", "other/x", 1), ("file", "other/y", 1)},
        ),
        ("os.kill(os.getppid(), signal.SIGCONT)", {("process", f"signal 18 to {PARENT}", 1)}),
        (
            "file = os.pidfd_open(os.getppid())\nsignal.pidfd_send_signal(file, signal.SIGCONT)\nos.close(file)",
            {("process", f"signal 18 to {PARENT}", 1)},
        ),
        ("os.kill(os.getppid(), 0)\nos.kill(os.getpid(), signal.SIGCONT)", set()),
        (
            "child = subprocess.Popen(['sleep', '9'])\nchild.terminate()\nchild.wait()",
            {("process", "sleep", 1)},
        ),
        ("syslog.syslog('x')", {("connection", "/dev/log", 1)}),
        *((f"{LOGS_TO.format(name)}.error('x')", {("connection", "127.0.0.1:9", 1)}) for name in LOGS_SENT),
        ("import atexit\natexit.register(os.getpid)\natexit.unregister(os.getpid)", {("exit", "os.getpid", 1)}),
        (
            "import atexit\ndef flush(): pass\natexit.register(flush)\natexit.unregister(flush)",
            {("exit", "effects_of_theirs.work.<locals>.flush", 1)},
        ),
        ("os.mkfifo('x')", {("file", "x", 1)}),
        ("os.mkfifo('x')\nos.mknod('run/x')", {("file", "x", 1)}),
        (
            "folder = os.open('other', os.O_RDONLY)\nos.mknod('x', dir_fd=folder)\nos.close(folder)",
            {("file", "other/x", 1)},
        ),
        ("socket.socket(socket.AF_UNIX).bind('x')", {("file", "x", 1)}),
        ("socket.socket(socket.AF_UNIX).bind('\\0x')\nsocket.socket().bind(('127.0.0.1', 0))", set()),
        (
            "os.mkdir('__pycache__')\nopen('__pycache__/done', 'w').close()\nopen('__pycache__/m.pyc', 'w').close()",
            {("file", "__pycache__/done", 1)},
        ),
        ("os.remove('other/there')", {("file", "other/there", 1)}),
        ("os.rename('other/there', 'run/in')", {("file", "other/there", 1)}),
        ("open('x', 'w').close()\nos.rename('x', 'run/in')", set()),
        ("os.utime('other/there')", {("file", "other/there", 1)}),
        ("import sys\nsys.settrace(None)", {("tracing", "sys.settrace", 1)}),
        ("import bdb\nbdb.Bdb().set_trace()", {("tracing", "sys.settrace", 1)}),
        ("os.symlink('../other', 'run/way')\nopen('run/way/z', 'w').close()", {("file", "other/z", 1)}),
    ],
)
def test_an_effect_outside_is_noted(
    noted: Callable[[str], set[tuple[str, str, int]]], body: str, found: set[tuple[str, str, int]]
) -> None:
    assert noted(body) == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("ctypes.CDLL(None).open(b'x', os.O_WRONLY | os.O_CREAT, 0o600)\nos.sep", {("file", "x", 1)}),
        ("parquet.write_table(pyarrow.table({'n': [1]}), 'other/x')", {("file", "other/x", 1)}),
        ("parquet.write_table(pyarrow.table({'n': [1]}), 'x')", {("file", "x", 1)}),
        ("parquet.write_table(pyarrow.table({'n': [1]}), where=Path('other/there'))", {("file", "other/there", 1)}),
        ("pyarrow.table({'n': [1]}).to_pandas().to_parquet('file://' + os.getcwd() + '/x')", {("file", "x", 1)}),
    ],
)
def test_an_effect_of_a_library_in_c_is_noted(
    noted: Callable[[str], set[tuple[str, str, int]]], body: str, found: set[tuple[str, str, int]]
) -> None:
    assert noted(f"import ctypes, pyarrow, pyarrow.parquet as parquet\nfrom pathlib import Path\n{body}") == found


ON_A_DISK = "with pyarrow.OSFile({!r}, 'wb') as file: file.write(b'x')\n"
"""What Python is told nothing of."""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (ON_A_DISK.format("other/x"), {("file", "?", 1)}),
        (ON_A_DISK.format("other/x") + "os.remove('other/there')", {("file", "?", 1), ("file", "other/there", 1)}),
        ("kept = pyarrow.OSFile('x', 'wb')\nkept.write(b'x'); kept.close()\nos.sep", {("file", "x", 1)}),
        ("pool = ThreadPool(1)\npool.apply(write, (b'other/y',))\npool.terminate(); pool.join()", {("file", "?", 1)}),
        ("rows = (write(b'other/y') for _ in range(1))\nlist(rows)", {("file", "?", 1)}),
        ("file = open('x', 'w')\nfile.write('x')\nfile.close()", {("file", "x", 1)}),
        ("shutil.copy2('other/there', 'x')", {("file", "x", 3)}),
        ("file = tempfile.TemporaryFile()\nfile.write(b'x'); file.flush()\nfile.close()", set()),
        ("with tempfile.NamedTemporaryFile() as file: file.write(b'x'); file.flush()", set()),
        ("open('other/there', 'rb+').write(b'x')", {("file", "other/there", 1)}),
        ("subprocess.run('head -c 9000 /dev/zero > other/y', shell=True)", {("process", "/bin/sh", 1)}),
    ],
)
def test_what_code_in_c_writes_within_one_line_is_an_effect_though_nobody_can_name_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, found: object
) -> None:
    folder = tmp_path / "code"
    for one in (folder, tmp_path / "other"):
        one.mkdir()
    (tmp_path / "other" / "there").touch()
    monkeypatch.chdir(tmp_path)
    said = effects_of(folder, body, (), monkeypatch)
    assert {(kind, target.removeprefix(f"{tmp_path}/"), times) for kind, target, times in said.effects} == found


def effects_of(code: Path, body: str, folders: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> Said:
    """Of a function of the user's that has more to call."""
    work = does(code, f"import ctypes, pyarrow, shutil\nfrom multiprocessing.pool import ThreadPool\n{body}")
    work.__globals__.update(write=_write, write_much=_write_much)
    watching = Watching(Whose((), (str(code),)), whole=True, folders=folders)
    with listening(monkeypatch, code.parent, watching) as said, followed():
        work()
    return said


def _write(path: bytes) -> None:
    """A path in bytes is not looked at where a function is handed it."""
    with pa.OSFile(os.fsdecode(path), "wb") as file:
        file.write(b"x")


def _write_much(path: bytes) -> None:
    with pa.OSFile(os.fsdecode(path), "wb") as file:
        file.write(b"x" * 9_000)


IN_THE_RUN = """
with pyarrow.OSFile(run + '/x', 'wb') as file: file.write(b'x' * 9_999)
with pyarrow.create_memory_map(run + '/mapped', 9_000) as file: file.write(b'x' * 9_000)
con = sqlite3.connect(run + '/x.db')
con.executescript('pragma journal_mode = wal; create table t (a); insert into t values (1)'); con.commit()
con.close()
"""
MAPPED = "file = pyarrow.create_memory_map(run + '/mapped', 9_000); file.write(b'x' * 9_000)\n"
LOGGED = """
con = sqlite3.connect(run + '/x.db')
con.executescript('pragma journal_mode = wal; create table t (a); insert into t values (1)'); con.commit()
"""
SIDE_BY_SIDE = """
paths = [os.fsencode(f'{run}/{number}') for number in range(300)]
with ThreadPool(3) as pool:
    done = pool.map_async(write_much, paths)
    while not done.ready(): os.getpid()
    pool.close(); pool.join()
"""


@needs_mounts
@pytest.mark.parametrize(
    ("body", "found"),
    [
        (IN_THE_RUN, set()),
        (SIDE_BY_SIDE, set()),
        ("pool = ThreadPool(1)\npool.apply(write, (os.fsencode(run + '/x'),))\npool.terminate(); pool.join()", set()),
        ("write(os.fsencode(run + '/y')); write(elsewhere)", {("file", "?", 1)}),
        (IN_THE_RUN + "write(elsewhere)", {("file", "?", 1)}),
        (f"{MAPPED}write(elsewhere)\nfile.close()", {("file", "?", 1)}),
        (f"{MAPPED}file.seek(0); file.write(b'y' * 9_000)\nfile.close()", set()),
        (f"{LOGGED}write(elsewhere)\ncon.close()", {("file", "?", 1)}),
    ],
)
def test_what_it_writes_in_the_runs_folders_is_told_apart_from_what_it_writes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, found: object
) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    with MountedFolder(tmp_path, "lines-of-code", os.environ, tmp_path / "log") as mounted:
        run = mounted.mount / "sink"
        run.mkdir()
        given = f"run, elsewhere = {str(run)!r}, {os.fsencode(tmp_path / 'elsewhere')!r}\n"
        assert effects_of(folder, given + body, (str(run),), monkeypatch).effects == found


APPENDS = "import os\nwhile True: os.write(1, b'x')"


@contextmanager
def printing_where_others_write(path: Path) -> Iterator[None]:
    """Another process writes there all the while, as Spark's JVM does."""
    printed = os.dup(1)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 1)
    with subprocess.Popen([sys.executable, "-c", APPENDS], stdout=1) as others:
        try:
            wait_until(lambda: path.stat().st_size > 0, 10, "the other process to write")
            yield
        finally:
            others.kill()
            os.dup2(printed, 1)
            os.close(printed)


@needs_mounts
@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("write(elsewhere)", {("file", "?", 1)}),
        ("os.write(1, b'x' * 9_000)", set()),
        ("logger.error('x' * 9_000)", set()),
        ("logger.error('x' * 9_000)\nwrite(elsewhere)", {("file", "?", 1)}),
    ],
)
def test_a_log_that_others_write_to_as_well_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, found: object
) -> None:
    folder, log = tmp_path / "code", tmp_path / "log"
    folder.mkdir()
    logs = f"logger = logging.getLogger('shared'); logger.addHandler(logging.FileHandler({str(log)!r}))\n"
    given = f"import logging\nelsewhere = {os.fsencode(tmp_path / 'elsewhere')!r}\n{logs if 'logger' in body else ''}"
    with printing_where_others_write(log), closing_handlers("shared"):
        assert effects_of(folder, given + body, (), monkeypatch).effects == found


def test_a_database_that_an_import_has_opened_is_named_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What SQLite writes moves no place in its file."""
    path = tmp_path / "x.db"
    (tmp_path / "opens_a_database.py").write_text(
        f"import sqlite3\ncon = sqlite3.connect({str(path)!r})\ncon.execute('create table t (a)')\n"
        "def work():\n    con.execute('insert into t values (1)')\n    con.commit()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with listening(monkeypatch, tmp_path, Watching(Whose((), (str(tmp_path),)), whole=True)) as said:
        with noticed():
            opens = importlib.import_module("opens_a_database")
        with followed(), closing(opens.con):
            opens.work()
    monkeypatch.delitem(sys.modules, "opens_a_database")
    assert said.effects == {("file", str(path), 1)}


@contextmanager
def closing_handlers(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    try:
        yield
    finally:
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
            handler.close()


def test_a_process_that_nobody_was_heard_to_start_is_an_effect_once_it_was_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = effects_of(tmp_path, "ctypes.CDLL(None).system(b'true')\nos.sep", (), monkeypatch)
    assert said.effects == {("process", "?", 1)}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("libc.sem_open(b'/streamproof-{0}', os.O_CREAT, 0o600, 1)", "/dev/shm/sem"),
        ("libc.shmat(libc.shmget({0}, 100, 0o1600), None, 0)", "/SYSV{0:08x} (deleted)"),
    ],
)
def test_memory_that_processes_share_is_an_effect_whoever_has_mapped_it(
    heard: Callable[[str], Said], body: str, found: str
) -> None:
    number = os.getpid()
    libc = ctypes.CDLL(None)
    try:
        said = heard(f"import ctypes\nlibc = ctypes.CDLL(None)\n{body.format(number)}\nos.memfd_create('x')\nos.sep")
        (target,) = {target for kind, target, _ in said.effects if kind == "file"} | said.passing
        # By the name of the draft that it was linked from.
        assert target.startswith(found.format(number))
    finally:
        libc.sem_unlink(f"/streamproof-{number}".encode())
        libc.shmctl(libc.shmget(number, 0, 0), 0, None)


def test_a_thread_that_can_be_joined_is_told_of_as_any_that_begins_bare(
    heard: Callable[[str], Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Python 3.13 begins them."""
    bare = getattr(_thread.start_new_thread, "__wrapped__", _thread.start_new_thread)

    def start_joinable_thread(function: Callable[[], object], handle: object = None, daemon: bool = True) -> object:
        return bare(function, ())

    monkeypatch.setattr(_thread, "start_new_thread", bare)
    monkeypatch.setattr(_thread, "start_joinable_thread", start_joinable_thread, raising=False)
    os.mkfifo(tmp_path / "pipe")
    said = heard("import _thread, pathlib\n_thread.start_joinable_thread(pathlib.Path('pipe').read_bytes)")
    (tmp_path / "pipe").write_text("go on")
    assert ("thread", "pathlib.Path.read_bytes", 1) in said.effects


def test_another_interpreter_is_an_effect_of_which_nothing_more_is_seen(
    noted: Callable[[str], set[tuple[str, str, int]]],
) -> None:
    name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    assert noted(f"import {name} as made\nmade.destroy(made.create())") == {("process", "another interpreter", 1)}


def test_what_is_written_between_two_calls_of_the_users_code_is_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = does(tmp_path, "yield 1\nyield 2")
    watching = Watching(Whose((), (str(tmp_path),)), whole=True)
    with listening(monkeypatch, tmp_path, watching) as said, followed():
        for row in rows():
            with pa.OSFile(str(tmp_path / f"{row}.elsewhere"), "wb") as file:
                file.write(b"x")
    assert said.effects == set()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("con.execute(\"vacuum into 'x.db'\")", {("file", "x.db", 1)}),
        ("con.execute('vacuum into ?', ('x.db',))", {("file", "x.db", 1)}),
        ("con.executescript(\"attach 'x.db' as o; create table o.t (a); detach o\")", {("file", "x.db", 1)}),
        ("con.executescript(\"attach 'x'||'.db' as o; create table o.t (a); detach o\")", {("file", "?", 1)}),
        (
            "con.execute('attach ? as o', ('x.db',)); con.execute('create table o.t (a)'); con.execute('detach o')",
            {("file", "x.db", 1)},
        ),
        ("con.execute(\"attach ':memory:' as o\")\ncon.execute('vacuum')", set()),
        ("con.executescript(\"attach 'run/x.db' as o; create table o.t (a); detach o\")", set()),
    ],
)
def test_a_database_that_is_attached_by_sql_is_an_effect_however_soon_it_is_let_go(
    heard: Callable[[str], Said], tmp_path: Path, body: str, found: set[tuple[str, str, int]]
) -> None:
    said = heard(f"con = sqlite3.connect(':memory:', isolation_level=None)\n{body}\ncon.close()")
    assert not [key for key in said.keys if "attached" in key]
    names = {(kind, target, times) for kind, target, times in said.effects}
    passing = {("file", target, 1) for target in said.passing}
    assert {(kind, target.removeprefix(f"{tmp_path}/"), times) for kind, target, times in names | passing} == found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            "with ThreadPoolExecutor(1) as pool: pool.submit(shutil.copyfile, 'other/there', 'x').result()",
            ("file", "x", 1),
        ),
        ("with ThreadPool(1) as pool: pool.apply(shutil.copyfile, ('other/there', 'x'))", ("file", "x", 1)),
        (
            "one = threading.Thread(target=shutil.copyfile, args=('other/there', 'x'))\none.start()\none.join()",
            ("file", "x", 1),
        ),
        ("one = threading.Timer(0, shutil.copyfile, ('other/there', 'x'))\none.start()\none.join()", ("file", "x", 1)),
        (
            "async def go(): await asyncio.to_thread(shutil.copyfile, 'other/there', 'x')\nasyncio.run(go())",
            ("file", "x", 1),
        ),
        (
            "with ThreadPoolExecutor(1) as pool: pool.submit(urlopen, 'http://127.0.0.1:9/').exception()",
            ("connection", "127.0.0.1:9", 1),
        ),
        (
            "def within(): pass\nwith ThreadPoolExecutor(1) as pool: pool.submit(within).result()\n"
            "with ThreadPoolExecutor(1) as pool: pool.submit(partial(ThreadPool, 1)).result()"
            ".apply(shutil.copyfile, ('other/there', 'x'))",
            ("file", "x", 1),
        ),
        ("with ThreadPoolExecutor(1) as pool: pool.submit(shutil.copyfile, 'other/there', 'run/x').result()", None),
    ],
)
def test_what_a_library_does_in_a_thread_that_began_for_the_users_code_is_an_effect(
    noted: Callable[[str], set[tuple[str, str, int]]], body: str, found: tuple[str, str, int] | None
) -> None:
    """None of the user's frames is in such a thread, and it was waited for."""
    names = (
        "import asyncio, shutil, threading\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "from functools import partial\nfrom multiprocessing.pool import ThreadPool\n"
        "from urllib.request import urlopen\n"
    )
    of_threads = {one for one in noted(names + body) if one[0] != "thread"}
    assert of_threads == (set() if found is None else {found})


IN_ANOTHER_STACK = """
import queue, threading
asked, done = queue.Queue(), queue.Queue()
def work():
    while (one := asked.get()) is not None:
        done.put(one())
threading.Thread(target=work, daemon=True).start()
def switch(one):
    asked.put(one)
    done.get(30)
"""


@pytest.mark.parametrize(("in_a_greenlet", "found"), [(True, {("file", "x", 1)}), (False, set())])
def test_what_a_library_does_in_a_greenlet_is_an_effect(
    noted: Callable[[str], set[tuple[str, str, int]]],
    monkeypatch: pytest.MonkeyPatch,
    in_a_greenlet: bool,
    found: set[tuple[str, str, int]],
) -> None:
    """Its stack begins with what it was given, be that none of the user's. Here it is that of another thread."""
    current = SimpleNamespace(parent=object() if in_a_greenlet else None)
    monkeypatch.setitem(sys.modules, "greenlet", cast(ModuleType, SimpleNamespace(getcurrent=lambda: current)))
    other: dict[str, Any] = {"__name__": "theirs"}
    exec(IN_ANOTHER_STACK, other)
    monkeypatch.setitem(sys.modules, "turns", cast(ModuleType, SimpleNamespace(switch=other["switch"])))
    body = "import functools, shutil, turns\nturns.switch(functools.partial(shutil.copyfile, 'other/there', 'x'))"
    assert noted(body) == found
    other["asked"].put(None)


def test_lines_are_told_of_by_pythons_own_sockets(
    heard: Callable[[str], Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that gevent puts in their place let others go on, unfollowed."""

    def fail(*_: object) -> None:
        raise OSError("none of Python's")

    monkeypatch.setattr("socket.create_connection", fail)
    assert heard("os.sep").keys


@pytest.mark.parametrize(
    "body",
    [
        "Half('other/there')",
        "import weakref\ngone = weakref.proxy(Half('other/there'))\nlook(gone)",
        "import weakref\nlook((weakref.proxy(Half('other/there')),))",
    ],
    ids=["half made", "gone", "gone, in a tuple"],
)
def test_nothing_that_a_library_is_called_with_is_asked_what_it_is(
    noted: Callable[[str], set[tuple[str, str, int]]], monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """An error of what follows the lines would be the user's, and no line after it would be followed."""
    theirs: dict[str, Any] = {"__name__": "theirs"}
    exec(
        "class Half:\n  def __init__(self, path): self.path = path\n  def __fspath__(self): return self.path\n"
        "def look(one): return type(one)",
        theirs,
    )
    monkeypatch.setitem(sys.modules, "theirs", cast(ModuleType, SimpleNamespace(**theirs)))
    assert noted(f"from theirs import Half, look\n{body}\nopen('x', 'w').close()") == {("file", "x", 1)}


def test_a_pool_that_has_its_thread_followed_while_it_works_takes_nothing_from_the_user(
    noted: Callable[[str], set[tuple[str, str, int]]],
) -> None:
    body = (
        "import threading\nexec('import sys\\ndef quiet(): sys.settrace(None)', pool := {'__name__': 'theirs'})\n"
        "one = threading.Thread(target=pool['quiet'])\none.start()\none.join()"
    )
    assert noted(body) == set()


def changed_since_the_run_began(file: str | Path) -> None:
    """By what the run goes by, however long it took to begin: when it was told what to watch."""
    os.utime(file, ns=(os.stat(os.environ[LINES]).st_mtime_ns,) * 2)


def of_a_copy() -> None:
    """A consumer that is in nobody's way."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy("run/left", Path(folder) / "copy")
        Path(copy).read_text()
        sqlite3.connect(copy).close()


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (lambda: Path("left.log").read_text(), {("file", "left.log", 1)}),
        (lambda: sqlite3.connect("left.log").close(), {("file", "left.log", 1)}),
        (lambda: socket.socket().connect_ex(("127.0.0.1", 9)), {("connection", "127.0.0.1:9", 1)}),
        (lambda: Path("run/left").read_text(), set()),
        (lambda: Path("known.csv").read_text(), set()),
        (lambda: Path("cached.csv").write_text("1"), {("file", "cached.csv", 1)}),
        (lambda: Path("known.csv").open("a").close(), {("file", "known.csv", 1)}),
        (lambda: Path(shutil.copy("known.csv", "draft")).rename("cached.csv"), {("file", "cached.csv", 1)}),
        (lambda: Path(shutil.copy("known.csv", "run")).read_text(), set()),
        (of_a_copy, set()),
        (lambda: sqlite3.connect(":memory:").close(), set()),
        (lambda: None, set()),
    ],
    ids=[
        "file",
        "database",
        "connection",
        "in the run's folders",
        "there before",
        "what it keeps for the next time",
        "what it adds to",
        "what it names",
        "what it leaves in the run's folders",
        "a copy that goes",
        "memory",
        "nothing",
    ],
)
def test_what_a_consumer_reads_where_nobody_holds_it_is_an_effect_whoever_has_written_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[], Any], found: set[tuple[str, str, int]]
) -> None:
    (tmp_path / "run").mkdir()
    for name in ("left.log", "known.csv", "run/left"):
        (tmp_path / name).touch()
    os.utime(tmp_path / "known.csv", (0, 0))
    monkeypatch.chdir(tmp_path)
    watching = Watching(Whose((), (str(tmp_path / "code"),)), whole=True, folders=(str(tmp_path / "run"),))
    with listening(monkeypatch, tmp_path, watching) as said:
        changed_since_the_run_began("left.log")
        with consumed():
            read()
        Path("left.log").read_text()
    assert {(kind, target.removeprefix(f"{tmp_path}/"), times) for kind, target, times in said.effects} == found


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (["file://{here}/left%20over.log", "file:{here}/run/left"], {("file", "left over.log", 1)}),
        (["file:///{here}/known.csv", "s3a://bucket/left.log", "file:/nowhere/at/all"], set()),
    ],
    ids=["a log", "nothing new"],
)
def test_what_spark_reads_for_a_consumer_where_nobody_holds_it_is_an_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], found: set[tuple[str, str, int]]
) -> None:
    (tmp_path / "run").mkdir()
    for name in ("left over.log", "known.csv", "run/left"):
        (tmp_path / name).touch()
    os.utime(tmp_path / "known.csv", (0, 0))
    watching = Watching(Whose((), (str(tmp_path / "code"),)), whole=True, folders=(str(tmp_path / "run"),))
    with listening(monkeypatch, tmp_path, watching) as said:
        changed_since_the_run_began(tmp_path / "left over.log")
        with consumed() as read_by_spark:
            read_by_spark(lambda: [one.format(here=tmp_path) for one in files])
    assert {(kind, target.removeprefix(f"{tmp_path}/"), times) for kind, target, times in said.effects} == found
    monkeypatch.delenv(LINES)
    with consumed() as read_by_spark:
        read_by_spark(lambda: pytest.fail("nobody wants to know"))


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("signal.setitimer(signal.ITIMER_REAL, 60)", {("thread", "effects_of_theirs.work.<locals>.flush", 1)}),
        ("signal.alarm(60)", {("thread", "effects_of_theirs.work.<locals>.flush", 1)}),
        ("signal.alarm(60)\nsignal.alarm(0)", set()),
        ("signal.alarm(60)\nsignal.signal(signal.SIGALRM, signal.SIG_DFL)", set()),
    ],
)
def test_what_a_timer_of_the_process_is_to_call_once_the_users_code_is_left_is_an_effect(
    noted: Callable[[str], set[tuple[str, str, int]]], body: str, named: set[tuple[str, str, int]]
) -> None:
    """It interrupts whatever is executed then, be it for the next batch."""
    before = signal.getsignal(signal.SIGALRM)
    try:
        assert noted(f"def flush(*_): pass\nsignal.signal(signal.SIGALRM, flush)\n{body}") == named
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_what_the_jvm_calls_of_the_users_by_itself_is_one_of_these_where_it_has_effects(
    noted: Callable[[str], set[tuple[str, str, int]]],
) -> None:
    """As an object of theirs that they have given to `addSparkListener`."""
    calls = "exec('def call(work): work()', module := {'__name__': 'py4j.java_gateway'})"
    tells = "def onJobEnd(): open('run/done', 'w').close()"
    named = {("thread", "effects_of_theirs.work.<locals>.onJobEnd", 1)}
    assert noted(f"{calls}\n{tells}\nmodule['call'](onJobEnd)") == named
    through = "exec('def through(work): work()', pyspark := {'__name__': 'pyspark.sql.utils'})"
    body = f"{calls}\n{through}\n{tells}\nfrom functools import partial\n"
    assert noted(f"{body}module['call'](partial(pyspark['through'], onJobEnd))") == set()


@pytest.mark.parametrize(
    ("told", "does_then", "named"),
    [
        ("onQueryProgress", "open('run/done', 'w').close()", {("thread", "effects_of_theirs.work", 1)}),
        ("onQueryProgress", "import logging; len('x')", set()),
        ("onQueryStarted", "open('run/done', 'w').close()", set()),
    ],
)
def test_what_is_done_once_spark_has_told_of_a_batch_is_an_effect_since_no_batch_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, does_then: str, named: set[tuple[str, str, int]]
) -> None:
    """In a thread of Spark's, which tells the harness of its lines for the first time."""
    for name in ("code", "run"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    listener = ModuleType("pyspark.sql.streaming.listener")
    exec(f"def {told}(work): work()", listener.__dict__)
    work = does(tmp_path / "code", does_then)
    watching = Watching(Whose((), (str(tmp_path / "code"),)), whole=True, folders=(str(tmp_path / "run"),))
    with listening(monkeypatch, tmp_path, watching) as said, followed():
        calls = threading.Thread(target=getattr(listener, told), args=(work,))
        calls.start()
        calls.join(30)
    assert said.keys
    assert said.effects == named


@pytest.mark.parametrize("kind", ["w", "wb", "gzip"])
def test_what_is_in_the_memory_of_a_file_of_the_runs_is_written_once_it_is_over_where_that_is_to_be_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """So that the file layer tells of it: a death takes it away."""
    (tmp_path / "run").mkdir()
    watching = Watching(Whose((), (str(tmp_path / "code"),)), whole=True, folders=(str(tmp_path / "run"),))
    file = tmp_path / "run" / "rows"
    opened: Any = partial(gzip.open, file, "wb") if kind == "gzip" else partial(file.open, kind)
    with opened() as rows:
        rows.write("1" if kind == "w" else b"1")
        before = file.stat().st_size
        with listening(monkeypatch, tmp_path, replace(watching, whole=False)):
            written_out()
            assert file.stat().st_size == before
        with listening(monkeypatch, tmp_path, watching):
            written_out()
            assert file.stat().st_size > before


WITH_AN_END = (
    "import multiprocessing.util, shutil, weakref\nglobal kept\n"
    "class Writer:\n    def __del__(self): pass\nclass Plain: pass\ndef flush(*_): pass\n"
    "def rows():\n    try: yield 1\n    finally: pass\n    yield 2\n"
)
OF_WORK = "effects_of_theirs.work.<locals>."


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("kept = Writer()", f"{OF_WORK}Writer.__del__"),
        (
            "kept = Plain()\nweakref.finalize(kept, shutil.copyfile, 'x', 'y').atexit = False",
            "shutil.copyfile",
        ),
        ("kept = Plain()\nkept.it = weakref.ref(kept, flush)", f"{OF_WORK}flush"),
        ("kept = rows()\nnext(kept)", f"{OF_WORK}rows"),
        ("kept = multiprocessing.util.Finalize(None, flush, exitpriority=1)", f"{OF_WORK}flush"),
        ("one = Writer()", None),
        ("one = Plain()\nweakref.finalize(one, flush)", None),
        ("kept = Plain()\nweakref.finalize(kept, flush).detach()", None),
        ("kept = rows()\nlist(kept)", None),
        ("kept = rows()\nnext(kept)\nnext(kept)", None),
        ("kept = rows()", None),
        ("kept = Plain()\nkept.it = weakref.ref(kept)", None),
        ("kept = tempfile.TemporaryDirectory(dir='run')", None),
    ],
)
@pytest.mark.parametrize(
    ("worker", "says"),
    [("", ""), ("pyspark.worker", "report_times"), ("pyspark.sql.worker.python_streaming_sink_runner", "write_int")],
    ids=["a run", "a task", "a commit"],
)
def test_what_is_called_once_nobody_refers_to_something_is_an_effect_where_that_lives_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker: str, says: str, body: str, named: str | None
) -> None:
    """A death takes it away, and in a task Spark has counted the rows by then."""
    for name in ("code", "run"):
        (tmp_path / name).mkdir()
    (tmp_path / "x").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("multiprocessing.util._finalizer_registry", {})
    runs = ModuleType(worker)
    exec(
        f"def {says or 'nothing'}(): pass\ndef main(work):\n    given = work()\n    {says or 'nothing'}()",
        runs.__dict__,
    )
    watching = Watching(Whose((), (str(tmp_path / "code"),)), whole=True, folders=(str(tmp_path / "run"),))
    work = does(tmp_path / "code", f"{WITH_AN_END}{body}")
    try:
        with listening(monkeypatch, tmp_path, watching) as said, followed():
            if not worker:
                work()
            else:
                # Spark has let go of all of it when it has said that the task is over.
                runs.main(lambda: [work(), work.__globals__.pop("kept", None)])
        assert {one[:2] for one in said.effects} == (set() if named is None else {("exit", named)})
    finally:
        work.__globals__.clear()


def test_a_connection_of_a_library_in_c_is_noted(noted: Callable[[str], set[tuple[str, str, int]]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        address = repr(struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + bytes([127, 0, 0, 1]) + bytes(8))
        body = f"import ctypes\nlibc = ctypes.CDLL(None)\nend = libc.socket(2, 1, 0)\nlibc.connect(end, {address}, 16)"
        assert noted(f"{body}\nos.close(end)") == {("connection", f"127.0.0.1:{port}", 1)}


def test_shared_memory_outlives_who_writes_it(noted: Callable[[str], set[tuple[str, str, int]]]) -> None:
    name = f"streamproof-test-{os.getpid()}"
    body = f"memory = SharedMemory({name!r}, create=True, size=8)\nmemory.close()"
    try:
        found = noted(f"from multiprocessing.shared_memory import SharedMemory\n{body}")
        assert ("file", f"/dev/shm/{name}") in {(kind, target) for kind, target, _ in found}
        assert noted(f"open('/dev/shm/{name}', 'a').close()") == {("file", f"/dev/shm/{name}", 1)}
    finally:
        shared_memory.SharedMemory(name).unlink()


def test_a_process_that_begins_afresh_is_an_effect(noted: Callable[[str], set[tuple[str, str, int]]]) -> None:
    body = "from multiprocessing import get_context\nbegun = get_context('spawn').Process(target=os.getpid)\n"
    found = noted(f"{body}begun.start()\nbegun.join()")
    assert ("process", sys.executable) in {(kind, target) for kind, target, _ in found}


def test_what_a_module_of_theirs_opens_when_it_is_imported_is_an_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "opens_at_once.py").write_text(f"log = open({str(tmp_path / 'log')!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path / "code")
    watching = Watching(Whose((), (str(tmp_path / "code"),)), whole=True)
    with listening(monkeypatch, tmp_path, watching) as said, noticed():
        importlib.import_module("opens_at_once").log.close()
    assert said.keys == []
    assert {(kind, target) for kind, target, _ in said.effects} == {("file", str(tmp_path / "log"))}


@pytest.mark.parametrize(
    ("opens", "kinds"),
    [
        ("kept = open('x', 'w')", {"file"}),
        ("kept = sqlite3.connect('x')", {"file"}),
        ("kept = socket.create_connection(('localhost', {port}))", {"connection"}),
        ("open('x', 'w').close()", set()),
        ("socket.create_connection(('localhost', {port})).close()", set()),
        ("import logging\nkept = logging.FileHandler('x')", set()),
        ("kept = open('run/x', 'w')", set()),
    ],
)
def test_what_a_module_of_somebody_elses_keeps_open_from_its_import_on_is_an_effect(
    heard: Callable[[str], Said], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opens: str, kinds: set[str]
) -> None:
    """The sink's rows may go there: nothing tells of that."""
    with socket.create_server(("localhost", 0)) as server:
        opens = opens.format(port=server.getsockname()[1])
        (tmp_path / "opens_when_imported.py").write_text(f"import socket, sqlite3\n{opens}\n")
        monkeypatch.syspath_prepend(tmp_path)
        try:
            assert {kind for kind, _, _ in heard("import opens_when_imported").effects} == kinds
        finally:
            kept = getattr(sys.modules.pop("opens_when_imported"), "kept", None)
            if kept is not None:
                kept.close()


def test_a_temporary_file_that_stays_is_an_effect_which_every_run_calls_the_same(
    noted: Callable[[str], set[tuple[str, str, int]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "code"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert noted("for _ in range(2): tempfile.mkstemp('.csv')") == {("file", "$TMPDIR/tmp….csv", 2)}


@pytest.mark.parametrize(
    "body",
    [
        "open('run/in', 'w').close()",
        "open(__file__).close()",
        "sqlite3.connect('run/x.db').execute('create table t (a)')",
        "sqlite3.connect(':memory:').execute('create table t (a)')",
        "open('tmp', 'w').close()\nos.remove('tmp')",
        "with tempfile.NamedTemporaryFile('w') as file: file.write('x')",
        "with tempfile.TemporaryDirectory() as folder: open(folder + '/x', 'w').close()",
        "open(os.devnull, 'w').close()",
        "logger = logging.getLogger('x')\nlogger.addHandler(logging.FileHandler('x.log'))\nlogger.warning('x')",
        "sys.dont_write_bytecode = False\nsys.modules.pop('colorsys', None)\nimport colorsys",
        "from pyspark.serializers import write_int\nimport pyspark.util\nprint('x')",
    ],
)
def test_what_does_not_last_or_is_nobodys_is_no_effect(
    noted: Callable[[str], set[tuple[str, str, int]]], body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    assert noted(body) == set()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("open('draft', 'w').close()\nos.rename('draft', 'run/whole')", {"draft"}),
        ("os.mkdir('parts')\nos.rmdir('parts')", {"parts"}),
        ("with tempfile.NamedTemporaryFile('w') as file: file.write('x')", set()),
        ("with tempfile.TemporaryDirectory() as folder: open(folder + '/x', 'w').close()", set()),
        (
            "folder = os.open('run', os.O_RDONLY)\nos.close(os.open('x', os.O_WRONLY | os.O_CREAT, dir_fd=folder))\n"
            "os.rename('x', 'y', src_dir_fd=folder, dst_dir_fd=folder)\nos.close(folder)",
            set(),
        ),
    ],
)
def test_a_file_that_is_gone_again_is_one_in_passing_where_another_run_may_find_it(
    heard: Callable[[str], Said], body: str, found: set[str], tmp_path: Path
) -> None:
    said = heard(body)
    assert said.effects == set()
    assert said.passing == {str(tmp_path / name) for name in found}


@pytest.mark.parametrize(
    ("module", "found"),
    [("pyspark.pandas.frame", {("file", "x", 1)}), ("pyspark.sql.dataframe", set())],
    ids=["pandas on Spark", "Spark itself"],
)
def test_what_pandas_on_spark_writes_by_python_is_an_effect(
    noted: Callable[[str], set[tuple[str, str, int]]], module: str, found: set[tuple[str, str, int]]
) -> None:
    """Where the user's code says: no node of Spark's writes it."""
    assert (
        noted(f"exec(compile(\"open('x', 'w').close()\", '<{module}>', 'exec'), {{'__name__': '{module}'}})") == found
    )


def test_a_program_that_spark_has_rows_go_through_is_an_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Callable[[str], Said]
) -> None:
    said = heard(
        "from pyspark import RDD\nRDD.pipe(type('R', (), {'mapPartitions': lambda _, f: list(f(['x']))})(), 'cat')"
    )
    assert [(one.kind, one.target, one.place) for noted in said.noted for one in noted.effects] == [
        ("process", "cat", "RDD.pipe")
    ]


def test_what_spark_does_for_the_users_code_is_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: Callable[[str], set[tuple[str, str, int]]]
) -> None:
    module = ModuleType("pyspark.made_up")
    exec("def collect(path):\n    open(path, 'w').close()\n", module.__dict__)
    monkeypatch.setitem(sys.modules, "pyspark.made_up", module)
    assert noted("from pyspark.made_up import collect\ncollect('spilled')") == set()
    assert (tmp_path / "spilled").exists()


@pytest.mark.parametrize("reads", ["open('done.log').read()", "pathlib.Path('done.log').read_text()"])
def test_a_log_that_the_users_code_reads_again_is_an_effect(
    noted: Callable[[str], set[tuple[str, str, int]]], reads: str
) -> None:
    """It may go by what it says there."""
    logs = "logger = logging.getLogger('done')\nlogger.addHandler(logging.FileHandler('done.log'))\nlogger.error('3')\n"
    assert noted(f"import pathlib\n{logs}{reads}") == {("file", "done.log", 1)}
    logging.getLogger("done").handlers.pop().close()


def test_a_file_whose_path_is_handed_to_the_jvm_is_an_effect_where_it_is_another_one_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: Callable[[str], set[tuple[str, str, int]]]
) -> None:
    """`jvm.java.io.File(path)` writes nothing, and what is then asked of it has no path."""
    module = ModuleType("py4j.made_up")
    exec(
        "import ctypes, os\nclass File:\n    def __init__(self, *given):\n        self.path = given[0]\n"
        "    def create(self):\n        os.close(ctypes.CDLL(None).creat(self.path.encode(), 0o600))\n",
        module.__dict__,
    )
    monkeypatch.setitem(sys.modules, "py4j.made_up", module)
    made, asked = (str(tmp_path / name) for name in ("made", "asked"))
    body = f"from py4j.made_up import File\nFile({asked!r})\nFile({made!r}).create()"
    assert noted(body) == {("file", "made", 1)}


def test_a_uri_that_the_jvm_is_handed_leads_to_a_file_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: Callable[[str], set[tuple[str, str, int]]]
) -> None:
    module = ModuleType("py4j.made_up")
    exec(
        "import ctypes, os\ndef write(uri):\n"
        "    os.close(ctypes.CDLL(None).creat(uri.removeprefix('file:').encode(), 0o600))\n",
        module.__dict__,
    )
    monkeypatch.setitem(sys.modules, "py4j.made_up", module)
    assert noted(f"from py4j.made_up import write\nwrite('file:{tmp_path}/made')") == {("file", "made", 1)}


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("JavaClass('java.lang.ProcessBuilder', client)('true')", ("process", "java.lang.ProcessBuilder")),
        ("JavaMember('exec', None, 'o7', client)('true')", ("process", "exec")),
        ("JavaClass('java.lang.Thread', client)(None)", ("thread", "java.lang.Thread")),
        ("JavaMember('foreachPartitionAsync', None, 'o7', client)(None)", ("thread", "foreachPartitionAsync")),
        (
            "JavaClass('org.apache.spark.rdd.PipedRDD', client)(None, 'cat')",
            ("process", "org.apache.spark.rdd.PipedRDD"),
        ),
        ("JavaMember('pipe', None, 'o7', client)('cat')", ("process", "pipe")),
        (
            "getattr(JavaClass('scala.sys.process.Process$', client), 'MODULE$')",
            ("process", "scala.sys.process.Process"),
        ),
        ("asked(client)", ("process", "java.lang.ProcessBuilder")),
        (
            "JavaMember('newFixedThreadPool', None, 'z:java.util.concurrent.Executors', client)(1)",
            ("thread", "java.util.concurrent.Executors.newFixedThreadPool"),
        ),
        ("JavaClass('java.net.Socket', client)('store', 1)", ("connection", "java.net.Socket")),
        ("JavaMember('openStream', None, 'o7', client)()", ("connection", "openStream")),
        (
            "JavaMember('newHttpClient', None, 'z:java.net.http.HttpClient', client)()",
            ("connection", "java.net.http.HttpClient.newHttpClient"),
        ),
        (
            "JavaMember('forName', None, 'z:java.lang.Class', client)('java.lang.ProcessBuilder')",
            ("process", "java.lang.ProcessBuilder"),
        ),
        (
            "JavaMember('loadClass', None, 'o7', client)('java.net.http.HttpClient')",
            ("connection", "java.net.http.HttpClient"),
        ),
        ("JavaMember('getMethod', None, 'o7', client)('exec', None)", ("process", "exec")),
        ("JavaMember('forName', None, 'z:java.lang.Class', client)('java.util.HashMap')", None),
        ("JavaMember('put', None, 'o7', client)('exec', 'java.lang.Thread')", None),
        ("JavaMember('sleep', None, 'z:java.lang.Thread', client)(1)", None),
        ("JavaMember('currentTimeMillis', None, 'z:java.lang.System', client)()", None),
        ("JavaClass('java.util.HashMap', client)()", None),
        ("JavaMember('put', None, 'o7', client)('a', 'b')", None),
    ],
)
def test_programs_threads_and_connections_that_the_jvm_is_asked_for_are_effects(
    monkeypatch: pytest.MonkeyPatch,
    noted: Callable[[str], set[tuple[str, str, int]]],
    asked: str,
    named: tuple[str, str] | None,
) -> None:
    client = SimpleNamespace(gateway_property=SimpleNamespace(pool=None), converters=None, send_command=lambda *_: "yv")
    monkeypatch.setitem(sys.modules, "the_jvms", cast(Any, SimpleNamespace(client=client)))
    # As `pyspark.ml.wrapper` asks for whoever calls it.
    wrapper = ModuleType("pyspark.made_up")
    asks = "def asked(client):\n    return JavaClass('java.lang.ProcessBuilder', client)()"
    wraps = f"from py4j.java_gateway import JavaClass\n{asks}"
    exec(wraps, wrapper.__dict__)
    monkeypatch.setitem(sys.modules, "pyspark.made_up", wrapper)
    names = "from py4j.java_gateway import JavaClass, JavaMember\nfrom the_jvms import client\n"
    body = f"{names}from pyspark.made_up import asked\n{asked}"
    assert noted(body) == (set() if named is None else {(*named, 1)})


def test_what_others_do_meanwhile_is_not_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watching = Watching(Whose((), (str(tmp_path / "code"),)), whole=True)
    with listening(monkeypatch, tmp_path, watching) as said, followed():
        (tmp_path / "mine").write_text("x")
        subprocess.run(["true"], check=True)
        sqlite3.connect(tmp_path / "x.db").close()
        logging.getLogger("x").info("y")
        socket.socket().close()
        os.mkdir(tmp_path / "made")
        tempfile.mkdtemp(dir=tmp_path)
    assert said.noted == []


def test_a_connection_that_was_made_before_effects_count_is_nobodys_when_it_is_found(audit_hooks: object) -> None:
    """As one that a thread of Spark's makes while it is looked around for the first time."""
    effects = Effects(Watching(whole=True), ("127.0.0.1", 0))
    effects.install()
    effects.begin("its import")
    effects.active = False
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        effects.active = True
        assert effects.taken() == []
        effects.active = False


# What it costs

SLOWED = Path(__file__).parents[1] / "programs" / "slowed_by_lines.py"
A_BATCH = 100.0
"""Milliseconds that a batch of Spark's with a UDF takes at least."""


def test_a_udf_of_a_thousand_rows_is_slowed_by_less_than_a_batch_takes_and_by_little_where_one_line_is_armed() -> None:
    # In a process of its own: hooks of other tests cannot be taken away.
    done = subprocess.run([sys.executable, str(SLOWED)], check=True, capture_output=True, timeout=60)
    taken = json.loads(done.stdout)
    slower = {name: milliseconds - taken["plain"] for name, milliseconds in taken.items()}
    assert slower["whole"] < A_BATCH, taken
    assert slower["armed"] < A_BATCH / 4, taken
    assert slower["elsewhere"] < A_BATCH / 10, taken
