"""What a campaign says that it cannot try, by what a run without failures has passed."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter

from profiles import both_sides, passed
from query_histories import Given, Row, query_history
from streamproof.harness.certifying.attempts import Attempt, Passed
from streamproof.harness.certifying.blind_spots import (
    ANY_ORDER,
    BESIDE,
    BY_NUMBERS,
    EQUAL_ROWS,
    IN_C,
    IN_THE_BACKGROUND,
    IN_TURN,
    IN_TWO_ORDERS,
    ONE_TASK,
    note_background,
    note_code_in_c,
    note_data_sources,
    note_equal_rows,
    note_numbers,
    note_order,
    note_tasks,
)
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign_state import CampaignState
from streamproof.harness.certifying.never_run import lines_never_run
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.query_parts import as_it_comes, foreach_batch
from streamproof.harness.core.addresses import DRIVER, TASK, Point, Side
from streamproof.harness.recording.records import BatchDone, Stamped

LINE = passed(Point.LINE, Side.BEFORE, "1/sinks.write:3#1", TASK)


def tasks(*partitions: int, stage: int = 17) -> list[Passed]:
    return [one for partition in partitions for one in both_sides(Point.TASK_END, f"1/{stage}/{partition}", TASK)]


IN_EACH, IN_SOME = ONE_TASK.format(stages="each"), ONE_TASK.format(stages="some")


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([LINE, *tasks(0)], [IN_EACH]),
        ([LINE, *tasks(0), LINE, *tasks(1)], [IN_TURN]),
        ([LINE, *tasks(0, 1)], [IN_EACH]),
        ([*tasks(0, 1, stage=16), LINE, *tasks(0)], [IN_EACH]),
        ([LINE, *tasks(0, stage=16), LINE, *tasks(0), LINE, *tasks(1)], [IN_TURN, IN_SOME]),
        ([passed(Point.LINE, Side.BEFORE, "1/sinks.write:3#1", DRIVER), *tasks(0)], []),
        ([LINE], []),
    ],
    ids=["one", "two", "one of two", "one after others", "one, then two", "none of the user's", "not seen"],
)
def test_in_how_many_tasks_of_a_stage_the_users_code_runs_is_said_and_that_they_keep_their_order(
    tmp_path: Path, points: list[Passed], said: list[str]
) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None, not_covered=["Something else."])
    note_tasks(state, Attempt("reference-1", 1, points), in_both_orders=False)
    assert state.not_covered == [*said, "Something else."]


def test_what_spark_does_in_the_background_is_said_where_there_is_state(tmp_path: Path) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    note_background(state, Attempt("reference-1", 1, tasks(0)))
    assert state.not_covered == []
    note_background(state, Attempt("reference-1", 1, both_sides(Point.STATE_COMMIT, "1/0/0", TASK)))
    assert state.not_covered == [IN_THE_BACKGROUND]


def test_what_is_left_to_say_of_the_order_of_tasks_where_two_are_tried(tmp_path: Path) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    points = [LINE, *tasks(0), LINE, *tasks(1)]
    note_tasks(state, Attempt("reference-1", 1, points), in_both_orders=True)
    assert state.not_covered == [IN_TWO_ORDERS]
    assert all(what in IN_TWO_ORDERS for what in ("side by side", "a second crash, while the query recovers"))


ON_DRIVER = passed(Point.LINE, Side.BEFORE, "1/sinks.write:3#1", DRIVER)
SINK = Query(as_it_comes, write=lambda frame, folders: frame, read=lambda spark, folders: spark.range(0))


@pytest.mark.parametrize(
    ("query", "point", "shuffled", "said"),
    [
        (SINK, ON_DRIVER, True, True),
        (SINK, ON_DRIVER, False, False),
        (Query(as_it_comes), LINE, True, True),
        (Query(as_it_comes), ON_DRIVER, True, False),
        (SINK, tasks(0)[0], True, False),
    ],
    ids=["in the sink", "as they were read", "in a task", "in the plan alone", "none of the user's"],
)
def test_that_rows_come_in_one_order_is_said_where_the_users_code_takes_them_from_a_shuffle(
    tmp_path: Path, query: Query, point: Passed, shuffled: bool, said: bool
) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    record = Stamped(0, BatchDone("reference-1", 1, 0, 9, 0, 0, 1, shuffled=shuffled))
    note_order(state, query, Attempt("reference-1", 1, [point], [record]))
    assert state.not_covered == ([ANY_ORDER] if said else [])


WORDS = [{"word": word} for word in "abac"]


@pytest.mark.parametrize(
    ("query", "wanted", "equal"),
    [
        (SINK, WORDS, 2),
        (SINK, [*WORDS, {"word": "a"}, {"word": "b"}], 5),
        (SINK, [{"word": word, "seq": seq} for seq, word in enumerate("abac")], 0),
        (replace(SINK, key=("word",)), WORDS, 2),
        (replace(SINK, key=("word",)), [{"word": word} for word in "abc"], 0),
        (Query(as_it_comes), [Given(0, WORDS)], 2),
        (Query(as_it_comes), [Given(0, WORDS[:2]), Given(1, WORDS[2:])], 0),
        (Query(as_it_comes, mode="complete"), [Given(0, WORDS), Given(1, [*WORDS, *WORDS[:2]])], 5),
    ],
    ids=[
        "read",
        "several",
        "told apart",
        "by a key that is none",
        "by a key",
        "of a batch",
        "of other batches",
        "of all batches",
    ],
)
def test_that_rows_are_equal_to_others_is_said_with_how_many_they_are(
    tmp_path: Path, query: Query, wanted: Sequence[Given] | Sequence[Row], equal: int
) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    note_equal_rows(state, query, query_history(query.shape, wanted, None).records)
    assert state.not_covered == ([EQUAL_ROWS.format(rows=equal)] if equal else [])


class _Rows(DataSource):
    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return _Writer()


class _Writer(DataSourceStreamWriter):
    def write(self, iterator: Any) -> Any:
        return None

    def commit(self, messages: Any, batchId: int) -> None: ...

    def abort(self, messages: Any, batchId: int) -> None: ...


def to_rows(rows: Any, folders: Any) -> Any:
    rows.sparkSession.dataSource.register(_Rows)
    return rows.writeStream.format("rows")


def test_that_a_data_source_commits_where_nobody_follows_it_is_said_first(tmp_path: Path) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None, not_covered=["Something else."])
    note_data_sources(state, Query(as_it_comes))
    assert state.not_covered == ["Something else."]
    query = Query(as_it_comes, write=to_rows, read=to_rows)
    note_data_sources(state, query)
    classes = f"{__name__}._Rows, {__name__}._Writer"
    assert state.not_covered[0] == BESIDE.format(classes=classes)


def test_which_lines_of_a_data_source_were_never_run_is_known_where_the_agent_has_it_followed() -> None:
    query = Query(as_it_comes, write=to_rows, read=to_rows)
    assert lines_never_run(query, [Attempt("reference-1", 1, [LINE])], []) == ()
    inside = passed(Point.COMMIT_LOG, Side.BEFORE, "1", DRIVER)
    functions = [
        one.partition(" ")[0] for one in lines_never_run(query, [Attempt("reference-1", 1, [LINE, inside])], [])
    ]
    assert f"{__name__}._Writer.commit" in functions


def writes_by_itself(frame: Any, batch: int, folders: Any) -> None:
    (folders.sink / f"{batch}").write_text(json.dumps(frame.count()))


def writes_through_c(frame: Any, batch: int, folders: Any) -> None:
    import pyarrow.csv

    pyarrow.csv.write_csv(numpy.array([1]), f"/data/{batch}")
    say(ctypes.CDLL(None).mkdir, batch)


def say(*given: Any) -> None:
    pytest.approx(given)


@pytest.mark.parametrize(
    ("function", "packages"), [(writes_by_itself, ""), (writes_through_c, "ctypes, numpy, pyarrow")]
)
def test_packages_with_code_in_c_are_named_since_nobody_tells_what_they_do(
    tmp_path: Path, function: Callable[..., None], packages: str
) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    note_code_in_c(state, foreach_batch(function, read=as_it_comes))
    assert state.not_covered == ([IN_C.format(packages=packages)] if packages else [])


def knows_a_file_by_its_number(frame: Any, batch: int, folders: Any) -> None:
    (folders.sink / str((folders.sink / "rows").stat().st_ino)).touch()


def counts_folders_without_listing_them(frame: Any, batch: int, folders: Any) -> None:
    (folders.sink / f"{folders.sink.stat().st_nlink}").touch()


def knows_a_file_by_its_blocks(frame: Any, batch: int, folders: Any) -> None:
    (folders.sink / str((folders.sink / "rows").stat().st_blocks)).touch()


def names_files_by_tasks(frame: Any, batch: int, folders: Any) -> None:
    frame.foreach(lambda row: (folders.sink / f"{TaskContext.get().stageId()}").write_text(row.value))


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (writes_by_itself, ""),
        (knows_a_file_by_its_number, f"{__name__}.knows_a_file_by_its_number"),
        (counts_folders_without_listing_them, f"{__name__}.counts_folders_without_listing_them"),
        (names_files_by_tasks, f"{__name__}.names_files_by_tasks"),
    ],
)
def test_who_goes_by_a_number_that_a_crash_state_has_otherwise_is_named(
    tmp_path: Path, function: Callable[..., None], named: str
) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    note_numbers(state, foreach_batch(function, read=as_it_comes))
    assert state.not_covered == ([BY_NUMBERS.format(functions=named)] if named else [])


def test_who_goes_by_the_blocks_of_a_file_is_told_that_crash_states_have_others(tmp_path: Path) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    note_numbers(state, foreach_batch(knows_a_file_by_its_blocks, read=as_it_comes))
    (said,) = state.not_covered
    assert "`st_blocks`" in said
