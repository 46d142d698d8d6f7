"""Sinks whose store is outside, some of them wrong, with their correct twins."""

from __future__ import annotations

import http.client
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pg8000.native
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage

from streamproof.harness.contracts.claims import Claim
from streamproof.harness.contracts.query import Query, Read, RunFolders, Store
from streamproof.harness.contracts.query_parts import as_it_comes, foreach_batch
from streamproof.harness.core.guarantees import exactly_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

POSTGRES, WEB = "postgres", "web"
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
        database.run(f'create table "{schema}".parts (batch bigint, word text, n bigint, primary key (batch, word))')


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


def _counted(frame: DataFrame) -> Counter[str]:
    return Counter(line.value for line in frame.select("value").collect())


def adding_to_counts(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Wrong: what is done again is added again."""
    with closing(_connect(folders)) as database:
        database.run("begin")
        for word, n in sorted(_counted(frame).items()):
            database.run(
                f'insert into "{_schema(folders)}".counts as old values (:word, :n) '
                "on conflict (word) do update set n = old.n + excluded.n",
                word=word,
                n=n,
            )
        database.run("commit")


def counting_by_batch(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    with closing(_connect(folders)) as database:
        database.run("begin")
        for word, n in sorted(_counted(frame).items()):
            database.run(
                f'insert into "{_schema(folders)}".parts values (:batch, :word, :n) '
                "on conflict (batch, word) do update set n = excluded.n",
                batch=batch,
                word=word,
                n=n,
            )
        database.run("commit")


def read_counts(spark: SparkSession, folders: RunFolders) -> DataFrame:
    schema = _schema(folders)
    select = f'select word, n from "{schema}".counts union all select word, n from "{schema}".parts'
    with closing(_connect(folders)) as database:
        found = database.run(f"select word, sum(n)::bigint from ({select}) as every group by word")
    return spark.createDataFrame([tuple(row) for row in found or []], "word STRING, n LONG")


def from_tasks(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Wrong: a task that is run again adds its rows again."""

    def add(lines: Iterator[Any]) -> None:
        with closing(_connect(folders)) as database:
            _add(database, _schema(folders), list(lines))

    frame.select("seq", "value").foreachPartition(add)


def postgres_query(sink: Callable[..., None], port: int, read: Read = read_lines, key: tuple[str, ...] = ()) -> Query:
    store = Store(POSTGRES, reset, address=f"127.0.0.1:{port}", protocol="postgres")
    return foreach_batch(sink, read, key=key, stores=(store,), batch_events=5, claims=CLAIMS)


# By the commit of a Python data source


class _Written(WriterCommitMessage):
    def __init__(self, lines: Sequence[tuple[int, str]]) -> None:
        self.lines = lines


class CommitsInTwo(DataSourceStreamWriter):
    """Wrong: whose process dies between the two has marked a batch that is not there."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> _Written:
        return _Written([(line.seq, line.value) for line in iterator])

    def commit(self, messages: Sequence[Any], batchId: int) -> None:
        schema = self.options["schema"]
        with closing(self.connect()) as database:
            database.run("begin")
            new = _is_new(database, schema, batchId)
            self.between(database)
            for seq, value in self.lines(messages) if new else ():
                database.run(f'insert into "{schema}".lines values (:seq, :value)', seq=seq, value=value)
            database.run("commit")

    def abort(self, messages: Sequence[Any], batchId: int) -> None:
        """Nothing is there before the commit."""

    def between(self, database: pg8000.native.Connection) -> None:
        database.run("commit")
        database.run("begin")

    def connect(self) -> pg8000.native.Connection:
        host, _, port = self.options["place"].rpartition(":")
        return pg8000.native.Connection("tester", host, port=int(port), database="postgres")

    def lines(self, messages: Sequence[Any]) -> list[tuple[int, str]]:
        return [line for message in messages if message is not None for line in message.lines]


class CommitsInOne(CommitsInTwo):
    def between(self, database: pg8000.native.Connection) -> None:
        """All in one."""


class InTwo(DataSource):
    @classmethod
    def name(cls) -> str:
        return "postgres_in_two"

    def schema(self) -> str:
        return "seq LONG, value STRING"

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return CommitsInTwo(self.options)


class InOne(InTwo):
    @classmethod
    def name(cls) -> str:
        return "postgres_in_one"

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return CommitsInOne(self.options)


def to_two(frame: DataFrame, folders: RunFolders) -> Any:
    return _to_source(InTwo, frame, folders)


def to_one(frame: DataFrame, folders: RunFolders) -> Any:
    return _to_source(InOne, frame, folders)


def _to_source(source: type[DataSource], frame: DataFrame, folders: RunFolders) -> Any:
    frame.sparkSession.dataSource.register(source)
    writer = frame.select("seq", "value").writeStream.format(source.name())
    return writer.option("schema", _schema(folders)).option("place", folders.reach(POSTGRES))


def source_query(write: Callable[[DataFrame, RunFolders], Any], port: int) -> Query:
    store = Store(POSTGRES, reset, address=f"127.0.0.1:{port}", protocol="postgres")
    return Query(
        as_it_comes, name=write.__name__, write=write, read=read_lines, stores=(store,), batch_events=5, claims=CLAIMS
    )


# Over HTTP


def _asked(folders: RunFolders, method: str, path: str, rows: object = None, **headers: str) -> Any:
    connection = http.client.HTTPConnection(folders.reach(WEB), timeout=30)
    with closing(connection):
        connection.request(method, f"/{folders.label}/{path}", json.dumps(rows), headers)
        return json.loads(connection.getresponse().read())


def _tried(times: int, ask: Callable[[], object]) -> None:
    for left in reversed(range(times)):
        try:
            ask()
            return
        except (OSError, http.client.HTTPException):
            if not left:
                raise


def _post(frame: DataFrame, batch: int, folders: RunFolders, **headers: str) -> None:
    """A batch that is there is not sent again, so that nobody's death is a matter."""
    rows = [[batch, line.seq, line.value] for line in frame.select("seq", "value").collect()]
    if rows and batch not in {row[0] for row in _asked(folders, "GET", "orders")}:
        _tried(3, lambda: _asked(folders, "POST", "orders", rows, **headers))


def retrying_without_key(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Wrong: what was done, and its answer lost, is done again."""
    _post(frame, batch, folders)


def retrying_with_key(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    _post(frame, batch, folders, **{"Idempotency-Key": str(batch)})


def looking_away(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """Wrong: what never came to the store is not sent again."""
    rows = [[batch, line.seq, line.value] for line in frame.select("seq", "value").collect()]
    with suppress(OSError, http.client.HTTPException):
        _asked(folders, "POST", "orders", rows, **{"Idempotency-Key": str(batch)})


def reset_orders(folders: RunFolders) -> None:
    _asked(folders, "DELETE", "orders")


def read_orders(spark: SparkSession, folders: RunFolders) -> DataFrame:
    rows = [tuple(row[1:]) for row in _asked(folders, "GET", "orders")]
    return spark.createDataFrame(rows, "seq LONG, value STRING")


def web_query(
    sink: Callable[..., None], port: int, read: Read = read_orders, reset: Callable[[RunFolders], None] = reset_orders
) -> Query:
    store = Store(WEB, reset, address=f"127.0.0.1:{port}", protocol="http")
    return foreach_batch(sink, read, stores=(store,), batch_events=5, claims=CLAIMS)


def _in_one_place(folders: RunFolders) -> RunFolders:
    """Where all runs have their rows."""
    return replace(folders, label="all")


def posting_to_one_place(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    retrying_with_key(frame, batch, _in_one_place(folders))


def read_one_place(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return read_orders(spark, _in_one_place(folders))


def reset_one_place(folders: RunFolders) -> None:
    reset_orders(_in_one_place(folders))


# Through Spark's own connector

KAFKA = "kafka"
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"


def nothing(folders: RunFolders) -> None:
    """A topic of the run's own comes about when somebody writes to it."""


def write_topic(frame: DataFrame, folders: RunFolders) -> DataStreamWriter:
    rows = frame.selectExpr("cast(seq as string) as key", "value")
    writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", folders.reach(KAFKA))
    return writer.option("topic", folders.label)


def read_topic(spark: SparkSession, folders: RunFolders) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", folders.reach(KAFKA))
    rows = reader.option("subscribe", folders.label).load()
    return rows.selectExpr("cast(cast(key as string) as long) as seq", "cast(value as string) as value")


def lines_only(lines: DataFrame) -> DataFrame:
    return lines.select("seq", "value")


def kafka_query(port: int) -> Query:
    """At least once: a task that is run again writes its rows again."""
    store = Store(KAFKA, nothing, address=f"127.0.0.1:{port}", protocol="kafka")
    return Query(
        lines_only,
        name="kafka-sink",
        write=write_topic,
        read=read_topic,
        stores=(store,),
        packages=(CONNECTOR,),
        batch_events=5,
        claims=CLAIMS,
    )
