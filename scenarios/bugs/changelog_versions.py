"""Spark 4.0 takes the first bytes of a changelog of RocksDB's state store for the version of the changelog, if they
happen to begin with a v: what is there is the length of the first key.

A key of 95,744 to 95,999 bytes has such a length. A changelog that begins with one is written and can be read by
nobody: the batch that is to load the state from it fails, each time that the query is started again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...faults.crash import crash
from ...harness.contracts.query import Query
from ...harness.core.addresses import DRIVER, Moment, Point, Side
from ...harness.judging.shapes import OutputMode
from ..workloads import words
from .line import RealBug, Release, Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH: Final = 10
CHARACTERS: Final = 95_800
"""As many has each document."""
_STORE: Final = "spark.sql.streaming.stateStore"
CHANGELOGS: Final = {
    f"{_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
}


def seen_documents(frame: DataFrame) -> DataFrame:
    """How often each document came, which is known by its text alone."""
    documents = frame.selectExpr(f"rpad(value, {CHARACTERS}, '.') AS document")
    return documents.groupBy("document").count().selectExpr("rtrim('.', document) AS word", "count")


def counted_documents(release: Release) -> Query:
    return Query(
        seen_documents,
        name="counted-documents",
        mode=OutputMode.UPDATE,
        key=("word",),
        settings=CHANGELOGS,
        spark=release.spark,
        batch_events=BATCH,
    )


BUG: Final = RealBug(
    "spark-52553",
    "Spark: the length of a key is taken for the version of a changelog, and the state cannot be loaded",
    (
        Report("SPARK-52553", "https://issues.apache.org/jira/browse/SPARK-52553"),
        Report("the correction", "https://github.com/apache/spark/pull/51255"),
    ),
    affected=Release("Spark 4.0.0", "4.0.0"),
    fixed=Release("Spark 4.0.1", "4.0.1"),
    make=counted_documents,
    workload=words(events=2 * BATCH),
    schedule=(crash("driver").at(Moment(Point.COMMIT_LOG, Side.AFTER, "0", DRIVER)),),
    anomalies=frozenset(),
)


def cannot_load_its_state() -> Query:
    """As `streamproof certify` takes it."""
    return counted_documents(BUG.affected)
