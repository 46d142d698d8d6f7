"""Sinks that write a file a batch, which a loss of power takes back or does not."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.query_parts import foreach_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamproof.harness.contracts.query import RunFolders


def write_and_rename(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """A file that has its name is whole, as long as the power does not fail."""
    _write(frame, folders.sink / f"batch-{batch}", lambda file: None)


def write_sync_and_rename(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    _write(frame, folders.sink / f"batch-{batch}", os.fsync)
    folder = os.open(folders.sink, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write(frame: DataFrame, path: Path, sync: Callable[[int], object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [tuple(row) for row in frame.select("seq", "value").collect()]
    draft = path.with_name(f".{path.name}.draft")
    with draft.open("w") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)
        file.flush()
        sync(file.fileno())
    draft.rename(path)


def rows_of(spark: SparkSession, folders: RunFolders) -> DataFrame:
    rows: list[Any] = []
    for path in sorted(folders.sink.glob("batch-*")):
        rows += [json.loads(line) for line in path.read_text().splitlines()]
    return spark.createDataFrame(rows, "seq LONG, value STRING")


unsynced: Query = foreach_batch(write_and_rename, rows_of, name="unsynced", batch_events=10)
synced: Query = foreach_batch(write_sync_and_rename, rows_of, name="synced", batch_events=10)
