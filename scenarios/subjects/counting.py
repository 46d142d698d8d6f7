"""Word counts by an operator with state of its own, into a table that takes each batch once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import Row

from ...harness.contracts.query import Query, RunFolders
from ...harness.contracts.query_parts import pandas_with_state, processor
from ...harness.install.python_versions import has_module
from . import sqlite
from .inputs import BATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.streaming.state import GroupState
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
elif has_module("pyspark.sql.streaming.stateful_processor"):
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
else:
    # Before 4.0 there is none, and what else is here is of use all the same.
    StatefulProcessor = StatefulProcessorHandle = object

COUNT = "value STRING, count LONG"


class CountWords(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "count LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        before = self._count.get()
        count = (before[0] if before else 0) + sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(value=key[0], count=count)

    def close(self) -> None:
        pass


def count_words_in_pandas(
    key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    count = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
    state.update((count,))
    yield pd.DataFrame({"value": [key[0]], "count": [count]})


def upsert(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    rows = frame.collect()
    with sqlite.transaction(folders.sink) as database:
        if sqlite.is_new(database, batch):
            counts = [(row["value"], row["count"]) for row in rows]
            database.executemany("insert or replace into counts values (?, ?)", counts)


def to_table(rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
    return rows.writeStream.foreachBatch(lambda frame, batch: upsert(frame, batch, folders))


def from_table(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return sqlite.read(spark, folders.sink, "select word, count from counts", COUNT)


def into_table(operator: Query) -> Query:
    return replace(operator, write=to_table, read=from_table)


counts_by_processor = into_table(
    processor(CountWords, COUNT, key=("value",), name="counts-by-processor", batch_events=BATCH)
)
counts_in_pandas = into_table(
    pandas_with_state(
        count_words_in_pandas, COUNT, "count LONG", key=("value",), name="counts-in-pandas", batch_events=BATCH
    )
)
