"""What a campaign says that it cannot try, by what a run without failures has passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from profiles import both_sides, passed
from streamproof.harness.certifying.attempts import Attempt, Passed
from streamproof.harness.certifying.blind_spots import ONE_TASK, note_one_task
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign_state import CampaignState
from streamproof.harness.core.addresses import DRIVER, TASK, Point, Side

LINE = passed(Point.LINE, Side.BEFORE, "1/sinks.write:3#1", TASK)


def tasks(*partitions: int) -> list[Passed]:
    return [one for partition in partitions for one in both_sides(Point.TASK_END, f"1/17/{partition}", TASK)]


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([LINE, *tasks(0)], True),
        ([LINE, *tasks(0, 1)], False),
        ([passed(Point.LINE, Side.BEFORE, "1/sinks.write:3#1", DRIVER), *tasks(0)], False),
        ([LINE], False),
    ],
    ids=["one", "two", "none of the user's", "not seen"],
)
def test_that_each_stage_has_one_task_is_said_where_the_users_code_runs_in_it(
    tmp_path: Path, points: list[Passed], said: bool
) -> None:
    state = CampaignState(tmp_path, (), {}, Budget(), lambda progress: None, not_covered=["Something else."])
    note_one_task(state, Attempt("reference-1", 1, points))
    assert state.not_covered == [*([ONE_TASK] if said else []), "Something else."]
