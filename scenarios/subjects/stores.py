"""Sinks that write to stores that people use, through the connectors that these have for Spark: what is promised of
each, and the verdict that a certificate of it must come to.

They are no lines of the table of subjects: each is made for one Spark, by a connector that has to be fetched, and some
for a server that has to be there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ...harness.contracts.query import Query
from ...harness.core.errors import UnknownName
from ...harness.core.guarantees import Guarantee, at_least_once, exactly_once
from ...harness.core.verdicts import Anomaly, Status
from ...harness.core.workload import Workload
from . import delta, iceberg
from .inputs import some_words
from .kafka import kafka_sink

_DELTA_GUIDE: Final = "https://docs.delta.io/delta-streaming/"
_SPARK_GUIDE: Final = "https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html"
_ICEBERG_GUIDE: Final = "https://iceberg.apache.org/docs/latest/spark-structured-streaming/"
_ICEBERG_OPTIONS: Final = "https://iceberg.apache.org/docs/latest/spark-configuration/#write-options"
_KAFKA_GUIDE: Final = "https://spark.apache.org/docs/latest/streaming/structured-streaming-kafka-integration.html"


@dataclass(frozen=True)
class StoreLine:
    """One sink, and one claim that somebody makes of it."""

    name: str
    make: Callable[[str, str], Query]
    """Of the version of Spark, and of the address of its server, where it needs one."""
    sink: str
    promise: str
    """As the documentation has it, in few words."""
    documented: str
    """Where."""
    claim: Guarantee
    """What a certificate is asked for: what is promised, or what users take for it."""
    expected: Status
    anomaly: Anomaly | None = None
    workload: Workload = some_words()
    server: str = ""
    """What has to listen somewhere."""


STORES: Final = (
    StoreLine(
        "delta-sink",
        lambda spark, address: delta.delta_sink(spark),
        'Delta Lake, `writeStream.format("delta")`',
        "exactly-once, by the transaction log",
        _DELTA_GUIDE,
        exactly_once(),
        Status.HOLDS,
    ),
    StoreLine(
        "delta-by-batch",
        lambda spark, address: delta.delta_by_batch(spark),
        "Delta Lake, `foreachBatch` with `txnAppId` and `txnVersion`",
        "writes are idempotent: a batch that is there is left out",
        _DELTA_GUIDE,
        exactly_once(),
        Status.HOLDS,
    ),
    StoreLine(
        "delta-blind-append",
        lambda spark, address: delta.delta_blind_append(spark),
        "Delta Lake, `foreachBatch` that appends",
        "at-least-once, as any `foreachBatch`",
        _SPARK_GUIDE,
        exactly_once(),
        Status.VIOLATED,
        Anomaly.DUPLICATE_EFFECT,
    ),
    StoreLine(
        "iceberg-sink",
        lambda spark, address: iceberg.iceberg_sink(spark),
        'Iceberg, `writeStream.format("iceberg")`',
        "the rows of every batch are appended; of a batch that comes again it says nothing",
        _ICEBERG_GUIDE,
        exactly_once(),
        Status.HOLDS,
    ),
    StoreLine(
        "iceberg-by-batch",
        lambda spark, address: iceberg.iceberg_by_batch(spark),
        "Iceberg, `foreachBatch` that looks for its batch among the snapshots' properties",
        "an append can add a property to its snapshot",
        _ICEBERG_OPTIONS,
        exactly_once(),
        Status.HOLDS,
    ),
    StoreLine(
        "iceberg-blind-append",
        lambda spark, address: iceberg.iceberg_blind_append(spark),
        "Iceberg, `foreachBatch` that appends",
        "at-least-once, as any `foreachBatch`",
        _SPARK_GUIDE,
        exactly_once(),
        Status.VIOLATED,
        Anomaly.DUPLICATE_EFFECT,
    ),
    StoreLine(
        "kafka-sink",
        lambda spark, address: kafka_sink(address, spark),
        'Kafka, `writeStream.format("kafka")`',
        "at-least-once: some records may be there twice",
        _KAFKA_GUIDE,
        at_least_once(),
        Status.HOLDS,
        server="kafka",
    ),
    StoreLine(
        "kafka-sink, exactly-once",
        lambda spark, address: kafka_sink(address, spark),
        'Kafka, `writeStream.format("kafka")`, read with `read_committed`',
        "at-least-once: some records may be there twice",
        _KAFKA_GUIDE,
        exactly_once(),
        Status.VIOLATED,
        Anomaly.DUPLICATE_EFFECT,
        server="kafka",
    ),
)


def store_line(name: str) -> StoreLine:
    """Raises UnknownName."""
    for one in STORES:
        if one.name == name:
            return one
    raise UnknownName("store", name, [one.name for one in STORES])
