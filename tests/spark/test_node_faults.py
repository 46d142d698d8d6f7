"""Nodes of processes that end in other ways than all at once."""

from __future__ import annotations

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
from streamproof.harness.worlds.embedded.options import EmbeddedOptions
from streamproof.harness.worlds.embedded.processes import SparkProcesses
from streamproof.harness.worlds.embedded.reaping import labelled_processes

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_nodes_end_in_parts_or_when_asked_to_or_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(PROGRAMS))
    run_id = f"test-{uuid.uuid4().hex[:12]}"
    options = EmbeddedOptions(workers=1, restart_worker_after=0.5, profile="slices")
    with SparkProcesses(run_id, tmp_path / "run", options) as cluster:

        def executors() -> set[int]:
            return {process.pid for process in cluster.nodes()[NODE].processes if process.kind == "executor"}

        work = Work.begin(cluster, executors)
        python_dies_and_the_executor_lives(work)
        an_executor_dies_and_the_worker_starts_another(work)
        a_node_ends_when_it_is_asked_to(work)
        a_crash_loop_kills_until_it_heals(work)
        a_crash_loop_that_nothing_came_up_in_is_no_proof(work)
    assert labelled_processes(run_id) == []
