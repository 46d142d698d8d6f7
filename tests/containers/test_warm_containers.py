"""A cluster of containers serves one run after the other, each as if it were the first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from streamproof.faults.crash import crash
from streamproof.faults.partition import partition
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.running.run import Finished, run_named
from streamproof.harness.worlds.docker import labels
from streamproof.harness.worlds.docker.cluster import DockerCluster
from streamproof.harness.worlds.docker.engine import connect
from streamproof.harness.worlds.docker.reaping import containers_of
from streamproof.harness.worlds.docker.sidecars import sidecar_name
from streamproof.reference_impls.passive_replication import passive_replication
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


@pytest.mark.long
def test_runs_share_a_cluster_until_it_is_not_clean(engine: docker.DockerClient, tmp_path: Path) -> None:
    registry = Registry()
    cut = partition("node-0", "node-1").after(seconds(0.3)).lasting(seconds(1))
    subject = passive_replication(word_count(), checkpoint_every=events(60), sink_filter=True)
    scenario = Scenario(subject, words(events=3_000, rate=1_000), [cut, crash("split-0").after(seconds(2))])
    with DockerCluster().kept_warm(tmp_path) as cluster:

        def run(name: str) -> Finished:
            named = Named(name, name, "", scenario)
            return run_named(named, cluster, registry, seed=1, folder=tmp_path / name)

        first, second = run("first"), run("second")
        label, served, replaces = _warmth(second)
        assert (served, replaces) == (1, "")
        assert _warmth(first) == (label, 0, "")
        for finished in (first, second):
            assert [struck.bite.bit for struck in finished.history.struck()] == [True, True]
            assert {str(verdict.status) for verdict in finished.judgement.verdicts} == {"HOLDS"}
            logs = {path.name for path in (finished.folder / "logs").rglob("*.log")}
            assert sum(name.startswith("driver.") for name in logs) == 2
            # Slices of either run have left their checkpoints.
            assert any((finished.folder / "checkpoints").iterdir())

        (master,) = engine.containers.list(filters={"label": [f"{labels.RUN}={label}", f"{labels.NODE}=master"]})
        sidecar = engine.containers.get(sidecar_name(label, str(master.id)))
        assert sidecar.exec_run("iptables -A INPUT -s 10.9.8.7 -j DROP").exit_code == 0
        another, served, replaces = _warmth(run("third"))
        assert served == 0
        assert "-A INPUT -s 10.9.8.7/32 -j DROP" in replaces
        assert containers_of(engine, label) == []
    assert containers_of(engine, another) == []
    assert {path.name for path in tmp_path.iterdir()} == {"first", "second", "third"}
