"""What a saved schedule names is found again in code that was repaired since, or it is said that it is gone."""

from __future__ import annotations

import msgspec
import pytest

from certified import crash_at
from streamproof.harness.certifying.attempts import Passed
from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.certifying.plan import Crash, Victim
from streamproof.harness.certifying.relocating import relocated
from streamproof.harness.core.addresses import Address, Point, Side
from streamproof.harness.core.errors import ScenarioChanged

COMMITS = "orders.insert:10 calls sqlite3.Connection.__exit__#1"


def at_line(name: str, text: str, recovering: bool = False) -> Crash:
    key = f"0/{name}"
    return crash_at(0, point=Point.LINE, side=Side.AFTER, key=key, text=text, recovering=recovering)


def passed(name: str, text: str, side: Side = Side.AFTER, actor: str = "driver", batch: int = 0) -> Passed:
    return Passed(Address(actor, 1, Point.LINE, f"{batch}/{name}", side), 0, 0, None, text=text)


def found(crash: Crash, *passed: Passed) -> tuple[str, str]:
    (one,) = relocated([Planned(crash)], passed)
    return one.crash.key, one.crash.text


def test_a_line_that_stands_elsewhere_is_found_by_its_text() -> None:
    crash = at_line("orders.insert:10#1", "connection.commit()")
    now = passed("orders.insert:17#1", "connection.commit()")
    assert found(crash, passed("orders.insert:10#1", "begin()"), now) == ("0/orders.insert:17#1", "connection.commit()")


def test_a_call_from_a_line_that_was_written_anew_is_found_by_what_it_calls() -> None:
    crash = at_line(COMMITS, "with connect() as database, database:")
    others = [
        passed("orders.insert:8 calls contextlib.closing.__exit__#1", "with closing(connect()) as database:"),
        passed("orders.insert:11 calls sqlite3.Connection.__exit__#1", "with database:", side=Side.BEFORE),
        passed("orders.insert:11 calls sqlite3.Connection.__exit__#1", "with database:", actor="task"),
        passed("orders.insert:11 calls sqlite3.Connection.__exit__#1", "with database:", batch=1),
        passed("orders.read:11 calls sqlite3.Connection.__exit__#1", "with database:"),
    ]
    now = passed("orders.insert:12 calls sqlite3.Connection.__exit__#1", "with database:")
    assert found(crash, *others, now) == (f"0/{COMMITS.replace(':10', ':12')}", "with database:")


def test_of_several_that_fit_the_one_with_the_same_text_is_meant_and_then_the_nearest() -> None:
    crash = at_line(COMMITS, "with database:")
    near, far = COMMITS.replace(":10", ":11"), COMMITS.replace(":10", ":30")
    assert found(crash, passed(near, "with other:"), passed(far, "with database:"))[0] == f"0/{far}"
    assert found(crash, passed(far, "with database:"), passed(near, "with database:"))[0] == f"0/{near}"


def test_what_is_where_it_was_stays_there() -> None:
    crash = at_line(COMMITS, "with database:")
    assert found(crash, passed(COMMITS, "with database:")) == (f"0/{COMMITS}", "with database:")


def test_lines_that_only_a_recovery_passes_and_other_points_stay_as_they_are() -> None:
    others = [crash_at(0), at_line("orders.repair:3#1", "undo()", recovering=True)]
    assert [one.crash for one in relocated([Planned(one) for one in others], [])] == others


def test_a_line_that_nothing_is_like_any_more_is_named() -> None:
    crash = at_line("orders.insert:10#1", "connection.commit()")
    with pytest.raises(ScenarioChanged, match=r"orders\.insert, after line 10 .*Certify it again"):
        found(crash, passed("orders.insert:10#1", "begin()"), passed("orders.insert:10#2", "connection.commit()"))


# Operations on files


def at_file(deed: str, in_code: str = "", recovering: bool = False) -> Crash:
    return crash_at(0, point=Point.FILE, side=Side.AFTER, key=f"0/{deed}", in_code=in_code, recovering=recovering)


