"""Kills at points inside Spark in containers: as on embedded Spark, each of a container or of a part of one."""

from __future__ import annotations

import pytest

from killed_queries import addresses, killed, starts, verdict
from streamproof.faults.crash import crash
from streamproof.faults.executor_crash import executor_crash
from streamproof.faults.split_brain import split_brain
from streamproof.harness.core.errors import MissingTool
from streamproof.harness.core.schedule import batch
from streamproof.harness.crash_points.inside_spark.agent import fetch_agent
from streamproof.harness.recording.history import Placed
from streamproof.harness.recording.records import Refused
from streamproof.harness.running.run import Finished
from streamproof.harness.worlds.docker.cluster import DockerCluster
from streamproof.harness.worlds.docker.options import ContainerOptions
from streamproof.scenarios.query_word_count import query_word_count

# In each run of the tests a campaign in containers kills at such points.
pytestmark = [pytest.mark.docker, pytest.mark.long]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    try:
        fetch_agent()
    except MissingTool as error:
        pytest.skip(str(error))
    return killed(
        tmp_path_factory.mktemp("kills") / "run",
        DockerCluster(ContainerOptions(workers=2)),
        query_word_count(batch_events=20),
        crash("driver").at(batch(1).offset_logged),
        executor_crash("task").at(batch(2).state_committed),
        split_brain("driver").at(batch(4).committing),
    )


def node_of(finished: Finished, incarnation: int) -> str:
    """Where a driver ran: a second one where it stood by, or in the place of the first where it did not come up in time
    for that, as on a busy machine."""
    placed = (entry for entry in finished.history.timeline if isinstance(entry, Placed) and entry.actor == "driver")
    return next(entry.node for entry in placed if entry.incarnation == incarnation)


def test_whoever_is_held_dies_there(finished: Finished) -> None:
    at = addresses(finished)
    assert [at[0], at[2]] == ["driver/0#1 after offset-log 1", "driver/0#2 before commit-log 4"]
    assert (at[1] or "").startswith("task/0#2 after state-commit 2/")
    struck = list(finished.history.struck())
    assert [one.bite.node for one in (struck[0], struck[2])] == [node_of(finished, 1), node_of(finished, 2)]
    assert (struck[1].bite.node or "").startswith("node-")
    assert starts(finished) == [(1, None), (2, (1, 0)), (3, (2, 3))]


def test_the_recorder_refuses_the_driver_that_was_frozen(finished: Finished) -> None:
    refused = [stamped.record for stamped in finished.history.records if isinstance(stamped.record, Refused)]
    assert {(record.peer, record.peer_incarnation) for record in refused} == {(node_of(finished, 2), 2)}
    assert verdict(finished) == "HOLDS"
