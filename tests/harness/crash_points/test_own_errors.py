"""Code of a query's own that may look away from an error is found, as far as its names say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinks_of_a_line import query_of
from streamproof.harness.certifying.blind_spots import LOOKS_AWAY, note_errors
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign_state import CampaignState
from streamproof.harness.contracts.query import Query
from streamproof.harness.crash_points.inside_python.own_errors import functions_that_look_away

MODULE = """
import asyncio
import contextlib
import threading
from concurrent import futures
from contextlib import suppress
from multiprocessing.pool import ThreadPool

SHARED = futures.ThreadPoolExecutor(1)


def store(row):
    return row
"""


def query(tmp_path: Path, body: str) -> Query:
    return query_of(tmp_path, MODULE, body)


@pytest.mark.parametrize(
    "body",
    [
        "with suppress(Exception): store(frame)",
        "with contextlib.suppress(OSError): store(frame)",
        "asyncio.run(asyncio.gather(*frame, return_exceptions=True))",
        "futures.wait([futures.ThreadPoolExecutor(2).submit(store, row) for row in frame])",
        "print({}.get(1), [futures.ThreadPoolExecutor(2).submit(store, row) for row in frame])",
        "futures.ThreadPoolExecutor(2).map(store, frame)",
        "SHARED.map(store, frame)",
        "ThreadPool(2).imap(store, frame)",
        "threading.Thread(target=store, args=(frame,)).start()",
    ],
)
def test_who_may_look_away_from_an_error_is_named(tmp_path: Path, body: str) -> None:
    assert functions_that_look_away(query(tmp_path, body)) == ("a_sink.write",)


@pytest.mark.parametrize(
    "body",
    [
        "store(frame)",
        "[one.result() for one in [futures.ThreadPoolExecutor(2).submit(store, row) for row in frame]]",
        "asyncio.run(asyncio.gather(*frame))",
        "list(futures.ThreadPoolExecutor(2).map(store, frame))",
        "[row for row in SHARED.map(store, frame)]",
        "ThreadPool(2).map(store, frame)",
        "ThreadPool(2).map_async(store, frame).get()",
        "frame.rdd.map(store)",
    ],
)
def test_whom_an_error_comes_to_is_not(tmp_path: Path, body: str) -> None:
    assert functions_that_look_away(query(tmp_path, body)) == ()


def test_an_error_that_somebody_looks_away_from_is_said_not_to_be_covered(tmp_path: Path) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    note_errors(state, query(tmp_path, "store(frame)"))
    assert state.not_covered == []
    note_errors(state, query(tmp_path, "with suppress(Exception): store(frame)"))
    assert state.not_covered == [LOOKS_AWAY.format(functions="a_sink.write")]
