"""Real kills at points inside Spark: whoever is meant dies while the point is held, and what comes of it is what
Spark's protocol says."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from pyspark import TaskContext

import killed_queries
from killed_queries import addresses, starts, verdict
from streamproof.faults.crash import crash
from streamproof.faults.executor_crash import executor_crash
from streamproof.faults.python_crash import python_crash
from streamproof.faults.split_brain import split_brain
from streamproof.harness.contracts.query import Query, RunFolders
from streamproof.harness.core.addresses import Address, Moment, Point, Side
from streamproof.harness.core.errors import MissingTool
from streamproof.harness.core.schedule import Fault, batch
from streamproof.harness.crash_points.inside_spark.agent import fetch_agent
from streamproof.harness.recording.history import NodeUp, Placed
from streamproof.harness.recording.records import Delivered, Kept, Refused
from streamproof.harness.running.run import Finished
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.reaping import labelled_processes
from streamproof.harness.worlds.spark.queries.references import of_references
from streamproof.scenarios.query_word_count import query_word_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def agent() -> None:
    """The jar that holds Spark's threads."""
    try:
        fetch_agent()
    except MissingTool as error:
        pytest.skip(str(error))


def killed(folder: Path, query: Query, *faults: Fault, **more: Any) -> Finished:
    finished = killed_queries.killed(folder, EmbeddedCluster(), query, *faults, **more)
    assert labelled_processes(finished.description.run) == []
    return finished


# Files, as Spark's own sink writes them, and a sink that adds whatever it is given.


def lines_only(lines: DataFrame) -> DataFrame:
    return lines.select("seq", "value")


def to_parquet(frame: DataFrame, folders: RunFolders) -> DataStreamWriter:
    return frame.writeStream.format("parquet").option("path", str(folders.sink))


