"""The driver of a query: runs it from its source to its sink, each the harness's own or the user's.

Run as `python -m streamproof.harness.worlds.spark.queries.driver PLAN`; PLAN is a file that the harness wrote. All that
the driver says goes over one connection, in order, and is in the kernel's hands before Spark hears that a batch was
taken.

The user's modules are imported when the plan itself is read, after its head: by then there is a session, which is what
`SparkSession.builder.getOrCreate()` gives them, as it would in a script that spark-submit has started.
"""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ....contracts.query import SOURCE, Query, RunFolders, without_values
from ....core.addresses import Address, Point, Side
from ....core.errors import InvalidOperator, OwnFailure, StorageFailed, StreamproofError
from ....core.events import Event
from ....core.pickling import send_by_value, unpickled
from ....core.wire import VERSION, BlockingConnection, Greeting
from ....crash_points.inside_python.following import consumed, followed, noticed, written_out
from ....crash_points.inside_spark.versions import supported
from ....install.python_versions import python_versions
from ....judging.outputs import row_number
from ....judging.shapes import OutputMode
from ....recording.records import BatchDone, Delivered, EmptyBatch, Ended, Kept, Started, Taken
from ..control.run_messages import Arrived, Begun, Failed, Finishing, GivesColumns, KeptInTheJvm, SparkRuns
from .attaching import PORT, WAREHOUSE, attached_session, enter_working_folder, gateway_of
from .blaming import blame, error_text, shortened_error
from .driver_plan import PlanHead, QueryPlan, QueryRun, RunKind
from .jvm_memory import telling_what_is_kept
from .output_modes import modes_said
from .plan import PythonSteps, changes_what_is_counted, is_shuffled, python_steps
from .rows import canonical_rows, canonical_table, check_schema
from .source import reading
from .stacks import answer_with_stacks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Take = Callable[["DataFrame", int], None]
"""What the harness's sink does with a batch."""


class DriverLink:
    """The driver's connection to the harness."""

    def __init__(self, head: PlanHead) -> None:
        greeting = Greeting(VERSION, head.token, "driver", head.node, incarnation=head.incarnation)
        self._connection = BlockingConnection(head.harness, greeting)
        self._lock = threading.Lock()

    def send(self, *messages: object) -> None:
        with self._lock:
            for message in messages:
                self._connection.send(message)

    def ask(self, message: Arrived | Failed | Finishing) -> None:
        """Returns when the harness says go."""
        with self._lock:
            self._connection.send(message)
            if self._connection.receive() is None:
                raise OwnFailure("the harness went away while it was waited for")


