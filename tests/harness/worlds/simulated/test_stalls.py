"""A simulated world that has come to rest before its input was through has proven a stall; whoever was only cut short
has not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.guarantees import (
    AMNESIA,
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    EXACTLY_ONCE_OUTPUT,
    GAP,
    K_SAFETY,
    PRECISE,
    ROLLBACK_CONVERGENT,
    ROLLBACK_DIVERGENT,
    ROLLBACK_REPEATING,
    Guarantee,
)
from streamproof.harness.core.lattice import implied
from streamproof.harness.core.quantities import events
from streamproof.harness.core.topology import Role
from streamproof.harness.core.verdicts import Anomaly, Status, Verdict
from streamproof.harness.protocol.effects import Effect, Input, Reroute
from streamproof.harness.protocol.machine import Slice
from streamproof.harness.protocol.spec import SliceSpec
from streamproof.harness.recording.history import Aborted, History, Stalled
from streamproof.harness.running.judgement import Judgement, judge_folder, judge_history
from streamproof.harness.running.run import run_in_memory, run_named
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.harness.worlds.simulated.options import SimulationOptions
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered

REGISTRY = Registry()


class _Mute:
    """Once it has been started again, it does not hear of those upstream, so it never opens its channels."""

    def __init__(self, inner: Slice) -> None:
        self._inner = inner
        self.spec: SliceSpec = inner.spec

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def on(self, given: Input) -> list[Effect]:
        if self._inner.incarnation > 1 and isinstance(given, Reroute):
            return []
        return self._inner.on(given)


def stalling() -> Scenario:
    """A tracer that crashes asks nobody for its input when it is back."""
    subject = passive_replication(trace(), checkpoint_every=events(8), sink_filter=True)
    subject = replace(subject, wraps={Role.OPERATOR: _Mute})
    return Scenario(subject, numbered(events=40, batch=4), [crash("trace-0").after(events(10))])


def judged(scenario: Scenario, options: SimulationOptions | None = None) -> tuple[History, Judgement]:
    return run_in_memory(scenario, SimulatedCluster(options), REGISTRY.faults, REGISTRY.oracles, seed=1)


def verdicts(scenario: Scenario, history: History) -> Mapping[str, Verdict]:
    """Of every guarantee that needs no clock."""
    names = [PRECISE, K_SAFETY, *implied(PRECISE, REGISTRY.oracles)]
    asked = replace(scenario, claims=[Guarantee(name) for name in dict.fromkeys(names)])
    asked = replace(asked, subject=replace(asked.subject, claims=()))
    found = judge_history(asked, history, REGISTRY.oracles, virtual_time=True).verdicts
    return {verdict.guarantee.name: verdict for verdict in found}


def anomalies(verdict: Verdict) -> set[Anomaly]:
    return {tally.anomaly for tally in verdict.anomalies}


def test_a_world_at_rest_that_is_not_drained_is_a_stall_on_record() -> None:
    history, judgement = judged(stalling())
    (stalled,) = [entry for entry in history.timeline if isinstance(entry, Stalled)]
    assert "trace-0#2 has not seen the end of its input" in stalled.waiting_for
    assert not any(isinstance(entry, Aborted) for entry in history.timeline)
    (verdict,) = judgement.verdicts
    assert (verdict.status, anomalies(verdict)) == (Status.VIOLATED, {Anomaly.STALL})
    assert stalled.waiting_for in verdict.anomalies[0].sample[0].what


def test_a_stall_breaks_whatever_promises_to_go_on_and_no_stronger_guarantee_holds_beside_it() -> None:
    scenario = stalling()
    found = verdicts(scenario, judged(scenario)[0])
    for name in (
        *(PRECISE, ROLLBACK_REPEATING, ROLLBACK_CONVERGENT, ROLLBACK_DIVERGENT, EXACTLY_ONCE_OUTPUT, EXACTLY_ONCE),
        *(AT_LEAST_ONCE, K_SAFETY, GAP, AMNESIA),
    ):
        assert found[name].status is Status.VIOLATED, name
        assert Anomaly.STALL in anomalies(found[name]), name
    assert found[AT_MOST_ONCE].status is Status.UNKNOWN
    for name in found:
        for one in implied(name, REGISTRY.oracles) & found.keys():
            assert not (found[name].status is Status.HOLDS and found[one].status is Status.VIOLATED)


def test_a_run_that_was_given_up_has_not_stalled() -> None:
    history, judgement = judged(stalling(), SimulationOptions(step_limit=60))
    assert not any(isinstance(entry, Stalled) for entry in history.timeline)
    (aborted,) = [entry for entry in history.timeline if isinstance(entry, Aborted)]
    assert aborted.why.endswith("the world has taken 60 steps, and is given up")
    assert [verdict.status for verdict in judgement.verdicts] == [Status.UNKNOWN]


def test_a_subject_that_no_machine_is_left_for_has_not_stalled() -> None:
    scenario = replace(stalling(), subject=replace(stalling().subject, wraps={}))
    history, judgement = judged(scenario, SimulationOptions(nodes=1, restart_node_after=None))
    (aborted,) = [entry for entry in history.timeline if isinstance(entry, Aborted)]
    assert "no node is left for" in aborted.why
    assert [verdict.status for verdict in judgement.verdicts] == [Status.UNKNOWN]


def test_the_folder_of_a_run_that_stalled_says_the_same_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    named = REGISTRY.scenario("test_stalls:stalling")
    ran = run_named(named, SimulatedCluster(), REGISTRY, seed=1, folder=tmp_path / "run")
    _, history, again = judge_folder(tmp_path / "run", REGISTRY)
    assert again.verdicts == ran.judgement.verdicts
    assert again.digest == ran.judgement.digest == history.digest()
    assert [verdict.status for verdict in again.verdicts] == [Status.VIOLATED]
