"""Code of a query's own that goes by the time of day is found, as far as its names say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sinks_of_a_line import query_of
from streamproof.harness.certifying.blind_spots import BY_THE_CLOCK, note_clock
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign_state import CampaignState
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.query_parts import pandas_with_state, processor
from streamproof.harness.crash_points.inside_python.own_clock import functions_that_ask_the_time

NAMES = """
import datetime as dates
import time
from datetime import date, datetime
from time import strftime as said
from pyspark.sql import functions as f
MODE = "processingTime"
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
        "frame.transformWithState(None, 'n LONG', 'Update', 'ProcessingTime')",
        "frame.transformWithState(None, 'n LONG', 'Update', MODE)",
        "frame.applyInPandasWithState(max, 'n LONG', 'n LONG', 'update', frame.ProcessingTimeTimeout)",
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
        "frame.transformWithState(None, 'n LONG', 'Update', 'EventTime')",
        "frame.writeStream.trigger(processingTime='1 second')",
    ],
)
def test_who_does_not_is_not(tmp_path: Path, body: str) -> None:
    assert functions_that_ask_the_time(query(tmp_path, body)) == ()


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (lambda: processor(Counts, "n LONG", time_mode="processingTime"), (f"{__name__}.Counts",)),
        (
            lambda: pandas_with_state(counts, "n LONG", "n LONG", timeout="ProcessingTimeTimeout"),
            (f"{__name__}.counts",),
        ),
        (lambda: processor(Counts, "n LONG", time_mode="eventTime"), ()),
        (lambda: pandas_with_state(counts, "n LONG", "n LONG"), ()),
    ],
)
def test_an_operator_whose_state_goes_by_processing_time_is_named(
    made: Callable[[], Query], named: tuple[str, ...]
) -> None:
    """Its time to live can be given by its place alone."""
    assert functions_that_ask_the_time(made()) == named


TIMEOUT = "ProcessingTimeTimeout"


class Counts:
    pass


def counts(key: Any, frames: Any, state: Any) -> Any:
    return frames


def test_a_batch_that_is_done_again_on_another_day_is_said_not_to_be_covered(tmp_path: Path) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None)
    note_clock(state, query(tmp_path, "time.sleep(1)"))
    assert state.not_covered == []
    note_clock(state, query(tmp_path, "date.today()"))
    assert state.not_covered == [BY_THE_CLOCK.format(functions="a_sink.write")]
