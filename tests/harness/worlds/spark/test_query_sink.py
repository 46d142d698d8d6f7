"""The recording sink of a query: what it says of a batch, over a link that nobody listens to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import LongType, StringType, StructField, StructType

from streamproof.harness.contracts.query import Query, RunFolders
from streamproof.harness.core.errors import InvalidOperator
from streamproof.harness.judging.outputs import deliveries
from streamproof.harness.judging.references import REFERENCES, SINK
from streamproof.harness.judging.shapes import OutputMode
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import Delivered, EmptyBatch, Record, Stamped, Taken
from streamproof.harness.worlds.spark.queries.driver import (
    _check_rest,
    _checked,
    _Execution,
    _require_end_of_input,
    _started,
    has_batch_meaning,
)
from streamproof.harness.worlds.spark.queries.driver_plan import QueryPlan, QueryRun
from streamproof.harness.worlds.spark.queries.output_modes import modes_said
from streamproof.harness.worlds.spark.queries.references import of_references


@dataclass
class Frame:
    """As much of a DataFrame as a sink needs."""

    rows: list[Row]
    schema: StructType

    def collect(self) -> list[Row]:
        return self.rows


@dataclass
class Link:
    said: list[Any] = field(default_factory=list)

    def send(self, *messages: object) -> None:
        self.said += messages


WORDS = StructType([StructField("word", StringType()), StructField("n", LongType())])


def given(query: Query, batches: list[list[Row]], sink: str = SINK) -> list[Record]:
    link = Link()
    folders = RunFolders("r", Path("sink"), Path("checkpoint"))
    run = QueryRun("driver", sink, folders, Path("plan"))
    plan = QueryPlan("", ("", 0), "driver", 2, query, ((1, 3), (4, 4)), (run,))
    execution: Any = _Execution(plan, run, link)  # type: ignore[arg-type]
    for number, rows in enumerate(batches):
        execution.take(Frame(rows, WORDS), number)
    return link.said


@pytest.mark.parametrize("mode", OutputMode)
def test_a_batch_without_rows_leaves_a_trace(mode: OutputMode) -> None:
    query = Query(str, "q", mode=mode, key=("word",))
    said = given(query, [[Row(word="a", n=1)], []])
    assert [type(one) for one in said] == [Taken, Delivered, Taken, EmptyBatch]
    assert said[-1] == EmptyBatch(SINK, "q", 2, 1)
    found = deliveries(History([Stamped(at, record) for at, record in enumerate(said)], []), SINK)
    assert [(one.batch, one.incarnation, one.at, len(one.rows)) for one in found] == [(0, 2, 1, 1), (1, 2, 3, 0)]


def test_those_of_a_reference_are_kept_for_runs_to_come() -> None:
    said = [Stamped(0, record) for sink in (REFERENCES[0], SINK) for record in given(Query(str, "q"), [[]], sink)]
    assert [stamped.record for stamped in of_references(said)] == [EmptyBatch(REFERENCES[0], "q", 2, 0)]


def test_two_columns_of_one_name_are_refused_before_the_query_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the sink is the harness's. One of the user's may give them other names."""

    @dataclass
    class Output:
        schema: StructType
        isStreaming: bool = True

        @property
        def columns(self) -> list[str]:
            return self.schema.names

    monkeypatch.setattr("pyspark.sql.DataFrame", Output)
    twice = Output(StructType([*WORDS.fields, WORDS.fields[1]]))
    with pytest.raises(InvalidOperator, match=r"query 'q': .* two columns of the name 'n'; give one of them another"):
        _checked(Query(str, "q"), twice)
    written = Query(str, "q", write=lambda frame, folders: frame, read=lambda spark, folders: spark)  # type: ignore[arg-type,return-value]
    assert _checked(written, twice) is twice  # type: ignore[comparison-overlap]


class ToldMode:
    """A writer, and the JVM's beside it: as far as each is told its mode, once or more often."""

    def __init__(self, *modes: str) -> None:
        self.writer: Any = DataStreamWriter.__new__(DataStreamWriter)
        self.writer._jwrite = self
        self._modes = modes

    def __call__(self, frame: object, folders: object) -> Any:
        for mode in self._modes:
            self.writer = self.writer.outputMode(mode)
        return self.writer

    def outputMode(self, mode: str) -> ToldMode:
        return self


@pytest.mark.parametrize("modes", [("update",), ("append", " Update ")])
def test_a_writer_that_says_another_mode_than_the_query_is_refused_before_it_is_started(modes: tuple[str, ...]) -> None:
    """The query's is set last. In append mode, a window whose counts are added up comes once, and so it would hold."""
    query = Query(str, "q", write=ToldMode(*modes), read=lambda spark, folders: spark)  # type: ignore[arg-type,return-value]
    really = DataStreamWriter.outputMode
    with pytest.raises(
        InvalidOperator, match=r"query 'q': write says outputMode\('.*'\), and .* in append mode.*mode='update'"
    ):
        _started(query, None, SimpleNamespace(folders=None), None)  # type: ignore[arg-type]
    assert DataStreamWriter.outputMode is really


