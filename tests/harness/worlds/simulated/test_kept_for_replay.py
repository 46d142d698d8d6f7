"""What a slice keeps to be sent again can be looked at while a simulated run goes on."""

from __future__ import annotations

import pytest

from simulation import KINDS
from streamproof.harness.contracts.cluster import Run
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.quantities import events
from streamproof.harness.protocol.controller import Controller
from streamproof.harness.recording.recorder import MemoryRecorder
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.reference_impls.approximate import approximate
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.stateless import stateless
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered


def kept_at_the_end(subject: SchemeSubject, of: str, incarnation: int = 1) -> dict[str, list[int]]:
    scenario = Scenario(subject, numbered(events=30, batch=2))
    run = Run("test", scenario, 1, MemoryRecorder(), KINDS, None)
    with SimulatedCluster().simulate(run, Controller(())) as deployment:
        deployment.prepare()
        deployment.start()
        assert deployment.drained(scenario.deadline)
        return {to: list(numbers) for to, numbers in deployment.kept_for_replay(of, incarnation).items()}


def test_what_no_checkpoint_covers_is_kept() -> None:
    subject = passive_replication(trace(parallelism=1), checkpoint_every=events(8))
    (kept,) = kept_at_the_end(subject, "source-0").values()
    assert 0 < len(kept) <= 16
    assert kept == list(range(31 - len(kept), 31))


@pytest.mark.parametrize(("incarnation", "slices"), [(1, 1), (2, 0)])
def test_of_who_is_not_there_nothing_is(incarnation: int, slices: int) -> None:
    subject = passive_replication(trace(parallelism=1), checkpoint_every=events(8))
    assert len(kept_at_the_end(subject, "source-0", incarnation)) == slices


def test_what_was_received_is_kept_no_more_where_that_is_enough() -> None:
    kept = kept_at_the_end(approximate(stateless(), theta=0, l=10, gamma=20), "source-0")
    assert kept
    assert not any(kept.values())


def test_who_keeps_nothing_has_no_log() -> None:
    assert kept_at_the_end(gap(trace(parallelism=1), checkpoint_every=events(8)), "source-0") == {}
