"""Sinks that keep every row once, and cannot go on where a crash has left them, unless somebody helps by hand."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ...harness.contracts.query import RunFolders
from ...harness.contracts.query_parts import foreach_batch
from . import sqlite
from .inputs import BATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK = 0.1
"""Seconds between two looks at whether the lock is free."""
_PARTS = "parts"


def append_under_lock(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Waits for the file that is its lock to go. Who dies while it holds it leaves it behind, and waits for itself."""
    lock = folders.sink / "lock"
    while lock.exists():
        time.sleep(_LOOK)
    lock.touch()
    rows = frame.select("seq", "value").collect()
    with sqlite.transaction(folders.sink) as database:
        if sqlite.is_new(database, batch):
            sqlite.add_lines(database, rows)
    lock.unlink()


def write_new_file(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Writes a file that must not be there yet, and gives it its name when it is whole. Who dies in between leaves what
    is half written, and fails at it for ever."""
    parts = folders.sink / _PARTS
    parts.mkdir(exist_ok=True)
    whole, draft = parts / f"{batch}.json", parts / f"{batch}.draft"
    if whole.exists():
        return
    with draft.open("x") as file:
        for row in frame.select("seq", "value").collect():
            file.write(json.dumps([row.seq, row.value]) + "\n")
    draft.rename(whole)


def by_lock(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return sqlite.read_lines(spark, folders.sink)


def of_whole_files(spark: SparkSession, folders: RunFolders) -> DataFrame:
    files: list[Path] = sorted((folders.sink / _PARTS).glob("*.json"))
    rows = [tuple(json.loads(line)) for file in files for line in file.read_text().splitlines()]
    return spark.createDataFrame(rows, sqlite.LINE)


waits_for_its_lock = foreach_batch(append_under_lock, by_lock, name="waits-for-its-lock", batch_events=BATCH)
fails_at_its_draft = foreach_batch(write_new_file, of_whole_files, name="fails-at-its-draft", batch_events=BATCH)