def does(deed: str, actor: str = "driver", batch: int = 0) -> Passed:
    return Passed(Address(actor, 1, Point.FILE, f"{batch}/{deed}", Side.AFTER), 0, 0, None)


def between(*deeds: Passed, function: str = "orders.insert", line: int = 10, text: str = "write()") -> list[Passed]:
    before, then = (
        passed(f"{function}:{at}#1", said, Side.BEFORE) for at, said in ((line, text), (line + 1, "done()"))
    )
    return [before, *deeds, then]


def in_code(function: str = "orders.insert", line: int = 10, text: str = "write()") -> str:
    return f"in {function}, while line {line} (`{text}`) is executed, before line {line + 1} (`done()`)"


def test_what_is_done_to_a_file_is_found_by_that_wherever_the_code_does_it() -> None:
    crash = at_file("write sink/rows#2", in_code())
    now = between(
        does("write sink/rows#1"), does("write sink/rows#2"), does("write sink/list#1"), line=30, text="new()"
    )
    assert found(crash, *now)[0] == "0/write sink/rows#2"


def test_of_an_operation_that_is_done_less_often_now_the_time_next_to_it_is_meant() -> None:
    crash = at_file("write sink/rows#4", in_code())
    assert found(crash, *between(does("write sink/rows#1"), does("write sink/rows#2")))[0] == "0/write sink/rows#2"


def test_what_a_worker_dies_at_is_found_where_a_task_on_a_cluster_comes_to_it() -> None:
    """There, what a second task does to a file has another number than where it comes after the first."""
    end = Passed(Address("task", 1, Point.TASK_END, "0/9/0", Side.AFTER), 0, 0, None)
    now = [does("write sink/rows#1"), does("write sink/rows#2", "task"), end, does("write sink/rows#3", "task")]
    crash = msgspec.structs.replace(at_file("write sink/rows#3"), actor="task", victim=Victim.PYTHON)
    assert found(crash, *now)[0] == "0/write sink/rows#2"
    # Of the driver, which dies where they are counted together.
    assert found(msgspec.structs.replace(crash, victim=Victim.DRIVER), *now)[0] == "0/write sink/rows#3"


def test_what_is_done_to_a_file_that_is_called_otherwise_is_found_by_its_place_in_the_code() -> None:
    crash = at_file("rename sink/.draft > sink/0#1", in_code())
    now = between(does("rename sink/.new > sink/batch-0#1"), line=14)
    others = [
        *between(does("rename sink/list.new > sink/list#1"), line=30, text="publish()"),
        *between(does("rename sink/.new > sink/batch-0#2"), line=14, function="orders.other"),
    ]
    (one,) = relocated([Planned(crash)], [*others, *now])
    assert (one.crash.key, one.crash.in_code) == ("0/rename sink/.new > sink/batch-0#1", in_code(line=14))


def test_of_a_statement_that_was_written_anew_the_same_kind_of_operation_in_its_function_is_meant() -> None:
    crash = at_file("write sink/rows#1", in_code())
    others = [
        does("write sink/draft#1", actor="task"),
        does("write sink/draft#1", batch=1),
        does("create sink/draft#1"),
    ]
    now = between(*others, does("write sink/draft#2"), line=22, text="draft.write_text(rows)")
    assert found(crash, *now)[0] == "0/write sink/draft#2"


def test_an_operation_that_only_a_recovery_does_stays_as_it_is() -> None:
    crash = at_file("unlink sink/draft#1", in_code(), recovering=True)
    assert found(crash)[0] == crash.key


@pytest.mark.parametrize("place", [in_code(), ""])
def test_an_operation_that_nothing_is_like_any_more_is_named(place: str) -> None:
    crash = at_file("write sink/rows#1", place)
    with pytest.raises(ScenarioChanged, match=r"does write sink/rows in batch 0.*Certify it again"):
        found(crash, *between(does("write sink/other#1"), function="orders.other"), does("write sink/another#1"))
