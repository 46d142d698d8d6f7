"""A topic of Kafka as a sink, by Spark's own connector, read back as a consumer reads it.

The broker is the user's (or a test's): a query is made for the address where it listens, and reaches it by way of the
run's folders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...harness.contracts.query import Query, RunFolders, Store
from ...harness.install.spark_choice import chosen_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

STORE: Final = "kafka"
CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"
SMALL_BATCH: Final = 5
"""Each crash is a real kill, since a topic cannot be copied."""


def numbered_values(frame: DataFrame) -> DataFrame:
    return frame.select("seq", "value")


def into_topic(frame: DataFrame, folders: RunFolders) -> DataStreamWriter:
    """Each run has a topic of its own, which comes about when somebody writes to it."""
    rows = frame.selectExpr("cast(seq as string) as key", "value")
    writer = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", folders.reach(STORE))
    return writer.option("topic", folders.label)


def from_topic(spark: SparkSession, folders: RunFolders) -> DataFrame:
    """All that a consumer is given that reads only what was committed: each record as often as it is there."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", folders.reach(STORE))
    rows = reader.option("kafka.isolation.level", "read_committed").option("subscribe", folders.label).load()
    return rows.selectExpr("cast(cast(key as string) as long) as seq", "cast(value as string) as value")


def as_it_is(folders: RunFolders) -> None:
    """A topic of the run's own is new."""


def kafka_sink(address: str, spark: str = "") -> Query:
    """Spark's Kafka sink, on a broker at `host:port`."""
    return Query(
        numbered_values,
        name="kafka-sink",
        write=into_topic,
        read=from_topic,
        stores=(Store(STORE, as_it_is, address=address, protocol="kafka"),),
        packages=(CONNECTOR.format(version=spark or chosen_version()),),
        spark=spark,
        batch_events=SMALL_BATCH,
    )
