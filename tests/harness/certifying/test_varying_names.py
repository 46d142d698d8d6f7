"""Names of files that are others in each attempt: a crash point is called alike in all of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streamproof.harness.certifying.attempts import Passed
from streamproof.harness.certifying.file_points import called_alike, deed_of, varying_in
from streamproof.harness.certifying.varying_names import VaryingNames, varying_names
from streamproof.harness.core.addresses import DRIVER, Address, Point, Side
from streamproof.harness.crash_points.files.naming import FilePoints


def attempt(*said: str, batch: str = "3") -> list[Passed]:
    """As it is told of before anything is known of its names."""
    points = FilePoints()
    keys = [f"{batch}/{points.name(batch, one)}" for one in said]
    return [
        *(Passed(Address(DRIVER, 1, Point.FILE, key, Side.AFTER), 0, 0, None) for key in keys),
        Passed(Address(DRIVER, 1, Point.LINE, "3/sinks.write:4711#1", Side.BEFORE), 0, 0, None),
    ]


def keys(passed: Sequence[Passed]) -> list[str]:
    return [one.address.key for one in passed]


def drafts(*names: str) -> list[Passed]:
    steps = (f"{kind} sink/{name}" for name in names for kind in ("create", "write"))
    return attempt("mkdir sink", *steps, f"rename sink/{names[-1]} > sink/3.json")


@pytest.mark.parametrize(
    ("one", "other", "called"),
    [
        pytest.param("rows-4711.tmp", "rows-4799.tmp", "rows-….tmp", id="a process"),
        pytest.param("rows-4711-k3x_aab1", "rows-4799-zz81pqrs", "rows-…-…", id="a process and tempfile's letters"),
        pytest.param("2026-11-25T10:11:12", "2026-11-25T10:11:13", "…-…-25T10:…:…", id="a time"),
        pytest.param("k3x9aab1", "zz81pqrs", "…", id="nothing but letters"),
    ],
)
def test_what_two_attempts_call_differently_is_called_by_the_rest(one: str, other: str, called: str) -> None:
    here, there = drafts(one), drafts(other)
    names = varying_in(here, there)
    assert keys(called_alike(here, names)) == keys(called_alike(there, names)) == keys(drafts(called))


def test_of_several_that_come_to_one_name_each_has_its_number() -> None:
    here, there = drafts("a-1", "a-2"), drafts("a-3", "a-4")
    names = varying_in(here, there)
    called = keys(called_alike(here, names))
    assert called == keys(called_alike(there, names))
    assert called[1:5] == [
        "3/create sink/a-…#1",
        "3/write sink/a-…#1",
        "3/create sink/a-…#2",
        "3/write sink/a-…#2",
    ]


def test_a_later_attempt_is_told_of_by_what_was_learned_and_so_is_one_that_is_replayed() -> None:
    names = varying_in(drafts("rows-4711.tmp"), drafts("rows-4799.tmp"))
    said = "create sink/rows-5.tmp"
    assert FilePoints(names.plain).name("3", said) == "create sink/rows-….tmp#1"
    replayed = VaryingNames().with_those_in([deed_of("3/create sink/rows-….tmp#1")])
    assert FilePoints(replayed.plain).name("3", said) == "create sink/rows-….tmp#1"
    assert FilePoints(replayed.plain).name("3", "create sink/table.tmp") == "create sink/table.tmp#1"


def test_what_lies_in_a_folder_that_is_another_one_each_time_is_called_by_the_rest_of_that() -> None:
    here, there = (attempt(f"mkdir sink/{name}", f"create sink/{name}/part") for name in ("v-1", "v-2"))
    names = varying_in(here, there)
    assert keys(called_alike(here, names)) == keys(called_alike(there, names))
    assert FilePoints(names.plain).name("3", "create sink/v-3/more") == "create sink/v-…/more#1"
    assert FilePoints(names.plain).name("3", "create sink/w/v-3") == "create sink/w/v-3#1"


def test_a_loss_of_power_is_told_of_by_the_rest_too() -> None:
    said = "everything that no fsync covers: sink, sink/rows-4711.tmp, sink/table and 3 more"
    names = varying_in(drafts("rows-4711.tmp"), drafts("rows-4799.tmp"))
    plain = "everything that no fsync covers: sink, sink/rows-….tmp, sink/table and 3 more"
    assert names.plain_text(said) == VaryingNames().with_those_in([plain]).plain_text(said) == plain


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(["create sink/a", "create sink/b"], ["create sink/b", "create sink/a"], id="another order"),
        pytest.param(["create sink/a"], ["create sink/b", "create sink/c"], id="more of them"),
        pytest.param(["create sink/a"], ["create sink/x/a"], id="another folder"),
        pytest.param(["create sink/a.1"], ["create sink/b"], id="another form"),
        pytest.param(["create sink/a"], ["write sink/b"], id="something else"),
    ],
)
def test_attempts_that_differ_in_more_than_names_show_nothing(one: Sequence[str], other: Sequence[str]) -> None:
    here, there = ([("0", said) for said in some] for some in (one, other))
    assert varying_names(here, there) == VaryingNames()
