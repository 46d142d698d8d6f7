"""Nodes in containers that end in other ways than all at once."""

from __future__ import annotations

import signal
import uuid
from pathlib import Path

import pytest

from nodes_at_work import (
    NODE,
    PROGRAMS,
    Work,
    a_crash_loop_kills_until_it_heals,
    a_crash_loop_that_nothing_came_up_in_is_no_proof,
    a_node_ends_when_it_is_asked_to,
    an_executor_dies_and_the_worker_starts_another,
    python_dies_and_the_executor_lives,
)
from streamproof.harness.worlds.docker.engine import connect
from streamproof.harness.worlds.docker.options import ContainerOptions
from streamproof.harness.worlds.docker.spark import SparkContainers

pytestmark = pytest.mark.docker


def test_nodes_end_in_parts_or_when_asked_to_or_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(PROGRAMS))
    engine = connect()
    options = ContainerOptions(workers=1, restart_worker_after=0.5, profile="slices")
    with SparkContainers(f"test-{uuid.uuid4().hex[:12]}", tmp_path / "run", options) as cluster:

        def executors() -> set[int]:
            processes = engine.api.top(cluster.nodes()[NODE].container)["Processes"]
            return {int(process[1]) for process in processes if "org.apache.spark.executor." in process[-1]}

        work = Work.begin(cluster, executors)
        python_dies_and_the_executor_lives(work)
        an_executor_dies_and_the_worker_starts_another(work)
        container = cluster.nodes()[NODE].container
        a_node_ends_when_it_is_asked_to(work)
        assert cluster.exit_status(container) == 128 + signal.SIGTERM
        a_crash_loop_kills_until_it_heals(work)
        a_crash_loop_that_nothing_came_up_in_is_no_proof(work)
    engine.close()
