"""Delta Lake tables as sinks: Delta's own streaming sink, and foreachBatch with and without what makes a batch that
comes again known.

Delta is not among Spark's jars: a subject is made for the Spark that it is to run on, since each line has a release of
its own (`RELEASES`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...harness.contracts.query import Query, RunFolders
from ...harness.contracts.query_parts import foreach_batch
from .files import LINE, lines
from .inputs import BATCH
from .releases import release_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

RELEASES: Final = {
    "4.0": "io.delta:delta-spark_4.0_2.13:4.4.0",
    "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
}
"""The newest Delta that there is for each line of Spark."""
SETTINGS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A log of a few commits is read in one task, and not in fifty.
    "spark.databricks.delta.snapshotPartitions": "1",
}
APPLICATION: Final = "lines"
"""`txnAppId`: who writes. It has to outlive a driver, as the checkpoint does."""


def table_path(folders: RunFolders) -> str:
    return str(folders.sink / "rows")


def stream_into(rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
    return rows.writeStream.format("delta").option("path", table_path(folders))


def append_as_transaction(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """A table keeps the last version of each application, in the commit that adds the rows: a batch that comes again
    is left out."""
    named = lines(frame).write.format("delta").mode("append").option("txnAppId", APPLICATION)
    named.option("txnVersion", str(batch)).save(table_path(folders))


def append_without_id(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Atomic, and no more than that: a batch that comes again is added again."""
    lines(frame).write.format("delta").mode("append").save(table_path(folders))


def rows_of_the_table(spark: SparkSession, folders: RunFolders) -> DataFrame:
    """As any reader of the table sees it: what its log says, and not what files there are."""
    if not (folders.sink / "rows" / "_delta_log").is_dir():
        return spark.createDataFrame([], LINE)
    return spark.read.format("delta").load(table_path(folders))


def delta_sink(spark: str = "4.1.3") -> Query:
    """Delta's own streaming sink, which notes the stream's id and the batch in each commit."""
    return Query(
        lines,
        name="delta-sink",
        write=stream_into,
        read=rows_of_the_table,
        settings=SETTINGS,
        packages=(release_for("Delta", RELEASES, spark),),
        spark=spark,
        batch_events=BATCH,
    )


def delta_by_batch(spark: str = "4.1.3") -> Query:
    """foreachBatch with `txnAppId` and `txnVersion`."""
    return foreach_batch(
        append_as_transaction,
        rows_of_the_table,
        name="delta-by-batch",
        settings=SETTINGS,
        packages=(release_for("Delta", RELEASES, spark),),
        spark=spark,
        batch_events=BATCH,
    )


def delta_blind_append(spark: str = "4.1.3") -> Query:
    """foreachBatch without them."""
    return foreach_batch(
        append_without_id,
        rows_of_the_table,
        name="delta-blind-append",
        settings=SETTINGS,
        packages=(release_for("Delta", RELEASES, spark),),
        spark=spark,
        batch_events=BATCH,
    )
