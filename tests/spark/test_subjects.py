"""Each subject does what the table says of it: when nothing fails, and when a batch comes again, or is broken off.

Only Spark and files: a repeated batch is one whose entry in the commit log is gone, a new process one that remembers
nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from streamproof.harness.contracts.query_parts import pandas_with_state, processor, processor_in_pandas
from streamproof.harness.core.verdicts import Status
from streamproof.scenarios.subjects import SUBJECTS, batches, names, subject
from streamproof.scenarios.subjects.counting import COUNT, CountWords, count_words_in_pandas
from streamproof.scenarios.subjects.inputs import BATCH, EVENTS, some_words
from streamproof.scenarios.subjects.lossy import HELD
from streamproof.scenarios.workloads import numbered
from subject_runner import SubjectRun, local_session

# What a certificate says of each of them is tested elsewhere; here, that each is what it is said to be.
pytestmark = [pytest.mark.spark, pytest.mark.long]

HOLD = [one.name for one in SUBJECTS if one.expected is Status.HOLDS]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = local_session()
    yield session
    session.stop()


def made(name: str, folder: Path) -> SubjectRun:
    one = subject(name)
    return SubjectRun(one.query, one.workload, folder)


def offered(run: SubjectRun) -> int:
    """How many events the input has, the closing ones included."""
    return sum(map(len, run.batches))


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Counter[str]]:
    """The table that each subject makes when nothing fails; what was run is not run again."""

    class Tables(dict[str, Counter[str]]):
        def __missing__(self, name: str) -> Counter[str]:
            run = made(name, tmp_path_factory.mktemp(name))
            run.run(spark)
            self[name] = run.read(spark)
            return self[name]

    return Tables()


@pytest.mark.parametrize("name", names())
def test_two_runs_agree_unless_the_subject_is_not_deterministic(
    name: str, spark: SparkSession, whole: dict[str, Counter[str]], tmp_path: Path
) -> None:
    kill_workers()
    expected = whole[name]
    kill_workers()
    run = made(name, tmp_path)
    run.run(spark)
    assert expected
    one = subject(name)
    differs = one.expected is Status.UNKNOWN and one.recovers is Status.UNKNOWN
    assert (run.read(spark) == expected) != differs


@pytest.mark.parametrize(
    "name",
    [
        "file-sink",
        "file-sink-by-listing",
        "blind-append",
        "sqlite-by-batch",
        "batch-id-first",
        "foreach-rows",
        "asks-the-clock",
        "writes-outside",
        "acknowledges-early",
        "loses-its-tail",
        "remembers-in-memory",
        "waits-for-its-lock",
        "fails-at-its-draft",
    ],
)
def test_every_event_is_there_once_when_nothing_fails(name: str, spark: SparkSession, tmp_path: Path) -> None:
    run = made(name, tmp_path)
    run.run(spark)
    assert sorted(row["seq"] for row in run.rows(spark)) == list(range(1, offered(run) + 1))


@pytest.mark.parametrize("name", ["counts-by-processor", "counts-in-pandas", "counts-in-global"])
def test_words_are_counted(name: str, spark: SparkSession, tmp_path: Path) -> None:
    # Workers that other queries have left idle would take turns.
    kill_workers()
    run = made(name, tmp_path)
    run.run(spark)
    expected = Counter(event.value for batch in run.batches for event in batch)
    assert {row.get("value", row.get("word")): row["count"] for row in run.rows(spark)} == expected


def test_the_first_of_equal_visits_is_kept_until_the_watermark_passes(spark: SparkSession, tmp_path: Path) -> None:
    run = made("deduplication", tmp_path)
    run.run(spark)
    kept = Counter((row["user"], row["page"]) for row in run.rows(spark))
    assert len(kept) <= kept.total() < EVENTS
    # Some come again when they have been forgotten.
    assert max(kept.values()) > 1


def test_a_join_gives_clicks_and_ads_without_one(spark: SparkSession, tmp_path: Path) -> None:
    run = made("stream-join", tmp_path)
    run.run(spark)
    rows = run.rows(spark)
    assert sum(row["clicked"] is None for row in rows) > 5
    assert sum(row["clicked"] is not None for row in rows) > 5


def test_sessions_end(spark: SparkSession, tmp_path: Path) -> None:
    run = made("session-windows", tmp_path)
    run.run(spark)
    rows = run.rows(spark)
    assert {row["user"] for row in rows} == {f"u{number}" for number in range(9)}
    assert 0.8 * EVENTS < sum(row["visits"] for row in rows) < EVENTS
    assert max(row["end"] - row["start"] for row in rows) > 12


@pytest.mark.parametrize("name", [name for name in HOLD if name != "foreach-rows"])
def test_a_correct_subject_is_the_same_when_a_batch_comes_again(
    name: str, spark: SparkSession, whole: dict[str, Counter[str]], tmp_path: Path
) -> None:
    run = made(name, tmp_path)
    # All of the input is there from the start: where it ends for a while, Spark lets the watermark pass.
    run.run(spark, fails_at=3 * BATCH + 5)
    run.forget_last()
    assert run.committed == 2
    run.run(spark)
    assert run.read(spark) == whole[name]


@pytest.mark.parametrize("name", [name for name in HOLD if name != "foreach-rows"])
def test_a_correct_subject_is_the_same_when_a_task_dies(
    name: str, spark: SparkSession, whole: dict[str, Counter[str]], tmp_path: Path
) -> None:
    run = made(name, tmp_path)
    run.run(spark, fails_at=2 * BATCH + 5)
    assert run.committed == 2
    run.run(spark)
    assert run.read(spark) == whole[name]


@pytest.mark.parametrize("name", ["blind-append", "remembers-in-memory", "foreach-rows"])
def test_a_batch_that_comes_again_is_there_twice(
    name: str, spark: SparkSession, whole: dict[str, Counter[str]], tmp_path: Path
) -> None:
    run = made(name, tmp_path)
    run.run(spark, 3)
    run.forget_last()
    batches._written.clear()
    run.run(spark)
    rows = run.read(spark)
    assert set(rows) == set(whole[name])
    assert Counter(rows.values()) == {1: offered(run) - BATCH, 2: BATCH}


def test_a_process_that_lives_on_remembers_what_it_has_written(
    spark: SparkSession, whole: dict[str, Counter[str]], tmp_path: Path
) -> None:
    run = made("remembers-in-memory", tmp_path)
    run.run(spark, 3)
    run.forget_last()
    run.run(spark)
    assert run.read(spark) == whole["remembers-in-memory"]


@pytest.mark.parametrize("name", ["file-sink-by-listing", "writes-outside"])
def test_files_of_a_batch_that_the_sink_has_not_noted_are_seen_by_who_ignores_its_log(
    name: str, spark: SparkSession, whole: dict[str, Counter[str]], tmp_path: Path
) -> None:
    run = made(name, tmp_path)
    run.run(spark, 2)
    run.forget_last(run.folders.sink / "rows" / "_spark_metadata")
    run.run(spark)
    rows = run.read(spark)
    assert set(rows) == set(whole[name])
    assert Counter(rows.values()) == {1: offered(run) - BATCH, 2: BATCH}


def test_the_log_of_the_file_sink_hides_them(
    spark: SparkSession, whole: dict[str, Counter[str]], tmp_path: Path
) -> None:
    run = made("file-sink", tmp_path)
    run.run(spark, 2)
    run.forget_last(run.folders.sink / "rows" / "_spark_metadata")
    run.run(spark)
    assert run.read(spark) == whole["file-sink"]


def test_torn_files_are_passed_over(spark: SparkSession, whole: dict[str, Counter[str]], tmp_path: Path) -> None:
    run = made("file-sink-by-listing", tmp_path)
    run.run(spark)
    rows = run.folders.sink / "rows"
    whole_file = next(file for file in rows.glob("part-*.parquet"))
    (rows / "part-00000-torn-c000.snappy.parquet").touch()
    (rows / "part-00001-torn-c000.snappy.parquet").write_bytes(whole_file.read_bytes()[:100])
    assert run.read(spark) == whole["file-sink-by-listing"]


def test_an_id_before_its_rows_loses_a_batch_that_is_broken_off(
    spark: SparkSession, whole: dict[str, Counter[str]], tmp_path: Path
) -> None:
    run = made("batch-id-first", tmp_path)
    run.run(spark, fails_at=2 * BATCH + 5)
    run.run(spark)
    lost = whole["batch-id-first"] - run.read(spark)
    assert lost.total() == BATCH
    assert not run.read(spark) - whole["batch-id-first"]


def test_what_was_acknowledged_before_it_was_written_dies_with_its_process(
    spark: SparkSession, whole: dict[str, Counter[str]], tmp_path: Path
) -> None:
    run = made("acknowledges-early", tmp_path)
    run.run(spark, 3)
    run.run(spark)
    assert (whole["acknowledges-early"] - run.read(spark)).total() == BATCH


def test_the_last_rows_die_with_their_process(
    spark: SparkSession, whole: dict[str, Counter[str]], tmp_path: Path
) -> None:
    run = made("loses-its-tail", tmp_path)
    run.run(spark, 3)
    run.run(spark)
    lost = whole["loses-its-tail"] - run.read(spark)
    assert lost.total() == HELD
    assert not run.read(spark) - whole["loses-its-tail"]


def test_counts_in_a_global_die_with_their_worker(
    spark: SparkSession, whole: dict[str, Counter[str]], tmp_path: Path
) -> None:
    run = made("counts-in-global", tmp_path)
    kill_workers()
    run.run(spark, 3)
    assert kill_workers()
    run.run(spark)
    expected = {row["word"]: row["count"] for row in map(json.loads, whole["counts-in-global"])}
    found = {row["word"]: row["count"] for row in run.rows(spark)}
    assert found.keys() == expected.keys()
    assert sum(found.values()) < sum(expected.values())


def is_worker(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return "pyspark.daemon" in process.cmdline()
    return False


def kill_workers() -> int:
    """How many there were of Spark's Python workers; they are forked by a daemon, and have its command line."""
    python = [one for one in psutil.Process().children(recursive=True) if is_worker(one)]
    workers = [one for one in python if one.ppid() in {daemon.pid for daemon in python}]
    for worker in workers:
        worker.kill()
    psutil.wait_procs(workers, timeout=10)
    return len(workers)


