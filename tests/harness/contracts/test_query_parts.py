"""Parts of a query: under which forms they are taken, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import streamproof
from postgres_server import postgres_server, rows, why_no_postgres
from readme import CERTIFY, DATABASE, example
from streamproof import foreach, foreach_batch, pandas_with_state, processor, processor_in_pandas
from streamproof.harness.contracts.query import RunFolders
from streamproof.harness.contracts.query_parts import ROCKSDB, STATE_STORE, as_it_comes
from streamproof.harness.core.errors import InvalidScenario
from streamproof.harness.judging.shapes import OutputMode

FOLDERS = RunFolders("run-1", Path("sink"), Path("checkpoint"))


def read(*_: Any) -> Any:
    raise AssertionError("nothing is read here")


def to_store(frame: Any, batch: int) -> None:
    frame.append(batch)


def to_folder(frame: Any, batch: int, folders: RunFolders) -> None:
    frame.append((batch, folders.label))


class Writer:
    def __init__(self, folders: RunFolders) -> None:
        self.label = folders.label

    def process(self, row: Any) -> None: ...


class PlainWriter:
    def process(self, row: Any) -> None: ...


class CountVisits(StatefulProcessor):
    def init(self, handle: Any) -> None: ...

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        yield from ()


def count_visits(key: Any, frames: Any, state: Any) -> Iterator[Any]:
    yield from ()


def written(query: streamproof.Query) -> Any:
    """What its sink is given to Spark as."""
    assert query.write is not None
    stream = SimpleNamespace(foreachBatch=lambda function: function, foreach=lambda function: function)
    return query.write(cast(Any, SimpleNamespace(writeStream=stream)), FOLDERS)


class Frame:
    """Notes what is called on it."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., Frame]:
        def call(*arguments: Any) -> Frame:
            self.calls.append((name, *arguments))
            return self

        return call


def calls(query: streamproof.Query) -> list[tuple[Any, ...]]:
    frame = Frame()
    query.transform(cast(Any, frame))
    return frame.calls


def test_a_batch_function_is_called_as_spark_calls_it() -> None:
    given: list[Any] = []
    written(foreach_batch(to_store, read))(given, 3)
    assert given == [3]


def test_a_batch_function_with_one_more_parameter_is_given_the_folders_of_the_run() -> None:
    given: list[Any] = []
    written(foreach_batch(to_folder, read))(given, 3)
    assert given == [(3, "run-1")]


def test_a_parameter_that_has_a_value_is_left_alone() -> None:
    def to_table(frame: Any, batch: int, table: str = "visits") -> None:
        frame.append(table)

    given: list[Any] = []
    written(foreach_batch(to_table, read))(given, 3)
    assert given == ["visits"]


def test_rows_are_given_to_a_function_an_object_or_what_a_class_makes() -> None:
    whole = PlainWriter()
    assert written(foreach(whole, read)) is whole
    assert written(foreach(Writer, read)).label == "run-1"
    assert isinstance(written(foreach(PlainWriter, read)), PlainWriter)

    def note(row: list[Any]) -> None:
        row.append("noted")

    def note_where(row: list[Any], folders: RunFolders) -> None:
        row.append(folders.label)

    row: list[Any] = []
    written(foreach(note, read))(row)
    written(foreach(note_where, read))(row)
    assert row == ["noted", "run-1"]


@pytest.mark.parametrize("function", [lambda: None, lambda frame: None, lambda a, b, c, d: None, "to_store"])
def test_what_takes_something_else_is_refused(function: Any) -> None:
    with pytest.raises(InvalidScenario, match=r"\(frame, batch_id\) or \(frame, batch_id, folders\)"):
        foreach_batch(function, read)


def test_a_writer_that_needs_more_than_the_folders_is_refused() -> None:
    class Needy:
        def __init__(self, folders: RunFolders, table: str) -> None: ...

    with pytest.raises(InvalidScenario, match="no argument, or the folders of a run"):
        foreach(Needy, read)


def test_a_part_goes_by_the_name_and_the_text_of_the_users_code() -> None:
    query = foreach_batch(to_store, read)
    assert query.name == "to-store"
    assert query.describe()["code"]["write"]["name"] == f"{__name__}:to_store"
    assert query.describe()["code"]["write"]["source"] is not None
    operator = processor(CountVisits, "key STRING, count LONG")
    assert operator.name == "count-visits"
    assert operator.describe()["code"]["transform"]["name"] == f"{__name__}:CountVisits"
    assert foreach_batch(lambda frame, batch: None, read).name == "query"
    assert foreach(PlainWriter(), read).name == "plain-writer"
    assert foreach_batch(partial(to_folder, folders=FOLDERS), read).name == "to-folder"
    assert foreach_batch(to_store, read, name="visits", batch_events=7).batch_events == 7