class _Execution:
    """One run of the query, seen from its sink."""

    def __init__(self, plan: QueryPlan, run: QueryRun, link: DriverLink) -> None:
        self._plan = plan
        self._run = run
        self._link = link
        self._taken = 0
        self.failure: StreamproofError | None = None
        """What went wrong in here. Spark passes on no more than its text."""

    def begin(self, spark: SparkSession) -> None:
        if self._run.waits:
            self._link.ask(Arrived(self._address(Point.STARTED, "", Side.AFTER), 0, True, time.monotonic_ns()))
        self._prepare()
        committed = _last_committed(spark, self._run.folders.checkpoint)
        before = None if committed is None else (self._plan.incarnation - 1, committed)
        next_batch = 0 if committed is None else committed + 1
        self._link.send(Started(self._run.actor, self._plan.incarnation, before, row_number(next_batch, 0)))

    def _prepare(self) -> None:
        folders, query = self._run.folders, self._plan.query
        try:
            folders.sink.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageFailed(f"cannot make {folders.sink}: {error.strerror or error}") from error
        if self._plan.incarnation == 1:
            _reset_stores(query, self._run.aside)

    def take(self, frame: DataFrame, number: int) -> None:
        """What foreachBatch calls."""
        try:
            schema, collected = frame.schema, frame.collect()
        except Exception as error:
            self.failure = blame(self._plan.query, error)
            raise
        try:
            self._deliver(canonical_rows(self._plan.query, collected, number, schema), number)
        except StreamproofError as error:
            self.failure = error
            raise
        except Exception as error:
            self.failure = OwnFailure(
                f"the recorder could not be given batch {number}: {type(error).__name__}: {error}"
            )
            raise

    def end(self, spark: SparkSession, query: StreamingQuery) -> None:
        run, incarnation = self._run, self._plan.incarnation
        plan = query._jsq.explainInternal(False)
        python, shuffled = python_steps(plan, self._plan.query.source is not None), is_shuffled(plan)
        for progress in query.recentProgress:
            self._link.send(_batch_done(run.actor, incarnation, progress, python, shuffled))
        if run.asks_to_read:
            self._link.ask(Finishing())
        if self._plan.query.read is not None:
            self._link.send(Kept(run.actor, incarnation, _table_read(spark, self._plan.query, run.aside)))
        self._link.send(Ended(run.actor, incarnation, {SOURCE: [1]}))

    def _deliver(self, rows: list[Event], number: int) -> None:
        run, incarnation = self._run, self._plan.incarnation
        self._pass(Point.SINK_WRITE, str(number), Side.BEFORE)
        if number < len(self._plan.spans) and self._plan.query.source is None:
            first, last = self._plan.spans[number]
            self._taken += last - first + 1
            self._link.send(Taken(run.actor, incarnation, SOURCE, 1, first, last, last - first + 1))
        channel = self._plan.query.name
        # The recorder counts positions; nobody else knows what came before.
        given = Delivered(run.sink, channel, incarnation, 0, rows)
        self._link.send(given if rows else EmptyBatch(run.sink, channel, incarnation, number))
        self._pass(Point.SINK_WRITE, str(number), Side.AFTER)

    def _pass(self, point: Point, key: str, side: Side) -> None:
        address = self._address(point, key, side)
        armed = self._run.armed
        if armed is None or any(moment.matches(address, self._taken) for moment in armed):
            self._link.ask(Arrived(address, self._taken, True, time.monotonic_ns()))

    def _address(self, point: Point, key: str, side: Side) -> Address:
        return Address(self._run.actor, self._plan.incarnation, point, key, side)


def _reset_stores(query: Query, folders: RunFolders) -> None:
    for store in query.stores:
        try:
            store.reset(folders)
        except Exception as error:
            why = shortened_error(error_text(error))
            raise InvalidOperator(f"query {query.name!r}: the store {store.name!r} cannot be reset: {why}") from error


def _table_read(spark: SparkSession, query: Query, folders: RunFolders) -> dict[str, Any]:
    assert query.read is not None
    try:
        with consumed() as read_by_spark:
            frame = query.read(spark, folders)
            read_by_spark(lambda: _files_of(frame))
        schema = frame.schema
        check_schema(query, schema)
        rows = frame.collect()
    except StreamproofError:
        raise
    except Exception as error:
        raise InvalidOperator(f"query {query.name!r}: read failed: {shortened_error(error_text(error))}") from error
    return canonical_table(query, rows, schema)


def _files_of(frame: DataFrame) -> list[str]:
    """Those that Spark reads for a frame, as far as its plan says so. What is wrong with the plan, collecting says."""
    try:
        return frame.inputFiles()
    except Exception:
        return []


def _batch_done(
    actor: str, incarnation: int, progress: Mapping[str, Any], python: PythonSteps, shuffled: bool
) -> BatchDone:
    operators = progress["stateOperators"]
    return BatchDone(
        actor,
        incarnation,
        progress["batchId"],
        progress["numInputRows"],
        sum(one["numRowsDroppedByWatermark"] for one in operators),
        sum(one["numRowsRemoved"] for one in operators),
        int(progress["durationMs"].get("triggerExecution", 0)),
        python.anywhere,
        python.at_end,
        python.at_first,
        shuffled,
    )


