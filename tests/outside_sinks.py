"""Sinks whose store is outside, some of them wrong, with their correct twins."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pg8000.native

from streamproof.harness.judging.guarantees import exactly_once
from streamproof.harness.query import Query, RunFolders, Store
from streamproof.harness.query_parts import foreach_batch
from streamproof.harness.subject import Claim

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

POSTGRES = "postgres"
CLAIMS = (Claim(exactly_once()),)


def _connect(folders: RunFolders) -> pg8000.native.Connection:
    host, _, port = folders.reach(POSTGRES).rpartition(":")
    return pg8000.native.Connection("tester", host, port=int(port), database="postgres")


def _schema(folders: RunFolders) -> str:
    """A run has tables of its own."""
    return "run_" + re.sub(r"\W", "_", folders.label).lower()


def reset(folders: RunFolders) -> None:
    schema = _schema(folders)
    with closing(_connect(folders)) as database:
        database.run(f'drop schema if exists "{schema}" cascade')
        database.run(f'create schema "{schema}"')
        database.run(f'create table "{schema}".batches (batch bigint primary key)')
        database.run(f'create table "{schema}".lines (seq bigint, value text)')
        database.run(f'create table "{schema}".counts (word text primary key, n bigint)')


def read_lines(spark: SparkSession, folders: RunFolders) -> DataFrame:
    with closing(_connect(folders)) as database:
        found = database.run(f'select seq, value from "{_schema(folders)}".lines')
    return spark.createDataFrame([tuple(row) for row in found or []], "seq LONG, value STRING")


def _is_new(database: pg8000.native.Connection, schema: str, batch: int) -> bool:
    database.run(f'insert into "{schema}".batches values (:batch) on conflict do nothing', batch=batch)
    return database.row_count == 1


def _add(database: pg8000.native.Connection, schema: str, lines: Sequence[Any]) -> None:
    values = ", ".join(f"(:s{n}, :v{n})" for n in range(len(lines)))
    given = {f"s{n}": line.seq for n, line in enumerate(lines)} | {f"v{n}": line.value for n, line in enumerate(lines)}
    if lines:
        database.run(f'insert into "{schema}".lines values {values}', **given)


def in_two_transactions(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Wrong: who dies between the two has marked a batch that is not there."""
    lines, schema = frame.select("seq", "value").collect(), _schema(folders)
    with closing(_connect(folders)) as database:
        database.run("begin")
        new = _is_new(database, schema, batch)
        database.run("commit")
        if new:
            database.run("begin")
            _add(database, schema, lines)
            database.run("commit")


def in_one_transaction(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    lines, schema = frame.select("seq", "value").collect(), _schema(folders)
    with closing(_connect(folders)) as database:
        database.run("begin")
        if _is_new(database, schema, batch):
            _add(database, schema, lines)
        database.run("commit")


def postgres_query(sink: Callable[..., None], port: int) -> Query:
    store = Store(POSTGRES, reset, address=f"127.0.0.1:{port}", protocol="postgres")
    return foreach_batch(sink, read_lines, key=(), stores=(store,), batch_events=5, claims=CLAIMS)
