"""The driver of a query on embedded Spark: from the harness's source, through the query, to the harness's recorder.

Run as `python -m streamproof.harness.embedded.query_driver PLAN`; PLAN is a file that the harness wrote. All that the
driver says goes over one connection, in order, and is in the kernel's hands before Spark hears that a batch was taken.
"""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ..addresses import Address, Moment, Point, Side
from ..errors import InvalidOperator, OwnFailure, StreamproofError
from ..judging.references import row_number
from ..model import Event, Value
from ..query import Query
from ..recording.records import Delivered, Ended, Started, Taken
from ..wire import VERSION, BlockingConnection, Greeting, Place
from .protocol import Arrived, Begun, Failed
from .query_source import FORMAT, EventSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

SOURCE = "source"


@dataclass(frozen=True)
class QueryRun:
    """One execution of the query, from its checkpoint on."""

    actor: str
    sink: str
    checkpoint: Path
    source_plan: Path
    """A `SourcePlan` in JSON."""
    armed: tuple[Moment, ...] = ()
    waits: bool = False
    """Whether it begins only when the harness says go."""


@dataclass(frozen=True)
class QueryPlan:
    """What a driver needs to know. It runs its runs one after the other in one session."""

    token: str
    harness: Place
    node: str
    incarnation: int
    query: Query
    events: int
    """How many events the input has."""
    runs: tuple[QueryRun, ...]


class HarnessLink:
    """The driver's connection to the harness."""

    def __init__(self, plan: QueryPlan) -> None:
        greeting = Greeting(VERSION, plan.token, "driver", plan.node, incarnation=plan.incarnation)
        self._connection = BlockingConnection(plan.harness, greeting)
        self._lock = threading.Lock()

    def send(self, *messages: object) -> None:
        with self._lock:
            for message in messages:
                self._connection.send(message)

    def ask(self, message: Arrived | Failed) -> None:
        """Returns when the harness says go."""
        with self._lock:
            self._connection.send(message)
            if self._connection.receive() is None:
                raise OwnFailure("the harness went away while it was waited for")


class _Execution:
    """One run of the query, seen from its sink."""

    def __init__(self, plan: QueryPlan, run: QueryRun, link: HarnessLink) -> None:
        self._plan = plan
        self._run = run
        self._link = link
        self._taken = 0
        self.failure: StreamproofError | None = None
        """What went wrong in here. Spark passes on no more than its text."""

    def begin(self) -> None:
        committed = _last_committed(self._run.checkpoint)
        before = None if committed is None else (self._plan.incarnation - 1, committed)
        next_batch = 0 if committed is None else committed + 1
        self._link.send(Started(self._run.actor, self._plan.incarnation, before, row_number(next_batch, 0)))
        if self._run.waits:
            self._link.ask(Arrived(self._address(Point.STARTED, "", Side.AFTER), 0, exact=True))

    def take(self, frame: DataFrame, number: int) -> None:
        """What foreachBatch calls."""
        try:
            collected = frame.collect()
        except Exception as error:
            self.failure = _blame(self._plan.query, error)
            raise
        try:
            self._deliver(canonical_rows(self._plan.query, collected, number), number)
        except StreamproofError as error:
            self.failure = error
            raise
        except Exception as error:
            self.failure = OwnFailure(
                f"the recorder could not be given batch {number}: {type(error).__name__}: {error}"
            )
            raise

    def end(self) -> None:
        self._link.send(Ended(self._run.actor, self._plan.incarnation, {SOURCE: [1]}))

    def _deliver(self, rows: list[Event], number: int) -> None:
        run, incarnation = self._run, self._plan.incarnation
        first = number * self._plan.query.batch_events + 1
        last = min(first + self._plan.query.batch_events - 1, self._plan.events)
        self._pass(Point.SINK_WRITE, str(number), Side.BEFORE)
        self._taken += last - first + 1
        self._link.send(
            Taken(run.actor, incarnation, SOURCE, 1, first, last, last - first + 1),
            # The recorder counts positions; nobody else knows what came before.
            Delivered(run.sink, self._plan.query.name, incarnation, 0, rows),
        )
        self._pass(Point.SINK_WRITE, str(number), Side.AFTER)

    def _pass(self, point: Point, key: str, side: Side) -> None:
        address = self._address(point, key, side)
        if any(moment.matches(address, self._taken) for moment in self._run.armed):
            self._link.ask(Arrived(address, self._taken, exact=True))

    def _address(self, point: Point, key: str, side: Side) -> Address:
        return Address(self._run.actor, self._plan.incarnation, point, key, side)