def _last_committed(spark: SparkSession, checkpoint: Path) -> int | None:
    """The last batch that is in Spark's commit log. The JVM looks, as it does when it goes on from there: whoever else
    lists that folder counts as somebody to whom every name in it means something."""
    jvm: Any = spark.sparkContext._jvm
    names = jvm.java.io.File(str(checkpoint / "commits")).list()
    return max((int(name) for name in names or () if name.isdigit()), default=None)


def run_query(spark: SparkSession, plan: QueryPlan, run: QueryRun, link: DriverLink) -> None:
    """Run the query to the end of its input. Raises InvalidOperator for what is the query's fault."""
    execution = _Execution(plan, run, link)
    query = plan.query
    given = _given(spark, query, run) if plan.stands_by and query.source is None else None
    execution.begin(spark)
    try:
        # What it does with what it reads afterwards is a consumer's.
        with followed():
            given = _input(spark, query, run) if given is None else given
            output = _checked(query, query.transform(given))
            _check_rest(query, output)
            if plan.attaches and query.write is None:
                link.send(GivesColumns(tuple(f"{one.name} {one.dataType.simpleString()}" for one in output.schema)))
            stream = _started(query, output, run, execution.take)
            _await_end(query, stream)
            _require_end_of_input(query, stream.lastProgress, len(plan.spans))
        execution.end(spark, stream)
        written_out()
    except StreamproofError:
        raise
    except Exception as error:
        if execution.failure is not None:
            raise execution.failure from error
        raise blame(query, error) from error


def run_as_batch(spark: SparkSession, plan: QueryPlan, run: QueryRun, link: DriverLink) -> None:
    """Hand in the table that a batch job makes, where the query can be one."""
    query = plan.query
    try:
        # Of a batch job, Spark leaves the watermark out.
        stream = query.transform(_given(spark, query, replace(run, kind=RunKind.STREAM)))
        steps: str = stream._jdf.queryExecution().analyzed().toString()
        output = query.transform(_given(spark, query, run))
        schema = output.schema
        rows = output.collect() if has_batch_meaning(query, steps) else None
    except Exception:
        # Whatever it is, a stream can do it, as the references have shown.
        rows = None
    if rows is not None:
        link.send(Kept(run.actor, plan.incarnation, canonical_table(query, rows, schema)))
    link.send(Ended(run.actor, plan.incarnation, {SOURCE: [1]}))


def look_into_stores(spark: SparkSession, plan: QueryPlan, run: QueryRun, link: DriverLink) -> None:
    """Hand in a table of another run that has just begun; and where that could have been in the way of this one, in a
    store, then a second: of this one, as it has left it."""
    query, beside = plan.query, run.beside
    for folder in beside.stored:
        folder.mkdir(exist_ok=True)
    try:
        _reset_stores(query, beside)
        tables = [_table_of_none(spark, query, beside)]
    finally:
        for folder in beside.stored:
            shutil.rmtree(folder, ignore_errors=True)
    if query.stores:
        tables.append(_table_read(spark, query, run.aside))
    for table in tables:
        link.send(Kept(run.actor, plan.incarnation, table))
    link.send(Ended(run.actor, plan.incarnation, {SOURCE: [1]}))


def _table_of_none(spark: SparkSession, query: Query, folders: RunFolders) -> dict[str, Any]:
    try:
        return _table_read(spark, query, folders)
    except StreamproofError:
        # There is nothing to be read yet, as of a topic to which nobody has written.
        return {}


def has_batch_meaning(query: Query, steps: str) -> bool:
    """Whether a batch job with these steps means the same: not with a watermark or a time-out, and some steps are for
    streams only. Nor, in update mode, with a step that takes rows of an aggregate away, or makes several of one: a row
    that has passed it is not taken back when it would pass no more."""
    taken_back = query.mode is OutputMode.UPDATE and changes_what_is_counted(steps)
    return not taken_back and not any(sign in steps for sign in _OF_STREAMS)


