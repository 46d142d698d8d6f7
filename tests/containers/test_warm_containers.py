"""A cluster of containers serves one run after the other, each as if it were the first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from crashed_on_spark import masked_word_count
from streamproof.faults.crash import crash
from streamproof.harness.containers import labels
from streamproof.harness.containers.cluster import DockerCluster
from streamproof.harness.containers.engine import connect
from streamproof.harness.quantities import events
from streamproof.harness.registry import Named, Registry
from streamproof.harness.running import Finished, run_named
from streamproof.harness.scenario import Scenario
from streamproof.reference_impls.gap import gap
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words

pytestmark = pytest.mark.docker


@pytest.fixture
def engine() -> Iterator[docker.DockerClient]:
    client = connect()
    yield client
    client.close()


def _warmth(finished: Finished) -> tuple[str, int, str]:
    warm: dict[str, Any] = finished.description.cluster["warm"]
    return warm["cluster"], warm["served"], warm["replaces"]


def test_runs_share_a_cluster_until_it_is_not_clean(engine: docker.DockerClient, tmp_path: Path) -> None:
    registry = Registry()
    faults = [crash("count-0").after(events(90))]
    crashed = replace(masked_word_count(), faults=faults)
    lossy = Scenario(gap(word_count(), checkpoint_every=events(60)), words(events=600), faults)
    with DockerCluster().kept_warm() as cluster:

        def run(scenario: Scenario, name: str) -> Finished:
            named = Named(name, name, "", scenario)
            return run_named(named, cluster, registry, seed=1, folder=tmp_path / name)

        first, second = run(crashed, "first"), run(lossy, "second")
        label, served, replaces = _warmth(second)
        assert (served, replaces) == (1, "")
        assert _warmth(first) == (label, 0, "")
        for finished in (first, second):
            assert [struck.bite.bit for struck in finished.history.struck()] == [True]
            assert {str(verdict.status) for verdict in finished.judgement.verdicts} == {"HOLDS"}
            logs = {path.name for path in (finished.folder / "logs").rglob("*.log")}
            assert sum(name.startswith("driver.") for name in logs) == 2
            # Slices of either run have left their checkpoints.
            assert any((finished.folder / "checkpoints").iterdir())

        (master,) = engine.containers.list(filters={"label": [f"{labels.RUN}={label}", f"{labels.NODE}=master"]})
        master.pause()
        third = run(crashed, "third")
        assert _warmth(third)[1:] == (0, "master is paused")
        assert not engine.containers.list(all=True, filters={"label": f"{labels.RUN}={label}"})

    owned = {"label": labels.RUN}
    left = [*engine.containers.list(all=True, filters=owned, sparse=True), *engine.networks.list(filters=owned)]
    assert not [one for one in left if one.attrs["Labels"][labels.RUN] in (label, _warmth(third)[0])]
    assert {path.name for path in tmp_path.iterdir()} == {"first", "second", "third"}
