"""What is to be tried is planned from what a run without faults has passed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles import FIVE, attempt_of, both_sides, done, of_batch, passed
from streamproof.harness.certifying.attempts import Attempt, Passed
from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.certifying.crash_states import CrashState, StateEntry
from streamproof.harness.certifying.killing import spread
from streamproof.harness.certifying.messages import (
    IN_PART,
    foremost,
    messages_first,
    unreached,
    unseen,
    without_repeats,
)
from streamproof.harness.certifying.plan import Victim
from streamproof.harness.certifying.planning import (
    MOST_HALF_DONE,
    USUAL_VICTIMS,
    CrashPlan,
    after_effects_of_tasks,
    almost_done,
    crash_at,
    effects_of_tasks_first,
    every_crash_point,
    half_done,
    of_answers,
    of_disks,
    of_nodes,
    of_restarts,
    of_split_brains,
    of_the_driver,
    repairs,
    replays_first,
    worst_to_recover_from,
)
from streamproof.harness.certifying.profile import Profile, batch_of, profile_of
from streamproof.harness.certifying.shrinking import crash_places
from streamproof.harness.contracts.query import Query, RunFolders, Store
from streamproof.harness.core.addresses import DRIVER, TASK, Point, Side
from streamproof.harness.core.errors import InvalidScenario
from streamproof.harness.crash_points.outside.relay import Seen

# Kinds of batches


def test_a_batch_is_of_every_kind_that_applies_and_steady_when_none_does() -> None:
    assert profile_of(attempt_of(FIVE)).kinds == {
        0: ("first",),
        1: ("steady",),
        2: ("late-data",),
        3: ("eviction",),
        4: ("last",),
        5: ("no-data",),
    }


def test_kinds_are_not_exclusive() -> None:
    kinds = profile_of(attempt_of([done(0, late=3, evicted=1)])).kinds
    assert kinds == {0: ("first", "late-data", "eviction", "last")}


@pytest.mark.parametrize(
    ("key", "is_one"),
    [
        ("1/_spark_metadata/1.compact", True),
        ("1/state/0/0/2.snapshot", True),
        ("1/state/0/0/2.zip", True),
        ("1/state/0/0/2.delta", False),
        ("1/offsets/1", False),
    ],
)
def test_a_batch_in_which_a_log_or_the_state_is_made_smaller_is_one_of_compaction(key: str, is_one: bool) -> None:
    kinds = profile_of(attempt_of(FIVE, also=both_sides(Point.RENAME, key))).kinds
    assert kinds[1] == (("compaction",) if is_one else ("steady",))


def test_a_point_of_a_batch_of_which_spark_says_nothing_counts_as_steady() -> None:
    profile = profile_of(attempt_of(FIVE[:2], also=[(one := passed(Point.CLEANUP, Side.BEFORE, "7"))]))
    assert profile.kinds_of(one) == ("steady",)


@pytest.mark.parametrize(("key", "batch"), [("3", 3), ("12/0/default", 12), ("?/metadata", 0), ("", 0)])
def test_the_batch_is_the_first_part_of_a_key(key: str, batch: int) -> None:
    assert batch_of(passed(Point.RENAME, Side.BEFORE, key).address) == batch


# Points


def test_what_comes_after_the_last_commit_leaves_nothing_to_be_done() -> None:
    late = [*both_sides(Point.CLEANUP, "5"), *both_sides(Point.OFFSET_LOG, "6")]
    profile = profile_of(attempt_of(FIVE, after=late))
    last = profile.passed[-1].address
    assert (last.point, last.side, last.key) == (Point.COMMIT_LOG, Side.AFTER, "5")
    assert not {one.address for one in late} & {one.address for one in profile.passed}


def test_of_an_attempt_that_committed_nothing_every_point_counts() -> None:
    begun = both_sides(Point.OFFSET_LOG, "0")
    assert profile_of(Attempt("reference-1", 1, begun)).passed == tuple(begun)


def test_the_driver_dies_at_every_point_of_every_batch() -> None:
    profile = profile_of(attempt_of(FIVE))
    plan = of_the_driver(profile, every_batch=True)
    assert len(plan) == len(profile.passed) == len(of_batch(0)) * 6 == len(set(plan))
    for planned, one in zip(plan, profile.passed, strict=True):
        crash = planned.crash
        assert crash.victim is Victim.DRIVER
        assert not planned.split_brain
        assert not crash.recovering
        assert (crash.point, crash.side, crash.key) == (one.address.point, one.address.side, one.address.key)
        assert (crash.actor, crash.batch) == (one.address.actor, batch_of(one.address))
        assert crash.kinds == profile.kinds[crash.batch]


def test_where_effects_cannot_be_copied_it_dies_once_at_each_point_of_each_kind() -> None:
    batches = [*FIVE[:2], done(2), done(3), done(4)]
    profile = profile_of(attempt_of(batches))
    plan = of_the_driver(profile, every_batch=False)
    times = Counter((one.crash.point, one.crash.side, one.crash.kinds) for one in plan)
    assert {one.crash.batch for one in plan} == {0, 1, 4}
    assert set(times.values()) == {1}
    every = of_the_driver(profile, every_batch=True)
    assert {(one.crash.point, one.crash.side, one.crash.kinds) for one in every} == times.keys()


def test_each_place_that_the_user_has_named_is_one_of_its_own() -> None:
    named = [passed(Point.USER, Side.AFTER, f"0/{name}") for name in ("before-upload", "after-upload", "after-upload")]
    plan = of_the_driver(profile_of(attempt_of(FIVE[:1], also=named)), every_batch=False)
    assert [one.crash.key for one in plan if one.crash.point is Point.USER] == ["0/before-upload", "0/after-upload"]


# Victims


def test_what_runs_tasks_dies_at_every_kind_of_point_of_a_task_in_one_steady_batch() -> None:
    profile = profile_of(
        attempt_of([done(batch.batch, batch.rows, batch.late, python=True, at_end=True) for batch in FIVE])
    )
    plan = of_nodes(profile, USUAL_VICTIMS)
    with_the_first = [one for one in plan if one.crash.key != "1/1/0/default"]
    where = {(point, side) for point in (Point.STATE_COMMIT, Point.TASK_END) for side in Side}
    assert Counter((one.crash.point, one.crash.side) for one in with_the_first) == dict.fromkeys(where, 3)
    assert {one.crash.victim for one in plan} == {Victim.EXECUTOR, Victim.PYTHON, Victim.NODE}
    assert {(one.crash.actor, one.crash.batch) for one in plan} == {(TASK, 1)}


def test_an_executor_also_dies_when_all_other_tasks_of_its_stage_have_left_what_they_leave() -> None:
    commits = [
        one
        for batch in (1, 3)
        for partition in (0, 1, 2)
        for one in both_sides(Point.TASK_COMMIT, f"{batch}/{partition}", TASK)
    ]
    profile = profile_of(attempt_of(FIVE, also=commits))
    last = [one for one in of_nodes(profile, USUAL_VICTIMS) if one.crash.key in ("1/1/0/default", "1/2")]
    assert [(one.crash.victim, one.crash.side, one.crash.key) for one in last] == [
        (Victim.EXECUTOR, Side.AFTER, "1/2"),
        (Victim.EXECUTOR, Side.AFTER, "1/1/0/default"),
    ]
    keys = crash_places(crash_at(profile, one, Victim.DRIVER) for one in profile.passed)
    assert [one.crash.key for one in spread(last, [3], keys)] == ["3/2", "3/1/0/default"]
    assert {one.crash.key for one in of_nodes(profile, [Victim.NODE])}.isdisjoint(one.crash.key for one in last)


def test_nodes_die_at_each_place_that_the_user_has_named_and_are_moved_to_no_other() -> None:
    named = [
        passed(Point.USER, Side.AFTER, f"{batch}/{name}", TASK) for batch in (1, 3) for name in ("upload", "download")
    ]
    profile = profile_of(attempt_of(FIVE, also=named))
    plan = [one for one in of_nodes(profile, [Victim.EXECUTOR]) if one.crash.point is Point.USER]
    assert [one.crash.key for one in plan] == ["1/upload", "1/download"]
    keys = crash_places(crash_at(profile, one, Victim.DRIVER) for one in profile.passed)
    assert [one.crash.key for one in spread(plan, [3], keys)] == ["3/upload", "3/download"]


def test_python_workers_die_only_where_code_of_the_users_runs_in_them() -> None:
    plan = of_nodes(profile_of(attempt_of(FIVE)), USUAL_VICTIMS)
    assert {one.crash.victim for one in plan} == {Victim.EXECUTOR, Victim.NODE}
    assert of_nodes(profile_of(attempt_of(FIVE)), [Victim.PYTHON]) == []
    earlier = profile_of(attempt_of([done(batch.batch, batch.rows, batch.late, python=True) for batch in FIVE]))
    assert {one.crash.point for one in of_nodes(earlier, [Victim.PYTHON])} == {Point.TASK_END}
    named = [passed(Point.USER, Side.AFTER, "1/after-upload", TASK)]
    batches = [done(batch.batch, batch.rows, batch.late, python=True) for batch in FIVE]
    plan = of_nodes(profile_of(attempt_of(batches, also=named)), [Victim.PYTHON])
    assert {one.crash.point for one in plan} == {Point.TASK_END, Point.USER}


def test_no_python_worker_dies_where_tasks_end_that_have_none() -> None:
    """Those of a source in Java end first; a kill there would bite nobody, and leave a right query unknown."""
    batches = [done(batch.batch, batch.rows, batch.late, python=True, at_end=True) for batch in FIVE]
    later = profile_of(attempt_of([msgspec.structs.replace(one, python_at_first=False) for one in batches]))
    points = {one.crash.point for one in of_nodes(later, [Victim.PYTHON])}
    assert points == {one.crash.point for one in of_nodes(profile_of(attempt_of(batches)), [Victim.PYTHON])} - {
        Point.TASK_END
    }
    assert points
    assert Point.TASK_END in {one.crash.point for one in of_nodes(later, [Victim.EXECUTOR])}


def test_nothing_else_dies_where_only_the_driver_is_to() -> None:
    assert of_nodes(profile_of(attempt_of(FIVE)), [Victim.DRIVER]) == []


@pytest.mark.parametrize(
    ("batches", "chosen"),
    [
        (FIVE, 1),
        ((done(0), done(1, late=1), done(2, evicted=1), done(3)), 1),
        ((done(0), done(1)), 1),
        ((done(0),), 0),
        ((done(0, rows=0),), 0),
    ],
)
def test_where_no_batch_is_steady_the_next_best_is_taken(batches: tuple[object, ...], chosen: int) -> None:
    profile = profile_of(attempt_of(batches))  # type: ignore[arg-type]
    assert {one.crash.batch for one in of_nodes(profile, [Victim.NODE])} == {chosen}


def test_a_driver_that_is_only_thought_to_be_dead_sleeps_around_its_sink_and_before_it_commits() -> None:
    plan = of_split_brains(profile_of(attempt_of(FIVE)))
    assert all(one.split_brain and one.crash.batch == 1 for one in plan)
    assert [(one.crash.point, one.crash.side) for one in plan] == [
        (Point.ADD_BATCH, Side.BEFORE),
        (Point.ADD_BATCH, Side.AFTER),
        (Point.COMMIT_LOG, Side.BEFORE),
    ]


def test_the_recovery_that_has_most_to_do_is_of_a_batch_that_has_done_all_but_commit() -> None:
    worst = worst_to_recover_from(profile_of(attempt_of(FIVE)))
    assert worst is not None
    assert (worst.address.point, worst.address.side, worst.address.key) == (Point.COMMIT_LOG, Side.BEFORE, "1")


def test_a_new_jvm_knows_nothing_of_a_batch_whether_that_is_to_be_done_again_or_not() -> None:
    profile = profile_of(attempt_of(FIVE))
    found = of_restarts(profile, of_the_driver(profile, every_batch=True))
    assert {(one.crash.batch, one.crash.point, one.crash.side) for one in found} == {
        (0, Point.COMMIT_LOG, Side.AFTER),
        (1, Point.ADD_BATCH, Side.AFTER),
        (1, Point.COMMIT_LOG, Side.AFTER),
    }


def test_a_batch_has_almost_done_where_the_last_effect_of_its_sink_is_missing() -> None:
    def at(point: Point, side: Side, key: str, *names: str) -> Passed:
        files = tuple(StateEntry(f"/sink/{name}", "1") for name in names)
        return replace(passed(point, side, key), state=CrashState(files))

    begun = at(Point.ADD_BATCH, Side.BEFORE, "1")
    wrote = at(Point.FILE, Side.AFTER, "1/create sink/a#1", "a")
    sealed = at(Point.FILE, Side.AFTER, "1/create sink/b#1", "a", "b")
    checked = at(Point.FILE, Side.AFTER, "1/create sink/.b.crc#1", "a", "b", ".b.crc")
    over = at(Point.ADD_BATCH, Side.AFTER, "1", "a", "b", ".b.crc")
    course = (begun, wrote, sealed, checked, over)
    assert almost_done(course, 1) is wrote
    assert almost_done(course, 2) is None
    assert almost_done((begun, sealed, over), 1) is None, "there is but one effect"
    assert almost_done((begun, over), 1) is None, "there is none"
    assert almost_done(course[:-1], 1) is None, "it has not come to its end"


def test_a_batch_is_half_done_wherever_its_sink_holds_other_names_than_before_and_at_its_end() -> None:
    def at(point: Point, side: Side, key: str, *names: str) -> Passed:
        files = tuple(StateEntry(f"/{name}", "1") for name in names)
        return replace(passed(point, side, key), state=CrashState(files))

    begun = at(Point.ADD_BATCH, Side.BEFORE, "1", "sink/table", "checkpoint/1")
    staged = at(Point.FILE, Side.AFTER, "1/create sink/new#1", "sink/table", "sink/new")
    noted = at(Point.FILE, Side.AFTER, "1/create checkpoint/2#1", "sink/table", "sink/new", "checkpoint/2")
    moved = at(Point.FILE, Side.AFTER, "1/rename sink/table > sink/old#1", "sink/old", "sink/new")
    turned = at(Point.FILE, Side.AFTER, "1/rename sink/new > sink/table#1", "sink/old", "sink/table")
    over = at(Point.ADD_BATCH, Side.AFTER, "1", "sink/table")
    course = [begun, staged, noted, moved, turned, over]
    assert almost_done(course, 1) is turned
    assert half_done(course, 1, Path("/")) == [moved, noted]
    assert half_done(course, 2, Path("/")) == []
    many = [at(Point.FILE, Side.AFTER, f"1/create sink/{n}#1", f"sink/{n}") for n in range(9)]
    assert half_done([begun, *many, over], 1, Path("/")) == many[7:4:-1]


def with_database(
    point: Point, side: Side, key: str, content: str, back: str = "", names: Sequence[str] = ()
) -> Passed:
    files = [StateEntry(f"/sink/{name}", "1") for name in names]
    files += [StateEntry("/sink/t.db", content, rolled_back=back)]
    files += [StateEntry("/sink/t.db-journal", f"of {content}", rolled_back=back)] if back else []
    return replace(passed(point, side, key), state=CrashState(tuple(files)))


def transaction(number: int, names: Sequence[str] = ()) -> list[Passed]:
    """Its journal is made, the database is written, and the journal goes."""
    back = f"put back: of {number}"
    return [
        with_database(Point.FILE, Side.AFTER, f"1/create sink/t.db-journal#{number}", f"{number}", back, names),
        with_database(Point.FILE, Side.AFTER, f"1/write sink/t.db#{number}", f"{number + 1}", back, names),
        with_database(Point.FILE, Side.AFTER, f"1/unlink sink/t.db-journal#{number}", f"{number + 1}", "", names),
    ]


def test_a_batch_is_half_done_wherever_its_database_holds_something_else_than_before_and_at_its_end() -> None:
    begun = with_database(Point.ADD_BATCH, Side.BEFORE, "1", "0")
    one, two, three = map(transaction, range(3))
    course = [begun, *one, *two, *three, with_database(Point.ADD_BATCH, Side.AFTER, "1", "3")]
    last = almost_done(course, 1)
    assert last is three[1]
    found = half_done(course, 1, Path("/"))
    assert len(found) == MOST_HALF_DONE
    assert two[1] in found, "what the first transaction has left, in the midst of the second one"
    assert one[2] in found, "the same, between the two"
    ended = with_database(Point.ADD_BATCH, Side.AFTER, "1", "1")
    assert half_done([begun, *one, ended], 1, Path("/")) == []


def test_what_a_database_holds_pushes_out_no_point_at_which_the_sink_holds_other_names() -> None:
    begun = with_database(Point.ADD_BATCH, Side.BEFORE, "1", "0")
    first = with_database(Point.FILE, Side.AFTER, "1/create sink/a#1", "0", "", ["a"])
    second = with_database(Point.FILE, Side.AFTER, "1/create sink/b#1", "0", "", ["a", "b"])
    noted = [one for number in range(5) for one in transaction(number, ["a", "b"])]
    over = with_database(Point.ADD_BATCH, Side.AFTER, "1", "5", "", ["a", "b"])
    found = half_done([begun, first, second, *noted, over], 1, Path("/"))
    assert first in found
    assert len([one for one in found if one in noted]) > MOST_HALF_DONE


def test_where_points_inside_spark_are_not_seen_there_is_no_such_recovery_and_no_split_brain() -> None:
    profile = profile_of(attempt_of(FIVE))
    blind = replace(profile, passed=tuple(both_sides(Point.SINK_WRITE, "1")))
    assert worst_to_recover_from(blind) is None
    assert of_split_brains(blind) == of_nodes(blind, USUAL_VICTIMS) == []
    assert len(of_the_driver(blind, every_batch=True)) == 2


def test_a_crash_while_it_recovers_is_another_one_than_the_same_in_the_first_attempt() -> None:
    profile = profile_of(attempt_of(FIVE))
    first, again = (crash_at(profile, profile.passed[0], Victim.DRIVER, recovering=which) for which in (False, True))
    assert Planned(first) != Planned(again)
    assert again.recovering
    assert str(again) == f"{first}, recovering"


# Lines of the user's code


def lines_of(batch: int, *places: str, actor: str = DRIVER, states: Sequence[str] = ()) -> list[Passed]:
    """As they are passed, one after the other; `states` is what was durable at each, by a name."""
    found = [passed(Point.LINE, Side.BEFORE, f"{batch}/{place}", actor) for place in places]
    named = [CrashState((StateEntry(state, None),)) for state in states] or [one.state for one in found]
    return [replace(one, state=state, text="con.commit()") for one, state in zip(found, named, strict=True)]


def test_what_a_query_repairs_where_it_is_started_is_of_no_batch_and_is_cut_while_it_recovers() -> None:
    usual = [*lines_of(1, "m.put:7#1"), *lines_of(2, "m.put:7#1")]
    profile = profile_of(attempt_of([done(0), done(1), done(2)], also=usual))
    at_start = [
        replace(passed(Point.LINE, Side.BEFORE, key), state=CrashState((StateEntry(key, None),)))
        for key in ("?/m.repair:3#1", "?/m.repair:4#1")
    ]
    again = profile_of(attempt_of([done(1), done(2)], also=[*at_start, *usual]))
    assert [one.address.key for one in repairs(profile, again, 1)] == [one.address.key for one in at_start]
    assert repairs(again, again, 1) == []


def planned_lines(plan: Sequence[Planned]) -> list[tuple[Victim, str]]:
    return [(one.crash.victim, one.crash.key) for one in plan if one.crash.point is Point.LINE]


def test_a_line_is_tried_once_a_kind_of_batch_and_again_where_something_durable_has_changed() -> None:
    again = [line for batch in (0, 1, 2) for line in lines_of(batch, "m.f:1#1", "m.f:1#2")]
    batches = [done(0), done(1), done(2), done(3)]
    plan = of_the_driver(profile_of(attempt_of(batches, also=again)), every_batch=True)
    assert [key for _, key in planned_lines(plan)] == ["0/m.f:1#1", "1/m.f:1#1"]
    changes = lines_of(0, "m.f:1#1", "m.f:1#2", "m.f:1#3", states=("a", "a", "b"))
    plan = of_the_driver(profile_of(attempt_of(batches, also=changes)), every_batch=True)
    assert [key for _, key in planned_lines(plan)] == ["0/m.f:1#1", "0/m.f:1#3"]


def test_where_each_is_a_kill_lines_are_tried_at_what_they_call() -> None:
    also = lines_of(0, "m.f:1#1", "m.f:1 calls os.rename#1", "m.f:2#1")
    plan = of_the_driver(profile_of(attempt_of(FIVE, also=also)), every_batch=False)
    assert [key for _, key in planned_lines(plan)] == ["0/m.f:1 calls os.rename#1"]


def test_of_lines_of_a_task_between_which_nothing_durable_happens_a_worker_dies_at_the_first() -> None:
    places = "m.f:1#1", "m.f:2#1", "m.f:2 calls os.rename#1", "m.f:3#1"
    also = lines_of(0, *places, actor=TASK, states=("a", "a", "a", "b"))
    profile = profile_of(attempt_of([done(0, python=True)], also=also))
    assert planned_lines(of_nodes(profile, USUAL_VICTIMS)) == [
        (Victim.PYTHON, "0/m.f:1#1"),
        (Victim.PYTHON, "0/m.f:3#1"),
    ]
    assert planned_lines(of_nodes(profile, [Victim.NODE])) == [(Victim.NODE, "0/m.f:1#1"), (Victim.NODE, "0/m.f:3#1")]
    # What is outside is in no crash state.
    assert planned_lines(of_nodes(profile, USUAL_VICTIMS, copyable=False)) == [
        (Victim.PYTHON, "0/m.f:2 calls os.rename#1")
    ]


def test_kills_of_workers_that_have_left_something_durable_are_the_first_to_be_tried() -> None:
    places = "m.f:1#1", "m.f:2#1", "m.f:2 calls io.open#1", "m.f:3#1"
    also = lines_of(0, *places, actor=TASK, states=("a", "a", "b", "c"))
    ends = both_sides(Point.TASK_END, "0/1/0", TASK)
    plan = of_nodes(profile_of(attempt_of([done(0, python=True)], also=[*ends, *also])), USUAL_VICTIMS)
    wrote = [(Victim.PYTHON, "0/m.f:2 calls io.open#1"), (Victim.PYTHON, "0/m.f:3#1")]
    assert planned_lines(after_effects_of_tasks(plan)) == wrote
    first = effects_of_tasks_first(plan)
    assert planned_lines(first[:2]) == wrote
    assert Counter(first) == Counter(plan)
    idle = of_nodes(profile_of(attempt_of([done(0, python=True)], also=also[:2])), USUAL_VICTIMS)
    assert after_effects_of_tasks(idle) == []


def test_a_worker_dies_the_first_time_at_a_line_since_a_cluster_gives_each_worker_other_partitions() -> None:
    also = lines_of(0, "m.f:9#1", "m.f:1#1", "m.f:1#2", actor=TASK, states=("a", "a", "b"))
    profile = profile_of(attempt_of([done(0, python=True)], also=also))
    keys = [key for _, key in planned_lines(of_nodes(profile, [Victim.PYTHON]))]
    assert keys == ["0/m.f:9#1", "0/m.f:1#1"]


def test_a_crash_at_a_line_says_which_and_its_text() -> None:
    (line,) = lines_of(3, "sinks.write:17 calls sqlite3.Connection.commit#2")
    crash = crash_at(profile_of(attempt_of(FIVE)), line, Victim.DRIVER)
    assert str(crash) == (
        "the driver dies in batch 3, in sinks.write, before line 17 (`con.commit()`) calls sqlite3.Connection.commit, "
        "the second time"
    )
    (line,) = lines_of(3, "sinks.add:4#1", actor=TASK)
    crash = crash_at(profile_of(attempt_of(FIVE)), line, Victim.PYTHON)
    assert str(crash) == "the Python worker dies in batch 3, in sinks.add, before line 4 (`con.commit()`), in a task"


# What is asked for


def test_every_crash_point_means_all_of_them_but_the_disks_unless_some_are_named() -> None:
    assert (
        every_crash_point()
        == CrashPlan()
        == CrashPlan(tuple(one for one in Victim if one is not Victim.DISK), True, True)
    )
    assert every_crash_point("driver", Victim.NODE, recovering=False).victims == (Victim.DRIVER, Victim.NODE)


@given(st.text().filter(lambda text: text not in set(Victim)))
def test_a_victim_that_there_is_not_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(InvalidScenario, match="driver, executor, python, node"):
        every_crash_point(name)


@pytest.mark.parametrize("victims", [(), ("driver",), (None,)])
def test_a_plan_without_victims_or_with_names_for_them_is_refused(victims: tuple[Victim, ...]) -> None:
    with pytest.raises(InvalidScenario, match=r"name at least one of driver, executor, python, node"):
        CrashPlan(victims)


# Messages to stores outside


def sent(batch: int, kind: str, times: int) -> list[Passed]:
    return [one for n in range(1, times + 1) for one in both_sides(Point.MESSAGE, f"{batch}/db {kind}#{n}")]


def test_of_messages_that_are_alike_the_first_two_and_the_last_are_tried_and_the_rest_is_said() -> None:
    others = both_sides(Point.ADD_BATCH, "0")
    kept, said = without_repeats([*others, *sent(0, "INSERT a", 5), *sent(0, "COMMIT", 3), *sent(1, "INSERT a", 4)])
    assert [one.address.key for one in kept if one.address.side is Side.AFTER] == [
        "0",
        *(f"0/db INSERT a#{n}" for n in (1, 2, 5)),
        *(f"0/db COMMIT#{n}" for n in (1, 2, 3)),
        *(f"1/db INSERT a#{n}" for n in (1, 2, 4)),
    ]
    (only,) = said
    assert "db INSERT a, which it does up to 5 times" in only


def test_each_message_of_a_steady_batch_is_lost_and_its_answer_where_that_is_wanted() -> None:
    profile = profile_of(attempt_of(FIVE, also=[*sent(0, "COMMIT", 1), *sent(1, "COMMIT", 1), *sent(1, "PUT /a", 2)]))
    messages = ("COMMIT#1", "PUT /a#1", "PUT /a#2")
    answers = [
        f"the answer to 1/db {what} of the driver is lost and the connection breaks; the driver lives"
        for what in messages
    ]
    requests = [
        f"1/db {what} of the driver is lost on its way and the connection breaks; the driver lives" for what in messages
    ]
    in_turn = [one for both in zip(requests, answers, strict=True) for one in both]
    assert [str(one) for one in of_answers(profile, USUAL_VICTIMS)] == in_turn
    assert [str(one) for one in of_answers(profile, (Victim.ANSWER,))] == answers
    assert [str(one) for one in of_answers(profile, (Victim.REQUEST,))] == requests
    assert of_answers(profile, (Victim.DRIVER, Victim.NODE)) == []


def test_a_message_that_the_steady_batch_does_not_send_is_lost_in_the_first_that_does() -> None:
    headers = [*sent(0, "POST /headers", 2), *sent(0, "PUT /b0", 1), *sent(3, "DELETE /a", 1), *sent(4, "DELETE /a", 1)]
    profile = profile_of(attempt_of(FIVE, also=[*headers, *sent(1, "PUT /b1", 1)]))
    assert [one.crash.key for one in of_answers(profile, (Victim.ANSWER,))] == [
        "0/db POST /headers#1",
        "0/db POST /headers#2",
        "3/db DELETE /a#1",
        # By its place among the messages of its batch, it is that of the first.
        "1/db PUT /b1#1",
    ]


def test_each_operation_on_a_file_of_a_steady_batch_is_refused_once_where_that_is_asked_for() -> None:
    def done(actor: str, *deeds: str) -> list[Passed]:
        return [passed(Point.FILE, Side.AFTER, deed, actor) for deed in deeds]

    also = [
        *done("driver", "0/create sink/a#1", "1/create checkpoint/b#1", "1/create sink/a#1", "1/write sink/a#1"),
        *done("driver", "1/half-write sink/a#1", "1/write sink/a#2"),
        *done("task", "1/create sink/a#2"),
    ]
    profile = profile_of(attempt_of(FIVE, also=also))
    plan = of_disks(profile, (Victim.DISK,))
    assert [str(one) for one in plan] == [
        "the disk refuses an operation before the driver does create sink/a in batch 1; the driver lives",
        "the disk refuses an operation before the driver does write sink/a in batch 1; the driver lives",
        "the disk refuses the rest after the driver does half-write sink/a in batch 1; the driver lives",
        "the disk refuses an operation before a task does create sink/a in batch 1, the second time; a task lives",
        "the disk refuses an operation before the driver does create checkpoint/b in batch 1; the driver lives",
    ]
    assert {one.crash.side for one in plan} == {Side.BEFORE}
    assert of_disks(profile, USUAL_VICTIMS) == []
    assert of_nodes(profile, (Victim.DISK,)) == []
    assert every_crash_point("disk").victims == (Victim.DISK,)
    assert Victim.DISK not in every_crash_point().victims


def test_where_nothing_can_be_copied_what_one_call_does_to_the_sink_is_cut_as_often_as_it_does_something() -> None:
    def calls(batch: int, called: str, *effects: str) -> list[Passed]:
        before, after = both_sides(Point.LINE, f"{batch}/mine.write:3 calls {called}#1")
        return [before, *(passed(Point.FILE, Side.AFTER, f"{batch}/{one}#1") for one in effects), after]

    one = [
        *calls(0, "mine.mark", "create sink/marker"),
        *calls(0, "mine.put", "write sink/a", "rename sink/a > sink/b"),
    ]
    one += calls(0, "mine.look", "create checkpoint/x", "create checkpoint/y")
    many = calls(1, "mine.mark", "create sink/other"), calls(1, "mine.put", "write sink/c", "rename sink/c > sink/d")
    attempt = attempt_of(FIVE)
    place = attempt.passed.index(passed(Point.ADD_BATCH, Side.AFTER, "1"))
    again = [*attempt.passed[:place], *many[0], *many[1], *attempt.passed[place:]]
    begin = again.index(passed(Point.ADD_BATCH, Side.AFTER, "0"))
    profile = profile_of(replace(attempt, passed=[*again[:begin], *one, *again[begin:]]))
    of_files = [one.crash.key for one in of_the_driver(profile, False) if one.crash.point is Point.FILE]
    # The last of each call is cut by the crash after the call.
    assert of_files == ["0/write sink/a#1", "1/write sink/c#1"]


def in_batches(effects: Mapping[int, Sequence[Passed]]) -> Profile:
    """Of five batches like most, the sink of which does this before each is done."""
    attempt = attempt_of([done(number) for number in range(6)])
    points = list(attempt.passed)
    for batch, some in effects.items():
        place = points.index(passed(Point.ADD_BATCH, Side.AFTER, str(batch)))
        points[place:place] = some
    return profile_of(replace(attempt, passed=points))


def test_where_nothing_can_be_copied_messages_in_another_order_than_in_the_batches_before_are_tried() -> None:
    rows, marker = "PUT /rows", "PUT /marker"
    orders = {batch: (rows, marker) if batch != 3 else (marker, rows) for batch in range(1, 5)}
    profile = in_batches({batch: [*sent(batch, one, 1), *sent(batch, two, 1)] for batch, (one, two) in orders.items()})
    tried = [one.crash for one in of_the_driver(profile, False) if one.crash.point is Point.MESSAGE]
    assert {crash.batch for crash in tried} == {1, 3}
    assert (3, Side.AFTER, "db PUT /marker#1") in {(one.batch, one.side, one.name) for one in tried}


def test_where_nothing_can_be_copied_a_file_and_a_message_in_another_order_are_tried() -> None:
    def effects(batch: int) -> list[Passed]:
        call = both_sides(Point.LINE, f"{batch}/mine.put:3 calls os.replace#1")
        files = [call[0], passed(Point.FILE, Side.AFTER, f"{batch}/rename sink/{batch}.new > sink/{batch}#1"), call[1]]
        message = sent(batch, "COMMIT", 1)
        return [*files, *message] if batch != 3 else [*message, *files]

    tried = {one.crash for one in of_the_driver(in_batches({n: effects(n) for n in range(1, 5)}), False)}
    fine = [(one.batch, one.point, one.side) for one in tried if one.point in (Point.MESSAGE, Point.LINE)]
    assert {batch for batch, _, _ in fine} == {1, 3}
    assert (3, Point.MESSAGE, Side.AFTER) in fine


@pytest.mark.parametrize("names", [("rows", "marker"), ("part1", "part2")])
def test_where_nothing_can_be_copied_files_in_another_order_are_tried(names: tuple[str, str]) -> None:
    def effects(batch: int) -> list[Passed]:
        found = []
        for time, name in enumerate(names if batch != 3 else reversed(names), 1):
            call = both_sides(Point.LINE, f"{batch}/mine.put:3 calls os.replace#{time}")
            file = passed(Point.FILE, Side.AFTER, f"{batch}/rename sink/new > sink/{name}-{batch}#1")
            found += [call[0], file, call[1]]
        return found

    tried = {one.crash for one in of_the_driver(in_batches({n: effects(n) for n in range(1, 5)}), False)}
    lines = {(one.batch, one.side, one.key) for one in tried if one.point is Point.LINE}
    assert {batch for batch, _, _ in lines} == {1, 3}
    assert (3, Side.AFTER, "3/mine.put:3 calls os.replace#1") in lines


def test_where_nothing_can_be_copied_a_write_that_is_cut_is_tried_once_in_its_middle_and_makes_no_other_order() -> None:
    def effects(batch: int) -> list[Passed]:
        call = both_sides(Point.LINE, f"{batch}/mine.put:3 calls Path.write_text#1")
        names = ["half-write", "write"] if batch in (3, 4) else ["write"]
        files = [passed(Point.FILE, Side.AFTER, f"{batch}/{name} sink/rows#1") for name in names]
        return [call[0], *files, call[1], *sent(batch, "COMMIT", 1)]

    tried = {one.crash for one in of_the_driver(in_batches({n: effects(n) for n in range(1, 5)}), False)}
    assert {one.batch for one in tried if one.point in (Point.MESSAGE, Point.LINE)} == {1}
    assert {one.key for one in tried if one.point is Point.FILE} == {"3/half-write sink/rows#1"}


def test_kills_begin_where_a_batch_is_done_again_and_end_before_there_was_one() -> None:
    making = both_sides(Point.LINE, "0/mine.source:3 calls mine.opened#1")
    attempt = attempt_of(FIVE)
    profile = profile_of(replace(attempt, passed=[*making, *attempt.passed]))
    of_driver = of_the_driver(profile, every_batch=False)
    first = replays_first(of_driver)
    assert Counter(first) == Counter(of_driver)
    points = [one.crash.point for one in first]
    committed = points.count(Point.COMMIT_LOG)
    assert set(points[:committed]) == {Point.COMMIT_LOG}
    assert (first[0].crash.batch, first[0].crash.side) == (0, Side.BEFORE)
    assert points[-2:] == [Point.LINE, Point.LINE]


def test_messages_are_tried_first_and_when_a_commit_is_done_before_all_others() -> None:
    profile = profile_of(attempt_of(FIVE[:1], also=[*sent(0, "INSERT a", 1), *sent(0, "COMMIT", 1)]))
    first = [one.crash for one in messages_first(of_the_driver(profile, every_batch=False))]
    assert [(one.side, one.name) for one in first[:4]] == [
        (Side.AFTER, "db COMMIT#1"),
        (Side.AFTER, "db INSERT a#1"),
        (Side.BEFORE, "db INSERT a#1"),
        (Side.BEFORE, "db COMMIT#1"),
    ]
    assert Counter(first) == Counter(one.crash for one in of_the_driver(profile, every_batch=False))


def test_what_only_opens_something_comes_after_what_leaves_something_behind() -> None:
    profile = profile_of(attempt_of(FIVE[:1], also=[*sent(0, "InitProducerId", 1), *sent(0, "Produce", 1)]))
    first = [one.crash for one in messages_first(of_the_driver(profile, every_batch=False))]
    assert [(one.side, one.name) for one in first[:3]] == [
        (Side.AFTER, "db Produce#1"),
        (Side.AFTER, "db InitProducerId#1"),
        (Side.BEFORE, "db InitProducerId#1"),
    ]


@pytest.mark.parametrize(("protocol", "first"), [("postgres", Victim.DRIVER), ("http", Victim.ANSWER)])
def test_the_foremost_message_is_that_of_each_victim(protocol: str, first: Victim) -> None:
    profile = profile_of(attempt_of(FIVE[:1], also=[*sent(0, "INSERT a", 1), *sent(0, "COMMIT", 1)]))
    query = Query(lambda frame: frame, stores=(Store("db", reset, address="127.0.0.1:80", protocol=protocol),))
    of_driver = messages_first(of_the_driver(profile, every_batch=False))
    answers = of_answers(profile, [Victim.ANSWER])
    split = Planned(of_driver[0].crash, split_brain=True)
    found = foremost([split, *of_driver[1:], *answers], query)
    assert {*found} == {of_driver[1], answers[0]}
    assert found[0].crash.victim is first
    assert foremost([one for one in of_driver if one.crash.point is not Point.MESSAGE], query) == []


def reset(folders: RunFolders) -> None:
    """There is no such store."""


def test_what_is_sent_and_not_seen_is_said() -> None:
    stores = (
        Store("dark", reset),
        Store("db", reset, address="127.0.0.1:5432", protocol="postgres"),
        Store("silent", reset, address="127.0.0.1:9092", protocol="kafka"),
    )
    query = Query(lambda frame: frame, stores=stores)
    seen = [
        {"db": Seen(3, by_strangers=2, unread="a message of 9 bytes"), "silent": Seen()},
        {"db": Seen(3, unreachable="127.0.0.1:5432 cannot be reached: refused"), "silent": Seen()},
    ]
    assert list(unseen(query, seen)) == [
        "Messages to dark: not seen, since it has no address.",
        "Messages to db one by one: not all were of the protocol postgres (a message of 9 bytes).",
        IN_PART.format(store="db"),
        "Connections to db that did not come about: 127.0.0.1:5432 cannot be reached: refused.",
        "2 requests to db, of which it is not known who sent them.",
    ]
    assert unreached(query, seen) == ["silent"]


@pytest.mark.parametrize(("protocol", "said"), [("postgres", False), ("kafka", False), ("bytes", True), ("", True)])
def test_that_a_pipeline_is_cut_nowhere_is_said_of_a_store_whose_protocol_is_not_known(
    protocol: str, said: bool
) -> None:
    query = Query(lambda frame: frame, stores=(Store("cache", reset, address="127.0.0.1:6379", protocol=protocol),))
    assert [*unseen(query, [{"cache": Seen(3)}])] == [IN_PART.format(store="cache")] * said
    assert [*unseen(query, [{"cache": Seen()}])] == []