_RUNS: Final = {RunKind.STREAM: run_query, RunKind.BATCH_JOB: run_as_batch, RunKind.STORES: look_into_stores}
_OF_STREAMS = ("EventTimeWatermark", "MapGroupsWithState", "TransformWithState", "MapGroupsInPandasWithState")
"""Steps of a plan whose meaning rests on how the input comes."""


def _input(spark: SparkSession, query: Query, run: QueryRun) -> DataFrame:
    return _given(spark, query, run) if query.source is None else query.source(spark, run.folders)


def _given(spark: SparkSession, query: Query, run: QueryRun) -> DataFrame:
    """What the harness's source gives, with the columns that the query takes."""
    from pyspark.sql import functions as f

    reader = spark.read if run.kind is RunKind.BATCH_JOB else spark.readStream
    name, options = reading(run.source_plan, supported(spark.version).source_in_java)
    given = reader.format(name).options(**options).load()
    given = given.withColumn("timestamp", f.expr("timestamp_millis(time)"))
    if not query.schema:
        return given
    parsed = given.select(f.from_json("value", query.schema).alias("row"), "seq", "timestamp")
    # Where Spark cannot tell `Timestamp` from `timestamp`, either would be ambiguous.
    theirs = {column.lower() for column in parsed.select("row.*").columns}
    own = [column for column in ("seq", "timestamp") if column not in theirs]
    return parsed.select("row.*", *own)


def _started(query: Query, output: DataFrame, run: QueryRun, take: Take) -> StreamingQuery:
    if TYPE_CHECKING:
        from pyspark.sql.streaming.readwriter import DataStreamWriter
    else:
        # In 3.3 that is a module, and since then a package, which does not say that these are to be had of it.
        from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

    if query.write is None:
        written: object = output.writeStream.outputMode(query.mode.value).foreachBatch(take)
    else:
        with modes_said(DataStreamWriter) as modes:
            written = query.write(output, run.folders)
        modes.check(query, written)
    if isinstance(written, StreamingQuery):
        return written
    if not isinstance(written, DataStreamWriter):
        raise InvalidOperator(
            f"query {query.name!r}: write gives a {type(written).__name__}; "
            "it must be a DataStreamWriter, or the StreamingQuery that it has started"
        )
    writer = written.outputMode(query.mode.value).option("checkpointLocation", str(run.folders.checkpoint))
    return writer.queryName(f"{query.name} as {run.actor}").trigger(availableNow=True).start()


def _await_end(query: Query, stream: StreamingQuery) -> None:
    try:
        if query.write is None or _ends_by_itself(stream):
            stream.awaitTermination()
        else:
            stream.processAllAvailable()
    finally:
        stream.stop()


def _ends_by_itself(stream: StreamingQuery) -> bool:
    """Whether its trigger takes what is there and ends."""
    execution: Any = stream._jsq
    streaming: Any = execution.streamingQuery() if hasattr(execution, "streamingQuery") else execution
    return "AvailableNow" in str(streaming.trigger())


def _require_end_of_input(query: Query, last: Mapping[str, Any] | None, batches: int) -> None:
    """Whether a stream that has ended without an error has taken all of the harness's input, by what Spark says of its
    last batch; one that had nothing to do says nothing. What a stream has left, nobody could tell from what it has
    lost."""
    if query.source is not None or last is None:
        return
    found = (_BATCHES_TAKEN.fullmatch(str(one["endOffset"])) for one in last["sources"])
    taken = min((int(one[1]) for one in found if one is not None), default=batches)
    if taken < batches:
        raise InvalidOperator(
            f"query {query.name!r}: its stream has ended after {taken:,} of the {batches:,} batches of its input, "
            "without an error. One that write starts itself has to go on to the end: with "
            ".trigger(availableNow=True), which ends by itself, or with .trigger(processingTime=...), which is "
            "stopped; .trigger(once=True) takes one batch of it"
        )


_BATCHES_TAKEN = re.compile(r"\W*batches\W+([0-9]+)\W*")
"""An offset of the harness's source, as a text or as what a text of Spark's was read to; no other has but this."""