@pytest.mark.parametrize("modes", [(), ("Update",), ("append", "update")])
def test_a_writer_may_say_the_mode_of_the_query(modes: tuple[str, ...]) -> None:
    told = ToldMode(*modes)
    with modes_said(DataStreamWriter) as said:
        ToldMode("complete")(None, None)
        writer = told(None, None)
    said.check(Query(str, "q", mode="update", key=("word",)), writer)


@dataclass
class Planned:
    """A frame of Spark's, as far as it is asked for its plan, and a session with one setting."""

    plan: str
    no_data: str = "true"

    @property
    def _jdf(self) -> Any:
        analyzed = SimpleNamespace(toString=lambda: self.plan)
        return SimpleNamespace(queryExecution=lambda: SimpleNamespace(analyzed=lambda: analyzed))

    @property
    def sparkSession(self) -> Any:
        return SimpleNamespace(conf=SimpleNamespace(get=lambda name, default: self.no_data))


PANDAS = "~FlatMapGroupsInPandasWithState fn(value#1L)#4, [k#5L], [StructField(n,LongType,true)], Update, {}\n+- ~Rows"
PROCESSOR = "~Project [a]\n+- ~TransformWithStateInPySpark udf(value#1L)#12, 1, [k#13L], Update, {}, pandas, false, 0"


@pytest.mark.parametrize("plan", [PANDAS.format("ProcessingTimeTimeout"), PROCESSOR.format("ProcessingTime")])
def test_a_query_that_never_comes_to_its_end_is_refused_before_it_is_started(plan: str) -> None:
    with pytest.raises(
        InvalidOperator, match=r"query 'q': a state of its goes by processing time .*noDataMicroBatches"
    ):
        _check_rest(Query(str, "q"), Planned(plan))
    _check_rest(Query(str, "q"), Planned(plan, no_data="false"))


@pytest.mark.parametrize(
    "plan", [PANDAS.format("EventTimeTimeout"), PROCESSOR.format("NoTime"), "~Project ProcessingTime"]
)
def test_a_query_that_comes_to_its_end_is_not(plan: str) -> None:
    _check_rest(Query(str, "q"), Planned(plan))


FILTERED = "Project [w#1L]\n+- Filter (m#6 > 4.0)\n   +- Aggregate [w#1L], [w#1L, avg(id#0L) AS m#6]\n      +- Rows"
OF_SOME = "Aggregate [w#1L], [w#1L, count(1) AS count#2L]\n+- Filter (id#0L > 2)\n   +- Rows"


@pytest.mark.parametrize(
    ("plan", "mode", "means"),
    [
        (FILTERED, "update", False),
        (FILTERED, "complete", True),
        (
            FILTERED.replace("Filter (m#6 > 4.0)", "~MapInPandas some(w#1L, m#6)#9, [w#10L, m#11], false"),
            "update",
            False,
        ),
        (OF_SOME, "update", True),
        (f"{OF_SOME}\n+- EventTimeWatermark timestamp#3", "append", False),
    ],
)
def test_a_batch_job_is_no_second_opinion_on_rows_that_nobody_takes_back(plan: str, mode: str, means: bool) -> None:
    """In update mode a row stays in the table when it would pass a later filter no more."""
    assert has_batch_meaning(Query(str, "q", mode=mode, key=("w",)), plan) == means  # type: ignore[arg-type]


def progress(*ends: object) -> dict[str, Any]:
    """What Spark says of a batch, as far as it is read: of each source, up to where it was taken."""
    return {"sources": [{"endOffset": end} for end in ends]}


@pytest.mark.parametrize(
    "last", [progress('{"batches": 1}'), progress({"batches": 1}), progress("9", '{"batches": 2}')]
)
def test_a_stream_that_ends_before_its_input_does_is_the_users_mistake(last: dict[str, Any]) -> None:
    """As with a trigger that takes one batch: what it has not taken would look as if it had lost it."""
    with pytest.raises(InvalidOperator, match=r"has ended after . of the 3 batches of its input"):
        _require_end_of_input(Query(str, "q"), last, 3)


OTHERS = progress('{"batches": 3}', {"my-batches": {"0": 0}}, '{"path": "/data/batches/2"}')
"""Of sources of the user's beside the harness's."""


@pytest.mark.parametrize("last", [None, progress('{"batches": 3}'), progress("9", "None"), progress(None), OTHERS])
def test_one_that_has_taken_all_or_says_nothing_of_it_has_come_to_its_end(last: dict[str, Any] | None) -> None:
    _require_end_of_input(Query(str, "q"), last, 3)
    _require_end_of_input(Query(str, "q", source=lambda spark, folders: spark), progress('{"batches": 1}'), 3)
