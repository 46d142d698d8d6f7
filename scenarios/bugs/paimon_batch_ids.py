"""Paimon's streaming sink is given the number of each batch, and commits without it: a batch that comes again, since
Spark had not noted its end, is committed a second time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...faults.crash import crash
from ...harness.contracts.query import Query, RunFolders
from ...harness.core.addresses import DRIVER, Moment, Point, Side
from ...harness.core.verdicts import Anomaly
from ..subjects.files import lines
from ..workloads import words
from .line import RealBug, Release, Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BATCH: Final = 10


def table_in_paimon(spark: SparkSession, folders: RunFolders) -> str:
    """The table's name, in a catalog of the run's own."""
    catalog = f"of_{folders.label.replace('-', '_')}"
    spark.conf.set(f"spark.sql.catalog.{catalog}", "org.apache.paimon.spark.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{catalog}.warehouse", str(folders.sink))
    return f"{catalog}.default.lines"


def into_paimon(rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
    spark = rows.sparkSession
    table = table_in_paimon(spark, folders)
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} (seq BIGINT, key STRING, value STRING)")
    return rows.writeStream.format("paimon").option("path", str(folders.sink / "default.db" / "lines"))


def from_paimon(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.table(table_in_paimon(spark, folders))


def paimon_sink(release: Release) -> Query:
    return Query(
        lines,
        name="paimon-sink",
        write=into_paimon,
        read=from_paimon,
        packages=release.packages,
        spark=release.spark,
        batch_events=BATCH,
    )


BUG: Final = RealBug(
    "paimon-9666",
    "Paimon: a batch that comes again is committed again",
    (
        Report("Paimon 9666", "https://github.com/apache/paimon/issues/9666"),
        Report("a correction that is proposed", "https://github.com/apache/paimon/pull/9667"),
    ),
    affected=Release("Paimon 0.8.2", "3.5.9", ("org.apache.paimon:paimon-spark-3.5:0.8.2",)),
    fixed=None,
    make=paimon_sink,
    workload=words(events=2 * BATCH),
    schedule=(crash("driver").at(Moment(Point.COMMIT_LOG, Side.BEFORE, "1", DRIVER)),),
    anomalies=frozenset({Anomaly.DUPLICATE_EFFECT}),
)


def commits_without_id() -> Query:
    """As `streamproof certify` takes it."""
    return paimon_sink(BUG.affected)
