"""Sinks that write each batch to a file of its own: one passes an error of the disk on, the other looks away."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from streamproof.harness.contracts.query import Query, RunFolders
from streamproof.harness.contracts.query_parts import foreach_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINE = "seq LONG, key STRING, value STRING"
FILE = "sink/batch-1.json"
"""Of the second batch."""


def raising(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    rows = [json.dumps(row.asDict()) for row in frame.select("seq", "key", "value").collect()]
    (folders.sink / f"batch-{batch}.json").write_text("\n".join(rows))


def swallowing(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    with suppress(OSError):
        raising(frame, batch, folders)


def read_lines(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.read.schema(LINE).json(str(folders.sink)).select("seq", "key", "value")


def in_files(sink: Callable[[DataFrame, int, RunFolders], None]) -> Query:
    return foreach_batch(sink, read_lines, name=sink.__name__, batch_events=5)
