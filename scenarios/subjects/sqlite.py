"""A database in a file, as a sink of a few lines keeps one: it takes a transaction whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE = "rows.db"
LINE = "seq LONG, value STRING"

_TABLES = (
    "create table if not exists batches (batch integer primary key)",
    "create table if not exists lines (seq integer, value text)",
    "create table if not exists counts (word text primary key, count integer)",
)


@contextmanager
def transaction(folder: Path) -> Iterator[sqlite3.Connection]:
    """All that is done within, or, when it fails or the process dies, nothing."""
    with closing(sqlite3.connect(folder / FILE, timeout=30, isolation_level=None)) as database:
        database.execute("begin immediate")
        with database:
            for table in _TABLES:
                database.execute(table)
            yield database


def is_new(database: sqlite3.Connection, batch: int) -> bool:
    """Whether the batch has never been here. It has from now on."""
    return database.execute("insert or ignore into batches values (?)", (batch,)).rowcount == 1


def add_lines(database: sqlite3.Connection, lines: Sequence[Any]) -> None:
    database.executemany("insert into lines values (?, ?)", [(line.seq, line.value) for line in lines])


def read(spark: SparkSession, folder: Path, select: str, schema: str) -> DataFrame:
    with transaction(folder) as database:
        rows = database.execute(select).fetchall()
    return spark.createDataFrame(rows, schema)


def read_lines(spark: SparkSession, folder: Path) -> DataFrame:
    return read(spark, folder, "select seq, value from lines", LINE)
