"""Iceberg tables as sinks: Iceberg's own streaming sink, and foreachBatch with and without what makes a batch that
comes again known.

Iceberg is not among Spark's jars: a subject is made for the Spark that it is to run on, since each line has a runtime
of its own (`RELEASES`). A table is in a catalog of the run's own, which lies in its folders.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...harness.contracts.query import Query, RunFolders
from ...harness.contracts.query_parts import foreach_batch
from .files import LINE, lines
from .inputs import BATCH
from .releases import release_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SPARK: Final = "4.0.0"
RELEASES: Final = {"4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"}
"""By the line of Spark."""
BATCH_PROPERTY: Final = "lines.batch"
"""In a snapshot's summary: which batch of the stream it holds. It has small letters, as Spark hands options on."""
_CATALOG: Final = {
    "": "org.apache.iceberg.spark.SparkCatalog",
    ".type": "hadoop",
    # What a catalog remembers of a table a crash forgets, and a warm session would not.
    ".cache-enabled": "false",
}


def lines_table(spark: SparkSession, folders: RunFolders, warehouse: Path) -> str:
    """The name of the run's table, in a catalog that lies in the folder. It need not be there yet."""
    catalog = f"of_{folders.label.replace('-', '_')}"
    for name, value in {**_CATALOG, ".warehouse": str(warehouse)}.items():
        spark.conf.set(f"spark.sql.catalog.{catalog}{name}", value)
    return f"{catalog}.db.lines"


def made_table(spark: SparkSession, folders: RunFolders) -> str:
    """The same, among what the sink stores; and the table is there."""
    table = lines_table(spark, folders, folders.sink)
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({LINE}) USING iceberg")
    return table


def stream_into_iceberg(rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
    return rows.writeStream.format("iceberg").option("path", made_table(rows.sparkSession, folders))


def append_once(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """The snapshot that adds the rows says of which batch they are: one that comes again is left out."""
    spark = frame.sparkSession
    table = made_table(spark, folders)
    there = f"SELECT snapshot_id FROM {table}.snapshots WHERE summary['{BATCH_PROPERTY}'] = '{batch}'"
    if not spark.sql(there).collect():
        lines(frame).writeTo(table).option(f"snapshot-property.{BATCH_PROPERTY}", str(batch)).append()


def append_to_iceberg(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Atomic, and no more than that: a batch that comes again is added again."""
    lines(frame).writeTo(made_table(frame.sparkSession, folders)).append()


def rows_in_iceberg(spark: SparkSession, folders: RunFolders) -> DataFrame:
    """As any reader of the table sees it: those of its newest snapshot."""
    table = lines_table(spark, folders, folders.sink)
    return spark.table(table) if spark.catalog.tableExists(table) else spark.createDataFrame([], LINE)


def iceberg_sink(spark: str = SPARK) -> Query:
    """Iceberg's own streaming sink, which notes the stream's id and the batch in each snapshot."""
    return Query(
        lines,
        name="iceberg-sink",
        write=stream_into_iceberg,
        read=rows_in_iceberg,
        packages=(release_for("Iceberg", RELEASES, spark),),
        spark=spark,
        batch_events=BATCH,
    )


def iceberg_by_batch(spark: str = SPARK) -> Query:
    """foreachBatch that notes the batch in each snapshot, and looks for it before it appends."""
    return foreach_batch(
        append_once,
        rows_in_iceberg,
        name="iceberg-by-batch",
        packages=(release_for("Iceberg", RELEASES, spark),),
        spark=spark,
        batch_events=BATCH,
    )


def iceberg_blind_append(spark: str = SPARK) -> Query:
    """foreachBatch that does not."""
    return foreach_batch(
        append_to_iceberg,
        rows_in_iceberg,
        name="iceberg-blind-append",
        packages=(release_for("Iceberg", RELEASES, spark),),
        spark=spark,
        batch_events=BATCH,
    )
