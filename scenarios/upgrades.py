"""Pairs of versions of a query, each with what becomes of the new one that goes on from what the old one leaves.

`streamproof upgrade grouping-widened` tries one; `streamproof list upgrades` has them all.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as f

from ..harness.contracts.query import Query, Read, RunFolders, Write
from ..harness.contracts.query_parts import processor
from ..harness.core.workload import Workload
from ..harness.install.python_versions import has_module
from ..harness.judging.shapes import OutputMode
from ..harness.upgrading.outcomes import Basis, UpgradeOutcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
elif has_module("pyspark.sql.streaming.stateful_processor"):
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
    """From states with a committed batch; None: it is not known."""
    basis: Basis = Basis.ALL
    workload: Workload = few_pairs()
    before: tuple[str, UpgradeOutcome] | None = None
    """A line of Spark, and what is expected on those before it, where that is something else."""

    def expected_on(self, version: str) -> UpgradeOutcome | None:
        """Where both queries run on this version of Spark."""
        if self.before is not None and _line(version) < _line(self.before[0]):
            return self.before[1]
        return self.expected


def _line(version: str) -> tuple[int, int]:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def disordered_pairs(seed: int = 7) -> Workload:
    """The same, with how late each comes, ms."""

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for _ in range(count):
            yield random.choice(("k0", "k1", "k2")), random.choice(("0", "0", "18"))

    return Workload("disordered-pairs", 3 * BATCH, BATCH, draw, seed)


def rising_values(seed: int = 7) -> Workload:
    """A few keys, and values each of which comes once."""

    def draw(count: int, seed: int) -> Iterator[tuple[str, object]]:
        random = Random(seed)
        for number in range(count):
            yield random.choice(("k0", "k1")), f"{number:03}"

    return Workload("rising-values", 3 * BATCH, BATCH, draw, seed)


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


def latest_value(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").agg(f.max("value").alias("value"))


def earliest_value(frame: DataFrame) -> DataFrame:
    """Whose state has the same type, and is made good by the value that comes again."""
    return frame.groupBy("key").agg(f.min("value").alias("value"))


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
    # Later than the watermark's beginning, and two batches late or not at all.
    late = frame.withColumn("timestamp", f.expr("timestamp_millis(100 + time - int(value))"))
    return late.withWatermark("timestamp", delay).groupBy(f.window("timestamp", "4 milliseconds")).count()


def windows_with_little_patience(frame: DataFrame) -> DataFrame:
    return _in_windows(frame, "1 millisecond")


def windows_with_more_patience(frame: DataFrame) -> DataFrame:
    return _in_windows(frame, "30 milliseconds")


def _ticks(frame: DataFrame, rows: int = 1) -> DataFrame:
    """A further source, which gives the same at each run: it gives as many rows again each time that the query is
    started, and those of the first start count."""
    ticks = frame.sparkSession.readStream.format("rate-micro-batch").option("rowsPerBatch", str(rows)).load()
    return ticks.where(f"value < {rows}").selectExpr(
        "value AS seq", f"'tick-{rows}' AS key", "CAST(value AS STRING) AS value"
    )


def lines_and_ticks(frame: DataFrame) -> DataFrame:
    return plain_lines(frame).union(_ticks(frame))


def ticks_and_lines(frame: DataFrame) -> DataFrame:
    return _ticks(frame).union(plain_lines(frame))


def ticks_slow_and_fast(frame: DataFrame) -> DataFrame:
    return plain_lines(frame).union(_ticks(frame, 1)).union(_ticks(frame, 2))


def ticks_fast_and_slow(frame: DataFrame) -> DataFrame:
    return plain_lines(frame).union(_ticks(frame, 2)).union(_ticks(frame, 1))


def count_by_text(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("substring(key, 2) AS key").groupBy("key").count()


def count_by_number(frame: DataFrame) -> DataFrame:
    """The same keys, as whole numbers."""
    return frame.selectExpr("CAST(substring(key, 2) AS INT) AS key").groupBy("key").count()


def _first_of_each(frame: DataFrame, column: str) -> DataFrame:
    return frame.dropDuplicates([column]).selectExpr(f"'{column}' AS column", f"{column} AS first")


def first_keys_and_values(frame: DataFrame) -> DataFrame:
    return _first_of_each(frame, "key").union(_first_of_each(frame, "value"))


def first_values_and_keys(frame: DataFrame) -> DataFrame:
    """The same rows, of two operators that have changed places, and whose state has the same type."""
    return _first_of_each(frame, "value").union(_first_of_each(frame, "key"))


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


class CountsWhatWasSeen(CountsWithMoreState):
    """Takes what has nothing in the new column for no state at all."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        before = self._count.get()
        if before and before[1] is None:
            self._count.clear()
        yield from super().handleInputRows(key, rows, timerValues)


def _to_files(folder: str, format: str = "json") -> Write:
    def write(rows: DataFrame, folders: RunFolders) -> DataStreamWriter:
        return rows.writeStream.format(format).option("path", str(folders.sink / folder))

    return write


def _from_files(folder: str, format: str = "json") -> Read:
    def read(spark: SparkSession, folders: RunFolders) -> DataFrame:
        schema = "seq LONG, key STRING, value STRING"
        return spark.read.schema(schema).format(format).load(str(folders.sink / folder))

    return read


