"""What a search is worth is said where it was measured, and only there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.guarantees import at_most_once, gap_recovery
from streamproof.harness.core.topology import Role
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration import power
from streamproof.harness.exploration.exploring import Explored, explore
from streamproof.harness.exploration.power import (
    ChangeTried,
    FoundBy,
    PowerMeasured,
    SearchPower,
    composition,
    digest_of,
    measurements,
    power_of,
)
from streamproof.harness.exploration.search import SearchBudget
from streamproof.harness.exploration.sizes import brought_down
from streamproof.harness.exploration.telling import view_of_search
from streamproof.harness.protocol.machine import Machine
from streamproof.harness.protocol.mechanism import AtWork, Mechanism
from streamproof.harness.protocol.spec import Setup

REGISTRY = Registry()
NAME = "word-count.gap"
CLAIMS = (gap_recovery(),)
MODULE = "streamproof.reference_impls.mechanisms.checkpointing"
CHANGES = [
    ChangeTried("here:1:1", "a -> b", FoundBy.ERROR, 0),
    ChangeTried("here:2:1", "a -> b", FoundBy.VIOLATION, 4),
    ChangeTried("here:3:1", "a -> b", FoundBy.STALL, 90),
    ChangeTried("here:4:1", "a -> b", FoundBy.NOTHING, 100),
]


@dataclass(frozen=True)
class Mine(Mechanism):
    def attach(self, machine: Machine) -> AtWork:
        return AtWork(machine)


def subject_of(name: str = NAME) -> SchemeSubject:
    subject = brought_down(name, REGISTRY, None).scenario.subject
    assert isinstance(subject, SchemeSubject)
    return subject


def measured(changes: Sequence[ChangeTried] = (), digest: str = "") -> PowerMeasured:
    return PowerMeasured(
        scenario=NAME,
        kind="gap",
        parts=composition(subject_of(), CLAIMS),
        sources={MODULE: digest or digest_of(MODULE)},
        events=30,
        schedules=100,
        seed=7,
        places=9,
        changes=list(changes or CHANGES),
        search_cpu=1.0,
        all_cpu=9.0,
        version="0.1.0",
        python="3.11",
        day="2026-11-23",
    )


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> list[PowerMeasured]:
    rows = [measured()]
    monkeypatch.setattr(power, "measurements", lambda: rows)
    return rows


def known(subject: SchemeSubject, schedules: int = 100, events: int = 30, scenario: str = NAME) -> SearchPower:
    found = power_of(subject, CLAIMS, scenario, events, schedules)
    assert isinstance(found, SearchPower), found
    return found


@pytest.mark.usefixtures("table")
class TestWhatWasMeasured:
    def test_is_said_of_the_very_scheme_with_how_each_was_found(self) -> None:
        said = str(known(subject_of()))
        assert said.startswith("3 of 4 small changes to the code of gap that runs, drawn from 9, are found by 100 such")
        assert "1 without any failure, and of the other 3, of which some change nothing that is claimed, 2 in" in said
        assert "(1 by a violation, 1 by an error, 1 by a run without end); measured on word-count.gap" in said

    def test_counts_no_more_than_a_shorter_search_finds(self) -> None:
        assert [known(subject_of(), count).found for count in (3, 4, 89, 90, 5_000)] == [1, 2, 2, 3, 3]
        assert known(subject_of(), 5_000).schedules == 100

    def test_is_said_on_another_scenario_with_the_one_it_was_measured_on(self) -> None:
        assert f"measured on {NAME}" in str(known(subject_of(), scenario="another"))
        assert "and not on this scenario" in str(known(subject_of(), scenario="another"))
        assert "and not on this scenario" not in str(known(subject_of()))

    def test_is_not_said_with_another_amount_of_input(self) -> None:
        assert power_of(subject_of(), CLAIMS, NAME, 60, 100) == "it was measured with 30 events"

    def test_is_not_said_of_another_scheme(self) -> None:
        assert "nobody has measured it for amnesia" in str(
            power_of(subject_of("word-count.amnesia"), CLAIMS, NAME, 30, 100)
        )

    def test_is_not_said_with_a_mechanism_of_a_user(self) -> None:
        own = subject_of()
        setup = own.setups[Role.OPERATOR]
        added = replace(setup, mechanisms=(*setup.mechanisms, Mine()))
        mine = replace(own, setups={**own.setups, Role.OPERATOR: added})
        assert "nobody has measured it for gap as it is made here" in str(power_of(mine, CLAIMS, NAME, 30, 100))
        of_one_operator = replace(own, operators={"count": Setup((Mine(),))})
        assert "nobody has measured it" in str(power_of(of_one_operator, CLAIMS, NAME, 30, 100))

    def test_is_not_said_of_a_search_that_is_judged_by_other_claims(self) -> None:
        assert "nobody has measured it for gap" in str(power_of(subject_of(), (at_most_once(),), NAME, 30, 100))

    def test_is_not_said_of_what_is_wrapped(self) -> None:
        wrapped = replace(subject_of(), wraps={Role.OPERATOR: lambda machine: machine})
        assert "nobody has measured it" in str(power_of(wrapped, CLAIMS, NAME, 30, 100))


def test_a_source_that_changed_since_is_named(table: list[PowerMeasured]) -> None:
    table[:] = [measured(digest="of another text")]
    assert power_of(subject_of(), CLAIMS, NAME, 30, 100) == f"{MODULE} changed since it was measured"


def test_where_nothing_could_be_changed_that_is_said(table: list[PowerMeasured]) -> None:
    row = measured()
    table[:] = [PowerMeasured(**{name: getattr(row, name) for name in row.__struct_fields__} | {"changes": []})]
    assert "no code of gap itself runs in this search" in str(known(subject_of()))


def searched(tmp_path: Path, named: Named, **settings: object) -> Explored:
    own = REGISTRY.scenario(NAME)
    return explore(named, REGISTRY, SearchBudget(20), seed=7, jobs=1, own=own, output=tmp_path / "c", **settings)


@pytest.mark.usefixtures("table")
def test_it_stands_beside_each_holds(tmp_path: Path) -> None:
    named = brought_down(NAME, REGISTRY, None)
    found = searched(tmp_path, named)
    assert found.findings.statuses[Status.HOLDS] > 0
    (told,) = [fact.text for fact in view_of_search(found).facts if fact.label == "power"]
    assert told.startswith("2 of 4 small changes")
    for other in ({"pairs": True}, {"kinds": ("crash", "pause")}, {"corpus": tmp_path / "corpus"}):
        (told,) = [f.text for f in view_of_search(searched(tmp_path, named, **other)).facts if f.label == "power"]
        assert told.startswith("not measured: it was measured for searches of crashes"), other


def test_what_comes_with_the_package_is_of_what_the_package_has() -> None:
    """A scheme that is new: `tox -e power -- SCENARIO`, and its scenario in the list of `tests/mutation/power.py`."""
    names = [one.scenario for one in measurements()]
    subjects = [entry.make().subject for entry in REGISTRY.scenarios.values()]
    schemes = {subject.kind for subject in subjects if isinstance(subject, SchemeSubject)}
    assert {one.kind for one in measurements()} == schemes
    assert sorted(set(names)) == names
    for one in measurements():
        assert one.scenario in REGISTRY.scenarios
        assert len(one.changes) <= one.places
        assert all(name.startswith("streamproof.reference_impls.") for name in one.sources)
        assert max((change.schedule for change in one.changes), default=0) <= one.schedules
