"""With asynchronous progress tracking, Spark writes its logs in a thread of their own, and goes on with a batch while
the entry that says how far it goes is written.

Where that write fails, the query fails, too, but later: it does the batch, and notes that it is done. The commit log
then has a batch that the offset log has not. Whoever starts the query again does the batch before once more, whose end
is noted already, and takes that for the end of somebody else.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...faults.failed_write import failed_write
from ...harness.contracts.query import Query, RunFolders
from ...harness.contracts.query_parts import as_it_comes
from ...harness.core.addresses import DRIVER, Moment, Point, Side
from ...harness.core.guarantees import recovers
from ...harness.core.verdicts import Anomaly
from ..subjects.files import LINE
from ..workloads import words
from .line import RealBug, Release, Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BATCH: Final = 10
ASYNCHRONOUS: Final = {
    "asyncProgressTrackingEnabled": "true",
    # Each batch has its entries.
    "asyncProgressTrackingCheckpointIntervalMs": "0",
}


def kept_in_files(rows: DataFrame, folders: RunFolders) -> StreamingQuery:
    """The few sinks that Spark lets go with it keep nothing here: each row is kept by the function that it passes, in a
    file of its own, over what is there of it."""
    from pyspark.sql import functions as f

    folder = str(folders.sink)

    def kept(seq: int, key: str, value: str) -> bool:
        Path(folder, f"{seq}.json").write_text(json.dumps({"seq": seq, "key": key, "value": value}))
        return True

    passed = rows.where(f.udf(kept, "boolean")("seq", "key", "value"))
    # So that what failed aside is known before the next batch begins.
    writer = passed.writeStream.format("noop").options(**ASYNCHRONOUS).trigger(processingTime="1 second")
    return writer.option("checkpointLocation", str(folders.checkpoint)).start()


def read_files(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.read.schema(LINE).json(str(folders.sink)).select("seq", "key", "value")


def noted_aside(release: Release) -> Query:
    return Query(
        as_it_comes,
        name="noted-aside",
        key=("seq",),
        write=kept_in_files,
        read=read_files,
        spark=release.spark,
        batch_events=BATCH,
    )


BUG: Final = RealBug(
    "spark-56720",
    "Spark: a query that notes its progress aside goes on after a write that failed, and is never started again",
    (Report("SPARK-56720", "https://github.com/apache/spark/pull/55676"),),
    affected=Release("Spark 4.2.0", "4.2.0"),
    fixed=Release("Spark 4.3.0", "4.3.0"),
    make=noted_aside,
    workload=words(events=4 * BATCH),
    schedule=(
        failed_write(DRIVER).at(Moment(Point.FILE, Side.BEFORE, "2/create checkpoint/offsets/.2.*.tmp#1", DRIVER)),
    ),
    anomalies=frozenset({Anomaly.CRASH_LOOP}),
    claim=recovers(),
)


def goes_on_after_a_failed_write() -> Query:
    """As `streamproof certify` takes it."""
    return noted_aside(BUG.affected)
