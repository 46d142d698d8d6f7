"""Sinks that are a foreachBatch function: two that keep a batch's rows together with its id, or should, and what goes
wrong with others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...harness.contracts.query import Query, RunFolders
from ...harness.contracts.query_parts import as_it_comes, foreach_batch
from . import files, sqlite
from .inputs import BATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

LULL = 10
"""A batch of fewer rows than this says that the stream is quiet."""

_written: set[tuple[str, int]] = set()
"""The batches that this process has written, by sink. A new process knows of none: that is what is wrong with it."""


def append_blindly(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    frame.select("seq", "key", "value").write.mode("append").parquet(str(folders.sink / "rows"))


def append_with_id(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """The batch's id and its rows in one transaction: a batch that comes again is known."""
    rows = frame.select("seq", "value").collect()
    with sqlite.transaction(folders.sink) as database:
        if sqlite.is_new(database, batch):
            sqlite.add_lines(database, rows)


def append_after_id(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """The id in a transaction of its own, before the rows: who dies in between has a batch that counts as written."""
    with sqlite.transaction(folders.sink) as database:
        if not sqlite.is_new(database, batch):
            return
    rows = frame.select("seq", "value").collect()
    with sqlite.transaction(folders.sink) as database:
        sqlite.add_lines(database, rows)


def append_unless_remembered(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Knows a batch that comes again only as long as its process lives."""
    written = str(folders.sink), batch
    if written in _written:
        return
    rows = frame.select("seq", "value").collect()
    with sqlite.transaction(folders.sink) as database:
        sqlite.add_lines(database, rows)
    _written.add(written)


class WriteBehind:
    """Takes a batch and says so before it is written: it holds one batch in memory until the next comes, or the stream
    is quiet. No batch is written twice."""

    def __init__(self, folders: RunFolders) -> None:
        self._folder = folders.sink
        self._held: dict[int, list[Any]] = {}

    def take(self, frame: DataFrame, batch: int) -> None:
        rows = frame.select("seq", "value").collect()
        if len(rows) < LULL:
            self._held[batch] = rows
            rows = []
        with sqlite.transaction(self._folder) as database:
            for number, held in self._held.items():
                if sqlite.is_new(database, number):
                    sqlite.add_lines(database, held)
        self._held = {batch: rows} if rows else {}


def write_behind(rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
    return rows.writeStream.foreachBatch(WriteBehind(folders).take)


def lines_of_batches(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return sqlite.read_lines(spark, folders.sink)


blind_append = foreach_batch(append_blindly, files.by_the_log, name="blind-append", batch_events=BATCH)
sqlite_by_batch = foreach_batch(append_with_id, lines_of_batches, name="sqlite-by-batch", batch_events=BATCH)
batch_id_first = foreach_batch(append_after_id, lines_of_batches, name="batch-id-first", batch_events=BATCH)
remembers_in_memory = foreach_batch(
    append_unless_remembered, lines_of_batches, name="remembers-in-memory", batch_events=BATCH
)
acknowledges_early = Query(
    as_it_comes, name="acknowledges-early", write=write_behind, read=lines_of_batches, batch_events=BATCH
)
