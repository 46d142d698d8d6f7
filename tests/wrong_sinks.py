"""Sinks as users write them, each with a fault that only a crash shows, and beside it its twin without the fault."""

from __future__ import annotations

import ctypes
import functools
import json
import mmap
import os
import shutil
import sqlite3
import stat
import struct
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage

from line_sinks import log_of
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.query_parts import as_it_comes, foreach_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from streamproof.harness.contracts.query import RunFolders

SCHEMA = "seq LONG, value STRING"
Rows = Sequence[tuple[int, str]]


def rows_of(frame: DataFrame) -> Rows:
    return [(row.seq, row.value) for row in frame.select("seq", "value").collect()]


def write_lines(file: Path, rows: Rows) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def read_lines(files: Iterable[Path]) -> list[Any]:
    return [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]


# Rows first, and then a file that says so


def append_and_mark(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    marker = folders.sink / f"{batch}.done"
    if marker.exists():
        return
    with open(folders.sink / "rows.json", "a") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows_of(frame))
    marker.touch()


def write_by_batch(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    draft = folders.sink / f".{batch}.draft"
    write_lines(draft, rows_of(frame))
    draft.rename(folders.sink / f"{batch}.json")


def lines(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.createDataFrame(read_lines(folders.sink.glob("*.json")), SCHEMA)


# A file of rows, and a list of those that count


def publish_list_first(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    publish(frame, batch, folders, [f"{batch}.rows", "list"][::-1])


def publish_list_last(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    publish(frame, batch, folders, [f"{batch}.rows", "list"])


def publish(frame: DataFrame, batch: int, folders: RunFolders, order: Sequence[str]) -> None:
    listed = listed_in(folders.sink)
    if f"{batch}.rows" in listed:
        return
    write_lines(folders.sink / f"{batch}.rows.draft", rows_of(frame))
    (folders.sink / "list.draft").write_text("\n".join([*listed, f"{batch}.rows"]))
    for name in order:
        os.rename(folders.sink / f"{name}.draft", folders.sink / name)


def listed_in(folder: Path) -> list[str]:
    file = folder / "list"
    return file.read_text().splitlines() if file.exists() else []


def listed_lines(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.createDataFrame(read_lines(folders.sink / name for name in listed_in(folders.sink)), SCHEMA)


# A folder a batch, with _SUCCESS


def succeed_first(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    folder = folders.sink / f"batch={batch}"
    folder.mkdir(exist_ok=True)
    if (folder / "_SUCCESS").exists():
        return
    (folder / "_SUCCESS").touch()
    write_lines(folder / "part-0.json", rows_of(frame))


def succeed_last(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    folder = folders.sink / f"batch={batch}"
    folder.mkdir(exist_ok=True)
    if (folder / "_SUCCESS").exists():
        return
    write_lines(folder / "part-0.json", rows_of(frame))
    (folder / "_SUCCESS").touch()


def successful_lines(spark: SparkSession, folders: RunFolders) -> DataFrame:
    done = [file.parent / "part-0.json" for file in folders.sink.glob("*/_SUCCESS")]
    return spark.createDataFrame(read_lines(done), SCHEMA)


# A folder a batch, of which the permissions say that it is done

SEALED = 0o500


def seal_first(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    folder, rows = folders.sink / f"batch={batch}", rows_of(frame)
    folder.mkdir(exist_ok=True)
    if is_sealed(folder):
        return
    folder.chmod(SEALED)
    write_lines(folder / "part-0.json", rows)


def seal_last(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    folder, rows = folders.sink / f"batch={batch}", rows_of(frame)
    folder.mkdir(exist_ok=True)
    if is_sealed(folder):
        return
    write_lines(folder / "part-0.json", rows)
    folder.chmod(SEALED)


def is_sealed(folder: Path) -> bool:
    return stat.S_IMODE(folder.stat().st_mode) == SEALED


def sealed_lines(spark: SparkSession, folders: RunFolders) -> DataFrame:
    done = [folder / "part-0.json" for folder in folders.sink.glob("batch=*") if is_sealed(folder)]
    return spark.createDataFrame(read_lines(done), SCHEMA)


# All batches in one folder, in whose place a copy comes that has one more


def swap_first(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    rows, stage, live = rows_of(frame), folders.sink / "stage", folders.sink / "live"
    if not stage_with(batch, stage, live):
        return
    exchange(stage, live)
    write_lines(live / f"{batch}.json", rows)


def swap_last(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    rows, stage, live = rows_of(frame), folders.sink / "stage", folders.sink / "live"
    if not stage_with(batch, stage, live):
        return
    write_lines(stage / f"{batch}.json", rows)
    exchange(stage, live)


def stage_with(batch: int, stage: Path, live: Path) -> bool:
    """Whether the batch is not there yet: then the copy of what is there has its mark."""
    live.mkdir(exist_ok=True)
    if (live / f"{batch}.done").exists():
        return False
    shutil.rmtree(stage, ignore_errors=True)
    shutil.copytree(live, stage)
    (stage / f"{batch}.done").touch()
    return True


def exchange(one: Path, other: Path) -> None:
    """The two names change places, in one step of Linux's."""
    library = ctypes.CDLL(None, use_errno=True)
    at_cwd, exchanged = -100, 2
    if library.renameat2(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchanged):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(one))


def live_lines(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.createDataFrame(read_lines((folders.sink / "live").glob("*.json")), SCHEMA)


# A data source's writer


class Written(WriterCommitMessage):
    def __init__(self, rows: Rows) -> None:
        self.rows = rows


class VisibleAtOnce(DataSourceStreamWriter):
    """What a task writes can be read before the batch is committed."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def write(self, iterator: Iterator[Any]) -> Written:
        rows = [(row.seq, row.value) for row in iterator]
        if rows:
            write_lines(self.folder / f"{uuid.uuid4()}.json", rows)
        return Written(())

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        pass

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        pass


class VisibleWithItsCommit(DataSourceStreamWriter):
    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def write(self, iterator: Iterator[Any]) -> Written:
        return Written([(row.seq, row.value) for row in iterator])

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        rows = [row for message in messages if message is not None for row in message.rows]
        draft = self.folder / f".{batchId}.draft"
        write_lines(draft, rows)
        draft.rename(self.folder / f"{batchId}.json")

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        pass


class TellsOutside(VisibleWithItsCommit):
    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        with log_of().open("a") as log:
            log.write(f"{batchId}\n")
        super().commit(messages, batchId)


class AtOnce(DataSource):
    @classmethod
    def name(cls) -> str:
        return "visible_at_once"

    def schema(self) -> str:
        return SCHEMA

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return VisibleAtOnce(self.options["path"])


class WithItsCommit(AtOnce):
    @classmethod
    def name(cls) -> str:
        return "visible_with_its_commit"

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return VisibleWithItsCommit(self.options["path"])


class TellingWithItsCommit(AtOnce):
    @classmethod
    def name(cls) -> str:
        return "telling_with_its_commit"

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return TellsOutside(self.options["path"])


def to_at_once(frame: DataFrame, folders: RunFolders) -> Any:
    return to_source(AtOnce, frame, folders)


def to_with_its_commit(frame: DataFrame, folders: RunFolders) -> Any:
    return to_source(WithItsCommit, frame, folders)


def to_telling(frame: DataFrame, folders: RunFolders) -> Any:
    return to_source(TellingWithItsCommit, frame, folders)


def to_source(source: type[DataSource], frame: DataFrame, folders: RunFolders) -> Any:
    frame.sparkSession.dataSource.register(source)
    return frame.select("seq", "value").writeStream.format(source.name()).option("path", str(folders.sink))


# A table of counts


def connected(folder: Path) -> sqlite3.Connection:
    con = sqlite3.connect(folder / "counts.db", timeout=30)
    con.execute("create table if not exists counts (size integer primary key, n integer)")
    con.execute("create table if not exists batches (n integer primary key)")
    return con


def add(con: sqlite3.Connection, frame: DataFrame) -> None:
    counts = Counter(len(value) % 5 for _, value in rows_of(frame))
    con.executemany(
        "insert into counts values (?, ?) on conflict (size) do update set n = n + excluded.n", sorted(counts.items())
    )


def add_each_time(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    with closing(connected(folders.sink)) as con, con:
        add(con, frame)


def add_once(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    with closing(connected(folders.sink)) as con, con:
        if con.execute("insert or ignore into batches values (?)", (batch,)).rowcount:
            add(con, frame)


def add_without_journal(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Takes the journal that a crash has left for a lock, which keeps SQLite from taking back what is half written."""
    (folders.sink / "counts.db-journal").unlink(missing_ok=True)
    add_once(frame, batch, folders)


def counts(spark: SparkSession, folders: RunFolders) -> DataFrame:
    with closing(connected(folders.sink)) as con:
        rows: list[Any] = con.execute("select size, n from counts").fetchall()
    return spark.createDataFrame(rows, "size LONG, n LONG")


# The same in a file that is mapped into memory, where the number of the batch comes first

NUMBERS = struct.Struct("<6q")


def add_in_map(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    file = folders.sink / "counts.map"
    if not file.exists():
        draft = file.with_suffix(".draft")
        draft.write_bytes(bytes(NUMBERS.size))
        draft.rename(file)
    with open(file, "r+b") as opened, mmap.mmap(opened.fileno(), 0) as memory:
        done, *numbers = NUMBERS.unpack(memory)
        if batch < done:
            return
        NUMBERS.pack_into(memory, 0, batch + 1, *numbers)
        for _, value in rows_of(frame):
            numbers[len(value) % 5] += 1
        NUMBERS.pack_into(memory, 0, batch + 1, *numbers)


def mapped_counts(spark: SparkSession, folders: RunFolders) -> DataFrame:
    _, *numbers = NUMBERS.unpack((folders.sink / "counts.map").read_bytes())
    return spark.createDataFrame(list(enumerate(numbers)), "size LONG, n LONG")


# A byte for each batch, in a map that Arrow makes and that stays, before the rows


@functools.cache
def arrows_map(file: Path) -> pa.MemoryMappedFile:
    if not file.exists():
        draft = file.with_suffix(".draft")
        draft.write_bytes(bytes(64))
        draft.rename(file)
    return pa.memory_map(str(file), "r+b")


def mark_in_arrows_map(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    done = arrows_map(folders.sink / "done.map")
    done.seek(batch)
    if done.read(1) == b"1":
        return
    done.seek(batch)
    done.write(b"1")
    write_by_batch(frame, batch, folders)


# A file of each task, the last of which says that all are there; or the driver does, when they are


def write_part(folder: Path, batch: int, says: bool, rows: Iterable[Row]) -> None:
    part = partition_of_task()
    draft = folder / f".{batch}-{part}.draft"
    write_lines(draft, [(row.seq, row.value) for row in rows])
    draft.rename(folder / f"{batch}-{part}.json")
    if says and part == PARTS - 1:
        (folder / f"{batch}.done").touch()


def partition_of_task() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def write_parts(frame: DataFrame, batch: int, folders: RunFolders, last_says: bool) -> None:
    marker = folders.sink / f"{batch}.done"
    if not marker.exists():
        write = functools.partial(write_part, folders.sink, batch, last_says)
        frame.repartition(PARTS).foreachPartition(write)
        marker.touch()


def write_parts_the_last_says(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    write_parts(frame, batch, folders, True)


def write_parts_the_driver_says(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    write_parts(frame, batch, folders, False)


PARTS = 2
BATCH_EVENTS = 50
appends = foreach_batch(append_and_mark, lines, batch_events=BATCH_EVENTS)
by_batch = foreach_batch(write_by_batch, lines, batch_events=BATCH_EVENTS)
list_first = foreach_batch(publish_list_first, listed_lines, batch_events=BATCH_EVENTS)
list_last = foreach_batch(publish_list_last, listed_lines, batch_events=BATCH_EVENTS)
success_first = foreach_batch(succeed_first, successful_lines, batch_events=BATCH_EVENTS)
success_last = foreach_batch(succeed_last, successful_lines, batch_events=BATCH_EVENTS)
seals_first = foreach_batch(seal_first, sealed_lines, batch_events=BATCH_EVENTS)
seals_last = foreach_batch(seal_last, sealed_lines, batch_events=BATCH_EVENTS)
last_part_says = foreach_batch(write_parts_the_last_says, lines, batch_events=BATCH_EVENTS)
driver_says = foreach_batch(write_parts_the_driver_says, lines, batch_events=BATCH_EVENTS)
swaps_first = foreach_batch(swap_first, live_lines, batch_events=BATCH_EVENTS)
swaps_last = foreach_batch(swap_last, live_lines, batch_events=BATCH_EVENTS)
at_once = Query(as_it_comes, "at-once", write=to_at_once, read=lines, batch_events=BATCH_EVENTS)
with_its_commit = Query(as_it_comes, "with-its-commit", write=to_with_its_commit, read=lines, batch_events=BATCH_EVENTS)
tells_outside = Query(as_it_comes, "tells-outside", write=to_telling, read=lines, batch_events=BATCH_EVENTS)
adds = foreach_batch(add_each_time, counts, key=("size",), batch_events=BATCH_EVENTS)
adds_without_journal = foreach_batch(add_without_journal, counts, key=("size",), batch_events=BATCH_EVENTS)
adds_in_map = foreach_batch(add_in_map, mapped_counts, key=("size",), batch_events=BATCH_EVENTS)
marks_in_arrows_map = foreach_batch(mark_in_arrows_map, lines, batch_events=BATCH_EVENTS)
adds_once = foreach_batch(add_once, counts, key=("size",), batch_events=BATCH_EVENTS)