def canonical_rows(query: Query, rows: Sequence[Row], batch: int) -> list[Event]:
    """A batch's rows in the order of their keys.

    Raises InvalidOperator where a key comes twice, or a value cannot be recorded.
    """
    found: dict[str, Value] = {}
    for row in rows:
        key = _key([row[column] for column in query.key])
        if key in found:
            raise InvalidOperator(
                f"query {query.name!r} gives the key {key!r} twice in batch {batch}; update mode has one row"
            )
        try:
            found[key] = msgspec.to_builtins(row[query.value])
        except (TypeError, ValueError) as error:
            raise InvalidOperator(f"query {query.name!r} gives {query.value}={row[query.value]!r}: {error}") from error
    return [Event(query.name, row_number(batch, place), key, found[key], 0) for place, key in enumerate(sorted(found))]


def _key(columns: list[Any]) -> str:
    """A single string as it is, anything else as JSON."""
    if len(columns) == 1:
        return columns[0] if isinstance(columns[0], str) else msgspec.json.encode(columns[0]).decode()
    return msgspec.json.encode(columns).decode()


def _last_committed(checkpoint: Path) -> int | None:
    """The last batch that is in Spark's commit log."""
    commits = checkpoint / "commits"
    names = [file.name for file in commits.iterdir()] if commits.exists() else []
    return max((int(name) for name in names if name.isdigit()), default=None)


def run_query(spark: SparkSession, plan: QueryPlan, run: QueryRun, link: HarnessLink) -> None:
    """Run the query to the end of its input. Raises InvalidOperator for what is the query's fault."""
    execution = _Execution(plan, run, link)
    execution.begin()
    query = plan.query
    try:
        frame = spark.readStream.format(FORMAT).option("plan", str(run.source_plan)).load()
        output = _checked(query, query.transform(frame))
        writer = output.writeStream.outputMode("update").foreachBatch(execution.take)
        writer = writer.option("checkpointLocation", str(run.checkpoint)).queryName(f"{query.name} as {run.actor}")
        writer.trigger(availableNow=True).start().awaitTermination()
    except StreamproofError:
        raise
    except Exception as error:
        if execution.failure is not None:
            raise execution.failure from error
        raise _blame(query, error) from error
    execution.end()


def _checked(query: Query, output: object) -> DataFrame:
    from pyspark.sql import DataFrame

    if not isinstance(output, DataFrame):
        raise InvalidOperator(f"query {query.name!r}: transform gives a {type(output).__name__}, not a DataFrame")
    if not output.isStreaming:
        raise InvalidOperator(f"query {query.name!r}: what transform gives is not a streaming frame")
    missing = [column for column in (*query.key, query.value) if column not in output.columns]
    if missing:
        raise InvalidOperator(
            f"query {query.name!r}: its output has no column {missing[0]!r}; it has: {', '.join(output.columns)}"
        )
    return output.select(*query.key, query.value)


_OURS = ("query_source.py", "ExecutorLostFailure", "No space left on device", "SparkContext was shut down")
"""What shows, in an error of Spark's, that the query is not to blame."""


def _blame(query: Query, error: Exception) -> StreamproofError:
    text = str(error)
    sign = next((sign for sign in _OURS if sign in text), None)
    if sign is not None:
        return OwnFailure(f"query {query.name!r} was ended by its surroundings ({sign}): {_shortened(text)}")
    return InvalidOperator(f"query {query.name!r} failed: {_shortened(text)}")


def _shortened(text: str, lines: int = 12) -> str:
    """What the user's code raised, where a Python traceback says it; else the first lines, without the JVM's stack."""
    kept = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    tracebacks = [place for place, line in enumerate(kept) if "Traceback (most recent call last)" in line]
    raised = (line for line in kept[tracebacks[-1] + 1 :] if not line[0].isspace()) if tracebacks else iter(())
    return next(raised, "\n".join(kept[:lines] + (["..."] if len(kept) > lines else [])))


def main(path: str) -> int:
    plan: QueryPlan = pickle.loads(Path(path).read_bytes())
    link = HarnessLink(plan)
    for run in plan.runs:
        link.send(Begun(run.actor, 0, plan.incarnation, time.monotonic_ns()))
    try:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.appName(f"streamproof {plan.query.name}").getOrCreate()
        spark.dataSource.register(EventSource)
        for run in plan.runs:
            run_query(spark, plan, run, link)
    except StreamproofError as error:
        link.ask(Failed(type(error).__name__, str(error)))
        raise
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
