"""Code of a query's own that goes by where it runs is found, as far as its names say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinks_of_a_line import query_of
from streamproof.harness.certifying.blind_spots import BY_WHERE, note_whereabouts
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign_state import CampaignState
from streamproof.harness.contracts.query import Query
from streamproof.harness.crash_points.inside_python.own_whereabouts import functions_that_go_by_where_they_run

MODULE = """
import os
import platform
import socket
from os import getpid as number
from socket import gethostname as host

HOST = socket.gethostname()
NUMBER = os.getpid()
"""


def query(tmp_path: Path, body: str) -> Query:
    return query_of(tmp_path, MODULE, body)


@pytest.mark.parametrize(
    "body",
    [
        "print(os.getpid())",
        "print(number())",
        "print(socket.gethostname())",
        "print(host())",
        "print(HOST)",
        "print(NUMBER)",
        "print(platform.node())",
        "print(os.environ['HOSTNAME'])",
        "print([os.environ.get('POD_NAME') for _ in range(1)])",
        "frame.repartition(frame.sparkSession.sparkContext.defaultParallelism)",
    ],
)
def test_who_may_go_by_where_it_runs_is_named(tmp_path: Path, body: str) -> None:
    assert functions_that_go_by_where_they_run(query(tmp_path, body)) == ("a_sink.write",)


@pytest.mark.parametrize("body", ["frame.node", "print(os.environ['HOME'], platform.system())", "print(frame, 1)"])
def test_who_goes_by_something_else_is_not(tmp_path: Path, body: str) -> None:
    assert functions_that_go_by_where_they_run(query(tmp_path, body)) == ()


def test_a_constant_that_is_this_process_s_number_is_none_where_nobody_asks_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getpid", lambda: 1)
    (tmp_path / "constant").mkdir()
    constant = query_of(tmp_path / "constant", "PARTS = 1", "print(PARTS)")
    assert functions_that_go_by_where_they_run(constant) == ()
    assert functions_that_go_by_where_they_run(query(tmp_path, "print(NUMBER)")) == ("a_sink.write",)


def test_that_it_always_comes_back_on_the_same_machine_is_said(tmp_path: Path) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    note_whereabouts(state, query(tmp_path, "print(frame)"))
    assert state.not_covered == []
    note_whereabouts(state, query(tmp_path, "print(host())"))
    assert state.not_covered == [BY_WHERE.format(functions="a_sink.write")]
