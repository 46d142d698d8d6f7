"""The scenarios of the library in containers: what they claim holds, what they expect to break is violated, and every
fault bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from library_on import library_on
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import ExitStatus
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.docker.cluster import DockerCluster

pytestmark = pytest.mark.docker

REGISTRY = Registry()
IN_EVERY_RUN = (
    "full-disk.passive-replication",
    "executor-crash.k-safe-grouping",
)
"""Some of the mechanisms that carry faults out; the others are tried by themselves, in files of their own."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in IN_EVERY_RUN else [pytest.mark.long])
        for name in library_on(DockerCluster())
    ],
)
def test_a_scenario_comes_out_as_it_says(name: str, tmp_path: Path) -> None:
    finished = run_named(REGISTRY.scenario(name), DockerCluster(), REGISTRY, seed=1, folder=tmp_path / "run")

    verdicts = {
        str(v.guarantee): f"{v.status} {v.reason or v.summary}"
        for v in (*finished.judgement.verdicts, *finished.judgement.broken)
    }
    assert finished.judgement.exit_status is ExitStatus.HOLDS, verdicts
    assert all(struck.bite.bit for struck in finished.history.struck())
