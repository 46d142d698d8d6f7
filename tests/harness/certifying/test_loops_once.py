"""Loops of a query's own code that went round once, and that the certificate names for it."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

from profiles import attempt_of, done, passed
from streamproof.harness.certifying.attempts import Attempt, Passed
from streamproof.harness.certifying.blind_spots import note_loops
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign_state import CampaignState
from streamproof.harness.certifying.loops_once import loops_that_went_round_once
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.query_parts import as_it_comes, foreach_batch
from streamproof.harness.core.addresses import Point, Side
from streamproof.harness.crash_points.inside_python.watching import TIMES

SINK = """
import contextlib


def in_parts(rows, size):
    for at in range(0, len(rows), size):
        with contextlib.nullcontext():
            put(
                rows[at : at + size],
                at,
            )
    return rows


def until_empty(rows, size):
    while rows:
        put(rows[:size], size)
        del rows[:size]
    return rows


def until_done(rows, size):
    while True:
        put(rows[:size], size)
        del rows[:size]
        if not rows:
            break
    return rows


def until_none_is_left(rows, size):
    while True:
        part = rows[:size]
        if not part:
            break
        put(part, size)
        del rows[:size]


def by_row(rows, size):
    for row in rows:
        put(row, row)


def in_parts_by_row(rows, size):
    for at in range(0, len(rows), size):
        part = rows[at : at + size]
        for row in part:
            put(row, row)


def again_if_it_fails(rows, size):
    for _ in range(3):
        try:
            put(rows, size)
            break
        except ValueError:
            continue


def in_memory(rows, size):
    parts = []
    for at in range(0, len(rows), size):
        parts.append(
            rows[at : at + size]
        )
    put(parts, size)


def of_no_rows(rows, size):
    for row in rows[:0]:
        put(row, row)


def put(rows, at):
    return (rows, at)


def in_one_line(rows, size):
    return [row for row in rows]


def twice_in_a_batch(rows, size):
    in_parts([*rows], size)
    in_parts([*rows], size)


def often_in_a_batch(rows, size):
    for _ in range(5):
        in_parts([*rows], size)


def bare(rows, size):
    for at in range(0, len(rows), size):
        put(rows[at : at + size], at)


def bare_while(rows, size):
    while rows:
        put(rows[:size], size)
        del rows[:size]


def bare_twice(rows, size):
    bare([*rows], size)
    bare([*rows], size)


def bare_while_often(rows, size):
    for _ in range(5):
        bare_while([*rows], size)


def in_steps(rows, size):
    for row in rows:
        for at in range(0, row, row):
            put(row, at)


def by_row_if(rows, size):
    for row in rows:
        rows.index(row)
        if row == rows[-1]:
            put(row, row)


def first_of(rows, size):
    for row in rows:
        if row:
            return row


def same_of(rows, size):
    for row in rows:
        if row:
            return str(row)


def take_all(rows, size):
    while rows:
        rows.pop()


def writes_the_first(rows, size):
    first_of(rows, size)
    put(rows, size)


def writes_the_same(rows, size):
    same = same_of(rows, size)
    put(same, size)


def writes_what_was_taken(rows, size):
    take_all(rows[:1], size)
    put(rows, size)


def write(frame, batch):
    until_none_is_left, often_in_a_batch, bare_twice, bare_while_often, in_steps, by_row_if
    writes_the_first, writes_the_same, writes_what_was_taken
    in_parts, until_empty, until_done, by_row, in_parts_by_row, again_if_it_fails, in_memory, of_no_rows
    in_one_line, twice_in_a_batch
