"""A certificate of a sink. The sink knows nothing of streamproof; the last lines hand it over.

To be run in this folder:

    streamproof certify certify_a_sink:blindly --claim exactly-once --workload certify_a_sink:small    # refuted
    pytest certify_a_sink.py --streamproof-budget "5m, 2 kills"
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from pyspark.sql import DataFrame, SparkSession

from streamproof import RunFolders, Workload, every_crash_point, exactly_once, foreach_batch, text
from streamproof.pytest_plugin import Streamproof

# What is to be certified: rows go into a database in a file.


def _insert(frame: DataFrame, batch: int, folders: RunFolders, *, known: bool) -> None:
    rows = [(batch, row.seq, row.value) for row in frame.select("seq", "value").collect()]
    with closing(sqlite3.connect(folders.sink / "rows.db", isolation_level=None)) as database:
        database.execute("create table if not exists lines (batch integer, seq integer, value text)")
        database.execute("begin immediate")
        with database:
            if known:
                database.execute("delete from lines where batch = ?", (batch,))
            database.executemany("insert into lines values (?, ?, ?)", rows)


def insert_by_batch(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """In one transaction, in the place of what the batch had written before."""
    _insert(frame, batch, folders, known=True)


def insert_blindly(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Adds the rows, whether or not the batch was there."""
    _insert(frame, batch, folders, known=False)


def read(spark: SparkSession, folders: RunFolders) -> DataFrame:
    """What a consumer sees in the end."""
    with closing(sqlite3.connect(folders.sink / "rows.db")) as database:
        found = database.execute("select seq, value from lines").fetchall()
    return spark.createDataFrame(found, "seq LONG, value STRING")


# How it is handed over.

by_batch = foreach_batch(insert_by_batch, read, name="by-batch", batch_events=20)
blindly = foreach_batch(insert_blindly, read, name="blindly", batch_events=20)


def small() -> Workload:
    """One batch, and the two that close the input."""
    return text(events=20)


# And as a test, with the fixture that comes with the package. Where no time is left for a crash, the claim is UNKNOWN.


def test_by_batch_survives_a_crash_of_the_driver(streamproof: Streamproof) -> None:
    crashes = every_crash_point("driver", recovering=False, split_brain=False)
    streamproof.certify(by_batch, [exactly_once()], crashes, workload=small(), allow_unknown=True)
