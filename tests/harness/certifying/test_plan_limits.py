"""What a plan of crashes is said to leave out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from profiles import FIVE, attempt_of, both_sides, passed
from streamproof.harness.certifying.attempts import Passed
from streamproof.harness.certifying.plan import Victim
from streamproof.harness.certifying.plan_limits import (
    BETWEEN_FILES,
    BOTH_AT_ONCE,
    DISK_ONCE,
    LINES_OF_TASKS,
    NO_DISK,
    NONE_CUT,
    ONE_BATCH,
    ONE_CUT,
    SPLIT_ONCE,
    STORE_ONCE,
    WITHIN_CALLS,
    left_out,
)
from streamproof.harness.certifying.planning import (
    USUAL_VICTIMS,
    of_answers,
    of_nodes,
    of_split_brains,
    of_the_driver,
)
from streamproof.harness.certifying.profile import profile_of
from streamproof.harness.certifying.within_calls import of_calls
from streamproof.harness.core.addresses import DRIVER, TASK, Point, Side


def done(*deeds: str, actor: str = DRIVER, by_worker: bool = False) -> list[Passed]:
    """What that leaves, nobody knows."""
    made = [passed(Point.FILE, Side.AFTER, f"1/{deed} sink/rows#1", actor) for deed in deeds]
    return [replace(one, by_worker=by_worker, state=None) for one in made]


def lines(*numbers: int) -> list[Passed]:
    """Of a task, each of which has sent something."""
    return [one for number in numbers for one in both_sides(Point.LINE, f"1/m.f:{number} calls m.g#1", TASK)]


def said(also: Iterable[Passed], *victims: Victim) -> list[str]:
    profile = profile_of(attempt_of(FIVE, also=also))
    wanted = victims or USUAL_VICTIMS
    return left_out(
        profile,
        wanted,
        of_the_driver(profile, True) if Victim.DRIVER in wanted else [],
        of_nodes(profile, wanted, copyable=False),
        of_calls(profile, wanted, ()),
        of_answers(profile, wanted),
        of_split_brains(profile) if Victim.DRIVER in wanted else [],
    )


@pytest.mark.parametrize(
    ("also", "more"),
    [
        ([], []),
        (done("create", "write"), [NONE_CUT]),
        (done("create", "half-write", "write"), [ONE_CUT]),
        ([*done("create", "write", actor=TASK), *lines(3)], [NONE_CUT, BETWEEN_FILES, LINES_OF_TASKS, BOTH_AT_ONCE]),
        (
            [*done("create", "write", actor=TASK, by_worker=True), *lines(3)],
            [NONE_CUT, WITHIN_CALLS, LINES_OF_TASKS, BOTH_AT_ONCE],
        ),
        (lines(3), [LINES_OF_TASKS, BOTH_AT_ONCE]),
        (both_sides(Point.MESSAGE, "1/db COMMIT#1"), [STORE_ONCE]),
    ],
    ids=["as ever", "files", "a write of pages", "files of a task", "files of a worker", "lines of a task", "messages"],
)
def test_what_is_left_out_of_a_plan_is_said_where_it_could_have_been_in_it(also: list[Passed], more: list[str]) -> None:
    always = [ONE_BATCH, SPLIT_ONCE, NO_DISK]
    assert sorted(said(also)) == sorted([*always, *more])


def test_what_is_refused_but_once_is_said_where_anything_is() -> None:
    assert said(done("create"), Victim.DISK) == [DISK_ONCE]
    assert said([], Victim.DISK) == []