def _began(folders: RunFolders) -> bool:
    return any((folders.checkpoint / "commits").glob("[0-9]*"))


def write_from_the_beginning_only(rows: DataFrame, folders: RunFolders) -> DataStreamWriter | StreamingQuery:
    if _began(folders):
        raise ValueError("the state of version 1 cannot be taken over: migrate it, or name a new checkpoint")
    return _to_files("one")(rows, folders)


def write_from_the_beginning_again(rows: DataFrame, folders: RunFolders) -> DataStreamWriter | StreamingQuery:
    """As some do that find a checkpoint which they do not know."""
    if _began(folders):
        shutil.rmtree(folders.checkpoint)
    return _to_files("one")(rows, folders)


# The versions


def _counts(transform: Callable[[DataFrame], DataFrame], *key: str, **more: Any) -> Query:
    return Query(transform, mode=OutputMode.UPDATE, key=key, batch_events=BATCH, **more)


def _lines(transform: Callable[[DataFrame], DataFrame], **more: Any) -> Query:
    return Query(transform, batch_events=BATCH, **more)


def _processed(code: type[StatefulProcessor], **settings: str) -> Query:
    return processor(code, "key STRING, count LONG", batch_events=BATCH, settings=settings)


_STORE = "spark.sql.streaming.stateStore"
_ROCKS_DB = {f"{_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
_CHANGELOG = f"{_STORE}.rocksdb.changelogCheckpointing.enabled"
_AVRO = {f"{_STORE}.encodingFormat": "avro"}
BY_KEY = _counts(count_by_key, "key")
ON_ROCKS_DB = replace(BY_KEY, settings=_ROCKS_DB)
LINES = _lines(plain_lines)
TO_FILES = _lines(plain_lines, name="to-one", write=_to_files("one"), read=_from_files("one"))

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
        # What a stateful operator keeps can be null since then (spark.sql.streaming.statefulOperator.
        # alwaysNullableOutput.enabled). Before, that of a count cannot and of a sum can, and Spark sees a difference.
        before=("4.3", REFUSED),
    ),
    UpgradePair(
        "maximum-replaced",
        "A maximum becomes a minimum, which comes right again once the value comes again.",
        _counts(latest_value, "key"),
        _counts(earliest_value, "key"),
        WRONG,
        workload=rising_values(),
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
        WRONG,
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
        WRONG,
    ),
    UpgradePair(
        "state-schema-evolved",
        "A column is added to a variable of the state of a StatefulProcessor.",
        _processed(CountsInState),
        _processed(CountsWithMoreState),
        REFUSED,
    ),
    UpgradePair(
        "state-schema-evolved-in-avro",
        "The same, where the state is encoded as Avro.",
        _processed(CountsInState, **_AVRO),
        _processed(CountsWithMoreState, **_AVRO),
        CONTINUES,
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
        CONTINUES,
    ),
    UpgradePair("source-added", "A second source is added.", LINES, _lines(lines_and_ticks), REFUSED),
    UpgradePair(
        "sources-swapped",
        "Two sources change places.",
        _lines(lines_and_ticks),
        _lines(ticks_and_lines),
        REFUSED,
    ),
    UpgradePair(
        "sources-alike-swapped",
        "Two sources change places, which are of one kind.",
        _lines(ticks_slow_and_fast),
        _lines(ticks_fast_and_slow),
        WRONG,
    ),
    UpgradePair(
        "key-retyped",
        "The column of the grouping is a whole number, and was the same as text.",
        _counts(count_by_text, "key"),
        _counts(count_by_number, "key"),
        REFUSED,
    ),
    UpgradePair(
        "operators-swapped",
        "Two operators change places, whose state has the same type.",
        _lines(first_keys_and_values),
        _lines(first_values_and_keys),
        WRONG,
    ),
    UpgradePair(
        "state-forgotten",
        "A column is added to a variable of the state, and what has none there yet is taken for no state.",
        _processed(CountsInState, **_AVRO),
        _processed(CountsWhatWasSeen, **_AVRO),
        WRONG,
    ),
    UpgradePair(
        "sink-moved",
        "The file sink writes to another folder, under the same checkpoint.",
        TO_FILES,
        _lines(plain_lines, name="to-other", write=_to_files("other"), read=_from_files("other")),
        UpgradeOutcome.CRASH_LOOP,
    ),
    UpgradePair(
        "sink-format-changed",
        "The file sink writes Parquet into the folder, which held JSON.",
        TO_FILES,
        _lines(plain_lines, name="to-parquet", write=_to_files("one", "parquet"), read=_from_files("one", "parquet")),
        UpgradeOutcome.CRASH_LOOP,
    ),
    UpgradePair(
        "refused-by-itself",
        "The new version raises an error of its own where it finds a checkpoint of the old one.",
        TO_FILES,
        _lines(plain_lines, name="begins-once", write=write_from_the_beginning_only, read=_from_files("one")),
        REFUSED,
    ),
    UpgradePair(
        "checkpoint-thrown-away",
        "The new version throws away a checkpoint that it finds, and begins again.",
        TO_FILES,
        _lines(plain_lines, name="begins-again", write=write_from_the_beginning_again, read=_from_files("one")),
        UpgradeOutcome.UNKNOWN,
    ),
)
