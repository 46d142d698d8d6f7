"""A sink that may lose a little: it keeps its last rows in memory, and what is there dies with its process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...harness.contracts.query import Query, RunFolders
from ...harness.contracts.query_parts import as_it_comes
from . import sqlite
from .inputs import BATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

HELD: Final = 50
"""So many rows are in memory alone."""
QUIET: Final = 10
"""A batch of fewer rows than this says that nothing more comes for a while, and then all is written."""
_TABLE = "create table if not exists tail (seq integer primary key, value text)"


class Tail:
    """Writes rows when so many have come after them. What comes again is known by its number."""

    def __init__(self, folders: RunFolders) -> None:
        self._folder = folders.sink
        self._held: list[Any] = []

    def take(self, frame: DataFrame, batch: int) -> None:
        rows = sorted((row.seq, row.value) for row in frame.select("seq", "value").collect())
        self._held += rows
        due = len(self._held) if len(rows) < QUIET else max(0, len(self._held) - HELD)
        with sqlite.transaction(self._folder) as database:
            database.execute(_TABLE)
            database.executemany("insert or ignore into tail values (?, ?)", self._held[:due])
        del self._held[:due]


def write_tail(rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
    return rows.writeStream.foreachBatch(Tail(folders).take)


def read_tail(spark: SparkSession, folders: RunFolders) -> DataFrame:
    with sqlite.transaction(folders.sink) as database:
        database.execute(_TABLE)
        rows = database.execute("select seq, value from tail").fetchall()
    return spark.createDataFrame(rows, sqlite.LINE)


loses_its_tail = Query(
    as_it_comes, name="loses-its-tail", key=("seq",), write=write_tail, read=read_tail, batch_events=BATCH
)
