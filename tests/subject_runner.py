"""Runs a subject in a session of the test's, without any of the harness's clusters, drivers or sinks."""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from streamproof.harness.contracts.query import Query, RunFolders
from streamproof.harness.core.events import Event
from streamproof.harness.core.workload import Workload
from streamproof.harness.judging.shapes import OutputMode

GIVEN = "key STRING, value STRING, seq LONG, time LONG"


def local_session() -> SparkSession:
    """A task that fails ends its query."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()


@dataclass
class SubjectRun:
    """One run of a query, from files that each are a batch. Running it again goes on from its checkpoint."""

    query: Query
    workload: Workload
    folder: Path
    taken: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """What a query without a sink of its own gave, by batch."""

    def __post_init__(self) -> None:
        self.folders = RunFolders("run-1", self.folder / "sink", self.folder / "checkpoint")
        self.input = self.folder / "input"
        self.batches = self.query.batches(self.workload)
        self.folders.sink.mkdir(parents=True)
        self.input.mkdir()

    def run(self, spark: SparkSession, batches: int | None = None, *, fails_at: int | None = None) -> None:
        """To the end of the first `batches` batches. With `fails_at`, until the event of that number is read."""
        for number, events in enumerate(self.batches[:batches]):
            self._offer(number, events)
        session = spark.newSession()
        for name, value in self.query.settings.items():
            if session.conf.isModifiable(name):
                session.conf.set(name, value)
        stream = self._start(self.query.transform(self._source(session, fails_at)))
        with suppress(*([StreamingQueryException] if fails_at else [])):
            stream.awaitTermination()

    def read(self, spark: SparkSession) -> Counter[str]:
        """The table that the query has made, each row as JSON, and how often it is there."""
        return Counter(json.dumps(row, sort_keys=True) for row in self.rows(spark))

    def rows(self, spark: SparkSession) -> list[dict[str, Any]]:
        if self.query.read is not None:
            return [_plain(row) for row in self.query.read(spark.newSession(), self.folders).collect()]
        batches = [rows for _, rows in sorted(self.taken.items())]
        if self.query.mode is OutputMode.APPEND:
            return [row for rows in batches for row in rows]
        return list({tuple(row[name] for name in self.query.key): row for rows in batches for row in rows}.values())

    def forget_last(self, *logs: Path) -> None:
        """As if the driver had died before it wrote down the last batch as done, in its commit log and in these."""
        for log in (self.folders.checkpoint / "commits", *logs):
            _forget(max(_entries(log), key=_number))
        checkpoint = self.folders.checkpoint
        for log in (checkpoint / "offsets", *(checkpoint / "sources").iterdir()):
            for entry in _entries(log):
                if _number(entry) > self.committed:
                    _forget(entry)

    @property
    def committed(self) -> int:
        """How many batches are done."""
        return len(_entries(self.folders.checkpoint / "commits"))

    def _offer(self, number: int, events: list[Event]) -> None:
        file = self.input / f"{number:03}.jsonl"
        if not file.exists():
            lines = [
                {"key": e.key, "value": e.value if isinstance(e.value, str) else json.dumps(e.value)}
                | {"seq": e.seq, "time": e.time}
                for e in events
            ]
            hidden = file.with_name(f".{file.name}")
            hidden.write_text("".join(json.dumps(line) + "\n" for line in lines))
            # Spark takes the oldest first.
            os.utime(hidden, (1_000_000_000 + number, 1_000_000_000 + number))
            hidden.rename(file)

    def _source(self, spark: SparkSession, fails_at: int | None) -> DataFrame:
        given = spark.readStream.schema(GIVEN).option("maxFilesPerTrigger", 1).json(str(self.input))
        if fails_at is not None:
            reached = f.expr(f"seq = {fails_at} AND raise_error('as the test wants it') IS NULL")
            given = given.where(~reached)
        given = given.withColumn("timestamp", f.timestamp_millis("time"))
        if not self.query.schema:
            return given
        return given.select(f.from_json("value", self.query.schema).alias("row"), "seq", "timestamp").select(
            "row.*", "seq", "timestamp"
        )

    def _start(self, output: DataFrame) -> StreamingQuery:
        if self.query.write is None:
            writer = output.writeStream.foreachBatch(self._take)
        else:
            written = self.query.write(output, self.folders)
            assert isinstance(written, DataStreamWriter)
            writer = written
        writer = writer.outputMode(self.query.mode.value).option("checkpointLocation", str(self.folders.checkpoint))
        return writer.trigger(availableNow=True).start()

    def _take(self, frame: DataFrame, batch: int) -> None:
        self.taken[batch] = [_plain(row) for row in frame.collect()]


def _plain(row: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(row.asDict(recursive=True))
    return plain


def _entries(log: Path) -> list[Path]:
    return [file for file in log.iterdir() if file.name[0].isdigit()]


def _number(entry: Path) -> int:
    return int(entry.name.removesuffix(".compact"))


def _forget(entry: Path) -> None:
    entry.unlink()
    entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
