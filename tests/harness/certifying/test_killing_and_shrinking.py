"""Crashes share runs, and what violates is made smaller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.certifying.killing import fault_of, spread, streams
from streamproof.harness.certifying.plan import Crash, Victim
from streamproof.harness.certifying.planning import in_other_order
from streamproof.harness.certifying.shrinking import CrashPlace, Reproduction, crash_places, moved, shrink_kills
from streamproof.harness.core.addresses import DRIVER, TASK, Moment, Point, Side

BATCHES, ROWS = 8, 40


def planned(
    batch: int,
    point: Point = Point.COMMIT_LOG,
    side: Side = Side.BEFORE,
    victim: Victim = Victim.DRIVER,
    split_brain: bool = False,
) -> Planned:
    in_task = point in (Point.TASK_COMMIT, Point.TASK_END)
    key = {Point.TASK_COMMIT: f"{batch}/0", Point.TASK_END: f"{batch}/31/0"}.get(point, str(batch))
    crash = Crash(point, side, key, TASK if in_task else DRIVER, victim, batch, ("steady",))
    return Planned(crash, split_brain)


POINTS = (Point.OFFSET_LOG, Point.ADD_BATCH, Point.COMMIT_LOG, Point.TASK_COMMIT, Point.TASK_END)
PLANNED = st.builds(
    planned,
    st.integers(0, BATCHES - 1),
    st.sampled_from(POINTS),
    st.sampled_from(Side),
    st.sampled_from(Victim),
    st.booleans(),
)
PLANS = st.lists(PLANNED, max_size=30)
KEYS: Mapping[CrashPlace, Crash] = crash_places(
    planned(batch, point, side).crash for batch in range(BATCHES) for point in POINTS for side in Side
)


# Streams


@given(PLANS, st.integers(1, 6), st.lists(PLANNED, max_size=3))
def test_every_planned_crash_is_in_one_run_which_hits_no_batch_twice(
    plan: list[Planned], most: int, first: list[Planned]
) -> None:
    runs = list(streams(plan, most, first))
    assert Counter(one for run in runs for one in run) == Counter(plan)
    for run in runs:
        batches = [one.crash.batch for one in run]
        assert 1 <= len(run) <= most
        assert batches == sorted(set(batches))
        assert len({one.split_brain for one in run}) == 1
        # Who is started again may put right what another crash has left.
        assert len({one.crash.victim is Victim.DRIVER for one in run}) == 1


def test_crashes_of_different_batches_share_a_run() -> None:
    plan = [planned(batch) for batch in (3, 1, 2, 1)]
    assert list(streams(plan, 5)) == [(plan[1], plan[2], plan[0]), (plan[3],)]


def test_who_begins_the_query_again_shares_no_run_with_who_leaves_that_as_it_is() -> None:
    plan = [planned(0), planned(1, victim=Victim.ANSWER), planned(2), planned(3, Point.TASK_END, victim=Victim.NODE)]
    assert list(streams(plan, 5)) == [(plan[0], plan[2]), (plan[1], plan[3])]


def test_workers_that_die_at_operations_on_files_share_runs_with_each_other_alone() -> None:
    lines = [planned(0, Point.LINE, victim=Victim.PYTHON), planned(1, Point.LINE, victim=Victim.PYTHON)]
    files = [planned(batch, Point.FILE, Side.AFTER, victim=Victim.PYTHON) for batch in (2, 3)]
    assert list(streams([lines[0], *files, lines[1]], 5)) == [tuple(lines), tuple(files)]


def test_those_that_come_first_have_runs_of_their_own() -> None:
    plan = [planned(batch) for batch in (3, 1, 2)]
    assert list(streams(plan, 5, [plan[2], planned(4)])) == [(plan[2],), (plan[1], plan[0])]
    assert list(streams(plan, 5, [plan[2], plan[0]])) == [(plan[2],), (plan[0],), (plan[1],)]


def test_of_a_plan_that_is_empty_there_are_no_runs() -> None:
    assert list(streams([], 5)) == []


@given(PLANS, st.lists(st.integers(0, BATCHES - 1), max_size=BATCHES, unique=True))
def test_crashes_that_are_spread_stay_the_same_but_for_their_batch(plan: list[Planned], batches: list[int]) -> None:
    plan = list(dict.fromkeys(plan))
    found = spread(plan, batches, KEYS)

    def kind(one: Planned) -> object:
        return one.crash.point, one.crash.side, one.crash.actor, one.crash.victim, one.split_brain

    assert {kind(one) for one in found} == {kind(one) for one in plan}
    assert len(set(found)) == len(found) <= len(plan)
    if batches:
        assert {one.crash.batch for one in found} <= set(batches)
    else:
        assert found == plan
    for one in found:
        key = one.crash.key.partition("/")[0]
        assert key == str(one.crash.batch)


def test_many_kinds_of_crashes_in_one_batch_fit_into_few_runs_when_they_are_spread() -> None:
    plan = [planned(1, point, side, Victim.NODE) for point in POINTS for side in Side]
    assert len(list(streams(plan, 5))) == 10
    assert len(list(streams(spread(plan, range(5), KEYS), 5))) == 2


def test_a_crash_stays_where_it_is_when_the_other_batch_does_not_pass_its_point() -> None:
    here = planned(1, Point.SINK_LOG)
    assert spread([here], [4], KEYS) == [here]
    assert moved(here, 4, KEYS) is None


# Faults


@pytest.mark.parametrize(
    ("victim", "kind", "target"),
    [
        (Victim.DRIVER, "crash", DRIVER),
        (Victim.EXECUTOR, "executor-crash", TASK),
        (Victim.PYTHON, "python-crash", TASK),
        (Victim.NODE, "crash", TASK),
    ],
)
def test_what_dies_is_what_the_crash_says(victim: Victim, kind: str, target: str) -> None:
    fault = fault_of(planned(3, Point.TASK_COMMIT, Side.AFTER, victim))
    assert (fault.kind, fault.targets) == (kind, (target,))
    assert fault.trigger == Moment(Point.TASK_COMMIT, Side.AFTER, "3/0", TASK)


def test_a_driver_dies_at_the_point_of_a_task_too() -> None:
    fault = fault_of(planned(3, Point.TASK_COMMIT))
    assert (fault.kind, fault.targets) == ("crash", (DRIVER,))
    assert isinstance(fault.trigger, Moment)
    assert fault.trigger.actor == TASK


def test_a_split_brain_is_the_drivers() -> None:
    fault = fault_of(planned(3, Point.ADD_BATCH, split_brain=True))
    assert (fault.kind, fault.targets) == ("split-brain", (DRIVER,))
    assert fault.trigger == Moment(Point.ADD_BATCH, Side.BEFORE, "3", DRIVER)


def test_the_end_of_a_task_is_known_by_its_batch_since_stages_are_numbered_anew_in_each_session() -> None:
    trigger = fault_of(planned(3, Point.TASK_END)).trigger
    assert isinstance(trigger, Moment)
    assert trigger.key == "3"


def test_whoever_sends_a_message_the_driver_dies_at_it_or_its_answer_is_lost() -> None:
    for victim, kind in ((Victim.DRIVER, "crash"), (Victim.ANSWER, "lost-answer")):
        crash = Crash(Point.MESSAGE, Side.AFTER, "2/db COMMIT#1", TASK, victim, 2, ("steady",))
        fault = fault_of(Planned(crash))
        assert (fault.kind, fault.targets) == (kind, (DRIVER,))
        assert fault.trigger == Moment(Point.MESSAGE, Side.AFTER, "2/db COMMIT#1")
    crash = Crash(Point.MESSAGE, Side.BEFORE, "2/db COMMIT#1", TASK, Victim.REQUEST, 2, ("steady",))
    fault = fault_of(Planned(crash))
    assert (fault.kind, fault.targets) == ("lost-request", (DRIVER,))
    assert fault.trigger == Moment(Point.MESSAGE, Side.BEFORE, "2/db COMMIT#1")
    assert str(crash) == "2/db COMMIT#1 of a task is lost on its way and the connection breaks; a task lives"
    crash = Crash(Point.MESSAGE, Side.AFTER, "2/db COMMIT#1", TASK, Victim.EXECUTOR, 2, ("steady",))
    assert fault_of(Planned(crash)).trigger == Moment(Point.MESSAGE, Side.AFTER, "2/db COMMIT#1", TASK)


@pytest.mark.parametrize("actor", [DRIVER, TASK])
def test_an_operation_on_a_file_is_refused_to_whoever_wants_it(actor: str) -> None:
    crash = Crash(Point.FILE, Side.BEFORE, "2/write sink/a#1", actor, Victim.DISK, 2, ("steady",))
    fault = fault_of(Planned(crash))
    assert (fault.kind, fault.targets, fault.duration) == ("failed-write", (actor,), None)
    assert fault.trigger == Moment(Point.FILE, Side.BEFORE, "2/write sink/a#1", actor)


def test_the_rest_of_a_write_is_refused_once_its_first_half_is_done() -> None:
    crash = Crash(Point.FILE, Side.BEFORE, "2/half-write sink/a#1", DRIVER, Victim.DISK, 2, ("steady",))
    assert fault_of(Planned(crash)).trigger == Moment(Point.FILE, Side.BEFORE, "2/half-write sink/a#1", DRIVER)
    said = "the disk refuses the rest after the driver does half-write sink/a in batch 2; the driver lives"
    assert str(crash) == said


def test_crashes_of_the_two_orders_of_tasks_share_no_run() -> None:
    turned = [Planned(in_other_order(planned(batch).crash)) for batch in (0, 1)]
    assert list(streams([planned(2), *turned, planned(3)], 6)) == [(planned(2), planned(3)), tuple(turned)]


def test_a_crash_of_the_other_order_is_moved_to_what_another_batch_passes_in_that_order() -> None:
    def at_line(batch: int) -> Crash:
        key = f"{batch}/sinks.part:7#1"
        return in_other_order(Crash(Point.LINE, Side.BEFORE, key, TASK, Victim.DRIVER, batch, ("steady",)))

    keys = {**KEYS, **crash_places(map(at_line, (0, 3)))}
    assert moved(Planned(at_line(3)), 0, keys) == Planned(at_line(0))
    # In the first order a batch may pass none of this, and in the other nothing of that.
    assert moved(Planned(msgspec.structs.replace(at_line(3), last_first=False)), 0, keys) is None
    assert moved(Planned(in_other_order(planned(3).crash)), 0, keys) is None


def test_a_crash_says_in_which_order_tasks_come() -> None:
    crash = planned(3).crash
    assert str(in_other_order(crash)) == f"{crash}, tasks in the other order"


def test_refused_operations_are_each_in_a_run_of_its_own() -> None:
    def refused(batch: int) -> Planned:
        return Planned(Crash(Point.FILE, Side.BEFORE, f"{batch}/write a#1", DRIVER, Victim.DISK, batch, ("steady",)))

    plan = [refused(1), planned(2), refused(3), planned(4)]
    assert list(streams(plan, 6)) == [(plan[0],), (plan[1], plan[3]), (plan[2],)]


def test_a_crash_while_it_recovers_does_not_strike_the_first_attempt() -> None:
    crash = Crash(Point.OFFSET_LOG, Side.AFTER, "3", DRIVER, Victim.DRIVER, 3, ("after-restart",), recovering=True)
    trigger = fault_of(Planned(crash)).trigger
    assert isinstance(trigger, Moment)
    assert trigger.recovering


# Shrinking

FOUND = st.builds(
    lambda plan, batches, rows: Reproduction(tuple(plan), batches * rows - rows // 3, rows),
    st.lists(PLANNED.filter(lambda one: not one.split_brain), min_size=1, max_size=5),
    st.just(BATCHES),
    st.integers(1, ROWS),
)


def needed(found: Reproduction, culprit: Planned, first_batch: int, rows: int) -> bool:
    """A model of a query that is wrong when `culprit` strikes, from a certain batch on, with so many rows in it."""
    crash = culprit.crash
    return found.batch_events >= rows and any(
        (one.crash.point, one.crash.side, one.crash.victim) == (crash.point, crash.side, crash.victim)
        and first_batch <= one.crash.batch < -(-found.events // found.batch_events)
        for one in found.planned
    )


@given(FOUND, st.data())
def test_what_is_left_shows_it_and_is_no_bigger(found: Reproduction, data: st.DataObject) -> None:
    culprit = data.draw(st.sampled_from(found.planned))
    first_batch = data.draw(st.integers(0, culprit.crash.batch))
    rows = data.draw(st.integers(1, found.batch_events))
    tried: dict[Reproduction, bool] = {}

    def shows(smaller: Reproduction) -> bool:
        assert smaller not in tried, "a run is dear"
        tried[smaller] = needed(smaller, culprit, first_batch, rows)
        return tried[smaller]

    least = shrink_kills(found, KEYS, shows)
    assert least == found or tried[least]
    assert least.size <= found.size
    assert len(least.planned) == 1
    assert all(one.size < found.size for one in tried)
    # No crash is in a batch that has no rows.
    (only,) = least.planned
    assert only.crash.batch < -(-least.events // least.batch_events)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(("first_batch", "batch"), [(0, 0), (1, 1)])
def test_it_comes_to_one_crash_in_the_first_batch_that_shows_it_and_one_row_a_batch(
    point: Point, first_batch: int, batch: int
) -> None:
    culprit = planned(6, point)
    others = tuple(planned(n, Point.OFFSET_LOG, Side.AFTER) for n in (1, 3, 7))
    found = Reproduction((*others, culprit), BATCHES * ROWS, ROWS)
    least = shrink_kills(found, KEYS, lambda smaller: needed(smaller, culprit, first_batch, 1))
    assert least == Reproduction((planned(batch, point),), batch + 1, 1)


def test_one_run_suffices_where_a_first_batch_of_one_row_shows_it() -> None:
    tried = []

    def shows(smaller: Reproduction) -> bool:
        tried.append(smaller)
        return needed(smaller, planned(4), 0, 1)

    least = shrink_kills(Reproduction((planned(4),), BATCHES * ROWS, ROWS), KEYS, shows)
    assert [least] == tried == [Reproduction((planned(0),), 1, 1)]


def test_input_from_a_source_of_the_user_s_is_made_no_smaller() -> None:
    tried = []

    def shows(smaller: Reproduction) -> bool:
        tried.append(smaller)
        return True

    found = Reproduction((planned(1), planned(4)), BATCHES * ROWS, ROWS, own_source=True)
    least = shrink_kills(found, KEYS, shows)
    assert least == replace(found, planned=(planned(0),))
    assert {(one.events, one.batch_events) for one in tried} == {(BATCHES * ROWS, ROWS)}


def test_it_keeps_as_many_rows_a_batch_as_it_takes() -> None:
    found = Reproduction((planned(2),), 5 * ROWS, ROWS)
    assert shrink_kills(found, KEYS, lambda smaller: needed(smaller, planned(2), 0, 4)).batch_events == 5


def test_two_crashes_that_only_together_show_it_stay_together() -> None:
    one, other = planned(1), planned(3, Point.ADD_BATCH)
    found = Reproduction((one, planned(2), other), BATCHES * ROWS, ROWS)
    least = shrink_kills(found, KEYS, lambda smaller: {one, other} <= set(smaller.planned))
    assert least.planned == (one, other)


@given(FOUND, st.integers(0, 4))
def test_when_no_time_is_left_it_stays_with_the_smallest_that_was_seen(found: Reproduction, runs: int) -> None:
    seen = [found]
    asked = 0

    def shows(smaller: Reproduction) -> bool:
        nonlocal asked
        asked += 1
        if asked <= runs:
            seen.append(smaller)
        return asked <= runs

    least = shrink_kills(found, KEYS, shows)
    assert least == min(seen, key=lambda one: one.size)


def test_what_never_shows_again_stays_as_it_was_found() -> None:
    found = Reproduction((planned(3), planned(5)), BATCHES * ROWS, ROWS)
    assert shrink_kills(found, KEYS, lambda smaller: False) == found


def test_a_crash_in_a_closing_batch_keeps_all_of_the_input() -> None:
    closing = planned(BATCHES - 1)
    found = Reproduction((closing,), (BATCHES - 2) * ROWS, ROWS)
    least = shrink_kills(found, {}, lambda smaller: smaller.batch_events == ROWS)
    assert least == found
