"""Spark takes it that a task that is done again gives its rows to the same partitions as before, unless it knows
better. Of a function of the user's it knows nothing.

An executor dies whose rows some tasks of the next stage have read and others have not. What it had is made again, and
goes elsewhere: rows that were to come never do, and others come a second time.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from ...faults.executor_crash import executor_crash
from ...harness.contracts.query import Query
from ...harness.contracts.query_parts import foreach_batch
from ...harness.core.addresses import TASK, Moment, Point, Side
from ...harness.core.verdicts import Anomaly
from ..workloads import words
from .batch_folders import read_batches, write_batch
from .line import RealBug, Release, Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH: Final = 120
PARTITIONS: Final = 6
SALTS: Final = 1000
"""Many more, so that each task has rows for each partition."""
AS_ON_MACHINES_OF_THEIR_OWN: Final = {"spark.shuffle.readHostLocalDisk": "false"}
"""Executors of one machine otherwise read from its disk what a dead one has left."""


def salt(key: str) -> int:
    """Spreads what many rows have in common, as is done against a key that is more frequent than others."""
    return random.randrange(SALTS)


def salted_apart(frame: DataFrame) -> DataFrame:
    """Every row once, wherever it comes to lie. What gives the rows away is three tasks, and so is on each executor."""
    from pyspark.sql import functions as f

    salted = frame.select("seq", "key", "value").repartition(3).withColumn("salt", f.udf(salt, "int")("key"))
    return salted.repartition(PARTITIONS, "salt").drop("salt")


def salted_folders(release: Release) -> Query:
    into = foreach_batch(write_batch, read_batches, name="salted-folders", spark=release.spark, batch_events=BATCH)
    return Query(
        salted_apart,
        name=into.name,
        write=into.write,
        read=into.read,
        settings=AS_ON_MACHINES_OF_THEIR_OWN,
        spark=release.spark,
        batch_events=BATCH,
    )


BUG: Final = RealBug(
    "spark-53575",
    "Spark: rows that are made again after a crash go to other partitions, some of which are done",
    (
        Report("SPARK-53575", "https://issues.apache.org/jira/browse/SPARK-53575"),
        Report("SPARK-54830", "https://issues.apache.org/jira/browse/SPARK-54830"),
    ),
    affected=Release("Spark 4.1.3", "4.1.3"),
    fixed=Release("Spark 4.2.0", "4.2.0"),
    make=salted_folders,
    workload=words(events=2 * BATCH),
    schedule=(executor_crash(TASK).at(Moment(Point.TASK_COMMIT, Side.AFTER, "1/4", TASK)),),
    anomalies=frozenset({Anomaly.LOST_INPUT, Anomaly.DUPLICATE_EFFECT}),
)


def makes_other_rows_again() -> Query:
    """As `streamproof certify` takes it."""
    return salted_folders(BUG.affected)