def test_parts_are_picklable() -> None:
    for query in (
        foreach_batch(to_folder, read),
        foreach(Writer, read),
        processor(CountVisits, "key STRING"),
        pandas_with_state(count_visits, "key STRING", "count LONG"),
    ):
        again = pickle.loads(cloudpickle.dumps(query))  # type: ignore[no-untyped-call]
        assert again.describe() == query.describe()


def test_a_processor_runs_on_the_grouped_source_with_the_state_store_that_it_needs() -> None:
    query = processor(CountVisits, "key STRING, count LONG", settings={"spark.sql.shuffle.partitions": "3"})
    (group, run) = calls(query)
    assert group == ("groupBy", "key")
    assert run[0] == "transformWithState"
    assert isinstance(run[1], CountVisits)
    assert run[2:] == ("key STRING, count LONG", "update", "none")
    assert (query.mode, query.key) == (OutputMode.UPDATE, ("key",))
    assert query.settings == {STATE_STORE: ROCKSDB, "spark.sql.shuffle.partitions": "3"}


def test_event_time_has_a_watermark() -> None:
    timed = processor_in_pandas(CountVisits, "user STRING", "append", key=("user", "page"), time_mode="eventTime")
    assert calls(timed)[:2] == [("withWatermark", "timestamp", "0 seconds"), ("groupBy", "user", "page")]
    assert calls(timed)[2][0] == "transformWithStateInPandas"
    assert (timed.mode, timed.key) == (OutputMode.APPEND, ())
    late = pandas_with_state(
        count_visits, "user STRING", "count LONG", timeout="EventTimeTimeout", watermark="5 seconds", rows=("user",)
    )
    assert calls(late)[0] == ("withWatermark", "timestamp", "5 seconds")
    assert calls(late)[2][2:] == ("user STRING", "count LONG", "update", "EventTimeTimeout")
    assert late.key == ("user",)


def test_a_processor_that_is_made_already_is_taken_as_it_is() -> None:
    made = CountVisits()
    assert calls(processor(made, "key STRING"))[1][1] is made


def test_modes_and_keys_that_are_none_are_refused() -> None:
    with pytest.raises(InvalidScenario, match="mode='upsert'; there are: append, update, complete"):
        processor(CountVisits, "key STRING", "upsert")
    with pytest.raises(InvalidScenario, match="must name the columns to group by"):
        processor(CountVisits, "key STRING", key=())


@pytest.mark.parametrize("value", [None, "processing", 3])
def test_times_that_are_none_of_sparks_are_refused_with_what_to_write(value: Any) -> None:
    for make in (processor, processor_in_pandas):
        with pytest.raises(InvalidScenario, match=f'time_mode={value!r}; there are: "none", "eventTime", "processing'):
            make(CountVisits, "key STRING", time_mode=value)
    with pytest.raises(InvalidScenario, match=f'timeout={value!r}; there are: "NoTimeout", "EventTimeTimeout", "Proc'):
        pandas_with_state(count_visits, "key STRING", "count LONG", timeout=value)


def test_a_time_mode_is_read_as_spark_reads_it() -> None:
    assert calls(processor(CountVisits, "key STRING", time_mode="None"))[1][4] == "None"
    assert calls(processor(CountVisits, "key STRING", time_mode="EVENTTIME"))[0][0] == "withWatermark"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a PostgreSQL of this module's own."""
    if reason := why_no_postgres():
        pytest.skip(reason)
    with postgres_server() as found:
        yield found


def test_the_sink_of_the_how_to_writes_a_batch_that_comes_again_once(port: int) -> None:
    made: dict[str, Any] = {}
    exec(example("def write_batch", DATABASE), made)
    (store,) = made["orders"].stores
    row = SimpleNamespace(seq=1, value="one")
    frame = SimpleNamespace(select=lambda *_: SimpleNamespace(collect=lambda: [row]))
    folders = [
        RunFolders(label, Path("sink"), Path("checkpoint"), {store.name: f"127.0.0.1:{port}"})
        for label in ("r-1", "r-2")
    ]
    for one in folders:
        for _ in range(2):
            store.reset(one)
            made["write_batch"](frame, 0, one)
            made["write_batch"](frame, 0, one)
    assert rows(port, "select * from orders_r_1 union all select * from orders_r_2") == [[0, 1, "one"]] * 2


def test_the_queries_of_the_readme_are_as_it_says() -> None:
    made: dict[str, Any] = {"my_transform": as_it_comes}
    exec(example("def upsert", CERTIFY), made)
    assert made["upserted"].batch_events == 50
    assert made["small"]().events == 100
    configuration = made["delta"].configuration
    assert configuration["spark.jars.packages"].startswith("io.delta:")
    assert "spark.sql.extensions" in configuration
