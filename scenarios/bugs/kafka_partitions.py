"""With AvailableNow, Kafka's source fixes when it begins how far the query is to read, and asks of each batch that its
end names the same partitions.

A batch that was planned before its driver died names those that the topic had then. Where the topic was made wider
meanwhile, it names fewer; the query fails then, and does so each time that it is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ...faults.crash import crash
from ...harness.contracts.query import Query, RunFolders, Store
from ...harness.contracts.query_parts import as_it_comes
from ...harness.core.addresses import DRIVER, Moment, Point, Side
from ...harness.core.guarantees import recovers
from ...harness.core.verdicts import Anomaly
from ...harness.core.waiting import wait_until
from ..subjects.kafka import CONNECTOR, STORE
from ..workloads import words
from .batch_folders import each_batch_in_its_folder, read_batches
from .line import RealBug, Release, Report

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH: Final = 10
LINES: Final = 2 * BATCH
BROKER: Final = "127.0.0.1:9092"
"""Where the user's listens, who is told nothing else."""
TOLD_SECONDS: Final = 60
ADMINISTRATION: Final = "org.apache.kafka.clients.admin"


def filled_topic(folders: RunFolders) -> None:
    """The run's own, which comes about with its first record, and has one partition then."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None
    lines = spark.range(0, LINES, 1, 1).selectExpr("cast(id as string) AS key", "concat('line ', id) AS value")
    writer = lines.write.format("kafka").option("kafka.bootstrap.servers", folders.reach(STORE))
    writer.option("topic", folders.label).save()


def make_wider(spark: SparkSession, address: str, topic: str) -> None:
    """By one partition, which holds nothing yet."""
    jvm: Any = spark._jvm
    settings = jvm.java.util.HashMap()
    settings.put("bootstrap.servers", address)
    administrator = getattr(jvm, f"{ADMINISTRATION}.Admin").create(settings)
    try:
        count = _partitions(jvm, administrator, topic) + 1
        wider = jvm.java.util.Collections.singletonMap(
            topic, getattr(jvm, f"{ADMINISTRATION}.NewPartitions").increaseTo(count)
        )
        administrator.createPartitions(wider).all().get()
        # The answer comes when it is decided, and those who ask for the topic may be told of it a little later.
        wait_until(lambda: _partitions(jvm, administrator, topic) >= count, TOLD_SECONDS, "the topic to be wider")
    finally:
        administrator.close()


def _partitions(jvm: Any, administrator: Any, topic: str) -> int:
    described = administrator.describeTopics(jvm.java.util.Collections.singletonList(topic)).allTopicNames().get()
    count: int = described.get(topic).partitions().size()
    return count


def lines_of_a_topic(spark: SparkSession, folders: RunFolders) -> DataFrame:
    """Whoever starts the query makes its topic wider first, as where there is more and more to come."""
    address, topic = folders.reach(STORE), folders.label
    make_wider(spark, address, topic)
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    lines = reader.option("maxOffsetsPerTrigger", str(BATCH)).load()
    return lines.selectExpr(
        "cast(cast(key as string) as long) AS seq", "'all' AS key", "cast(value as string) AS value"
    )


def kafka_source(release: Release) -> Query:
    return Query(
        as_it_comes,
        name="kafka-source",
        key=("seq",),
        source=lines_of_a_topic,
        write=each_batch_in_its_folder,
        read=read_batches,
        stores=(Store(STORE, filled_topic, address=release.server or BROKER, protocol="kafka"),),
        packages=(CONNECTOR.format(version=release.spark),),
        spark=release.spark,
    )


BUG: Final = RealBug(
    "spark-53560",
    "Spark: a query whose driver died in a batch is never started again, if its topic has more partitions by then",
    (
        Report("SPARK-53560", "https://issues.apache.org/jira/browse/SPARK-53560"),
        Report("its correction", "https://github.com/apache/spark/pull/52304"),
    ),
    affected=Release("Spark 4.0.0", "4.0.0"),
    fixed=Release("Spark 4.2.0", "4.2.0"),
    make=kafka_source,
    # Which nobody is fed: the topic has its own.
    workload=words(events=LINES),
    schedule=(crash("driver").at(Moment(Point.OFFSET_LOG, Side.AFTER, "1", DRIVER)),),
    anomalies=frozenset({Anomaly.CRASH_LOOP}),
    claim=recovers(),
    server="Kafka",
)


def needs_the_partitions_of_before() -> Query:
    """As `streamproof certify` takes it."""
    return kafka_source(BUG.affected)
