"""Lines of a query's own code that no run has executed, and that the certificate names for it."""

from __future__ import annotations

import dis
import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest

from certified import unsealed
from profiles import attempt_of, done, passed
from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.certifying.never_run import lines_never_run, said_by_function
from streamproof.harness.certifying.page import not_covered_said
from streamproof.harness.certifying.plan import Crash, Victim
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.query_parts import as_it_comes, foreach_batch
from streamproof.harness.core.addresses import DRIVER, TASK, Point, Side
from streamproof.harness.crash_points.inside_python.own_lines import own_lines

SINK = '''
import contextlib
from functools import lru_cache, partial

import beside

NUMBER = 0


class Kept:
    """Kept."""

    limit = 3

    @property
    def size(self):
        return self.limit

    @staticmethod
    def made():
        return Kept()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def never_called(self):
        return 1  # never


def whole(number,
          *, more=2):
    """All that a function can have."""
    global NUMBER
    NUMBER = (
        number
        + more
    )
    while True:
        number += 1
        if number > 3:
            break
    with Kept.made() as kept, contextlib.suppress(OSError):
        number += kept.size
        open("/nowhere/at/all")
    try:
        raise ValueError(number)
    except (KeyError,
            ValueError) as error:
        said = f"{error}" \\
            f"{number}"
    finally:
        number += 1
    for _ in several(4):
        pass
    rows = [
        row
        for row in range(3)
        if row
    ]
    about = {
        "a": 1,
        "b": beside.used(1),
        **{"c": 3},
    }
    match number:
        case 1:
            number = 2  # never
        case _:
            number = partial(lambda one: one + 1, number)()
    if not rows:
        return None  # never
    return about, said


def several(most):
    for number in range(most):
        if number % 2:
            continue
        yield number


def repaired(rows):
    return rows  # never


@contextlib.contextmanager
def opened(rows):
    if not rows:
        return  # never
    yield rows


@lru_cache
def known(number):
    if not number:
        return 0  # never
    return number


@beside.twice
def told(number):
    if not number:
        return 0  # never
    return number


def consumer():
    return 1


def write(frame, batch):
    whole(1)
    with opened([1]):
        known(2) + told(3)
    if batch > 50:
        repaired(frame)  # never
        beside.unused(frame)  # never
    return frame
'''
BESIDE = """
from functools import wraps


def twice(work):
    @wraps(work)
    def done(*given):
        if not given:
            return None  # never
        return work(*given) + work(*given)

    return done


def used(one):
    return one


def unused(one):
    return one  # never


def of_nobody(one):
    return one
"""


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "a_sink.py").write_text(SINK)
    (tmp_path / "beside.py").write_text(BESIDE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("a_sink")
    for name in ("a_sink", "beside"):
        sys.modules.pop(name, None)


def run_by(sink: ModuleType) -> dict[str, set[int]]:
    """The lines of which Python tells while a batch is written."""
    run: dict[str, set[int]] = {}

    def follow(frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            name = f"{frame.f_globals['__name__']}.{frame.f_code.co_qualname}"
            run.setdefault(name, set()).add(frame.f_lineno)
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        sink.write(None, 1)
    finally:
        sys.settrace(before)
    return run


def test_what_is_never_run_is_found_of_all_that_a_sink_can_come_to_and_of_nothing_else(sink: ModuleType) -> None:
    wanted = {
        f"{module}:{number}"
        for module, text in (("a_sink", SINK), ("beside", BESIDE))
        for number, line in enumerate(text.splitlines(), 1)
        if line.endswith("# never")
    }
    query = foreach_batch(sink.write, as_it_comes)
    run = run_by(sink)
    found = {
        f"{name.partition('.')[0]}:{line}"
        for name, lines in own_lines(query).items()
        for line in lines - frozenset(run.get(name, ()))
    }
    assert found == wanted


def test_lines_are_found_where_python_says_only_that_an_instruction_begins_one(
    sink: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Python 3.13 does, of `starts_line`."""
    query, plainly = foreach_batch(sink.write, as_it_comes), dis.get_instructions
    lines = own_lines(query)

    def as_in_3_13(code: CodeType) -> Iterator[dis.Instruction]:
        for one in plainly(code):
            yield one._replace(starts_line=one.starts_line is not None)

    monkeypatch.setattr(dis, "get_instructions", as_in_3_13)
    assert own_lines(query) == lines


def test_a_consumer_and_an_installed_library_have_no_lines_of_the_querys_own(sink: ModuleType) -> None:
    query = Query(as_it_comes, write=sink.write, read=sink.consumer)
    assert not [name for name in own_lines(query) if "consumer" in name or not name.startswith(("a_sink.", "beside."))]


def test_lines_between_which_none_was_run_are_one_stretch() -> None:
    lines = {"m.write": frozenset({1, 2, 4, 6, 7}), "m.all": frozenset({9}), "m.none": frozenset({11, 13})}
    assert said_by_function(lines, {"m.write": {4}, "m.all": {9}}) == ("m.none 11-13", "m.write 1-2, 6-7")


def test_lines_that_a_task_has_run_or_at_which_a_crash_was_planned_while_it_recovers_were_run(sink: ModuleType) -> None:
    query = Query(sink.repaired)
    (line,) = own_lines(query)["a_sink.repaired"]
    attempt, key = attempt_of((done(0), done(1))), f"1/a_sink.repaired:{line}#1"
    elsewhere = passed(Point.LINE, Side.BEFORE, "1/a_sink.write:7#1")
    there = passed(Point.LINE, Side.BEFORE, key, TASK)
    crash = Crash(Point.LINE, Side.BEFORE, key, DRIVER, Victim.DRIVER, 1, ("after-restart",), recovering=True)
    plan = [Planned(crash)]
    without = replace(attempt, passed=[*attempt.passed, elsewhere])
    assert lines_never_run(query, [without], []) == (f"a_sink.repaired {line}",)
    assert lines_never_run(query, [without], plan) == ()
    assert lines_never_run(query, [without, replace(attempt, passed=[there])], []) == ()


def test_where_nobody_has_followed_the_code_nothing_is_said_of_it(sink: ModuleType) -> None:
    assert lines_never_run(foreach_batch(sink.write, as_it_comes), [attempt_of((done(0),))], []) == ()


def test_the_certificate_names_them_first_among_what_was_not_covered() -> None:
    certificate = unsealed(never_run=tuple(f"m.f{number} 7-9" for number in range(12)))
    said = next(iter(not_covered_said(certificate)))
    assert said.startswith("Lines of the query's own code that no run without failures executed")
    assert "m.f0 7-9; m.f1 7-9;" in said
    assert "m.f9 7-9; and lines of 2 more functions" in said
