"""A run in the simulator of a subject whose memory survives where no simulated crash takes it."""

from __future__ import annotations

import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import remembering
from streamproof import Edge, Stage, Topology, crash, events, ms, numbered, passive_replication, pause, simulate
from streamproof.harness.contracts.cluster import Run
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidScenario
from streamproof.harness.core.reasons import Why
from streamproof.harness.core.topology import Role
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.protocol.mechanism import Mechanism
from streamproof.harness.recording.history import FaultStruck, History, Remembered
from streamproof.harness.recording.recorder import MemoryRecorder
from streamproof.harness.running.carrying_out import carry_out
from streamproof.harness.running.judgement import Judgement, judge_history
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from tokens import MEMORIES, Referring, referring

REGISTRY = Registry()


def with_mechanism(mechanism: Mechanism) -> Scenario:
    sound = REGISTRY.scenario("trace.passive-replication").scenario
    subject: Any = sound.subject
    own = subject.setups[Role.OPERATOR]
    setups = {**subject.setups, Role.OPERATOR: replace(own, mechanisms=(mechanism, *own.mechanisms))}
    return replace(sound, subject=replace(subject, setups=setups))


def run(scenario: Scenario) -> tuple[History, Judgement]:
    return run_in_memory(scenario, SimulatedCluster(thorough=True), REGISTRY.faults, REGISTRY.oracles, seed=7)


def test_nothing_holds_of_who_writes_what_it_can_read_again_after_a_crash(tmp_path: Path) -> None:
    scenario = with_mechanism(remembering.Rereading(str(tmp_path / "count")))
    history, judgement = run(scenario)
    (verdict,) = judgement.verdicts
    assert verdict.status is Status.UNKNOWN
    assert verdict.why is Why.REMEMBERED
    assert f"it writes what it can read again (the file {tmp_path / 'count'})" in verdict.reason
    assert judgement.strongest == ()
    again = judge_history(scenario, history, REGISTRY.oracles, virtual_time=True)
    assert again.verdicts == judgement.verdicts


def test_what_is_written_before_a_crash_alone_is_found(tmp_path: Path) -> None:
    _, judgement = run(with_mechanism(remembering.ReadingLater(str(tmp_path / "some"))))
    (verdict,) = judgement.verdicts
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.REMEMBERED)
    assert f"(the file {tmp_path / 'some'})" in verdict.reason
    _, judgement = run(with_mechanism(remembering.ReadingLater(str(tmp_path / "mark"), marks=True)))
    assert [verdict.status for verdict in judgement.verdicts] == [Status.HOLDS]
    assert str(tmp_path / "mark") in judgement.not_looked_at


def test_who_is_not_crashed_may_remember(tmp_path: Path) -> None:
    scenario = replace(with_mechanism(remembering.Rereading(str(tmp_path / "count"))), faults=())
    history, judgement = run(scenario)
    assert [verdict.status for verdict in judgement.verdicts] == [Status.HOLDS]
    assert not any(isinstance(entry, Remembered) for entry in history.timeline)


@pytest.mark.parametrize("where", remembering.PLACES)
def test_a_memory_that_no_look_at_python_shows_is_recorded(where: str) -> None:
    try:
        history, judgement = run(with_mechanism(remembering.Remembering(where)))
    finally:
        remembering.forget()
    (entry,) = (entry for entry in history.timeline if isinstance(entry, Remembered))
    assert entry.what
    assert Status.HOLDS not in {verdict.status for verdict in judgement.verdicts}


def seen_so_far(named: bool) -> Scenario:
    stages = {"seen": Stage(remembering.SeenSoFar(named))}
    topology = Topology("seen", stages, (Edge("source", "seen"), Edge("seen", "sink")))
    subject = passive_replication(topology, checkpoint_every=events(8))
    return Scenario(subject, numbered(events=60, batch=4), [crash("seen-0").after(events(23))])


def test_who_finds_its_file_as_an_earlier_run_has_left_it_keeps_something_there() -> None:
    try:
        scenario = seen_so_far(named=True)
        why = [[verdict.why for verdict in simulate(scenario, seed=seed).verdicts] for seed in (1, 2)]
        bench = Bench(replace(scenario, workload=numbered(events=30, batch=4)), REGISTRY, seed=7)
        with pytest.raises(InvalidScenario, match=r"it writes what it can read again \(the file /dev/shm/"):
            bench.require_forgetting()
    finally:
        remembering.forget()
    assert why == [[Why.REMEMBERED]] * 2


