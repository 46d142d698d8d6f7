"""A source as users write it, in Python, and beside it a twin that gives what it has given only once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.query_parts import as_it_comes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from streamproof.harness.contracts.query import RunFolders

LINES = 20
BATCH = 10


class Range(InputPartition):
    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class Numbered(DataSourceStreamReader):
    """So many lines, a batch of them at a time."""

    def __init__(self, options: dict[str, str]) -> None:
        self._at = 0
        self.taken = Path(options["taken"])

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    # As it is called before Spark 4.3, and still may be.
    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
        self._at = min(self._at + BATCH, LINES)
        return {"at": self._at}

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        return [Range(start["at"], end["at"])]

    def read(self, partition: Any) -> Iterator[tuple[int, str]]:
        for number in range(partition.start, partition.end):
            yield number, f"line {number}"


class TakenOnce(Numbered):
    """Wrong: as of a queue that forgets what somebody has taken, whether or not it was done with."""

    def read(self, partition: Any) -> Iterator[tuple[int, str]]:
        for number, line in super().read(partition):
            try:
                (self.taken / str(number)).touch(exist_ok=False)
            except FileExistsError:
                continue
            yield number, line


class TakenWhenPlanned(Numbered):
    """Wrong in the same way, where the batch is planned."""

    def partitions(self, start: Any, end: Any) -> list[InputPartition]:
        try:
            (self.taken / str(end["at"])).touch(exist_ok=False)
        except FileExistsError:
            return []
        return super().partitions(start, end)


def _reading(reader: type[Numbered]) -> Callable[[SparkSession, RunFolders], DataFrame]:
    class Lines(DataSource):
        @classmethod
        def name(cls) -> str:
            return reader.__name__.lower()

        def schema(self) -> str:
            return "seq LONG, value STRING"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return reader(self.options)

    def source(spark: SparkSession, folders: RunFolders) -> DataFrame:
        spark.dataSource.register(Lines)
        # Where the run keeps it.
        taken = folders.sink / "taken"
        taken.mkdir(parents=True, exist_ok=True)
        return spark.readStream.format(Lines.name()).option("taken", str(taken)).load()

    return source


def _write_in_two(rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
    """Wrong: in one call, the mark that a batch is written is committed before the batch."""
    file = str(folders.sink / "lines.db")
    with closing(sqlite3.connect(file)) as made:
        made.executescript("create table if not exists done (batch); create table if not exists lines (seq, value);")

    def write(frame: DataFrame, batch: int) -> None:
        lines = "".join(f"insert into lines values ({row.seq}, '{row.value}');" for row in frame.collect())
        with closing(sqlite3.connect(file)) as db:
            db.execute("pragma synchronous = off")
            if not db.execute("select 1 from done where batch = ?", (batch,)).fetchone():
                db.executescript(f"begin; insert into done values ({batch}); commit; begin; {lines} commit;")

    return rows.writeStream.foreachBatch(write)


def _read_lines(spark: SparkSession, folders: RunFolders) -> DataFrame:
    file, lines = folders.sink / "lines.db", []
    if file.exists():
        with closing(sqlite3.connect(file)) as db:
            lines = db.execute("select seq, value from lines").fetchall()
    return spark.createDataFrame(lines, "seq LONG, value STRING")


numbered = Query(as_it_comes, name="numbered", key=("seq",), source=_reading(Numbered))
numbered_in_two = Query(
    as_it_comes,
    name="numbered-in-two",
    key=("seq",),
    source=_reading(Numbered),
    write=_write_in_two,
    read=_read_lines,
)
taken_when_planned = Query(as_it_comes, name="taken-when-planned", key=("seq",), source=_reading(TakenWhenPlanned))
taken_once = Query(as_it_comes, name="taken-once", key=("seq",), source=_reading(TakenOnce))
