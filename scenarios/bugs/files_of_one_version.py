"""Spark takes a file of RocksDB's for the one that the same version of the state has in the checkpoint already, where
both have one name and one size.

A task fails after it has made its part of the state durable, and is done again on the same executor, which begins anew
and gives its file the name that it has given before. The version then has what is said of the second file, and the
first file. Nothing is to be seen of it until somebody loads that version, which nobody can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...faults.crash import crash
from ...faults.python_crash import python_crash
from ...harness.contracts.query import Query
from ...harness.core.addresses import DRIVER, TASK, Moment, Point, Side
from ...harness.core.guarantees import recovers
from ...harness.core.verdicts import Anomaly
from ...harness.judging.shapes import OutputMode
from ..workloads import words
from .line import RealBug, Release, Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH: Final = 10
SHARDS: Final = 4
IN_ROCKSDB: Final = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # One executor, so that a task is done again where it was done.
    "spark.cores.max": "1",
}


def level(count: int) -> str:
    """A function of the user's, in whose process a task can fail."""
    return "high" if count > BATCH else "low"


def counted_by_shard(frame: DataFrame) -> DataFrame:
    """Each batch changes the same keys."""
    from pyspark.sql import functions as f

    counted = frame.selectExpr(f"seq % {SHARDS} AS shard").groupBy("shard").count()
    return counted.withColumn("level", f.udf(level, "string")("count"))


def shards_in_rocksdb(release: Release) -> Query:
    return Query(
        counted_by_shard,
        name="shards-in-rocksdb",
        mode=OutputMode.UPDATE,
        key=("shard",),
        settings=IN_ROCKSDB,
        spark=release.spark,
        batch_events=BATCH,
    )


BUG: Final = RealBug(
    "spark-43404",
    "Spark: a version of the state points to a file of a try before, and cannot be loaded",
    (Report("SPARK-43404", "https://github.com/apache/spark/pull/41089"),),
    affected=Release("Spark 3.4.0", "3.4.0"),
    fixed=Release("Spark 3.5.1", "3.5.1"),
    make=shards_in_rocksdb,
    workload=words(events=2 * BATCH),
    schedule=(
        python_crash(TASK).at(Moment(Point.STATE_COMMIT, Side.AFTER, "0", TASK)),
        crash("driver").at(Moment(Point.COMMIT_LOG, Side.AFTER, "0", DRIVER)),
    ),
    anomalies=frozenset({Anomaly.CRASH_LOOP}),
    claim=recovers(),
)


def cannot_load_a_version() -> Query:
    """As `streamproof certify` takes it."""
    return shards_in_rocksdb(BUG.affected)
