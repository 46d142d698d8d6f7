"""Code of a query's own that keeps something in the memory of its process is found, as far as its names say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinks_of_a_line import query_of
from streamproof.harness.certifying.blind_spots import BY_MEMORY, note_memory
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign_state import CampaignState
from streamproof.harness.contracts.query import Query
from streamproof.harness.crash_points.inside_python.own_memory import functions_that_remember

MODULE = """
from collections import Counter
from functools import cache, lru_cache

DONE = set()
TIMES = Counter()
NAMES = {"a": 1}
LAST = None


@cache
def opened(path):
    return open(path)


@lru_cache(maxsize=1)
def known():
    return 1


def plain(frame):
    return frame


def made():
    rows, count = [], 0

    def number(frame):
        nonlocal count
        count += 1
        return frame

    def keep(frame):
        rows.append(frame)
        return frame

    def count_up(frame):
        seen = []
        def within():
            seen.append(1)
        within()
        return frame

    return number, keep, count_up


number, keep, count_up = made()
"""


def query(tmp_path: Path, body: str) -> Query:
    return query_of(tmp_path, MODULE, body)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("DONE.add(frame)", "write"),
        ("TIMES[frame] += 1", "write"),
        ("NAMES.setdefault('b', 2)", "write"),
        ("global LAST; LAST = frame", "write"),
        ("opened('x')", "write"),
        ("known()", "write"),
        ("[DONE.discard(one) for one in frame]", "write"),
        ("number(frame)", "made.<locals>.number"),
        ("keep(frame)", "made.<locals>.keep"),
    ],
)
def test_who_keeps_something_in_its_process_is_named(tmp_path: Path, body: str, named: str) -> None:
    assert f"a_sink.{named}" in functions_that_remember(query(tmp_path, body))


@pytest.mark.parametrize(
    "body",
    [
        "NAMES['a']",
        "frame in DONE",
        "rows = []; rows.append(frame)",
        "found = {}; found['a'] = frame",
        "plain(frame)",
        "count_up(frame)",
    ],
)
def test_who_does_not_is_not(tmp_path: Path, body: str) -> None:
    assert functions_that_remember(query(tmp_path, body)) == ()


def test_a_process_that_lives_on_is_said_not_to_be_covered(tmp_path: Path) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    note_memory(state, query(tmp_path, "frame in DONE"))
    assert state.not_covered == []
    note_memory(state, query(tmp_path, "DONE.add(frame)"))
    assert state.not_covered == [BY_MEMORY.format(functions="a_sink.write")]
