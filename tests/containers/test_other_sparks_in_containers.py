"""Queries run in containers on another Spark than streamproof's own: on those for which there is an environment on this
machine, and an image."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from killed_queries import addresses, killed, verdict
from streamproof.faults.crash import crash
from streamproof.faults.executor_crash import executor_crash
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign import certify
from streamproof.harness.certifying.plan import How, Victim
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import Moment, Point, Side
from streamproof.harness.core.errors import StreamproofError
from streamproof.harness.core.schedule import batch
from streamproof.harness.core.verdicts import Status
from streamproof.harness.crash_points.inside_spark.versions import SUPPORTED
from streamproof.harness.install.spark_choice import chosen_python, chosen_version
from streamproof.harness.install.spark_environments import environment_with
from streamproof.harness.recording.folder import read_description
from streamproof.harness.worlds.docker import image
from streamproof.harness.worlds.docker.cluster import DockerCluster
from streamproof.harness.worlds.docker.engine import connect
from streamproof.scenarios.query_word_count import query_word_count
from streamproof.scenarios.subjects import subject

pytestmark = [pytest.mark.docker, pytest.mark.long]

MOST_TRIED = "4.1.3"
OTHERS = [one.tried for one in SUPPORTED.values() if one.tried != chosen_version() and one.number >= "3.5"]


@cache
def why_not_on(version: str) -> str:
    try:
        with closing(connect()) as engine:
            image.require(engine, python=str(environment_with(version).python))
    except StreamproofError as error:
        return str(error)
    return ""


def there(version: str) -> str:
    if why_not := why_not_on(version):
        pytest.skip(why_not)
    return version


def ran_in_containers(run: Path, version: str) -> Mapping[str, Any]:
    """What the record says of the cluster."""
    cluster = read_description(run).cluster
    name = image.tag(str(environment_with(version).python))
    assert (cluster["cluster"], cluster["spark"], cluster["image"]) == ("docker", version, name)
    return cluster


def test_a_wrong_sink_is_refuted_by_a_kill_in_containers_of_another_spark(tmp_path: Path) -> None:
    version = there(MOST_TRIED)
    query = replace(subject("blind-append").query, spark=version)
    fault = crash("driver").at(Moment(Point.ADD_BATCH, Side.AFTER, "2", "driver"))
    finished = killed(tmp_path / "run", DockerCluster(), query, fault, batches=4)
    assert verdict(finished) == "VIOLATED"
    assert addresses(finished) == ["driver/0#1 after add-batch 2"]
    ran_in_containers(tmp_path / "run", version)


def test_a_query_is_certified_in_containers_of_another_spark(tmp_path: Path) -> None:
    """By kills of what runs its tasks: those of a driver at operations on files are of this machine, whatever the
    cluster is."""
    version = there(MOST_TRIED)
    one = subject("file-sink")
    found = certify(
        replace(one.query, spark=version),
        one.claims,
        every_crash_point(Victim.EXECUTOR, recovering=False, split_brain=False),
        workload=replace(one.workload, events=one.query.batch_events),
        cluster=DockerCluster(),
        registry=Registry(),
        budget=Budget(kills=0, minutes=10, runs=1),
        folder=tmp_path / "certificate",
    )
    certificate = found.certificate
    assert {trial.verdicts["exactly-once"] for trial in certificate.trials} == {Status.HOLDS}
    assert (certificate.versions["spark"], certificate.versions["pyspark"]) == (version, version)
    (folder,) = {trial.folder for trial in certificate.trials if trial.how is How.KILL}
    ran_in_containers(found.folder / folder, version)


@pytest.mark.parametrize("version", OTHERS)
def test_what_dies_in_containers_of_another_spark_comes_back(version: str, tmp_path: Path) -> None:
    """The driver dies at a point of the harness's source, which Spark has in Java before 4.2, and an executor at one of
    Spark's."""
    query = replace(query_word_count(batch_events=20), spark=there(version))
    faults = [
        crash("driver").at(Moment(Point.SOURCE_PARTITIONS, Side.BEFORE, "1", "driver")),
        executor_crash("task").at(batch(2).state_committed),
    ]
    finished = killed(tmp_path / "run", DockerCluster(), query, *faults, batches=4)
    assert verdict(finished) == "HOLDS"
    first, second = addresses(finished)
    assert first == "driver/0#1 before source-partitions 1"
    assert second is not None
    assert "state-commit 2/" in second
    cluster = ran_in_containers(tmp_path / "run", version)
    # Of Python the line is this one's, and of what is installed for it every release.
    assert {**chosen_python(version), "python": ""} == {**cluster["python"], "python": ""}
    assert cluster["python"]["python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")