@pytest.mark.parametrize("named", [True, False])
def test_what_the_kernel_keeps_in_memory_is_recorded(named: bool) -> None:
    try:
        _, judgement = run(seen_so_far(named))
    finally:
        remembering.forget()
    (verdict,) = judgement.verdicts
    assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.REMEMBERED)


def test_what_is_written_and_never_read_is_said(tmp_path: Path) -> None:
    _, judgement = run(with_mechanism(remembering.Noting(str(tmp_path / "notes"))))
    assert [verdict.status for verdict in judgement.verdicts] == [Status.HOLDS]
    assert str(tmp_path / "notes") in judgement.not_looked_at


def test_what_cannot_go_on_in_another_process_is_said() -> None:
    _, judgement = run(with_mechanism(remembering.Noting(holding=True)))
    assert [verdict.status for verdict in judgement.verdicts] == [Status.HOLDS]
    assert "its worlds cannot go on in another process (TypeError" in judgement.not_looked_at


def test_two_crashes_of_who_remembers_nothing_hold() -> None:
    scenario = with_mechanism(remembering.Noting())
    history, judgement = run(replace(scenario, faults=(*scenario.faults, crash("trace-1").after(events(100)))))
    assert len([entry for entry in history.timeline if isinstance(entry, FaultStruck) and entry.bite.gone]) == 2
    assert [verdict.status for verdict in judgement.verdicts] == [Status.HOLDS]
    assert not any(isinstance(entry, Remembered) for entry in history.timeline)


def test_who_comes_in_the_place_of_a_frozen_one_finds_nothing_of_its_memory() -> None:
    frozen = pause("count-0").after(events(20)).lasting(ms(50))
    _, judgement = run(referring(frozen, Referring()))
    assert [verdict.status for verdict in judgement.verdicts] == [Status.VIOLATED]


def test_what_no_look_at_python_shows_is_looked_for_where_a_frozen_one_was_replaced() -> None:
    frozen = pause("trace-0").after(events(30)).lasting(ms(50))
    try:
        history, judgement = run(replace(with_mechanism(remembering.Remembering("stream")), faults=(frozen,)))
    finally:
        remembering.forget()
    assert any(isinstance(entry, Remembered) and entry.what for entry in history.timeline)
    assert Status.HOLDS not in {verdict.status for verdict in judgement.verdicts}
    history, judgement = run(replace(with_mechanism(remembering.Noting()), faults=(frozen,)))
    assert not any(isinstance(entry, Remembered) for entry in history.timeline)
    assert [verdict.status for verdict in judgement.verdicts] == [Status.HOLDS]


def test_a_run_leaves_nothing_in_variables() -> None:
    MEMORIES["dict"]().clear()
    scenario = referring(crash("count-0").after(events(20)), Referring())
    planned = Run("alone", scenario, 7, MemoryRecorder(), REGISTRY.faults, None)
    carry_out(planned, SimulatedCluster(thorough=True))
    assert not MEMORIES["dict"]()
    carry_out(replace(planned, scenario=replace(scenario, faults=())), SimulatedCluster(thorough=True))
    assert not MEMORIES["dict"]()


ONLY_HERE = """
import io, json
from tokens import Referring

text = io.StringIO()

class OfAText(Referring):
    def restore(self, snapshot):
        return json.loads(text.getvalue() or "{}").get(snapshot.decode("latin-1"), {})

    def _remember(self, state):
        known = json.loads(text.getvalue() or "{}")
        text.seek(0)
        text.write(json.dumps({**known, (b"[" + bytes([sum(state.values())])).decode("latin-1"): state}))
"""


def test_what_a_run_has_left_in_a_module_that_no_other_process_imports_goes_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a script, or in a test that pytest has not imported by its name."""
    path = tmp_path / "only_here.py"
    path.write_text(ONLY_HERE)
    spec = spec_from_file_location("only_here_under_test", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    _, judgement = run(referring(crash("count-0").after(events(20)), module.OfAText()))
    assert [verdict.why for verdict in judgement.verdicts] == [Why.REMEMBERED]
