"""A sink that is right by all that is known of Spark: foreachBatch writes each batch into a folder of its own, and a
batch that comes again over what is there of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...harness.contracts.query import RunFolders
from ..subjects.files import LINE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def batch_folder(batch: int, folders: RunFolders) -> str:
    return str(folders.sink / f"batch={batch}")


def write_batch(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    frame.select("seq", "key", "value").write.mode("overwrite").parquet(batch_folder(batch, folders))


def each_batch_in_its_folder(rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
    return rows.writeStream.foreachBatch(lambda frame, batch: write_batch(frame, batch, folders))


def read_batches(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.read.schema(LINE).parquet(str(folders.sink)).select("seq", "key", "value")
