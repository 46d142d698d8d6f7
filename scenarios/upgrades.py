"""Pairs of versions of a query, each with what becomes of the new one that goes on from what the old one leaves.

`streamproof upgrade grouping-widened` tries one; `streamproof list upgrades` has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from random import Random
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as f

from ..harness.contracts.query import Query, Read, RunFolders, Write
from ..harness.contracts.query_parts import processor
from ..harness.core.workload import Workload
from ..harness.judging.shapes import OutputMode
from ..harness.upgrading.outcomes import Basis, UpgradeOutcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
elif find_spec("pyspark.sql.streaming.stateful_processor"):
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
else:
    # Before 4.0 there is none, and what else is here is of use all the same.
    StatefulProcessor = StatefulProcessorHandle = object

CONTINUES, REFUSED, WRONG = UpgradeOutcome.CONTINUES, UpgradeOutcome.REFUSED, UpgradeOutcome.WRONG

BATCH = 6


def few_pairs(seed: int = 7) -> Workload:
    """A few pairs of key and value, each again and again: small, since each is run hundreds of times."""

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for _ in range(count):
            yield random.choice(("k0", "k1", "k2")), random.choice(("k0", "k1"))

    return Workload("few-pairs", 3 * BATCH, BATCH, draw, seed)


@dataclass(frozen=True)
class UpgradePair:
    """One change."""

    name: str
    summary: str
    old: Query
    new: Query
    expected: UpgradeOutcome | None
    """From states with a committed batch; None: nobody has seen yet what becomes of it."""
    basis: Basis = Basis.ALL
    workload: Workload = few_pairs()


def disordered_pairs(seed: int = 7) -> Workload:
    """The same, with how late each comes, ms."""

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for _ in range(count):
            yield random.choice(("k0", "k1", "k2")), random.choice(("0", "0", "9"))

    return Workload("disordered-pairs", 3 * BATCH, BATCH, draw, seed)


# What the versions do


def count_by_key(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").count()


def count_by_key_and_value(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key", "value").count()


def count_by_one_and_other(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("key AS one", "value AS other").groupBy("one", "other").count()


def count_by_other_and_one(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("key AS one", "value AS other").groupBy("other", "one").count()


def count_and_latest(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").agg(f.count("*").alias("count"), f.max("seq").alias("latest"))


def sum_by_key(frame: DataFrame) -> DataFrame:
    """As many bytes of state as a count has, which mean something else."""
    return frame.groupBy("key").agg(f.sum("seq").alias("count"))


def count_some_by_key(frame: DataFrame) -> DataFrame:
    return frame.filter("key <> 'k2'").groupBy("key").count()


def count_none_by_key(frame: DataFrame) -> DataFrame:
    return frame.filter("1 = 0").groupBy("key").count()


def count_distinct_events(frame: DataFrame) -> DataFrame:
    return frame.dropDuplicates(["key", "seq"]).groupBy("key").count()


def plain_lines(frame: DataFrame) -> DataFrame:
    return frame.select("seq", "key", "value")


def some_lines(frame: DataFrame) -> DataFrame:
    return plain_lines(frame).filter("key <> 'k2'")


def lines_with_length(frame: DataFrame) -> DataFrame:
    return plain_lines(frame).withColumn("length", f.length("value"))


def _in_windows(frame: DataFrame, delay: str) -> DataFrame:
    late = frame.withColumn("timestamp", f.expr("timestamp_millis(time - int(value))"))
    return late.withWatermark("timestamp", delay).groupBy(f.window("timestamp", "4 milliseconds")).count()


def windows_with_little_patience(frame: DataFrame) -> DataFrame:
    return _in_windows(frame, "1 millisecond")


def windows_with_more_patience(frame: DataFrame) -> DataFrame:
    return _in_windows(frame, "30 milliseconds")


def _ticks(frame: DataFrame) -> DataFrame:
    """A second source, which gives the same at each run."""
    ticks = frame.sparkSession.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
    return ticks.selectExpr("value AS seq", "'tick' AS key", "CAST(value AS STRING) AS value")


def lines_and_ticks(frame: DataFrame) -> DataFrame:
    return plain_lines(frame).union(_ticks(frame))


def ticks_and_lines(frame: DataFrame) -> DataFrame:
    return _ticks(frame).union(plain_lines(frame))


class CountsInState(StatefulProcessor):
    """Counts, in a variable of its state that has a name and a schema."""

    name = "count"
    schema = "count LONG"

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState(self.name, self.schema)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        before = self._count.get()
        count = (before[0] if before else 0) + sum(1 for _ in rows)
        self._count.update(self.kept(count))
        yield Row(key=key[0], count=count)

    def kept(self, count: int) -> tuple[Any, ...]:
        return (count,)

    def close(self) -> None:
        pass


class CountsInRenamedState(CountsInState):
    name = "total"


class CountsWithMoreState(CountsInState):
    schema = "count LONG, seen STRING"

    def kept(self, count: int) -> tuple[Any, ...]:
        return (count, "seen")


def _to_json(folder: str) -> Write:
    def write(rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
        return rows.writeStream.format("json").option("path", str(folders.sink / folder))

    return write


def _from_json(folder: str) -> Read:
    def read(spark: SparkSession, folders: RunFolders) -> DataFrame:
        return spark.read.schema("seq LONG, key STRING, value STRING").json(str(folders.sink / folder))

    return read


# The versions


def _counts(transform: Callable[[DataFrame], DataFrame], *key: str, **more: Any) -> Query:
    return Query(transform, mode=OutputMode.UPDATE, key=key, batch_events=BATCH, **more)


def _lines(transform: Callable[[DataFrame], DataFrame], **more: Any) -> Query:
    return Query(transform, batch_events=BATCH, **more)


def _processed(code: type[StatefulProcessor]) -> Query:
    return processor(code, "key STRING, count LONG", batch_events=BATCH)


_STORE = "spark.sql.streaming.stateStore"
_ROCKS_DB = {f"{_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
_CHANGELOG = f"{_STORE}.rocksdb.changelogCheckpointing.enabled"
BY_KEY = _counts(count_by_key, "key")
ON_ROCKS_DB = replace(BY_KEY, settings=_ROCKS_DB)
LINES = _lines(plain_lines)

PAIRS: tuple[UpgradePair, ...] = (
    UpgradePair("nothing-changed", "Nothing is changed.", BY_KEY, BY_KEY, CONTINUES),
    UpgradePair(
        "grouping-widened",
        "A column is added to the grouping.",
        BY_KEY,
        _counts(count_by_key_and_value, "key", "value"),
        REFUSED,
    ),
    UpgradePair(
        "keys-swapped",
        "Two columns of the grouping change places, which have the same type.",
        _counts(count_by_one_and_other, "one", "other"),
        _counts(count_by_other_and_one, "one", "other"),
        WRONG,
    ),
    UpgradePair("aggregate-added", "A second aggregate is added.", BY_KEY, _counts(count_and_latest, "key"), REFUSED),
    UpgradePair(
        "aggregate-replaced",
        "A count becomes a sum, whose state has the same type.",
        BY_KEY,
        _counts(sum_by_key, "key"),
        WRONG,
    ),
    UpgradePair(
        "filter-added", "A filter is added before an aggregate.", BY_KEY, _counts(count_some_by_key, "key"), WRONG
    ),
    UpgradePair(
        "filter-constant-false",
        "A filter is added that is false of every row.",
        BY_KEY,
        _counts(count_none_by_key, "key"),
        WRONG,
    ),
    UpgradePair(
        "filter-added-to-lines", "A filter is added to a query without state.", LINES, _lines(some_lines), WRONG
    ),
    UpgradePair(
        "filter-added-to-lines-since",
        "The same, and only what is made since the change is compared.",
        LINES,
        _lines(some_lines),
        CONTINUES,
        Basis.SINCE,
    ),
    UpgradePair(
        "column-added-to-lines-since",
        "A column is added to the output of a query without state; what is made since the change is compared.",
        LINES,
        _lines(lines_with_length),
        CONTINUES,
        Basis.SINCE,
    ),
    UpgradePair(
        "mode-changed",
        "Output mode complete, which was update.",
        BY_KEY,
        replace(BY_KEY, mode=OutputMode.COMPLETE),
        CONTINUES,
    ),
    UpgradePair(
        "watermark-raised",
        "The watermark waits longer, for what had been dropped.",
        _lines(windows_with_little_patience),
        _lines(windows_with_more_patience),
        None,
        workload=disordered_pairs(),
    ),
    UpgradePair(
        "operator-added",
        "A second operator with state is added before the first.",
        BY_KEY,
        _counts(count_distinct_events, "key"),
        REFUSED,
    ),
    UpgradePair(
        "variable-renamed",
        "A variable of the state of a StatefulProcessor is renamed.",
        _processed(CountsInState),
        _processed(CountsInRenamedState),
        None,
    ),
    UpgradePair(
        "state-schema-evolved",
        "A column is added to a variable of the state of a StatefulProcessor.",
        _processed(CountsInState),
        _processed(CountsWithMoreState),
        None,
    ),
    UpgradePair(
        "partitions-changed",
        "spark.sql.shuffle.partitions is 3, and was 2.",
        BY_KEY,
        replace(BY_KEY, settings={"spark.sql.shuffle.partitions": "3"}),
        CONTINUES,
    ),
    UpgradePair(
        "provider-changed", "The state store is RocksDB's, and was the one in memory.", BY_KEY, ON_ROCKS_DB, CONTINUES
    ),
    UpgradePair(
        "changelog-switched-on",
        "RocksDB's changelog checkpoints are switched on.",
        replace(BY_KEY, settings={**_ROCKS_DB, _CHANGELOG: "false"}),
        replace(BY_KEY, settings={**_ROCKS_DB, _CHANGELOG: "true"}),
        None,
    ),
    UpgradePair("source-added", "A second source is added.", LINES, _lines(lines_and_ticks), REFUSED),
    UpgradePair(
        "sources-swapped",
        "Two sources change places.",
        _lines(lines_and_ticks),
        _lines(ticks_and_lines),
        None,
    ),
    UpgradePair(
        "sink-moved",
        "The file sink writes to another folder, under the same checkpoint.",
        _lines(plain_lines, name="to-one", write=_to_json("one"), read=_from_json("one")),
        _lines(plain_lines, name="to-other", write=_to_json("other"), read=_from_json("other")),
        None,
    ),
)