"""


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "a_sink.py").write_text(SINK)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("a_sink")
    sys.modules.pop("a_sink", None)


def attempt_with(sink: ModuleType, function: str, size: int) -> Attempt:
    """One whose batch of four rows calls it, with the lines of which Python tells meanwhile; `put` leaves something."""
    said: list[Passed] = []
    times = Counter[str]()

    def follow(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_globals.get("__name__") != "a_sink":
            return None
        if event == "line":
            place = f"a_sink.{frame.f_code.co_qualname}:{frame.f_lineno}"
            times[place] += 1
            if times[place] <= TIMES:
                said.append(passed(Point.LINE, Side.BEFORE, f"0/{place}#{times[place]}"))
            if frame.f_code.co_name == "put":
                said.append(passed(Point.FILE, Side.AFTER, "0/write sink/rows#1"))
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        getattr(sink, function)([1, 2, 3, 4], size)
    finally:
        sys.settrace(before)
    return replace(attempt_of((done(0),)), passed=said)


def line_of(function: str, text: str) -> int:
    lines = SINK.splitlines()
    return lines.index(text, lines.index(f"def {function}(rows, size):")) + 1


@pytest.mark.parametrize(
    ("function", "text"),
    [
        ("in_parts", "    for at in range(0, len(rows), size):"),
        ("until_empty", "        put(rows[:size], size)"),
        ("until_done", "        put(rows[:size], size)"),
        ("until_none_is_left", "        part = rows[:size]"),
        ("in_parts_by_row", "    for at in range(0, len(rows), size):"),
    ],
)
def test_a_loop_that_goes_round_once_is_named_and_not_where_it_goes_round_again(
    sink: ModuleType, function: str, text: str
) -> None:
    query = foreach_batch(sink.write, as_it_comes)
    once, again = attempt_with(sink, function, 4), attempt_with(sink, function, 2)
    assert loops_that_went_round_once(query, [once]) == (f"a_sink.{function}:{line_of(function, text)}",)
    assert loops_that_went_round_once(query, [again]) == ()
    assert loops_that_went_round_once(query, [once, again]) == ()


def test_a_try_that_is_not_made_again_is_a_loop_that_goes_round_once(sink: ModuleType) -> None:
    query = foreach_batch(sink.write, as_it_comes)
    assert [
        one.partition(":")[0] for one in loops_that_went_round_once(query, [attempt_with(sink, "again_if_it_fails", 1)])
    ] == ["a_sink.again_if_it_fails"]


@pytest.mark.parametrize("function", ["by_row", "by_row_if", "of_no_rows", "in_one_line", "in_memory"])
def test_loops_that_go_round_often_or_never_or_leave_nothing_are_not_named(sink: ModuleType, function: str) -> None:
    query = foreach_batch(sink.write, as_it_comes)
    assert loops_that_went_round_once(query, [attempt_with(sink, function, 4)]) == ()


@pytest.mark.parametrize(
    ("function", "named"),
    [
        ("twice_in_a_batch", "in_parts"),
        ("often_in_a_batch", "in_parts"),
        ("bare_twice", "bare"),
        ("bare_while_often", "bare_while"),
    ],
)
def test_a_loop_of_a_function_that_is_called_again_in_a_batch_goes_round_once_in_each_call(
    sink: ModuleType, function: str, named: str
) -> None:
    query = foreach_batch(sink.write, as_it_comes)
    (said,) = loops_that_went_round_once(query, [attempt_with(sink, function, 4)])
    assert said.startswith(f"a_sink.{named}:")
    assert loops_that_went_round_once(query, [attempt_with(sink, function, 2)]) == ()


def test_a_loop_within_another_goes_round_once_each_time_that_it_is_come_to(sink: ModuleType) -> None:
    query = foreach_batch(sink.write, as_it_comes)
    line = line_of("in_steps", "        for at in range(0, row, row):")
    assert loops_that_went_round_once(query, [attempt_with(sink, "in_steps", 4)]) == (f"a_sink.in_steps:{line}",)


@pytest.mark.parametrize("function", ["writes_the_first", "writes_the_same", "writes_what_was_taken"])
def test_a_loop_leaves_nothing_of_what_is_done_once_its_function_has_returned(sink: ModuleType, function: str) -> None:
    query = foreach_batch(sink.write, as_it_comes)
    assert loops_that_went_round_once(query, [attempt_with(sink, function, 4)]) == ()


def test_the_certificate_says_first_which_loops_went_round_once(sink: ModuleType, tmp_path: Path) -> None:
    query: Query = foreach_batch(sink.write, as_it_comes)
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None, not_covered=["Something else."])
    state.watched.append(attempt_with(sink, "in_parts", 4))
    note_loops(state, query)
    assert "a_sink.in_parts:6 went round once at most" in state.not_covered[0]
