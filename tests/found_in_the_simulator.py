"""Counterexamples of mutants that the simulator finds, shrunk to what shows on a real cluster too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamproof.harness.contracts.cluster import Cluster
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.exploration.bench import Bench, ViolationKind
from streamproof.harness.exploration.counterexample import counterexample, replay_counterexample, save
from streamproof.harness.exploration.plans import EverySingle
from streamproof.harness.exploration.search import SearchBudget, Violation, search
from streamproof.harness.exploration.shrinking import STEADY, shows_violation, shrink
from streamproof.harness.worlds.simulated.options import LIKE_EMBEDDED

REGISTRY = Registry()
EVENTS, BATCH = 80, 4
TRIES = 2_000
EFFORT = 50_000


def named(origin: str) -> Named:
    found = REGISTRY.scenario(origin)
    workload = replace(found.scenario.workload, events=EVENTS, batch=BATCH, rate=None)
    return replace(found, scenario=replace(found.scenario, workload=workload, faults=()))


def found_in_the_simulator(origin: str, anomaly: str, path: Path) -> ViolationKind:
    """A shrunk counterexample, saved."""
    mutant = named(origin)
    bench = Bench(mutant.scenario, REGISTRY, seed=7, options=LIKE_EMBEDDED)

    def wanted(violation: Violation) -> bool:
        return violation.kind.anomaly == anomaly and shows_violation(bench, violation.trial, violation.kind, STEADY)

    violation = search(bench, [EverySingle()], SearchBudget(TRIES), until=wanted).violations[-1]
    small = shrink(bench, violation.trial, violation.kind, effort=EFFORT, seeds=STEADY)
    save(path, counterexample(mutant, violation, small, mutant.scenario))
    return violation.kind


MUTANTS = [
    ("mutant:passive-replication-without-vector@trace.passive-replication", "duplicate-effect"),
    *(
        pytest.param(origin, anomaly, marks=pytest.mark.long)
        for origin, anomaly in (
            ("mutant:passive-standby-hot-without-numbering@trace.passive-replication", "lost-input"),
            ("mutant:passive-standby-hot-without-vector@trace.passive-replication", "duplicate-effect"),
            ("mutant:k-safe-grouping-emitting-before-it-is-in-step@trace.passive-replication", "lost-input"),
            ("mutant:active-replication-joining-blank@trace.passive-replication", "lost-input"),
            ("mutant:source-replay-following-nothing@stateless.source-replay", "lost-input"),
        )
    ),
]
"""Origin and anomaly."""


def breaks_in_the_same_way(origin: str, anomaly: str, cluster: Cluster, folder: Path) -> None:
    """Find a counterexample, and replay it on a real cluster, into `run` in the folder."""
    path = folder / "counterexample.json"
    kind = found_in_the_simulator(origin, anomaly, path)
    replayed = replay_counterexample(path, cluster, folder=folder / "run")

    assert [entry.bite.bit for entry in replayed.history.struck()] == [True], [
        entry.bite.why_not for entry in replayed.history.struck()
    ]
    assert replayed.reproduced, replayed.verdict
    assert (replayed.counterexample.kind, kind.anomaly) == (kind, anomaly)
