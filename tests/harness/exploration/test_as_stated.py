"""A search in a small world also runs the scenario as it is stated: what takes much input shows in no small one."""

from __future__ import annotations

import json
import random
import re
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from remembering import Noting, RelyingOnLater
from streamproof.faults.crash import crash
from streamproof.faults.stop import stop
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scaling import scaled
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import ExitStatus
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import exactly_once_output
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.topology import Role, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.counterexample import replay_counterexample
from streamproof.harness.exploration.documenting import document_of
from streamproof.harness.exploration.exploring import Explored, explore
from streamproof.harness.exploration.search import SearchBudget, SearchFindings
from streamproof.harness.exploration.telling import view_of_search
from streamproof.harness.protocol.channels import InputChannel
from streamproof.harness.protocol.machine import Machine
from streamproof.harness.protocol.mechanism import AtWork, Mechanism
from streamproof.harness.protocol.spec import Setup
from streamproof.reference_impls.mechanisms.output_log import OutputLog
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.source_replay import source_replay
from streamproof.scenarios.trace import Trace, trace
from streamproof.scenarios.windows import windows
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
    return searched_for(Scenario(subject, numbered(events=400), faults), tmp_path, own)


def searched_for(scenario: Scenario, tmp_path: Path, own: bool = True, **given: Any) -> Explored:
    stated, small = (Named("mine", "mine:scenario", "", one) for one in (scenario, scaled(scenario)))
    given |= {"own": stated} if own else {}
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
            "not tried under its own fault, with 400 events: no stop of ",
        ),
        (
            [crash("trace-0")],
            "not tried under its own fault, with 400 events: crash trace-0: say when, with .at(...) or .after(...)",
        ),
        (
            [Fault("my-kind", ("trace-0",)).after(events(9))],
            "not tried under its own fault, with 400 events: there is no kind of fault 'my-kind'",
        ),
        (
            [crash("count-9").after(events(9))],
            "not tried under its own fault, with 400 events: there is no slice, driver or node 'count-9'",
        ),
    ],
)
def test_what_came_of_the_scenario_itself_is_said(faults: list[Fault], said: str, tmp_path: Path) -> None:
    found = searched(tmp_path, *faults, short=False)
    assert found.exit_status is ExitStatus.HOLDS
    assert str(found.stated).startswith(said)
    assert document_of(found)["as_stated"] == str(found.stated)


def test_a_scenario_that_is_refused_at_its_own_sizes_is_searched_all_the_same(tmp_path: Path) -> None:
    """In a small world its window is over sooner."""
    subject = source_replay(windows(window=1_000), timeout=seconds(0.05))
    found = searched_for(Scenario(subject, numbered(events=20_000), [crash("window-0").after(events(100))]), tmp_path)
    assert (found.findings.tried, found.exit_status) == (40, ExitStatus.HOLDS)
    assert re.match(r"not tried under its own fault, with 20,000 events: window .* lasts 0\.1", str(found.stated))


class FewAlone(Trace):
    """Fails with more input than a small world has."""

    def process(self, event: Event, state: dict[str, list[list[object]]]) -> tuple[Output]:
        if event.seq > MOST:
            raise ValueError("too much")
        return super().process(event, state)


def traced_by(operator: Trace) -> Topology:
    topology = trace()
    return replace(topology, stages={**topology.stages, "trace": replace(topology.stages["trace"], operator=operator)})


@pytest.mark.parametrize("sound", [True, False])
def test_code_that_fails_with_all_of_the_input_is_told_beside_what_was_found(sound: bool, tmp_path: Path) -> None:
    subject = passive_replication(traced_by(FewAlone()), checkpoint_every=events(50), sink_filter=sound)
    scenario = Scenario(subject, numbered(events=400), [CRASH], claims=[exactly_once_output()])
    found = searched_for(scenario, tmp_path)
    assert found.exit_status is (ExitStatus.USER_MISTAKE if sound else ExitStatus.VIOLATED)
    assert len(found.kept) == (0 if sound else 1)
    assert str(found.stated).startswith("under its own fault, with 400 events: its code fails: operator of trace-1 ")
    assert document_of(found)["as_stated"] == str(found.stated)


def test_what_holds_in_a_small_world_is_unknown_where_as_stated_the_claim_rests_on_what_never_came(
    tmp_path: Path,
) -> None:
    """A checkpoint every thousand of its 400 events, and one every three in a small world."""
    subject = passive_replication(trace(), checkpoint_every=events(1_000), sink_filter=True)
    found = searched_for(Scenario(subject, numbered(events=400), [CRASH]), tmp_path)
    assert (found.findings.statuses[Status.VIOLATED], found.findings.essential) == (0, 0)
    assert found.exit_status is ExitStatus.UNKNOWN
    assert "UNKNOWN (this was not tried: no checkpoint became durable" in str(found.stated)


class Interrupted(Trace):
    """Somebody ends the run by a signal, once it takes more input than a small world has."""

    def __init__(self, by: signal.Signals) -> None:
        super().__init__()
        self._by = by

    def process(self, event: Event, state: dict[str, list[list[object]]]) -> tuple[Output]:
        if event.seq > MOST:
            signal.raise_signal(self._by)
        return super().process(event, state)


def interrupted(by: signal.Signals, sound: bool) -> Scenario:
    subject = passive_replication(traced_by(Interrupted(by)), checkpoint_every=events(50), sink_filter=sound)
    return Scenario(subject, numbered(events=400), [CRASH], claims=[exactly_once_output()])


