"""Queries are certified in containers: what is held inside Spark, in a driver or in a task, is killed there, and what
is found is replayed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamproof.harness.certifying.campaign import Budget, certify
from streamproof.harness.certifying.certificate import altered_files
from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.certifying.killing import kill
from streamproof.harness.certifying.plan import Crash, How, Victim
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.certifying.rejudging import JudgedRun, judge_run
from streamproof.harness.certifying.replaying import replay_file
from streamproof.harness.certifying.saved import KIND, VERSION, SavedSchedule, write_saved
from streamproof.harness.contracts.cluster import Cluster
from streamproof.harness.contracts.query import RunFolders, Store
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import DRIVER, TASK, Point, Side
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.claims_and_faults import SavedClaim
from streamproof.harness.recording.folder import read_description, read_history
from streamproof.harness.worlds.docker.cluster import DockerCluster
from streamproof.harness.worlds.docker.engine import connect
from streamproof.harness.worlds.docker.labels import NODE
from streamproof.harness.worlds.docker.reaping import containers_of
from streamproof.scenarios.subjects import SubjectLine, subject

pytestmark = pytest.mark.docker

REGISTRY = Registry()
SEED = 7


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all: what kills is at hand on each."""
    with DockerCluster().kept_warm(tmp_path_factory.mktemp("cluster")) as kept:
        yield kept


def dies(victim: Victim, point: Point, side: Side, key: str, split_brain: bool = False) -> Planned:
    actor = DRIVER if victim is Victim.DRIVER else TASK
    batch = int(key.partition("/")[0])
    return Planned(Crash(point, side, key, actor, victim, batch, ("steady",)), split_brain)


def tried(name: str, planned: Sequence[Planned], cluster: Cluster, folder: Path) -> JudgedRun:
    one = subject(name)
    named = Named(name, name, "", Scenario(one.query, one.workload, claims=one.claims))
    kill(folder, named, planned, cluster, REGISTRY, (), SEED)
    judged = judge_run(folder, [each.crash for each in planned], one.claims, REGISTRY.oracles)
    assert [struck.bite.bit for struck in read_history(folder).struck()] == [True] * len(planned), judged.reason
    return judged


def statuses(judged: JudgedRun) -> set[Status]:
    return {verdict.status for verdict in judged.verdicts}


def saved(one: SubjectLine, planned: Sequence[Planned]) -> SavedSchedule:
    return SavedSchedule(
        fed_from="",
        kind=KIND,
        version=VERSION,
        origin=one.name,
        subject=one.query.describe(),
        workload=one.workload.name,
        seed=SEED,
        workload_seed=one.workload.seed,
        events=one.workload.events,
        batch_events=one.query.batch_events,
        claims=tuple(map(SavedClaim.of, one.claims)),
        planned=tuple(planned),
    )


def test_an_executor_that_dies_before_it_commits_shows_what_was_written_outside_and_replays(
    cluster: Cluster, tmp_path: Path
) -> None:
    one = subject("writes-outside")
    planned = [dies(Victim.EXECUTOR, Point.TASK_COMMIT, Side.BEFORE, "2/0")]
    write_saved(tmp_path / "counterexample.json", saved(one, planned))
    judged = replay_file(tmp_path / "counterexample.json", cluster, REGISTRY, tmp_path / "run")
    assert statuses(judged) == {Status.VIOLATED}
    (struck,) = read_history(tmp_path / "run").struck()
    assert struck.bite.node in ("node-0", "node-1", "node-2")
    assert struck.bite.bit


def nothing(folders: RunFolders) -> None:
    """There is no such store."""


@pytest.mark.long
def test_a_file_sink_is_certified_by_kills_as_far_as_the_budget_goes(cluster: Cluster, tmp_path: Path) -> None:
    one = subject("file-sink")
    # What cannot be copied has no crash states, and is left to kills.
    query = replace(one.query, stores=(Store("outside", nothing),))
    certified = certify(
        query,
        one.claims,
        every_crash_point(Victim.DRIVER, recovering=False, split_brain=False),
        workload=one.workload,
        cluster=cluster,
        registry=REGISTRY,
        budget=Budget(runs=1, minutes=9, kills=0),
        seed=SEED,
        folder=tmp_path / "certificate",
    )
    certificate = certified.certificate
    assert list(altered_files(certified.folder, certificate)) == []
    assert certificate.cluster["cluster"] == "docker"
    trials = certificate.trials
    assert {trial.how for trial in trials} == {How.KILL}
    assert len({trial.folder for trial in trials}) == 1
    assert len({crash for trial in trials for crash in trial.crashes}) >= 3
    assert {status for trial in trials for status in trial.verdicts.values()} == {Status.HOLDS}
    assert {verdict.status for verdict in certificate.verdicts} == {Status.UNKNOWN}
    verdict = certificate.verdicts[0]
    assert any("not tried: runs: 1" in reason for reason in verdict.reasons), verdict.reasons
    # Other kills before were no reason for another cluster, and no driver is left of any.
    warm: dict[str, Any] = read_description(certified.folder / trials[0].folder).cluster["warm"]
    assert warm["replaces"] == ""
    with closing(connect()) as engine:
        left = containers_of(engine, warm["cluster"])
        assert sorted(one.attrs["Labels"][NODE] for one in left) == ["master", "node-0", "node-1", "node-2"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "planned", "status"),
    [
        ("blind-append", [dies(Victim.DRIVER, Point.ADD_BATCH, Side.AFTER, "2")], Status.VIOLATED),
        (
            "sqlite-by-batch",
            [
                dies(Victim.DRIVER, Point.ADD_BATCH, Side.AFTER, "1"),
                dies(Victim.DRIVER, Point.COMMIT_LOG, Side.BEFORE, "2"),
                dies(Victim.DRIVER, Point.OFFSET_LOG, Side.AFTER, "3"),
            ],
            Status.HOLDS,
        ),
        (
            "file-sink",
            [
                dies(Victim.EXECUTOR, Point.TASK_COMMIT, Side.AFTER, "1/0"),
                dies(Victim.NODE, Point.TASK_COMMIT, Side.AFTER, "2/0"),
                dies(Victim.DRIVER, Point.JOB_COMMIT, Side.BEFORE, "3"),
            ],
            Status.HOLDS,
        ),
        ("file-sink", [dies(Victim.DRIVER, Point.ADD_BATCH, Side.AFTER, "2", split_brain=True)], Status.HOLDS),
        (
            "counts-by-processor",
            [
                dies(Victim.PYTHON, Point.STATE_COMMIT, Side.BEFORE, "1/0/0/default"),
                dies(Victim.EXECUTOR, Point.STATE_COMMIT, Side.AFTER, "2/0/0/default"),
                dies(Victim.DRIVER, Point.COMMIT_LOG, Side.BEFORE, "3"),
            ],
            Status.HOLDS,
        ),
    ],
)
def test_what_dies_in_containers_shows_what_it_shows_elsewhere(
    name: str, planned: list[Planned], status: Status, cluster: Cluster, tmp_path: Path
) -> None:
    assert statuses(tried(name, planned, cluster, tmp_path / "run")) == {status}
