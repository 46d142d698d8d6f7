"""Sinks of a user's, who has never heard of crash points."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamproof.harness.contracts.query_parts import foreach_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamproof.harness.contracts.query import RunFolders

TABLES = "create table if not exists batches (n integer primary key); create table if not exists lines (seq, value);"


def connected(folder: Path) -> sqlite3.Connection:
    con = sqlite3.connect(folder / "rows.db", timeout=30)
    con.executescript(TABLES)
    return con


def write_marker_first(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    rows = [tuple(row) for row in frame.select("seq", "value").collect()]
    with closing(connected(folders.sink)) as con:
        if con.execute("insert or ignore into batches values (?)", (batch,)).rowcount == 0:
            return
        con.commit()
        con.executemany("insert into lines values (?, ?)", rows)
        con.commit()


def write_both(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    rows = [tuple(row) for row in frame.select("seq", "value").collect()]
    with closing(connected(folders.sink)) as con:
        if con.execute("insert or ignore into batches values (?)", (batch,)).rowcount == 0:
            return
        con.executemany("insert into lines values (?, ?)", rows)
        con.commit()


def write_and_tell(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    write_both(frame, batch, folders)
    with open(log_of(), "a") as log:
        print(batch, file=log)


def write_marker_and_data_elsewhere(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Who dies in between loses the batch; but what is elsewhere is not put back with the marker."""
    marker = folders.sink / f"done-{batch}"
    if not marker.exists():
        marker.touch()
        frame.select("seq", "value").write.mode("overwrite").parquet(str(lake_of(folders) / f"batch={batch}"))


def lake_of(folders: RunFolders) -> Path:
    return Path("/var/tmp/streamproof-lake") / folders.label


def lines_elsewhere(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.read.parquet(str(lake_of(folders))).select("seq", "value")


def write_under_a_lock(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Who dies in between leaves a folder, by which the batch is passed over from then on."""
    lock = lake_of(folders) / f"lock-{batch}"
    if not lock.exists():
        frame.sparkSession.sql(f"create database lock_{batch} location '{lock}'")
        write_both(frame, batch, folders)
        frame.sparkSession.sql(f"drop database lock_{batch}")


def log_of() -> Path:
    """Where no folder of the run is, and something stays when it is over."""
    return Path("/var/tmp/streamproof-told.log")


def lines(spark: SparkSession, folders: RunFolders) -> DataFrame:
    with closing(connected(folders.sink)) as con:
        rows: list[Any] = con.execute("select seq, value from lines").fetchall()
    return spark.createDataFrame(rows, "seq LONG, value STRING")


marker_first = foreach_batch(write_marker_first, lines, batch_events=20)
both_at_once = foreach_batch(write_both, lines, batch_events=20)
marker_here_data_elsewhere = foreach_batch(write_marker_and_data_elsewhere, lines_elsewhere, batch_events=20)
locks_elsewhere = foreach_batch(write_under_a_lock, lines, batch_events=20)
tells_outside = foreach_batch(write_and_tell, lines, batch_events=20)
