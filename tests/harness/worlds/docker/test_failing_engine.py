"""What becomes of a cluster's nodes when the engine fails meanwhile. No engine is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from docker.errors import APIError
from requests.exceptions import ReadTimeout

from streamproof.harness.core.errors import DeadlinePassed, OwnFailure
from streamproof.harness.worlds.docker.making import ContainerMaker, ContainerSurroundings
from streamproof.harness.worlds.docker.options import ContainerOptions
from streamproof.harness.worlds.docker.spark import MASTER, SparkContainers
from streamproof.harness.worlds.docker.striking import ContainerStrikes
from streamproof.harness.worlds.spark.control.deployments import watched

REFUSED = APIError("500 Server Error", Mock(status_code=500), "no space left on device")


@pytest.fixture
def cluster(tmp_path: Path) -> SparkContainers:
    """One whose only worker has a container."""
    options = ContainerOptions(workers=1, restart_worker_after=0, restart_master_after=None)
    cluster = SparkContainers("run", tmp_path, options)
    cluster._engine, cluster._network = Mock(), Mock()
    cluster._network.address.return_value = "10.0.0.2"
    cluster._image, cluster._surroundings, cluster._carriers = "image", ContainerSurroundings({}, "", []), Mock()
    cluster._strikes = ContainerStrikes(cluster._engine, options.kill_seconds)
    cluster._maker = ContainerMaker(
        cluster._engine, "image", "network", cluster._labels, cluster._layout, options, cluster._surroundings
    )
    cluster._add(MASTER, MASTER)
    cluster._add("node-0", "worker-0").container = "first"
    return cluster


def api_of(cluster: SparkContainers) -> Mock:
    return cast(Mock, cluster._engine.api)


def lose(cluster: SparkContainers) -> None:
    """The worker ends, and the engine does not start another."""
    api_of(cluster).wait.return_value = {"StatusCode": 137}
    api_of(cluster).create_container.side_effect = REFUSED
    cluster._watch(cluster.nodes()["node-0"], "first")


def test_whoever_sees_a_new_incarnation_sees_its_container_and_its_log(cluster: SparkContainers) -> None:
    node = cluster.nodes()["node-0"]
    before = (node.incarnation, node.container, node.log)
    seen = []

    def see(container: str) -> dict[str, Any]:
        seen.append((node.incarnation, node.container, node.log))
        return {"HostConfig": {"Memory": 1, "MemorySwap": 1, "CpuQuota": 1}}

    api_of(cluster).create_container.return_value = {"Id": "second"}
    api_of(cluster).inspect_container.side_effect = see
    with cluster._launches.one("node-0"):
        cluster._maker.start(node, "10.0.0.2", "name", ["true"], Path("second.log"), {})
    assert seen == [before]
    assert (node.incarnation, node.container, node.log) == (before[0] + 1, "second", Path("second.log"))


def test_a_node_that_cannot_be_brought_back_ends_the_run_at_the_next_look(cluster: SparkContainers) -> None:
    look = watched(lambda: False, Mock(failure=None), cluster, lambda: None, lambda: None)
    assert not look()
    lose(cluster)
    with pytest.raises(OwnFailure, match="node-0 cannot be started: no space left on device"):
        look()


def test_it_is_said_also_where_the_run_ends_in_what_came_of_it(
    cluster: SparkContainers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "stop", lambda: None)
    lose(cluster)
    stall = DeadlinePassed("the end of the input to pass through", 120, "nothing of it")
    with pytest.raises(OwnFailure, match="node-0 cannot be started") as found:
        cluster.__exit__(DeadlinePassed, stall, None)
    assert found.value.__cause__ is stall
    cluster.__exit__(OwnFailure, cluster.failure, None)  # It is raised already.
    cluster.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)


@pytest.mark.parametrize("problem", [REFUSED, ReadTimeout("60 s")])
def test_an_engine_that_fails_is_our_own_failure(cluster: SparkContainers, problem: Exception) -> None:
    api_of(cluster).inspect_container.side_effect = problem
    with pytest.raises(OwnFailure, match="a container cannot be looked at"):
        cluster.kill_node("node-0")
    api_of(cluster).inspect_container.side_effect = None
    api_of(cluster).inspect_container.return_value = {"State": {"Pid": 7, "Running": True, "Paused": False}}
    api_of(cluster).kill.side_effect = problem
    with pytest.raises(OwnFailure, match="node-0 cannot be killed"):
        cluster.kill_node("node-0")


def test_a_container_that_does_not_freeze_at_once_is_asked_again(cluster: SparkContainers) -> None:
    api = api_of(cluster)
    api.inspect_container.return_value = {"State": {"Pid": 7, "Paused": True}}
    thawed = APIError("500 Server Error", Mock(status_code=500), "OCI runtime pause failed: unable to freeze: unknown")
    api.pause.side_effect = [thawed, thawed, None]
    assert cluster.stop_node("node-0").paused
    api.pause.side_effect = REFUSED
    with pytest.raises(OwnFailure, match="node-0 cannot be paused: no space left on device"):
        cluster.stop_node("node-0")