def count_in_pandas() -> type[StatefulProcessor]:
    """A local class, which goes to the workers by value: they do not have the tests."""

    class CountInPandas(CountWords):
        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            lines = (line for frame in rows for line in frame.itertuples())
            for row in super().handleInputRows(key, lines, timerValues):
                yield pd.DataFrame([row.asDict()])

    return CountInPandas


OPERATORS = {
    "processor": processor(CountWords, COUNT, key=("value",), batch_events=BATCH),
    "processor-in-pandas": processor_in_pandas(count_in_pandas(), COUNT, key=("value",), batch_events=BATCH),
    "pandas-with-state": pandas_with_state(
        count_words_in_pandas, COUNT, "count LONG", key=("value",), batch_events=BATCH
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_alone_counts_as_it_does_with_its_table(name: str, spark: SparkSession, tmp_path: Path) -> None:
    run = SubjectRun(OPERATORS[name], some_words(), tmp_path)
    run.run(spark)
    expected = Counter(event.value for batch in run.batches for event in batch)
    assert {row["value"]: row["count"] for row in run.rows(spark)} == expected


def last_line() -> type[StatefulProcessor]:
    class LastLine(StatefulProcessor):
        """Gives each key's last line, a second of event time after it came."""

        def init(self, handle: Any) -> None:
            self._handle = handle
            self._last = handle.getValueState("last", "line STRING")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            for row in rows:
                self._last.update((row.value,))
                for timer in list(self._handle.listTimers()):
                    self._handle.deleteTimer(timer)
                self._handle.registerTimer(int(row.timestamp.timestamp() * 1000) + 1000)
            yield from ()

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
            yield Row(key=key[0], line=self._last.get()[0])
            self._last.clear()

        def close(self) -> None: ...

    return LastLine


def test_what_is_due_when_the_closing_event_has_passed_comes_out(spark: SparkSession, tmp_path: Path) -> None:
    query = processor(last_line(), "key STRING, line STRING", "append", time_mode="eventTime", batch_events=BATCH)
    run = SubjectRun(query, numbered(events=EVENTS), tmp_path)
    run.run(spark)
    events = [event for batch in run.batches for event in batch]
    last = {event.key: str(event.value) for event in events[:EVENTS]}
    # The closing events themselves are never old enough.
    assert {row["key"]: row["line"] for row in run.rows(spark)} == {
        key: line for key, line in last.items() if key != events[-1].key
    }
