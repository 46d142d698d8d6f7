"""Code of a query's own that goes by the time of day is found, as far as its names say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinks_of_a_line import query_of
from streamproof.harness.certifying.blind_spots import BY_THE_CLOCK, note_clock
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign_state import CampaignState
from streamproof.harness.contracts.query import Query
from streamproof.harness.crash_points.inside_python.own_clock import functions_that_ask_the_time

NAMES = """
import datetime as dates
import time
from datetime import date, datetime
from time import strftime as said
from pyspark.sql import functions as f
"""


def query(tmp_path: Path, body: str) -> Query:
    return query_of(tmp_path, NAMES, body)


@pytest.mark.parametrize(
    "body",
    [
        "time.time()",
        "time.strftime('%Y-%m-%d')",
        "said('%Y')",
        "date.today()",
        "datetime.now()",
        "import time as clock; clock.time()",
        "from time import time_ns; time_ns()",
        "import datetime; datetime.date.today()",
        "import pandas; pandas.Timestamp.now()",
        "__import__('uuid').uuid1()",
        "__import__('os').path.getmtime('x')",
        "dates.datetime.now().hour",
        "frame.withColumn('day', f.current_date())",
        "frame.selectExpr('now() as day')",
        "frame.where('day = CURRENT_DATE')",
        "frame.setTimeoutDuration(10_000)",
        "frame.getTimerValues().getCurrentProcessingTimeInMs()",
        "frame.getValueState('n', 'n LONG', ttlDurationMs=10_000)",
    ],
)
def test_who_asks_for_the_time_is_named(tmp_path: Path, body: str) -> None:
    assert functions_that_ask_the_time(query(tmp_path, body)) == ("a_sink.write",)


@pytest.mark.parametrize(
    "body",
    [
        "time.sleep(1)",
        "time.perf_counter()",
        "frame.select('time')",
        "import time; time.sleep(1)",
        "datetime(2026, 1, 1)",
        "dates.timedelta(1)",
        "frame.setTimeoutTimestamp(1)",
        "frame.getValueState('n', 'n LONG')",
    ],
)
def test_who_does_not_is_not(tmp_path: Path, body: str) -> None:
    assert functions_that_ask_the_time(query(tmp_path, body)) == ()


def test_a_batch_that_is_done_again_on_another_day_is_said_not_to_be_covered(tmp_path: Path) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    note_clock(state, query(tmp_path, "time.sleep(1)"))
    assert state.not_covered == []
    note_clock(state, query(tmp_path, "date.today()"))
    assert state.not_covered == [BY_THE_CLOCK.format(functions="a_sink.write")]
