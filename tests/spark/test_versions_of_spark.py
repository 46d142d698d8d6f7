"""Other versions of Spark than streamproof's own: the rules fit their jars, and their queries can be watched.

Those for which there is an environment on this machine are tried; the others are made first where long tests are asked
for.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from held_operations import why_no_mounts
from killed_queries import addresses, killed, verdict
from streamproof.faults.crash import crash
from streamproof.faults.executor_crash import executor_crash
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign import certify
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import Moment, Point, Side
from streamproof.harness.core.errors import Unsupported
from streamproof.harness.core.pickling import with_code
from streamproof.harness.core.schedule import batch
from streamproof.harness.core.verdicts import Status
from streamproof.harness.crash_points.inside_spark.agent import fetch_agent
from streamproof.harness.crash_points.inside_spark.checking import check_rules
from streamproof.harness.crash_points.inside_spark.versions import SUPPORTED, supported
from streamproof.harness.install.spark_choice import chosen_spark, chosen_version, link_package
from streamproof.harness.install.spark_environments import add_environment, environments
from streamproof.harness.recording.folder import read_description
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.scenarios.query_word_count import query_word_count
from streamproof.scenarios.subjects import subject

pytestmark = pytest.mark.spark

HERE = {one.version for one in environments() if one.whole} | {chosen_version()}
VERSIONS = [pytest.param(one.tried, marks=() if one.tried in HERE else pytest.mark.long) for one in SUPPORTED.values()]
SEND_CODE = [one for one in VERSIONS if not str(one.values[0]).startswith("3.3.")]
"""pyspark 3.3 reads functions of Python 3.11, and cannot send them on."""
OFTEN = "4.1.3"
"""The one that is tried in each run of these tests where there is an environment for it, as in CI."""
OTHERS = [
    pytest.param(one.tried, marks=() if one.tried == OFTEN and OFTEN in HERE else pytest.mark.long)
    for one in SUPPORTED.values()
    if one.tried != chosen_version()
]


def made(version: str) -> str:
    """The environment is the user's, and stays."""
    if version not in HERE:
        add_environment(version)
    return version


@pytest.mark.parametrize("version", VERSIONS)
def test_every_rule_matches_something_in_the_jars_of_every_version(version: str, tmp_path: Path) -> None:
    spark = chosen_spark(made(version))
    assert spark.version == version
    # Nothing that was found good before counts.
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    check_rules(supported(version), fetch_agent(), environment=env, spark=spark)


READ = """\
import pickle, sys
from pyspark import __version__, cloudpickle
from streamproof.harness.core.pickling import unpickled
made = unpickled(open(sys.argv[1], "rb"))
again = pickle.loads(cloudpickle.dumps(made))
print(__version__, made(4), again(4))
"""


@pytest.mark.parametrize("version", SEND_CODE)
def test_code_is_handed_over_to_every_version_and_from_there_to_its_workers(version: str, tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Added:
        number: int

    three = Added(3)
    path = tmp_path / "code.pickle"
    path.write_bytes(with_code(lambda number, more=Added(1): three.number + more.number + number, ()))
    env = {**os.environ, "PYTHONPATH": str(link_package(tmp_path / "inside"))}
    python = chosen_spark(made(version)).python
    done = subprocess.run([python, "-c", READ, str(path)], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == f"{version} 8 8\n", done.stderr


@pytest.mark.parametrize(
    ("rules", "jars"),
    [pytest.param("4.3.0", "3.5.9", id="of-the-newest-on-the-oldest"), pytest.param("4.0.4", "4.1.3", id="flat")],
)
@pytest.mark.long
def test_rules_of_another_version_are_found_not_to_match(rules: str, jars: str, tmp_path: Path) -> None:
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    with pytest.raises(Unsupported, match="offset-log before"):
        check_rules(supported(rules), fetch_agent(), environment=env, spark=chosen_spark(made(jars)))


@pytest.mark.long
@pytest.mark.parametrize("version", OTHERS)
def test_a_query_survives_on_a_cluster_of_every_version(version: str, tmp_path: Path) -> None:
    """The driver dies at a point of the harness's source, and an executor at one of Spark's."""
    query = replace(query_word_count(batch_events=20), spark=made(version))
    faults = [
        crash("driver").at(Moment(Point.SOURCE_PARTITIONS, Side.BEFORE, "1", "driver")),
        executor_crash("task").at(batch(2).state_committed),
    ]
    finished = killed(tmp_path / "run", EmbeddedCluster(), query, *faults, batches=4)
    assert verdict(finished) == "HOLDS"
    first, second = addresses(finished)
    assert first == "driver/0#1 before source-partitions 1"
    assert second is not None
    assert "state-commit 2/" in second
    described = read_description(finished.folder)
    assert described.cluster["spark"] == described.versions["pyspark"] == version


@pytest.mark.usefixtures("confirmed_in_two")
@pytest.mark.parametrize("version", OTHERS)
def test_a_wrong_sink_is_refuted_and_the_record_names_the_spark_that_ran(version: str, tmp_path: Path) -> None:
    one = subject("blind-append")
    found = certify(
        replace(one.query, spark=made(version)),
        one.claims,
        every_crash_point("driver", recovering=False, split_brain=False),
        workload=replace(one.workload, events=2 * one.query.batch_events),
        cluster=EmbeddedCluster(),
        registry=Registry(),
        budget=Budget(minutes=10, kills=0),
        folder=tmp_path / "certificate",
    )
    certificate = found.certificate
    assert certificate.verdicts[0].status is Status.VIOLATED
    assert certificate.counterexample is not None
    assert certificate.versions["spark"] == certificate.versions["pyspark"] == version
    for run in (found.folder / "runs").iterdir():
        assert read_description(run).cluster["spark"] == version
    # Those of the source, be it in Python or in Java, as of Spark.
    passed = {line.crash.point for line in certificate.plan}
    assert passed >= {Point.SOURCE_LATEST, Point.SOURCE_PARTITIONS, Point.SOURCE_COMMIT, Point.ADD_BATCH}
    assert (Point.FILE in passed) == (not why_no_mounts())
