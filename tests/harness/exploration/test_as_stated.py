"""A search in a small world also runs the scenario as it is stated: what takes much input shows in no small one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamproof.faults.crash import crash
from streamproof.faults.stop import stop
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scaling import scaled
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import ExitStatus
from streamproof.harness.core.events import Event
from streamproof.harness.core.quantities import events
from streamproof.harness.core.schedule import Fault
from streamproof.harness.exploration.documenting import document_of
from streamproof.harness.exploration.exploring import Explored, explore
from streamproof.harness.exploration.search import SearchBudget
from streamproof.harness.exploration.telling import view_of_search
from streamproof.harness.protocol.machine import Machine
from streamproof.harness.protocol.spec import Setup
from streamproof.reference_impls.mechanisms.output_log import OutputLog
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered

MOST = 64


class ShortLog(OutputLog):
    """Keeps so many events for each reader at most, whatever was acknowledged: more than a small world has."""

    def attach(self, machine: Machine) -> Any:
        whole = type(super().attach(machine))

        class Short(whole):  # type: ignore[valid-type, misc]
            def keep(self, to: str, events: list[Event]) -> None:
                super().keep(to, events)
                kept = self._channels[to].kept
                while sum(map(len, kept)) > MOST:
                    kept.pop(0)

        return Short(machine)


def with_short_logs(setup: Setup) -> Setup:
    return replace(setup, mechanisms=tuple(ShortLog() if type(m) is OutputLog else m for m in setup.mechanisms))


def searched(tmp_path: Path, *faults: Fault, own: bool = True, short: bool = True) -> Explored:
    subject = passive_replication(trace(), checkpoint_every=events(50), sink_filter=True)
    if short:
        subject = replace(subject, setups={role: with_short_logs(one) for role, one in subject.setups.items()})
    scenario = Scenario(subject, numbered(events=400), faults)
    stated, small = (Named("mine", "mine:scenario", "", one) for one in (scenario, scaled(scenario)))
    given = {"own": stated} if own else {}
    return explore(small, Registry(), SearchBudget(40), seed=7, jobs=1, output=tmp_path / "found.json", **given)


CRASH = crash("trace-0").after(events(120))


def test_what_takes_more_input_than_a_small_world_has_is_found_by_the_scenario_itself(tmp_path: Path) -> None:
    assert searched(tmp_path, CRASH, own=False).exit_status is ExitStatus.HOLDS
    found = searched(tmp_path, CRASH)
    assert found.exit_status is ExitStatus.VIOLATED
    assert str(found.stated) == "under its own fault, with 400 events: VIOLATED"
    (kept,) = found.kept
    assert kept.content.workload.events == 400
    assert "not made smaller, with 1 fault and 400 events" in view_of_search(found).found[0].how
    assert kept.content.origin == "mine:scenario"


def test_what_comes_after_no_fault_of_its_own_is_not_run_again(tmp_path: Path) -> None:
    found = searched(tmp_path)
    assert found.exit_status is ExitStatus.HOLDS
    assert found.stated is None
    assert document_of(found)["as_stated"] is None


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ([crash("trace-0").after(events(4))], "under its own fault, with 400 events: HOLDS"),
        (
            [crash("trace-0").after(events(4)), crash("trace-0").after(events(900))],
            "under its 2 own faults, with 400 events: UNKNOWN",
        ),
        (
            [stop("trace-0").after(events(4))],
            "not tried under its own fault, with 400 events: this cluster cannot stop",
        ),
    ],
)
def test_what_came_of_the_scenario_itself_is_said(faults: list[Fault], said: str, tmp_path: Path) -> None:
    found = searched(tmp_path, *faults, short=False)
    assert found.exit_status is ExitStatus.HOLDS
    assert str(found.stated).startswith(said)
    assert document_of(found)["as_stated"] == str(found.stated)
