"""Which crashes stand for others that no time was left to try."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from certified import CLAIMS, crash_at, trial
from streamproof.harness.certifying.alike import Alike
from streamproof.harness.certifying.conclusion import ClaimVerdict, NotReached, Planned, conclude
from streamproof.harness.certifying.plan import Crash, How, Victim
from streamproof.harness.certifying.planning import in_other_order
from streamproof.harness.core.addresses import Point, Side
from streamproof.harness.core.promises import Extent
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.history import Lost


def batch(number: int, *names: str, kinds: tuple[str, ...] = ("steady",)) -> list[Planned]:
    """Its commit, and operations on files."""
    crashes = [crash_at(number, kinds=kinds)]
    crashes += [crash_at(number, kinds=kinds, point=Point.FILE, key=f"{number}/{name}") for name in names]
    return [Planned(crash) for crash in crashes]


def files(number: int) -> list[Planned]:
    return batch(number, f"write sink/{number}#1", f"rename sink/{number}#1")


def verdict(plan: Sequence[Planned], tried: Sequence[Planned]) -> ClaimVerdict:
    trials = [
        trial(one.crash, how=How.SPLIT_BRAIN if one.split_brain else How.CRASH_STATE, name=f"run-{number}")
        for number, one in enumerate(tried)
    ]
    return conclude(CLAIMS, plan, trials, [], exhausted="minutes: 2").verdicts[0]


def test_two_batches_stand_for_a_third_that_passes_the_same_points() -> None:
    plan = [*files(1), *files(2), *files(3)]
    found = verdict(plan, plan[:6])
    assert found.status is Status.HOLDS
    assert "6 of 9 planned crashes, and so all that none of the others stands for, passed" in found.summary


def test_one_batch_does_not_where_there_is_another_one() -> None:
    plan = [*files(1), *files(2), *files(3)]
    found = verdict(plan, plan[:3])
    assert found.status is Status.UNKNOWN
    assert found.reasons == ("6 of 9 planned crashes were not tried: minutes: 2",)


def test_the_only_other_batch_stands_for_one() -> None:
    plan = [*files(1), *files(2)]
    assert verdict(plan, plan[:3]).status is Status.HOLDS


def test_one_that_was_not_passed_stands_for_nothing() -> None:
    plan = [*files(1), *files(2), *files(3)]
    assert verdict(plan, [*plan[:2], *plan[3:6]]).status is Status.UNKNOWN


def test_nothing_stands_for_a_batch_of_another_kind_or_another_course() -> None:
    steady = [*files(1), *files(2)]
    last = [Planned(msgspec.structs.replace(one.crash, kinds=("steady", "last"))) for one in files(3)]
    shorter, other = files(3)[:2], batch(3, "rename sink/3#1", "write sink/3#1")
    for odd in (last, shorter, other):
        assert verdict([*steady, *odd], steady).status is Status.UNKNOWN


def test_nothing_stands_for_a_batch_in_which_two_names_that_differ_by_a_number_change_places() -> None:
    def two(number: int, *order: int) -> list[Planned]:
        return batch(number, *(f"rename sink/f{one}-{number}.new > sink/f{one}-{number}#1" for one in order))

    steady = [*two(8, 1, 2), *two(9, 1, 2)]
    assert verdict([*steady, *two(10, 1, 2)], steady).status is Status.HOLDS
    assert verdict([*steady, *two(10, 2, 1)], steady).status is Status.UNKNOWN


def in_code(lines: Sequence[Planned], *places: str) -> list[Planned]:
    """With where in the user's code each operation on files is done."""
    first, *others = lines
    put = [msgspec.structs.replace(one.crash, in_code=place) for one, place in zip(others, places, strict=True)]
    return [first, *map(Planned, put)]


def test_nothing_stands_for_a_batch_in_which_other_code_does_the_same() -> None:
    steady = [*in_code(files(1), "in write", "in publish"), *in_code(files(2), "in write", "in publish")]
    assert verdict([*steady, *in_code(files(3), "in write", "in publish")], steady).status is Status.HOLDS
    for places in (("in append", "in publish"), ("in write", "in append"), ("", "")):
        assert verdict([*steady, *in_code(files(3), *places)], steady).status is Status.UNKNOWN


def used(lines: Sequence[Planned], *ways: str) -> list[Planned]:
    """With how the file of each operation is used."""
    first, *others = lines
    return [
        first,
        *(Planned(msgspec.structs.replace(one.crash, text=way)) for one, way in zip(others, ways, strict=True)),
    ]


