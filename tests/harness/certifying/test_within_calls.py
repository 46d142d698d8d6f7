"""Workers are to die within calls of a task: between two operations on the sink's files that no line parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from profiles import FIVE, HOME, attempt_of, both_sides, passed
from streamproof.harness.certifying.attempts import Passed
from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.certifying.crash_states import CrashState, StateEntry
from streamproof.harness.certifying.plan import Victim
from streamproof.harness.certifying.planning import USUAL_VICTIMS, every_crash_point
from streamproof.harness.certifying.profile import profile_of
from streamproof.harness.certifying.within_calls import MOST_WITHIN_CALLS, leaves_calls_whole, of_calls
from streamproof.harness.core.addresses import DRIVER, TASK, Point, Side

BATCHES = range(5)


def sink(**files: str) -> CrashState:
    """What files hold; `rolled back: a` of a database that a transaction is under way in."""
    return CrashState(tuple(entry(name.replace("_", "-"), content) for name, content in sorted(files.items())))


def entry(name: str, content: str) -> StateEntry:
    held, _, back = content.partition(" > ")
    return StateEntry(f"{HOME}/sink/{name}", held, rolled_back=back)


def deeds(batch: int, *named: str, by_worker: bool = True, actor: str = TASK) -> list[Passed]:
    """Each of which leaves something else."""
    found = []
    for place, name in enumerate(named):
        one = passed(Point.FILE, Side.AFTER, f"{batch}/{name}", actor)
        found.append(replace(one, by_worker=by_worker, state=sink(a=f"{batch}-{place}-{name}")))
    return found


def line(batch: int, number: int, actor: str = TASK) -> list[Passed]:
    return [passed(Point.LINE, Side.BEFORE, f"{batch}/m.f:{number}#1", actor)]


def end_of_task(batch: int, partition: int) -> list[Passed]:
    return both_sides(Point.TASK_END, f"{batch}/9/{partition}", TASK)


def keys(also: Iterable[Passed], victims: Sequence[Victim] = USUAL_VICTIMS, batches: Sequence[int] = ()) -> list[str]:
    plan = planned(also, victims, batches)
    assert {one.crash.victim for one in plan} <= {Victim.PYTHON}
    assert {(one.crash.actor, one.crash.side) for one in plan} <= {(TASK, Side.AFTER)}
    return [one.crash.key for one in plan]


def planned(
    also: Iterable[Passed], victims: Sequence[Victim] = USUAL_VICTIMS, batches: Sequence[int] = ()
) -> Sequence[Planned]:
    return of_calls(profile_of(attempt_of(FIVE, also=also)), victims, batches)


@pytest.mark.parametrize(
    ("between", "cut"),
    [
        ([], True),
        (line(1, 3), False),
        (both_sides(Point.TASK_COMMIT, "1/0", TASK), False),
        (line(1, 3, DRIVER), True),
    ],
    ids=["nothing", "a line", "a commit", "a line of the driver"],
)
def test_a_worker_dies_between_two_operations_where_it_dies_at_no_other_point(between: list[Passed], cut: bool) -> None:
    first, second = deeds(1, "create sink/a#1", "write sink/a#1")
    also = [first, *between, second, *line(1, 4)]
    assert keys(also) == (["1/create sink/a#1"] if cut else [])
    assert leaves_calls_whole(profile_of(attempt_of(FIVE, also=also)), []) is cut
    assert not leaves_calls_whole(profile_of(attempt_of(FIVE, also=also)), planned(also))


def test_it_dies_there_only_where_python_workers_are_to_die() -> None:
    also = [*deeds(1, "create sink/a#1", "write sink/a#1"), *line(1, 4)]
    assert keys(also, every_crash_point("driver", "executor").victims) == []


@pytest.mark.parametrize("by_worker", [True, False])
def test_what_the_jvm_writes_and_what_lies_elsewhere_is_nothing_that_a_worker_dies_at(by_worker: bool) -> None:
    also = [*deeds(1, "create checkpoint/a#1", "write checkpoint/a#1", by_worker=True), *line(1, 1)]
    also += [*deeds(1, "create sink/a#1", "write sink/a#1", by_worker=by_worker, actor=DRIVER), *line(1, 4)]
    assert keys(also) == []
    assert not leaves_calls_whole(profile_of(attempt_of(FIVE, also=also)), [])
    also += [*deeds(1, "create sink/b#1", "write sink/b#1", by_worker=by_worker), *line(1, 5)]
    assert keys(also) == ["1/create sink/b#1"] * by_worker
    assert leaves_calls_whole(profile_of(attempt_of(FIVE, also=also)), planned(also)) is not by_worker


def test_what_is_done_to_the_checkpoint_meanwhile_leaves_nothing_in_the_sink_wherever_both_lie() -> None:
    def at(name: str, checkpoint: str) -> Passed:
        files = (entry("a", "rows"), StateEntry(f"{HOME}/checkpoint/state", checkpoint))
        one = passed(Point.FILE, Side.AFTER, f"1/{name}", TASK)
        return replace(one, by_worker=True, state=CrashState(files))

    also = [at("write sink/a#1", "0"), at("times sink/a#1", "1"), at("times sink/a#2", "2"), *line(1, 4)]
    assert keys(also) == []


def test_what_is_put_into_the_sink_from_elsewhere_is_done_to_it() -> None:
    also = [*deeds(1, "rename checkpoint/draft > sink/a#1", "create sink/b#1"), *line(1, 4)]
    assert keys(also) == ["1/rename checkpoint/draft > sink/a#1"]


def test_of_a_transaction_that_is_taken_back_there_is_nothing_to_die_in() -> None:
    def at(name: str, **files: str) -> Passed:
        one = passed(Point.FILE, Side.AFTER, f"1/{name}", TASK)
        return replace(one, by_worker=True, state=sink(**files))

    def transaction(number: int, before: str, after: str) -> list[Passed]:
        journal, back = f"sink/db-journal#{number}", f"hash of {before}"
        return [
            at(f"create {journal}", db=before, db_journal=""),
            at(f"write {journal}", db=f"{before} > passed over: {back}", db_journal=f"head > passed over: {back}"),
            at(f"fsync {journal}", db=f"{before} > passed over: {back}", db_journal=f"head > passed over: {back}"),
            at(f"write sink/db#{number}", db=f"{after} > put back: {back}", db_journal=f"head > put back: {back}"),
            at(f"unlink {journal}", db=after),
        ]

    opened = deeds(1, "write sink/db#1", actor=DRIVER)
    opened = [replace(opened[0], state=sink(db="empty"))]
    one = [*opened, *transaction(1, "empty", "rows"), *line(1, 4)]
    assert keys(one) == []
    assert not leaves_calls_whole(profile_of(attempt_of(FIVE, also=one)), [])
    two = [*opened, *transaction(1, "empty", "rows"), *transaction(2, "rows", "marks"), *line(1, 4)]
    assert keys(two) == ["1/unlink sink/db-journal#1"]


def test_what_is_not_known_of_the_files_counts_as_another_state() -> None:
    also = [replace(one, state=None) for one in deeds(1, "create sink/a#1", "fsync sink/a#1", "write sink/a#1")]
    assert keys([*also, *line(1, 4)]) == ["1/create sink/a#1"]


def test_of_one_kind_in_a_call_the_first_two_and_the_last_are_tried_and_what_makes_others_count_first() -> None:
    written = [f"write sink/part-{number}#1" for number in range(6)]
    also = [*deeds(1, *written, "rename sink/x > sink/y#1", "create sink/z#1"), *line(1, 4)]
    assert keys(also) == [
        "1/rename sink/x > sink/y#1",
        "1/write sink/part-0#1",
        "1/write sink/part-1#1",
        "1/write sink/part-5#1",
    ]
    assert not leaves_calls_whole(profile_of(attempt_of(FIVE, also=also)), planned(also))


def test_a_task_that_does_the_same_as_one_before_it_is_passed_over() -> None:
    """On a cluster, each is counted by itself: what a second task does to a file has another number there."""
    first, second = (
        deeds(1, f"create sink/log#{number}", f"create sink/part-{number}#1", f"write sink/log#{number}")
        for number in (1, 2)
    )
    also = [*line(1, 3), *first, *line(1, 4), *end_of_task(1, 0)]
    also += [*line(1, 3), *second, *line(1, 5), *end_of_task(1, 1)]
    assert keys(also) == ["1/create sink/log#1", "1/create sink/part-1#1"]
    assert not leaves_calls_whole(profile_of(attempt_of(FIVE, also=also)), planned(also))
    # It alone does this, to a file of which the first has made another number.
    alone = [*deeds(1, "write sink/log#1"), *line(1, 3), *end_of_task(1, 0)]
    alone += [*deeds(1, "write sink/log#2", "create sink/b#1"), *line(1, 4)]
    assert keys(alone) == []
    assert leaves_calls_whole(profile_of(attempt_of(FIVE, also=alone)), planned(alone))


def test_where_a_name_is_another_in_each_run_no_task_on_a_cluster_comes_to_it() -> None:
    also = [*line(1, 3), *deeds(1, "create sink/…#1", "write sink/*#1", "create sink/a#1"), *line(1, 4)]
    assert keys(also) == ["1/write sink/*#1"]
    assert leaves_calls_whole(profile_of(attempt_of(FIVE, also=also)), planned(also))


def test_they_are_of_a_steady_batch_or_of_the_one_that_has_them_and_spread_over_all() -> None:
    also = [
        one
        for batch in BATCHES
        for one in [*deeds(batch, "create sink/a#1", "write sink/a#1", "write sink/b#1"), *line(batch, 4)]
    ]
    also += [*deeds(0, "mkdir sink/first#1", "create sink/first/a#1"), *line(0, 5)]
    assert keys(also) == ["1/create sink/a#1", "1/write sink/a#1", "0/mkdir sink/first#1"]
    assert keys(also, batches=BATCHES) == ["0/create sink/a#1", "1/write sink/a#1", "0/mkdir sink/first#1"]
    assert keys(also, batches=(3, 4)) == ["3/create sink/a#1", "4/write sink/a#1", "0/mkdir sink/first#1"]


def test_no_more_are_tried_than_fit_into_two_runs_and_then_it_is_said() -> None:
    for kinds, times in ((20, 1), (6, 3)):
        names = [f"create sink/{chr(ord('a') + kind)}{n}#1" for kind in range(kinds) for n in range(times)]
        also = [*deeds(1, *names, "write sink/a#1"), *line(1, 4)]
        assert len(keys(also)) == MOST_WITHIN_CALLS
        assert leaves_calls_whole(profile_of(attempt_of(FIVE, also=also)), planned(also))


def test_a_death_within_a_call_says_where_it_is() -> None:
    also = [*deeds(1, "create sink/a#1", "write sink/a#1"), *line(1, 4)]
    assert [str(one) for one in planned(also)] == ["the Python worker dies after a task does create sink/a in batch 1"]
    within = [*line(1, 3), *also]
    (said,) = planned(within)
    assert str(said) == (
        "the Python worker dies after a task does create sink/a in batch 1 (in m.f, while line 3 is executed, before "
        "line 4)"
    )
