"""Iceberg's streaming sink called its data files by the query, the partition and the number of the task, which begins
anew with each driver: after a restart a file gets the name of an earlier one, and takes its place.

The table's metadata then counts one file twice: its rows are there twice, and those of the earlier file are gone. Any
restart shows it whose first batch has as many tasks as that of the driver before.
"""

from __future__ import annotations

from typing import Final

from ...faults.crash import crash
from ...harness.contracts.query import Query
from ...harness.core.addresses import DRIVER, Moment, Point, Side
from ...harness.core.verdicts import Anomaly
from ..subjects.files import lines
from ..subjects.iceberg import rows_in_iceberg, stream_into_iceberg
from ..workloads import words
from .line import RealBug, Release, Report

SPARK: Final = "3.5.9"
BATCH: Final = 10


def iceberg_sink_of(release: Release) -> Query:
    return Query(
        lines,
        name="iceberg-sink",
        write=stream_into_iceberg,
        read=rows_in_iceberg,
        packages=release.packages,
        spark=release.spark,
        batch_events=BATCH,
    )


def _iceberg(number: str) -> Release:
    return Release(f"Iceberg {number}", SPARK, (f"org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:{number}",))


BUG: Final = RealBug(
    "iceberg-9172",
    "Iceberg: a file that is written after a restart takes the place of one from before",
    (
        Report("Iceberg 7890", "https://github.com/apache/iceberg/issues/7890"),
        Report("Iceberg 8609", "https://github.com/apache/iceberg/issues/8609"),
        Report("Iceberg 9172", "https://github.com/apache/iceberg/issues/9172"),
        Report("the correction", "https://github.com/apache/iceberg/pull/9255"),
    ),
    affected=_iceberg("1.4.3"),
    fixed=_iceberg("1.5.0"),
    make=iceberg_sink_of,
    workload=words(events=2 * BATCH),
    schedule=(crash("driver").at(Moment(Point.COMMIT_LOG, Side.AFTER, "0", DRIVER)),),
    anomalies=frozenset({Anomaly.LOST_INPUT, Anomaly.DUPLICATE_EFFECT}),
)


def repeats_file_names() -> Query:
    """As `streamproof certify` takes it."""
    return iceberg_sink_of(BUG.affected)
