"""Code of a query's own that may have several things done side by side is found, as far as its names say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinks_of_a_line import query_of
from streamproof.harness.certifying.blind_spots import SIDE_BY_SIDE, note_side_by_side
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign_state import CampaignState
from streamproof.harness.contracts.query import Query
from streamproof.harness.crash_points.inside_python.own_threads import functions_that_work_beside

MODULE = """
import asyncio
import threading
from concurrent import futures
from multiprocessing.pool import ThreadPool

SHARED = futures.ThreadPoolExecutor(1)


def store(row):
    return row


def submit_each(pool, rows):
    return [pool.submit(store, row) for row in rows]
"""


def query(tmp_path: Path, body: str) -> Query:
    return query_of(tmp_path, MODULE, body)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("threading.Thread(target=store, args=(frame,)).start()", "write"),
        ("with futures.ThreadPoolExecutor(2) as pool: list(pool.map(store, frame))", "write"),
        ("SHARED.map(store, frame)", "write"),
        ("submit_each(frame, frame)", "submit_each"),
        ("with ThreadPool(2) as pool: pool.map(store, frame)", "write"),
        ("asyncio.run(asyncio.gather(*frame))", "write"),
    ],
)
def test_who_may_have_things_done_side_by_side_is_named(tmp_path: Path, body: str, named: str) -> None:
    assert functions_that_work_beside(query(tmp_path, body)) == (f"a_sink.{named}",)


@pytest.mark.parametrize("body", ["list(map(store, frame))", "threading.Lock().acquire()", "asyncio.run(store(frame))"])
def test_who_does_one_thing_after_the_other_is_not(tmp_path: Path, body: str) -> None:
    assert functions_that_work_beside(query(tmp_path, body)) == ()


def test_another_order_of_what_threads_do_is_said_first_not_to_be_covered(tmp_path: Path) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    state.not_covered.append("the rest")
    note_side_by_side(state, query(tmp_path, "store(frame)"))
    assert state.not_covered == ["the rest"]
    note_side_by_side(state, query(tmp_path, "SHARED.map(store, frame)"))
    assert state.not_covered == [SIDE_BY_SIDE.format(functions="a_sink.write"), "the rest"]
