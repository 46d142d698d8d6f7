"""The list of real bugs: what is measured is as it must be, the page has it, and a section on each."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from importlib import import_module

import pytest

from streamproof.harness.core.errors import UnknownName
from streamproof.harness.core.verdicts import Status
from streamproof.scenarios.bugs import BUGS, RealBug, real_bug
from versions.bugs import BEGIN, PAGE, Measured, Shown, read_measured, table
from versions.tables import with_table

EACH = pytest.mark.parametrize("bug", BUGS, ids=[one.name for one in BUGS])


def test_the_page_has_the_table_of_what_was_measured() -> None:
    assert PAGE.read_text() == with_table(PAGE.read_text(), table(read_measured()), BEGIN)


def test_what_was_measured_is_right() -> None:
    measured = read_measured()
    assert set(measured) <= {one.name for one in BUGS}
    assert measured
    for name, one in measured.items():
        assert [
            shown for shown in (one.affected, one.fixed) if shown is not None and not shown.right(real_bug(name))
        ] == []


@EACH
def test_is_told_of_in_a_section_of_its_own_with_where_it_is_reported_and_how_to_look_for_it(bug: RealBug) -> None:
    section = re.search(rf"^## {bug.name}\n(.+?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None
    for report in bug.reports:
        assert report.address in section[1]
    module = bug.make.__module__
    certified = re.search(rf"streamproof certify {re.escape(module)}:(\w+) --claim {bug.claim}", section[1])
    assert certified is not None
    query = getattr(import_module(module), certified[1])()
    assert query.describe() == bug.make(bug.affected).describe()


@EACH
def test_is_one_query_on_each_of_its_releases_that_can_be_handed_to_a_driver(bug: RealBug) -> None:
    assert bug.affected != bug.fixed
    for release in [bug.affected, *([bug.fixed] if bug.fixed else [])]:
        scenario = bug.scenario(release)
        assert scenario.claimed == (bug.claim,)
        assert bug.make(release).spark == release.spark
        pickle.dumps(scenario.subject)


def test_one_that_needs_a_server_reaches_it_where_it_listens() -> None:
    served = [bug for bug in BUGS if bug.server]
    assert served
    for bug in served:
        query = bug.make(replace(bug.affected, server="127.0.0.1:4"))
        assert [store.address for store in query.stores] == ["127.0.0.1:4"]
        assert [store.address for store in bug.make(bug.affected).stores] == ["127.0.0.1:9092"]


def test_one_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownName, match=BUGS[0].name):
        real_bug("spark-1")


BUG = BUGS[0]
FIXED = BUG.fixed
assert FIXED is not None
LOST_AND_TWICE = {str(one): 10 for one in BUG.anomalies}


def shown(
    on: str, status: Status, anomalies: dict[str, int], struck: int = 1, spark: str = BUG.affected.spark
) -> Shown:
    return Shown(on, spark, str(status), anomalies, ("driver/0#1 after commit-log 0",) * struck, 60, "2026-11-24")


@pytest.mark.parametrize(
    ("one", "right"),
    [
        (shown(BUG.affected.name, Status.VIOLATED, LOST_AND_TWICE), True),
        (shown(FIXED.name, Status.HOLDS, {}), True),
        (shown(BUG.affected.name, Status.HOLDS, {}), False),
        (shown(FIXED.name, Status.VIOLATED, LOST_AND_TWICE), False),
        (shown(FIXED.name, Status.UNKNOWN, {}), False),
        (shown(BUG.affected.name, Status.VIOLATED, {"phantom-output": 1}), False),
        (shown(FIXED.name, Status.HOLDS, {}, struck=0), False),
        (shown(FIXED.name, Status.HOLDS, {}, spark="3.5.1"), False),
        (shown("another release", Status.HOLDS, {}), False),
    ],
)
def test_is_found_again_where_it_is_and_nowhere_else(one: Shown, right: bool) -> None:
    assert one.right(BUG) is right


def test_the_table_says_what_was_measured_and_what_was_not() -> None:
    made = table({BUG.name: Measured(affected=shown(BUG.affected.name, Status.VIOLATED, LOST_AND_TWICE))})
    _, _, line, *others = made.splitlines()
    assert "VIOLATED, 10 duplicate-effect, 10 lost-input" in line
    assert line.count("not tried") == 2
    for bug, other in zip(BUGS[1:], others, strict=True):
        assert (other.count("not tried"), other.count("none is known")) == ((3, 0) if bug.fixed else (2, 1))
