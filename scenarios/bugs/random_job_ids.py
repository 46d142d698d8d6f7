"""Spark drew a job's id anew in each task that writes files, so that a task that is tried again writes for another job.

A task that has committed and is lost before the driver knows is done again. What both have committed lies side by side
then, where the second should have taken the place of the first, and the job's end takes both. Files of one name become
one by that; where a task's second try gives its files other names or other folders, both stay. Here they lie by when
they were written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...faults.executor_crash import executor_crash
from ...harness.contracts.query import Query
from ...harness.contracts.query_parts import foreach_batch
from ...harness.core.addresses import TASK, Moment, Point, Side
from ...harness.core.verdicts import Anomaly
from ..workloads import words
from .batch_folders import batch_folder, read_batches
from .line import RealBug, Release, Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ...harness.contracts.query import RunFolders

BATCH: Final = 10
ARRIVED: Final = "CAST(reflect('java.lang.System', 'currentTimeMillis') AS BIGINT) div 100 AS arrived"
"""By the clock of the task, which is another when the task is done again."""


def write_by_arrival(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    rows = frame.selectExpr("seq", "key", "value", ARRIVED)
    rows.write.mode("overwrite").partitionBy("arrived").parquet(batch_folder(batch, folders))


def by_arrival(release: Release) -> Query:
    return foreach_batch(write_by_arrival, read_batches, name="by-arrival", spark=release.spark, batch_events=BATCH)


BUG: Final = RealBug(
    "spark-41448",
    "Spark: a task that has committed its files and is done again leaves those of both tries",
    (
        Report("SPARK-41448", "https://issues.apache.org/jira/browse/SPARK-41448"),
        Report("the correction", "https://github.com/apache/spark/pull/38980"),
    ),
    affected=Release("Spark 3.3.1", "3.3.1"),
    fixed=Release("Spark 3.3.2", "3.3.2"),
    make=by_arrival,
    workload=words(events=2 * BATCH),
    schedule=(executor_crash(TASK).at(Moment(Point.TASK_COMMIT, Side.AFTER, "1/0", TASK)),),
    anomalies=frozenset({Anomaly.DUPLICATE_EFFECT}),
)


def keeps_both_tries() -> Query:
    """As `streamproof certify` takes it."""
    return by_arrival(BUG.affected)
