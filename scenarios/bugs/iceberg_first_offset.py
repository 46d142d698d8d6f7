"""Iceberg's streaming source keeps in the checkpoint where a query begins to read, in a file that it makes first and
fills then. A driver that dies in between leaves one that is empty, from which no driver after it can read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...faults.crash import crash
from ...harness.contracts.query import Query, RunFolders
from ...harness.contracts.query_parts import as_it_comes
from ...harness.core.addresses import DRIVER, Moment, Point, Side
from ...harness.core.guarantees import recovers
from ...harness.core.verdicts import Anomaly
from ..subjects.iceberg import lines_table
from ..workloads import words
from .batch_folders import each_batch_in_its_folder, read_batches
from .line import RealBug, Release, Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: Final = 20
FILLS: Final = "fills"
"""The crash point where an offset is made a text of: of the first one, to fill the file that was just made."""


def lines_of_a_table(spark: SparkSession, folders: RunFolders) -> DataFrame:
    """A table that is there, with all its rows in one commit; the first driver makes it."""
    table = lines_table(spark, folders, folders.warehouse)
    if not spark.catalog.tableExists(table):
        rows = f"SELECT id AS seq, 'all' AS key, concat('line ', id) AS value FROM range(0, {ROWS}, 1, 1)"
        spark.sql(f"CREATE TABLE {table} USING iceberg AS {rows}")
    return spark.readStream.format("iceberg").load(table)


def iceberg_source(release: Release) -> Query:
    return Query(
        as_it_comes,
        name="iceberg-source",
        key=("seq",),
        source=lines_of_a_table,
        write=each_batch_in_its_folder,
        read=read_batches,
        packages=release.packages,
        hooks={FILLS: "org.apache.iceberg.spark.source.StreamingOffset.json"},
        spark=release.spark,
    )


BUG: Final = RealBug(
    "iceberg-2660",
    "Iceberg: a query whose driver died while it noted where to begin is never started again",
    (
        Report("the change that brought it", "https://github.com/apache/iceberg/pull/2660"),
        Report("a change that leaves it as it is", "https://github.com/apache/iceberg/pull/18092"),
    ),
    affected=Release("Iceberg 1.10.0", "4.0.0", ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",)),
    fixed=None,
    make=iceberg_source,
    # Which nobody is fed: the table has its own.
    workload=words(events=ROWS),
    schedule=(crash("driver").at(Moment(Point.USER, Side.BEFORE, f"0/{FILLS}", DRIVER)),),
    anomalies=frozenset({Anomaly.CRASH_LOOP}),
    claim=recovers(),
)


def leaves_an_empty_offset() -> Query:
    """As `streamproof certify` takes it."""
    return iceberg_source(BUG.affected)
