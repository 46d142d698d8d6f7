"""The scenarios of the library on embedded Spark: what they claim holds, and what they expect to break is violated."""

from __future__ import annotations

from pathlib import Path

import pytest

from library_on import library_on, needs_toxiproxy
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.errors import ExitStatus
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.reaping import labelled_processes

pytestmark = pytest.mark.spark

REGISTRY = Registry()
IN_EVERY_RUN = ("word-count.transactional-sink",)
"""What no other test shows on Spark."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in IN_EVERY_RUN else [pytest.mark.long])
        for name in library_on(EmbeddedCluster())
    ],
)
def test_a_scenario_comes_out_as_it_says(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if needs_toxiproxy(EmbeddedCluster(), name):
        request.getfixturevalue("toxiproxy_on_path")
    finished = run_named(REGISTRY.scenario(name), EmbeddedCluster(), REGISTRY, seed=1, folder=tmp_path / "run")

    verdicts = {
        str(v.guarantee): f"{v.status} {v.reason or v.summary}"
        for v in (*finished.judgement.verdicts, *finished.judgement.broken)
    }
    assert finished.judgement.exit_status is ExitStatus.HOLDS, verdicts
    assert labelled_processes(finished.description.run) == []
