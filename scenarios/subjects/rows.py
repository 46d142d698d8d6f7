"""A foreach writer, which is given one row after the other in the executors."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from ...harness.contracts.query import RunFolders
from ...harness.contracts.query_parts import foreach
from .inputs import BATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession


class AppendLines:
    """Appends each row to a file of its partition, at once. A task or a batch that is repeated appends again."""

    def __init__(self, folders: RunFolders) -> None:
        self._folder = folders.sink / "rows"

    def open(self, partition: int, batch: int) -> bool:
        self._folder.mkdir(exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._file = os.open(self._folder / f"{partition}.jsonl", flags, 0o644)
        return True

    def process(self, row: Row) -> None:
        os.write(self._file, json.dumps({"seq": row.seq, "value": row.value}).encode() + b"\n")

    def close(self, error: Exception | None) -> None:
        os.close(self._file)


def lines_of_rows(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.read.schema("seq LONG, value STRING").json(str(folders.sink / "rows"))


foreach_rows = foreach(AppendLines, lines_of_rows, name="foreach-rows", batch_events=BATCH)
