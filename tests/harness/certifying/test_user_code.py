"""Where in the user's code an effect came about, by what an attempt passed around it."""

from __future__ import annotations

from dataclasses import replace

from profiles import attempt_of, done, passed
from streamproof.harness.certifying.attempts import Passed
from streamproof.harness.certifying.plan import Victim
from streamproof.harness.certifying.planning import crash_at
from streamproof.harness.certifying.profile import profile_of
from streamproof.harness.certifying.user_code import goes_into_the_jvm, places_in_code
from streamproof.harness.core.addresses import DRIVER, TASK, Point, Side


def line(key: str, text: str = "", side: Side = Side.BEFORE, actor: str = DRIVER) -> Passed:
    return replace(passed(Point.LINE, side, key, actor), text=text)


def file(key: str, actor: str = DRIVER) -> Passed:
    return passed(Point.FILE, Side.AFTER, key, actor)


COMMIT = "1/m.put:17 calls sqlite3.Connection.commit#1"


def said_of(*points: Passed) -> list[str]:
    found = places_in_code(points)
    return [found.get((one.address, one.again), "") for one in points if one.address.point is not Point.LINE]


def test_a_file_operation_is_named_with_the_call_that_makes_it_and_the_statement_that_follows() -> None:
    assert said_of(
        line("1/m.put:17#1", "con.commit()"),
        line(COMMIT, "con.commit()"),
        file("1/write sink/x.db#4"),
        line(COMMIT, "con.commit()", Side.AFTER),
        file("1/unlink sink/x.db-journal#1"),
        line("1/m.put:18#1", "con.close()"),
    ) == [
        "in m.put, while line 17 (`con.commit()`) calls sqlite3.Connection.commit, before line 18 (`con.close()`)",
        "in m.put, after line 17 (`con.commit()`) has called sqlite3.Connection.commit, before line 18 (`con.close()`)",
    ]


def test_a_statement_of_another_function_is_named_with_it() -> None:
    assert said_of(line("1/m.write:3#1"), file("1/write sink/x#1"), line("1/m.put:3#1")) == [
        "in m.write, while line 3 is executed, before line 3 of m.put"
    ]


def test_what_comes_before_the_first_line_of_a_batch_and_after_its_last_is_sparks() -> None:
    points = (file("1/write a#1"), line("1/m.f:1#1"), file("1/write b#1"), line("1/m.f:2#1"), file("1/write c#1"))
    assert [bool(said) for said in said_of(*points)] == [False, True, False]
    assert said_of(line("0/m.f:1#1"), file("1/write a#1"), line("2/m.f:1#1")) == [""]


def test_what_a_task_does_is_not_between_lines_of_the_driver() -> None:
    driver, then = line("1/m.f:1#1"), line("1/m.f:2#1")
    assert said_of(driver, file("1/write a#1", TASK), then) == [""]
    of_task = line("1/m.w:7#1", actor=TASK), file("1/write a#1", TASK), line("1/m.w:8#1", actor=TASK)
    assert said_of(driver, *of_task, then) == ["in m.w, while line 7 is executed, before line 8"]


def test_a_crash_at_a_file_operation_says_where_in_the_code_it_is() -> None:
    operation = file("0/write sink/x.db#4")
    also = (line("0/m.put:17#1", "con.commit()"), operation, line("0/m.put:18#1", "con.close()"))
    crash = crash_at(profile_of(attempt_of([done(0)], also=also)), operation, Victim.DRIVER)
    assert str(crash) == (
        "the driver dies after the driver does write sink/x.db in batch 0, the 4th time (in m.put, while line 17 "
        "(`con.commit()`) is executed, before line 18 (`con.close()`))"
    )


def test_code_that_calls_what_is_in_the_jvm_is_known_by_that() -> None:
    forgets = line("1/m.put:3 calls py4j.java_gateway.JavaObject.__init__.<locals>.<lambda>#1")
    assert not goes_into_the_jvm([line("1/m.put:3#1"), forgets, file("1/write a#1")])
    for called in (
        "java_gateway.JVMView.__getattr__",
        "java_gateway.JavaClass.__call__",
        "java_gateway.JavaMember.__call__",
        "java_collections.JavaMap.__setitem__",
    ):
        calls = line(f"1/m.put:4 calls py4j.{called}#1")
        assert goes_into_the_jvm([forgets, calls])
        assert profile_of(attempt_of([done(0)], also=[calls])).into_the_jvm
    assert not profile_of(attempt_of([done(0)], also=[forgets])).into_the_jvm


def test_so_is_code_after_which_the_jvm_keeps_something_however_it_was_asked_to() -> None:
    attempt = attempt_of([done(0)])
    attempt.kept_in_the_jvm = ("files that were added",)
    assert profile_of(attempt).into_the_jvm


def test_so_is_code_that_calls_what_of_pyspark_keeps_something_in_the_jvm_beside_all_sessions() -> None:
    for called in (
        "pyspark.core.context.SparkContext.setSystemProperty",
        "pyspark.context.SparkContext.setSystemProperty",
        "pyspark.core.context.SparkContext.addFile",
        "pyspark.core.context.SparkContext.setCheckpointDir",
        "pyspark.core.status.StatusTracker.getJobIdsForGroup",
        "pyspark.core.rdd.RDD.id",
    ):
        assert goes_into_the_jvm([line(f"1/m.put:4 calls {called}#1")])
    for called in ("pyspark.core.context.SparkContext.setJobDescription", "their.SparkContext.addFile"):
        assert not goes_into_the_jvm([line(f"1/m.put:4 calls {called}#1")])
