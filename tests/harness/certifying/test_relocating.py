"""A line of a saved schedule is found again in code that was repaired since, or it is said that it is gone."""

from __future__ import annotations

import pytest

from certified import crash_at
from streamproof.harness.certifying.attempts import Passed
from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.certifying.plan import Crash
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
