"""Parquet files, as Spark's own sink writes them, read in two ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...harness.contracts.query import Query, RunFolders
from .inputs import BATCH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

LINE = "seq LONG, key STRING, value STRING"
LOG_SETTINGS = {"spark.sql.streaming.fileSink.log.compactInterval": "3"}
"""So that the sink's log is compacted within a few batches."""


def lines(frame: DataFrame) -> DataFrame:
    return frame.select("seq", "key", "value")


def to_parquet(rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
    return rows.writeStream.format("parquet").option("path", str(folders.sink / "rows"))


def by_the_log(spark: SparkSession, folders: RunFolders) -> DataFrame:
    """Spark reads such a folder through the log that the sink keeps in it: only files that are in the log count."""
    return spark.read.schema(LINE).parquet(str(folders.sink / "rows"))


def by_listing(spark: SparkSession, folders: RunFolders) -> DataFrame:
    """As whatever is not Spark reads such a folder: all files in it, but for those that are not whole."""
    files = sorted(str(file) for file in (folders.sink / "rows").glob("part-*.parquet") if file.stat().st_size)
    if not files:
        return spark.createDataFrame([], LINE)
    return spark.read.schema(LINE).option("ignoreCorruptFiles", "true").parquet(*files)


file_sink = Query(lines, name="file-sink", write=to_parquet, read=by_the_log, settings=LOG_SETTINGS, batch_events=BATCH)
file_sink_by_listing = Query(
    lines, name="file-sink-by-listing", write=to_parquet, read=by_listing, settings=LOG_SETTINGS, batch_events=BATCH
)
"""Has a batch twice when the driver dies between the files and the log: see SPARK-25331."""