def test_nothing_stands_for_a_batch_in_which_the_same_line_uses_a_file_in_another_way() -> None:
    def rows(number: int, *ways: str) -> list[Planned]:
        names = [f"create sink/{number}#1", *(f"write sink/{number}#{time}" for time in range(1, len(ways)))]
        return used(batch(number, *names), *ways)

    steady = [*rows(1, "O_TRUNC", "at 0", ""), *rows(2, "O_TRUNC", "at 0", "", "")]
    like = rows(3, "O_TRUNC", "at 0")
    assert verdict([*steady, *like], steady).status is Status.HOLDS
    for ways in (("O_APPEND", "O_APPEND"), ("", "at 0"), ("O_TRUNC", "")):
        assert verdict([*steady, *rows(3, *ways)], steady).status is Status.UNKNOWN


def test_where_a_row_of_writes_begins_is_where_all_of_it_is_done() -> None:
    def rows(number: int, count: int) -> list[Planned]:
        names = [f"write sink/{number}#{time}" for time in range(1, count + 1)]
        return in_code(batch(number, *names), *["in loop"] * (count - 1), "in close")

    plan = [*rows(1, 3), *rows(2, 3), *rows(3, 2)]
    assert verdict(plan, plan[:8]).status is Status.HOLDS


def written(number: int, *rows: int) -> list[Planned]:
    """A batch that writes so many pages to a journal, then so many to a table, and seals both."""
    names = []
    times: Counter[str] = Counter()
    for file, count in zip(("journal", "table") * 2, rows, strict=False):
        for _ in range(count):
            times[file] += 1
            names.append(f"write sink/{file}#{times[file]}")
        names.append(f"fsync sink/{file}#1")
    return batch(number, *names)


def test_batches_that_write_more_or_less_to_a_file_in_a_row_are_alike() -> None:
    one, two, three = written(1, 3, 2), written(2, 5, 2), written(3, 4, 3)
    plan = [*one, *two, *three]
    # The fourth write of the third batch has one that is like it, and the last to the table none.
    alone = [line for line in three if line.crash.name in ("write sink/journal#4", "write sink/table#3")]
    left = [line for line in three if line not in alone]
    alike = Alike(plan)
    assert {len(alike.like(line)) for line in left} == {2}
    assert [len(alike.like(line)) for line in alone] == [1, 0]
    assert not any(map(alike.comes_later, alone))
    assert verdict(plan, [*one, *two, *alone]).status is Status.HOLDS
    for line in alone:
        assert verdict(plan, [*one, *two, *(other for other in alone if other != line)]).status is Status.UNKNOWN


def test_a_batch_whose_write_is_cut_is_like_one_whose_write_is_not_but_for_the_half() -> None:
    def rows(number: int, *writes: str) -> list[Planned]:
        return batch(number, *(f"{write} sink/{number}#1" for write in writes), f"rename sink/{number}#1")

    one, two = rows(1, "half-write", "write"), rows(2, "half-write", "write")
    cut, whole = rows(3, "half-write", "write"), rows(4, "write")
    plan = [*one, *two, *cut, *whole]
    alike = Alike(plan)
    assert [len(alike.like(line)) for line in (*cut, *whole)] == [3, 2, 3, 3, 3, 3, 3]
    assert verdict(plan, [*one, *two]).status is Status.HOLDS
    # Nothing but another half stands for one.
    halves = [line for line in (*one, *two) if line.crash.is_half_write]
    assert verdict(plan, [line for line in plan if not line.crash.is_half_write]).status is Status.UNKNOWN
    alone = [*rows(1, "write"), *rows(2, "write"), *cut]
    assert verdict(alone, [line for line in alone if not line.crash.is_half_write]).status is Status.UNKNOWN
    assert len(halves) == 2


def test_a_write_that_is_cut_later_in_its_row_begins_no_other_row() -> None:
    def rows(number: int, *writes: str) -> list[Planned]:
        times: Counter[str] = Counter()
        names = []
        for write in writes:
            times[write] += 1
            names.append(f"{write} sink/{number}#{times[write]}")
        return batch(number, *names)

    one, two = rows(1, "write", "half-write", "write", "write"), rows(2, "write", "write", "write")
    alike = Alike([*one, *two])
    wholes = [line for line in one if not line.crash.is_half_write]
    assert [len(alike.like(line)) for line in wholes] == [1] * len(wholes)


def test_what_is_written_after_something_else_is_another_row() -> None:
    """A header that is written again once the pages are synced is no page, whatever their number."""
    one, two = written(1, 2, 1, 1), written(2, 4, 1, 1)
    alike = Alike([*one, *two])
    header = next(line for line in one if line.crash.name == "write sink/journal#3")
    assert [line.crash.name for line in alike.like(header)] == ["write sink/journal#5"]