@pytest.mark.parametrize("sound", [True, False])
def test_ctrl_c_while_it_runs_as_stated_is_none_while_it_searched(sound: bool, tmp_path: Path) -> None:
    found = searched_for(interrupted(signal.SIGINT, sound), tmp_path)
    said = "interrupted under its own fault, with 400 events: nothing is known of that"
    assert (str(found.stated), found.findings.interrupted, found.findings.tried) == (said, False, 40)
    assert found.exit_status is (None if sound else ExitStatus.VIOLATED)
    assert document_of(found)["interrupted"]
    facts = {fact.label: fact.text for fact in view_of_search(found).facts}
    assert facts["schedules"].startswith("40, in ")
    assert "go on" not in facts
    assert facts["as stated"] == said


def test_who_is_ended_while_it_runs_as_stated_has_kept_what_was_found_before(tmp_path: Path) -> None:
    class Ended(SystemExit):
        pass

    def end(number: int, frame: object) -> None:
        raise Ended

    before = signal.signal(signal.SIGTERM, end)
    try:
        with pytest.raises(Ended):
            searched_for(interrupted(signal.SIGTERM, sound=False), tmp_path)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (tmp_path / "found.json").exists()


def test_what_is_not_run_as_stated_since_the_search_was_interrupted_is_said(tmp_path: Path) -> None:
    found = searched_for(interrupted(signal.SIGINT, sound=True), tmp_path, show=interrupting)
    assert (found.findings.interrupted, found.exit_status) == (True, None)
    assert str(found.stated) == "interrupted under its own fault, with 400 events: nothing is known of that"


def interrupting(findings: SearchFindings) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("of_others", [False, True])
def test_what_is_remembered_where_a_real_crash_takes_it_makes_nothing_hold_as_stated(
    of_others: bool, tmp_path: Path
) -> None:
    """And is asked for by none of the small runs."""
    subject = passive_replication(trace(), checkpoint_every=events(50), sink_filter=True)
    own = subject.setups[Role.OPERATOR]
    own = replace(own, mechanisms=(RelyingOnLater(MOST, of_others), *own.mechanisms))
    subject = replace(subject, setups={**subject.setups, Role.OPERATOR: own})
    try:
        found = searched_for(Scenario(subject, numbered(events=400), [CRASH]), tmp_path)
    finally:
        json.__dict__.pop("_late", None)
    said = str(found.stated).removeprefix("under its own fault, with 400 events: ")
    if of_others:
        assert found.exit_status is ExitStatus.UNKNOWN
        assert said.startswith("UNKNOWN (")
        assert "where it goes on in another process, it comes to something else" in said
    else:
        assert (found.exit_status, said) == (ExitStatus.VIOLATED, "VIOLATED")
        assert replay_counterexample(found.kept[0].file, scenario=Scenario(subject, numbered(events=400))).exact


class DrawsLate(Trace):
    """Does not give the same every time, with more input than a small world has."""

    def process(self, event: Event, state: dict[str, list[list[object]]]) -> tuple[Output]:
        if event.seq > MOST:
            return (("drawn", random.random()),)
        return super().process(event, state)


def test_what_does_not_give_the_same_every_time_as_stated_is_unknown(tmp_path: Path) -> None:
    subject = passive_replication(traced_by(DrawsLate()), checkpoint_every=events(50), sink_filter=True)
    found = searched_for(Scenario(subject, numbered(events=400), [CRASH]), tmp_path)
    assert (found.findings.statuses[Status.VIOLATED], found.exit_status) == (0, ExitStatus.UNKNOWN)
    assert "does not give the same" in str(found.stated)


def test_what_was_not_looked_at_of_what_it_remembers_as_stated_is_said(tmp_path: Path) -> None:
    subject = passive_replication(trace(), checkpoint_every=events(50), sink_filter=True)
    own = subject.setups[Role.OPERATOR]
    own = replace(own, mechanisms=(Noting(str(tmp_path / "notes")), *own.mechanisms))
    subject = replace(subject, setups={**subject.setups, Role.OPERATOR: own})
    found = searched_for(Scenario(subject, numbered(events=400), [CRASH]), tmp_path)
    assert found.exit_status is ExitStatus.HOLDS
    assert re.search(r"with 400 events: HOLDS; not looked at: what becomes of the files .*notes", str(found.stated))


@dataclass(frozen=True)
class Wearing(Mechanism):
    """Loses what comes in, with more input than a small world has, once it was called more often than a run of its own
    calls it."""

    most: int

    def attach(self, machine: Machine) -> AtWork:
        return _Wearing(machine, self.most)


_calls: list[int] = []


class _Wearing(AtWork):
    def __init__(self, machine: Machine, most: int) -> None:
        super().__init__(machine)
        self._most = most

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        _calls.append(len(events))
        worn = bool(events) and events[-1].seq > MOST and len(_calls) > self._most
        return [] if worn else events


def test_what_a_search_has_left_in_variables_is_not_there_as_stated(tmp_path: Path) -> None:
    """As nothing is left by one in other processes."""
    subject = passive_replication(trace(), checkpoint_every=events(50), sink_filter=True)
    own = subject.setups[Role.OPERATOR]
    own = replace(own, mechanisms=(Wearing(1_000), *own.mechanisms))
    subject = replace(subject, setups={**subject.setups, Role.OPERATOR: own})
    _calls.append(17)
    found = searched_for(Scenario(subject, numbered(events=400), [CRASH]), tmp_path)
    assert str(found.stated) == "under its own fault, with 400 events: HOLDS"
    assert found.exit_status is ExitStatus.HOLDS
    assert _calls == [17]
    _calls.clear()