def from_parquet(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.read.parquet(str(folders.sink)).select("seq", "value")


def adding_blindly(frame: DataFrame, folders: RunFolders) -> DataStreamWriter:
    sink = str(folders.sink)

    def add(rows: DataFrame, number: int) -> None:
        # Of its own: two that write to one folder at once can undo each other's work.
        rows.write.parquet(f"{sink}/part={uuid4().hex}")

    return frame.writeStream.foreachBatch(add)


def copied_in_a_call(frame: DataFrame, folders: RunFolders) -> DataStreamWriter:
    """A folder of each partition that is there is taken for a whole one: by a task that is tried again, not by the
    driver, which takes it away."""
    sink = str(folders.sink)

    def copy(number: int, rows: Iterable[Row]) -> None:
        there = Path(sink) / f"{number}-{TaskContext.get().partitionId()}"  # type: ignore[union-attr]
        if there.exists():
            return
        with TemporaryDirectory() as made:
            (Path(made) / "rows.json").write_text(json.dumps([tuple(row) for row in rows]))
            shutil.copytree(made, there)

    def add(rows: DataFrame, number: int) -> None:
        for begun in Path(sink).glob(f"{number}-*"):
            shutil.rmtree(begun)
        rows.foreachPartition(partial(copy, number))

    return frame.writeStream.foreachBatch(add)


def from_copies(spark: SparkSession, folders: RunFolders) -> DataFrame:
    rows = [row for file in folders.sink.glob("*/rows.json") for row in json.loads(file.read_text())]
    return spark.createDataFrame(rows, "seq LONG, value STRING")


COPIED = Query(lines_only, "lines-copied", write=copied_in_a_call, read=from_copies, batch_events=20)
FILES = Query(lines_only, "lines-to-files", write=to_parquet, read=from_parquet, batch_events=20)
BLIND = replace(FILES, name="lines-added-blindly", write=adding_blindly)


@pytest.fixture(scope="module")
def five_crashes(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The driver dies five times along one stream, each time at another point inside Spark."""
    folder = tmp_path_factory.mktemp("five") / "run"
    points = (
        batch(1).planned,
        batch(2).offset_logged,
        batch(3).added,
        batch(4).committing,
        batch(5).committed,
    )
    return killed(
        folder, query_word_count(batch_events=20), *(crash("driver").at(point) for point in points), batches=8
    )


@pytest.mark.long
def test_each_of_five_drivers_dies_while_it_is_held(five_crashes: Finished) -> None:
    assert addresses(five_crashes) == [
        "driver/0#1 before offset-log 1",
        "driver/0#2 after offset-log 2",
        "driver/0#3 after add-batch 3",
        "driver/0#4 before commit-log 4",
        "driver/0#5 after commit-log 5",
    ]
    assert all(struck.bite.actors == ("driver",) for struck in five_crashes.history.struck())
    assert verdict(five_crashes) == "HOLDS"


@pytest.mark.long
def test_what_is_in_the_commit_log_is_not_run_again(five_crashes: Finished) -> None:
    assert starts(five_crashes) == [(1, None), (2, (1, 0)), (3, (2, 1)), (4, (3, 2)), (5, (4, 3)), (6, (5, 5))]
    delivered = [
        (stamped.record.incarnation, stamped.record.rows[0].seq // 10**9)
        for stamped in five_crashes.history.records
        if isinstance(stamped.record, Delivered) and stamped.record.sink == "sink"
    ]
    again = [number for number in range(9) if [other for _, other in delivered].count(number) > 1]
    assert again == [3, 4]


@pytest.mark.long
def test_the_next_driver_stands_by_on_a_node_of_its_own(five_crashes: Finished) -> None:
    placed = [entry for entry in five_crashes.history.timeline if isinstance(entry, Placed) and entry.actor == "driver"]
    assert [(one.incarnation, one.node) for one in placed[:2]] == [(1, "driver"), (2, "driver-2")]
    struck = list(five_crashes.history.struck())
    assert [one.bite.node for one in struck] == [one.node for one in placed[:-1]]


@pytest.mark.long
def test_a_run_with_known_references_does_not_run_them(five_crashes: Finished, tmp_path: Path) -> None:
    known = of_references(five_crashes.history.records)
    passed: list[Address] = []
    query = query_word_count(batch_events=20)
    fault = executor_crash("task").at(batch(2).state_committed)
    finished = killed(tmp_path / "run", query, fault, batches=8, references=known, passed=passed.append)
    assert verdict(finished) == "HOLDS"
    assert "reference" not in {entry.node for entry in finished.history.timeline if isinstance(entry, NodeUp)}
    assert [stamped.record for stamped in of_references(finished.history.records)] == [one.record for one in known]

    # Who watches the run hears of every point, in order.
    told = [f"{address.side} {address.point}" for address in passed if address.key == "4" and address.actor == "driver"]
    inside = ["before offset-log", "after offset-log", "before add-batch", "after add-batch", "before commit-log"]
    assert [one for one in told if one in inside] == inside
    assert {address.point for address in passed} >= {
        Point.STATE_COMMIT,
        Point.TASK_END,
        Point.SINK_WRITE,
        Point.CLEANUP,
    }
    (struck,) = finished.history.struck()
    assert struck.address is not None
    held = Address.parse(struck.address)
    again = [(a.point, a.side, a.key) for a in passed].count((held.point, held.side, held.key))
    assert again == 2, "the task that was killed comes to its point once more"


@pytest.fixture(scope="module")
def tasks_killed(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """What dies is the node, or a part of it, that a task of a file sink is held on."""
    return killed(
        tmp_path_factory.mktemp("tasks") / "run",
        FILES,
        executor_crash("task").at(batch(1).writer_committing),
        crash("task").at(batch(2).writer_committed),
        python_crash("task").at(Moment(Point.TASK_COMMIT, Side.AFTER, "3", "task")),
        batches=4,
    )


@pytest.mark.long
def test_the_node_dies_on_which_a_task_is_held(tasks_killed: Finished) -> None:
    assert addresses(tasks_killed) == [
        "task/0#1 before writer-commit 1/0",
        "task/0#1 after writer-commit 2/0",
        "task/0#1 after task-commit 3/0",
    ]
    for struck in tasks_killed.history.struck():
        assert (struck.bite.target, struck.bite.actors) == ("task", ("task",))
        assert (struck.bite.node or "").startswith("node-")


def rows_kept(finished: Finished) -> list[tuple[int, int]]:
    """Which incarnations of the driver have read the sink, and how many rows each."""
    kept = [s.record for s in finished.history.records if isinstance(s.record, Kept) and s.record.actor == "driver"]
    return [(record.incarnation, len(record.rows)) for record in kept]


@pytest.mark.long
def test_sparks_file_sink_has_every_row_once(tasks_killed: Finished) -> None:
    assert verdict(tasks_killed) == "HOLDS"
    # The closing events are rows too.
    assert rows_kept(tasks_killed) == [(1, 82)]


@pytest.mark.long
def test_sparks_file_sink_has_every_row_once_when_drivers_die_at_its_log(tmp_path: Path) -> None:
    crashes = crash("driver").at(batch(1).sink_logging), crash("driver").at(batch(2).sink_logged)
    finished = killed(tmp_path / "run", FILES, *crashes, batches=3)
    assert addresses(finished) == ["driver/0#1 before sink-log 1", "driver/0#2 after sink-log 2"]
    assert verdict(finished) == "HOLDS"
    assert rows_kept(finished) == [(3, 62)]


@pytest.mark.long
def test_a_worker_dies_between_two_operations_on_files_of_one_call(tmp_path: Path) -> None:
    moment = Moment(Point.FILE, Side.AFTER, "1/mkdir sink/1-0#1", "task")
    finished = killed(tmp_path / "run", COPIED, python_crash("task").at(moment), batches=3)
    assert addresses(finished) == ["task/0#1 after file 1/mkdir sink/1-0#1"]
    assert starts(finished) == [(1, None)], "the driver lives"
    assert verdict(finished) == "VIOLATED"
    assert rows_kept(finished) == [(1, 42)], "of batch 1, nothing"


@pytest.mark.long
def test_a_sink_that_adds_blindly_is_seen_to_add_twice(tmp_path: Path) -> None:
    finished = killed(tmp_path / "run", BLIND, crash("driver").at(batch(2).committing), batches=4)
    assert addresses(finished) == ["driver/0#1 before commit-log 2"]
    assert verdict(finished) == "VIOLATED"


@pytest.mark.long
def test_of_two_drivers_the_recorder_hears_the_second_each_time(tmp_path: Path) -> None:
    splits = [split_brain("driver").at(batch(number).planned) for number in (1, 4)]
    finished = killed(tmp_path / "run", query_word_count(batch_events=20), *splits, batches=6)
    assert addresses(finished) == ["driver/0#1 before offset-log 1", "driver/0#2 before offset-log 4"]
    assert verdict(finished) == "HOLDS"
    for number, struck in enumerate(finished.history.struck(), 2):
        assert f"let go on when driver#{number} had committed a batch" in str(struck.bite.proof)
    refused = [s.record for s in finished.history.records if isinstance(s.record, Refused)]
    assert {(record.peer, record.peer_incarnation) for record in refused} == {("driver", 1), ("driver-2", 2)}
    assert starts(finished) == [(1, None), (2, (1, 0)), (3, (2, 3))]


@pytest.mark.long
def test_a_sink_of_the_users_gets_what_a_driver_that_was_given_up_writes(tmp_path: Path) -> None:
    """It is frozen before it writes batch 2, which its successor has committed by the time that it goes on."""
    finished = killed(tmp_path / "run", BLIND, split_brain("driver").at(batch(2).adding), batches=4)
    assert addresses(finished) == ["driver/0#1 before add-batch 2"]
    assert verdict(finished) == "VIOLATED"
    (kept,) = (s.record for s in finished.history.records if isinstance(s.record, Kept) and s.record.actor == "driver")
    assert sorted(set(kept.rows.values())) == [1, 2]
    assert list(kept.rows.values()).count(2) == 20
