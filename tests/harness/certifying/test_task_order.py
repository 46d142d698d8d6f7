"""Where crashes are planned once the tasks of a stage have come in the other order, by what they have left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from profiles import done
from streamproof.harness.certifying.attempts import Attempt, Passed
from streamproof.harness.certifying.crash_states import CrashState, StateEntry, unchanged_since
from streamproof.harness.certifying.planning import points_of_the_driver
from streamproof.harness.certifying.profile import profile_of
from streamproof.harness.certifying.task_order import (
    AttemptAt,
    come_last_first,
    has_order,
    points_of_other_order,
)
from streamproof.harness.certifying.varying_names import VaryingNames
from streamproof.harness.core.addresses import DRIVER, TASK, Address, Point, Side
from streamproof.harness.recording.records import Stamped

FIRST, TWIN = Path("/run/worker-0"), Path("/run/worker-1")
STAGE = "1/17"
IN_TURN, LAST_FIRST = (0, 1), (1, 0)


class Watched:
    """An attempt at one batch, of which each point has what the folders hold by then."""

    def __init__(self, home: Path, at: int) -> None:
        self.home, self._at = home, at
        self.points: list[Passed] = []
        self.files: dict[str, str] = {}
        self._written: Counter[str] = Counter()

    def passes(self, point: Point, key: str, actor: str = DRIVER, sides: Sequence[Side] = tuple(Side)) -> None:
        entries = [
            StateEntry(f"{self.home}/{path}", content, changed=self._at) for path, content in sorted(self.files.items())
        ]
        for side in sides:
            self.points.append(Passed(Address(actor, 1, point, key, side), 0, 0, CrashState(tuple(entries))))

    def writes(self, path: str, content: str, actor: str = TASK, batch: int = 1) -> None:
        if actor == TASK:
            self.passes(Point.LINE, f"{batch}/sinks.part:3#{1 + len(self.points)}", TASK)
        self.files[path] = content
        self._written[path] += 1
        self.passes(Point.FILE, f"{batch}/write {path}#{self._written[path]}", actor, (Side.AFTER,))

    def attempt(self) -> Attempt:
        return Attempt("reference-1", 1, self.points, [Stamped(0, done(1)), Stamped(0, done(2))], home=self.home)

    def ran(self) -> AttemptAt:
        return AttemptAt(self.attempt(), unchanged_since)


def lived(order: Sequence[int], home: Path = FIRST, at: int = 1, *, log: bool = False, draws: bool = False) -> Watched:
    """Of a sink whose last partition says that all is there. `log`: each task adds a line to one file. `draws`: what
    the files hold is drawn anew each time."""
    run = Watched(home, at)
    run.files["checkpoint/offsets/1"] = f"of {at}"
    run.passes(Point.OFFSET_LOG, "1")
    run.passes(Point.ADD_BATCH, "1", sides=(Side.BEFORE,))
    for partition in order:
        run.writes(f"sink/rows-1-{partition}", f"rows {at if draws else ''}")
        if log:
            run.writes("sink/log", f"{run.files.get('sink/log', '')}{partition}\n")
        if partition == 1:
            run.writes("sink/done-1", "")
        run.passes(Point.TASK_END, f"{STAGE}/{partition}", TASK)
    run.passes(Point.ADD_BATCH, "1", sides=(Side.AFTER,))
    run.passes(Point.COMMIT_LOG, "1")
    return run


def planned(other: Watched, first: Watched, twin: Watched, *, but: Point | None = None) -> list[Passed]:
    """`but`: no such point of the first attempt is planned."""
    attempt = other.attempt()
    known = [one for one in points_of_the_driver(profile_of(first.attempt()), True) if one.address.point is not but]
    ran = AttemptAt(attempt, unchanged_since)
    return points_of_other_order(profile_of(attempt), ran, first.ran(), known, twin.ran(), VaryingNames())


def held(points: Sequence[Passed]) -> set[frozenset[str]]:
    """What the sink held at each."""
    return {
        frozenset(one.path.rpartition("/sink/")[2] for one in point.state.files if "/sink/" in one.path)
        for point in points
        if point.state is not None
    }


def test_a_crash_is_planned_where_the_last_task_has_said_that_all_is_there_and_the_first_has_left_nothing() -> None:
    found = planned(lived(LAST_FIRST, at=3), lived(IN_TURN), lived(IN_TURN, TWIN, at=2))
    assert held(found) == {frozenset({"rows-1-1"}), frozenset({"rows-1-1", "done-1"})}


def test_none_is_planned_where_it_leaves_nothing_else_be_it_at_another_time() -> None:
    again = planned(lived(IN_TURN, at=3), lived(IN_TURN), lived(IN_TURN, TWIN, at=2))
    assert again == []
    found = planned(lived(LAST_FIRST, at=3), lived(IN_TURN), lived(IN_TURN, TWIN, at=2))
    assert not any(one.address.point in (Point.OFFSET_LOG, Point.COMMIT_LOG) for one in found)


def test_what_the_order_has_made_of_a_file_counts_to_the_end_of_the_batch() -> None:
    runs = lived(LAST_FIRST, at=3, log=True), lived(IN_TURN, log=True), lived(IN_TURN, TWIN, at=2, log=True)
    assert {one.address.point for one in planned(*runs)} >= {Point.ADD_BATCH, Point.COMMIT_LOG}


def test_what_the_order_has_made_of_a_file_counts_in_no_later_batch_that_leaves_it_alone() -> None:
    runs = lived(LAST_FIRST, at=3, log=True), lived(IN_TURN, log=True), lived(IN_TURN, TWIN, at=2, log=True)
    for run, order in zip(runs, (LAST_FIRST, IN_TURN, IN_TURN), strict=True):
        run.files["checkpoint/offsets/2"] = ""
        run.passes(Point.OFFSET_LOG, "2")
        for partition in order:
            run.writes(f"sink/rows-2-{partition}", "rows", batch=2)
            run.passes(Point.TASK_END, f"2/18/{partition}", TASK)
        run.passes(Point.ADD_BATCH, "2", sides=(Side.AFTER,))
        run.passes(Point.COMMIT_LOG, "2")
    found = [one for one in planned(*runs) if one.address.key.startswith("2/") or one.address.key == "2"]
    assert {frozenset(one for one in sink if "-2-" in one) for sink in held(found)} == {frozenset({"rows-2-1"})}


def test_what_comes_out_by_chance_counts_while_the_tasks_come_and_is_passed_over_from_then_on() -> None:
    runs = lived(LAST_FIRST, at=3, draws=True), lived(IN_TURN, draws=True), lived(IN_TURN, TWIN, at=2, draws=True)
    found = planned(*runs)
    assert {frozenset({"rows-1-1"}), frozenset({"rows-1-1", "done-1", "rows-1-0"})} <= held(found)
    assert not any(one.address.point in (Point.OFFSET_LOG, Point.COMMIT_LOG) for one in found)


def test_a_state_of_the_first_order_in_which_no_crash_is_planned_stands_for_none() -> None:
    runs = lived(LAST_FIRST, at=3), lived(IN_TURN), lived(IN_TURN, TWIN, at=2)
    found = planned(*runs, but=Point.FILE)
    assert frozenset({"rows-1-1", "done-1"}) in held(found)


@pytest.mark.parametrize(
    ("attempt", "has"),
    [
        (lived((0,)), False),
        (lived((0, 1)), True),
        (lived((0, 1, 2)), True),
    ],
    ids=["one task", "two", "three"],
)
def test_tasks_have_an_order_where_a_stage_has_several_that_leave_something_in_the_sink(
    attempt: Watched, has: bool
) -> None:
    assert has_order(attempt.attempt()) is has


def test_they_have_none_where_they_leave_nothing_there_but_may_where_nobody_can_see_it() -> None:
    run = Watched(FIRST, 1)
    for partition in (0, 1):
        run.passes(Point.LINE, f"1/sinks.part:3#{partition}", TASK)
        run.files["checkpoint/state/0/0/1.delta"] = "state"
        run.passes(Point.FILE, f"1/write checkpoint/state/0/{partition}/1.delta#1", TASK)
        run.passes(Point.TASK_END, f"{STAGE}/{partition}", TASK)
    run.writes("sink/rows", "by the driver", DRIVER)
    assert not has_order(run.attempt())
    run.points = [one for one in run.points if one.address.point is not Point.FILE]
    assert has_order(run.attempt())


def test_the_order_is_the_other_one_where_the_last_task_of_a_stage_of_several_comes_first() -> None:
    assert come_last_first(lived((1, 0)).attempt()) == [True]
    assert come_last_first(lived((2, 1, 0)).attempt()) == [True]
    assert come_last_first(lived((0, 1)).attempt()) == [False]
    assert come_last_first(lived((0, 2, 1)).attempt()) == [False]
    assert come_last_first(lived((0,)).attempt()) == []
