"""The many schedules under bounded error: failures strike where they bite, and a scheme that is wrong is found."""

from __future__ import annotations

from typing import Any

import pytest

import bounded_error_schedules
from bounded_error_schedules import bench_of, drawn, tried
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.quantities import events
from streamproof.harness.core.topology import Topology
from streamproof.harness.core.verdicts import Status
from streamproof.reference_impls.approximate import approximate
from streamproof.reference_impls.mutants.approximate import ResettingAtRecovery, broken

SEEDS = range(40)


def test_nearly_all_failures_bite_and_the_scheme_holds() -> None:
    found = tried(SEEDS)
    assert found.bit >= 0.9 * len(SEEDS), found
    assert sum(count for failures, count in found.failures.items() if failures > 3) > len(SEEDS) / 3
    assert found.at_once[2] + found.at_once[3] > len(SEEDS) / 2
    assert found.statuses == {Status.HOLDS: len(SEEDS)}, found.told


def test_a_schedule_that_was_drawn_on_the_way_comes_to_the_same_from_the_beginning() -> None:
    for seed in range(6):
        draw = drawn(seed)
        run = draw.run()
        assert draw.bench.run(run.schedule, draw.world).digest() == run.history.digest()


def test_a_scheme_that_forgets_its_failures_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def resetting(topology: Topology, **settings: Any) -> SchemeSubject:
        return broken(lambda of, every: approximate(of, **settings), ResettingAtRecovery)(topology, events(1))

    bench_of.cache_clear()
    monkeypatch.setattr(bounded_error_schedules, "approximate", resetting)
    found = tried(SEEDS)
    bench_of.cache_clear()
    assert found.statuses[Status.VIOLATED], found


def test_no_bound_is_exceeded_where_much_is_acknowledged_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def patient(topology: Topology, **settings: Any) -> SchemeSubject:
        return approximate(topology, **settings, acknowledge_every=events(12))

    bench_of.cache_clear()
    monkeypatch.setattr(bounded_error_schedules, "approximate", patient)
    found = tried(SEEDS)
    bench_of.cache_clear()
    assert found.statuses == {Status.HOLDS: len(SEEDS)}, found.told
