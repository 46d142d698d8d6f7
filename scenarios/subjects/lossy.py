"""A sink that may lose a little: it keeps its last rows in memory, and what is there dies with its process."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

from ...harness.contracts.query import Query, RunFolders
from ...harness.contracts.query_parts import as_it_comes
from .inputs import BATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

HELD: Final = 50
"""So many rows are in memory alone."""
QUIET: Final = 10
"""A batch of fewer rows than this says that nothing more comes for a while, and then all is written."""
LINE: Final = "seq LONG, value STRING"


class Tail:
    """Writes rows when so many have come after them. What a batch that comes again gives once more is known by its
    number."""

    def __init__(self, folders: RunFolders) -> None:
        self._folder = folders.sink
        self._held: list[tuple[int, str]] = []

    def take(self, frame: DataFrame, batch: int) -> None:
        rows = sorted((row.seq, row.value) for row in frame.select("seq", "value").collect())
        self._held += rows
        due = len(self._held) if len(rows) < QUIET else max(0, len(self._held) - HELD)
        if due:
            lines = [json.dumps({"seq": seq, "value": value}) for seq, value in self._held[:due]]
            draft = self._folder / ".draft"
            draft.write_text("\n".join(lines))
            os.replace(draft, self._folder / f"{batch}-{self._held[0][0]}.jsonl")
            del self._held[:due]


def write_tail(rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
    return rows.writeStream.foreachBatch(Tail(folders).take)


def read_tail(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.read.schema(LINE).json(str(folders.sink)).dropDuplicates(["seq"])


loses_its_tail = Query(
    as_it_comes, name="loses-its-tail", key=("seq",), write=write_tail, read=read_tail, batch_events=BATCH
)