def _checked(query: Query, output: object) -> DataFrame:
    from pyspark.sql import DataFrame

    if not isinstance(output, DataFrame):
        raise InvalidOperator(f"query {query.name!r}: transform gives a {type(output).__name__}, not a DataFrame")
    if not output.isStreaming:
        raise InvalidOperator(f"query {query.name!r}: what transform gives is not a streaming frame")
    missing = [column for column in query.key if column not in output.columns]
    if missing and query.read is None:
        raise InvalidOperator(
            f"query {query.name!r}: its output has no column {missing[0]!r}; it has: {', '.join(output.columns)}"
        )
    if query.write is None:
        check_schema(query, output.schema)
    return output


def _check_rest(query: Query, output: Any) -> None:
    """Whether it comes to the end of its input. A state that goes by processing time has Spark make one batch after the
    other, so that its timers can fire, and `availableNow` does not end."""
    steps = str(output._jdf.queryExecution().analyzed().toString())
    found = _BY_PROCESSING_TIME.search(steps)
    if found is not None and output.sparkSession.conf.get(_NO_DATA_BATCHES, "true").lower() != "false":
        raise InvalidOperator(
            f"query {query.name!r}: a state of its goes by processing time ({found[1]}), for which Spark makes batches "
            "without end, so that the query never comes to the end of its input. Let it go by event time, or have "
            f"timers looked at only where rows come: Query(..., settings={{{_NO_DATA_BATCHES!r}: 'false'}})"
        )


_NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
_BY_PROCESSING_TIME = re.compile(r"(?m)^[^\n]*WithState[^\n]*, (ProcessingTime(?:Timeout)?)\b")


def _session(head: PlanHead) -> SparkSession:
    from pyspark.sql import SparkSession

    number = _number_of_the_run()
    if head.attaches or number is not None or (head.stands_by and PORT in os.environ):
        spark = attached_session(Path(head.settings.get(WAREHOUSE, head.warehouses[number or 0])))
        for name, value in {**head.settings, **head.secrets}.items():
            if spark.conf.isModifiable(name):
                spark.conf.set(name, value)
        return spark
    return SparkSession.builder.appName(f"streamproof {head.query}").getOrCreate()


def _read_plan(head: PlanHead, file: BinaryIO) -> QueryPlan:
    """The rest, with the user's code, which can be of any kind."""
    try:
        plan: QueryPlan = unpickled(file)
    except (Exception, SystemExit) as error:
        raise InvalidOperator(
            f"query {head.query!r}: its code cannot be imported in Spark's driver: {shortened_error(error_text(error))}"
        ) from error
    _send_scripts_by_value()
    return plan


