"""Spark asks, before the first batch of a new query, that its checkpoint holds no entries yet, and takes what a driver
left that died while it wrote the first one for the entries of somebody else.

The query is refused then each time that it is started, until somebody empties its checkpoint by hand; though nothing
was done yet, and nothing would be done twice.
"""

from __future__ import annotations

from typing import Final

from ...faults.crash import crash
from ...harness.contracts.query import Query
from ...harness.contracts.query_parts import foreach_batch
from ...harness.core.addresses import DRIVER, Moment, Point, Side
from ...harness.core.guarantees import recovers
from ...harness.core.verdicts import Anomaly
from ..workloads import words
from .batch_folders import read_batches, write_batch
from .line import RealBug, Release, Report

BATCH: Final = 10
AS_SPARK_HAS_IT: Final = {"spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "true"}
"""Its default, which a campaign does not leave as it is."""


def in_folders(release: Release) -> Query:
    return foreach_batch(
        write_batch,
        read_batches,
        name="in-folders",
        settings=AS_SPARK_HAS_IT,
        spark=release.spark,
        batch_events=BATCH,
    )


BUG: Final = RealBug(
    "spark-53103",
    "Spark: a query whose driver died while it wrote the first entry of the offset log is never started again",
    (
        Report("SPARK-53103", "https://issues.apache.org/jira/browse/SPARK-53103"),
        Report("the change that brought it", "https://github.com/apache/spark/pull/51817"),
    ),
    affected=Release("Spark 4.1.3", "4.1.3"),
    fixed=Release("Spark 4.0.0", "4.0.0"),
    make=in_folders,
    workload=words(events=2 * BATCH),
    schedule=(crash("driver").at(Moment(Point.RENAME, Side.BEFORE, "0/offsets/0", DRIVER)),),
    anomalies=frozenset({Anomaly.CRASH_LOOP}),
    claim=recovers(),
)


def is_refused_its_checkpoint() -> Query:
    """As `streamproof certify` takes it."""
    return in_folders(BUG.affected)