def test_files_that_are_written_in_turns_are_in_no_row() -> None:
    turns = [batch(number, *(f"write sink/{name}#1" for name in names)) for number, names in ((1, "aba"), (2, "ab"))]
    assert verdict([*turns[0], *turns[1]], turns[0]).status is Status.UNKNOWN


def test_nothing_stands_for_a_kill_of_anything_else_a_recovery_or_a_loss_of_power() -> None:
    steady = [*files(1), *files(2)]
    gone = Lost("as ext4 promises", "what was not synced", Extent.EVERYTHING)
    for changes in ({"victim": Victim.EXECUTOR}, {"recovering": True}, {"lost": gone}):
        odd: list[Crash] = [crash_at(number, kinds=("steady",), **changes) for number in (1, 2, 3)]  # type: ignore[arg-type]
        tried = [Planned(crash) for crash in odd]
        assert Alike([*steady, *tried]).like(tried[2]) == []
        assert Alike(tried).like(tried[2]) == []
        if "lost" in changes:
            # Nor is a claim judged by them that is made of no loss.
            continue
        assert verdict([*steady, *tried], [*steady, *tried[:2]]).status is Status.UNKNOWN


def test_lines_of_code_are_like_the_same_line_however_many_others_a_batch_was_planned_with() -> None:
    def line(number: int, which: int) -> Planned:
        return Planned(crash_at(number, kinds=("steady",), point=Point.LINE, key=f"{number}/sinks.write:{which}#1"))

    plan = [*files(1), line(1, 3), line(1, 4), *files(2), line(2, 4), *files(3), line(3, 4)]
    assert verdict(plan, [one for one in plan if one.crash.batch < 3]).status is Status.HOLDS
    plan = [*plan, line(3, 7)]
    assert verdict(plan, [one for one in plan if one.crash.batch < 3]).status is Status.UNKNOWN


def test_a_split_brain_at_an_earlier_point_stands_for_later_ones_and_no_later_one_for_it() -> None:
    before = Planned(crash_at(1, point=Point.ADD_BATCH), split_brain=True)
    after = Planned(crash_at(3, point=Point.ADD_BATCH, side=Side.AFTER), split_brain=True)
    commit = Planned(crash_at(1), split_brain=True)
    plan = [*files(1), before, after, commit]
    assert verdict(plan, [*files(1), before]).status is Status.HOLDS
    assert verdict(plan, [*files(1), after, commit]).status is Status.UNKNOWN
    assert verdict(plan, files(1)).status is Status.UNKNOWN


def test_a_split_brain_at_the_same_point_of_another_batch_stands_for_nothing() -> None:
    one, other = (Planned(crash_at(batch, point=Point.ADD_BATCH), split_brain=True) for batch in (1, 3))
    plan = [*files(1), one, other]
    assert verdict(plan, [*files(1), one]).status is Status.UNKNOWN


def test_others_stand_for_what_no_time_was_left_for_and_not_for_what_could_not_be_reached() -> None:
    plan = [*files(1), *files(2), *files(3)]
    trials = [trial(one.crash, how=How.CRASH_STATE, name=f"run-{n}") for n, one in enumerate(plan[:6])]
    (not_reached,) = plan[6:7]
    found = conclude(CLAIMS, plan, trials, [NotReached(not_reached, "nobody came there")], exhausted="minutes: 2")
    assert found.verdicts[0].status is Status.UNKNOWN
    assert found.verdicts[0].reasons == ("1 of 9 planned crashes were not reached: nobody came there",)


def test_what_comes_later_is_what_two_batches_before_it_stand_for() -> None:
    plan = [*files(1), *files(2), *files(3), *files(4)]
    alike = Alike(plan)
    assert [one for one in plan if alike.comes_later(one)] == plan[6:]


def test_nothing_of_one_order_of_tasks_stands_for_what_is_of_the_other() -> None:
    plan = [line for number in (1, 2, 3) for line in files(number)]
    turned = [Planned(in_other_order(one.crash)) for one in plan]
    whole = [*plan, *turned]
    found = verdict(whole, plan)
    assert found.status is Status.UNKNOWN
    assert "9 of 18 planned crashes were not tried" in found.reasons[0]
    assert verdict(whole, [*plan, *turned[:6]]).status is Status.HOLDS


def test_batches_are_not_alike_in_the_other_order_that_are_not_in_the_first() -> None:
    plan = [*files(1), *files(2), *batch(3, "write sink/3#1", "write sink/log#1", "rename sink/3#1")]
    turned = [Planned(in_other_order(one.crash)) for number in (1, 2, 3) for one in files(number)]
    assert verdict([*plan, *turned], [*plan, *turned[:6]]).status is Status.UNKNOWN