def _send_scripts_by_value() -> None:
    """A module that has a session is a script: started by spark-submit, no worker would import it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    send_by_value((SparkSession, SparkContext))


def stand_by(head: PlanHead, file: BinaryIO, path: str) -> int:
    """Bring up a session, and leave it to a process that runs the query: what the user's code has kept in memory
    meanwhile is no part of that process, nor of its Python workers. Returns when that has ended."""
    spark = _session(head)
    plan = _read_plan(head, file)
    if plan.warm_up is not None:
        _take_own_workers(spark, "STREAMPROOF_WARM_UP", plan.node)
        try:
            _warm_up(spark, plan.query, plan.warm_up)
        except Exception as error:
            # It takes longer then, and that is all.
            print(f"the query could not be warmed up: {shortened_error(error_text(error))}", file=sys.stderr)
    status = _heir_of(spark, path)
    spark.stop()
    return status


def run_each(head: PlanHead, path: str) -> int:
    """Bring up a session, and leave it to one process after the other, each of which runs one of the runs: a
    connection, or whatever else the user's code keeps in memory, is that of one run. Returns when one has failed, or
    all have ended."""
    spark = _session(head)
    status = 0
    for number in range(len(head.actors)):
        status = status or _heir_of(spark, path, {_NUMBER: str(number)})
    spark.stop()
    return status


def _heir_of(spark: SparkSession, path: str, more: Mapping[str, str] | None = None) -> int:
    """Runs what is planned there in a process that attaches to the JVM of this one. Returns the status that it ends
    with."""
    heir = [sys.executable, "-m", __spec__.name if __spec__ is not None else __name__, path]
    return subprocess.run(heir, env={**os.environ, **gateway_of(spark), **(more or {})}, check=False).returncode


_ATTEMPT: Final = "STREAMPROOF_ATTEMPT"
"""In the environment of the Python workers of an attempt: whose they are."""
_NUMBER: Final = "STREAMPROOF_RUN_NUMBER"
"""In the environment of a process that runs one of several runs: its number."""


def _number_of_the_run() -> int | None:
    """None: there is but one, or none is chosen yet."""
    number = os.environ.get(_NUMBER)
    return None if number is None else int(number)


def _warm_up(spark: SparkSession, query: Query, run: QueryRun) -> None:
    """Run the first batch, from a checkpoint and into a sink that are thrown away."""

    def take(frame: DataFrame, number: int) -> None:
        frame.collect()

    _register_source(spark)
    run.folders.sink.mkdir(parents=True, exist_ok=True)
    _await_end(query, _started(query, query.transform(_input(spark, query, run)), run, take))


def _register_source(spark: SparkSession) -> None:
    if not supported(spark.version).source_in_java:
        from .python_source import EventSource

        spark.dataSource.register(EventSource)


def _take_own_workers(spark: SparkSession, name: str, value: str) -> None:
    """Spark keeps Python workers, which remember as processes do, for those who have the same environment: from now on
    they are those of nobody who has not the same value there."""
    environment: dict[str, str] = spark.sparkContext.environment
    environment[name] = value


def _start_python_workers(spark: SparkSession) -> None:
    """One for each core, which knows nothing of the user's code yet."""
    count = int(spark.conf.get("spark.cores.max", "1") or 1)
    spark.range(count, numPartitions=count).mapInArrow(lambda batches: batches, "id long").collect()


def main(path: str) -> int:
    # Arguments of ours are nothing that the user's modules should find.
    del sys.argv[1:]
    answer_with_stacks(Path(path))
    with Path(path).open("rb") as file:
        head: PlanHead = pickle.load(file)
        enter_working_folder(head.working_folder)
        if head.stands_by and PORT not in os.environ:
            return stand_by(head, file, path)
        if len(head.actors) > 1 and _number_of_the_run() is None:
            return run_each(head, path)
        return _run(head, file)


def _run(head: PlanHead, file: BinaryIO) -> int:
    link = DriverLink(head)
    number = _number_of_the_run()
    link.send(Begun(head.actors[number or 0], 0, head.incarnation, time.monotonic_ns()))
    try:
        spark = _session(head)
        link.send(SparkRuns(spark.version, python_versions()))
        told = telling_what_is_kept(spark, lambda what: link.send(KeptInTheJvm(what)))
        with told if head.attaches else nullcontext():
            plan = _run_planned(head, file, spark, link, number or 0)
    except StreamproofError as error:
        link.ask(Failed(type(error).__name__, without_values(str(error), head.secrets)))
        raise
    if not plan.attaches and not plan.stands_by and number is None:
        spark.stop()
    return 0


def _run_planned(head: PlanHead, file: BinaryIO, spark: SparkSession, link: DriverLink, number: int) -> QueryPlan:
    with noticed():
        plan = _read_plan(head, file)
    _register_source(spark)
    if plan.stands_by:
        _start_python_workers(spark)
    if plan.attaches and not supported(spark.version).drops_dead_workers:
        _take_own_workers(spark, _ATTEMPT, plan.node)
    if len(plan.runs) > 1:
        _take_own_workers(spark, _NUMBER, str(number))
    run = plan.runs[number]
    _RUNS[run.kind](spark, plan, run, link)
    return plan


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
