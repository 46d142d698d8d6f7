"""What a script for plain PySpark relies on, a line each, it finds in every process that runs it: by itself, in an
attempt that is attached to a warm session, and in the driver of a cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from streamproof.harness.certifying.recovery_worker import RecoveryWorker
from streamproof.harness.contracts.query import Query, RunFolders
from streamproof.harness.contracts.query_parts import foreach_batch
from streamproof.harness.contracts.registry import Named, Registry, load_object
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.crash_points.inside_spark.versions import supported
from streamproof.harness.recording.records import Kept
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.options import EmbeddedOptions
from streamproof.harness.worlds.embedded.processes import SparkProcesses
from streamproof.scenarios.workloads import words

pytestmark = pytest.mark.spark

SCRIPT = Path(__file__).parent / "programs" / "plain_script.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("script")
    shutil.copy(SCRIPT, made)
    (made / "settings.json").write_text('{"greeting": "hello"}')
    return made


@pytest.fixture(scope="module")
def query(folder: Path) -> Iterator[Query]:
    """As `streamproof certify plain_script:counted` finds it, in the script's folder: there it has a session too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        yield load_object("plain_script:counted")()
        session = SparkSession.getActiveSession()
        assert session is not None
        session.stop()
        sys.modules.pop("plain_script")


@contextmanager
def recovery_worker_of(query: Query, folder: Path, events: int) -> Iterator[RecoveryWorker]:
    """One that is ready, with a warm session."""
    batches, spark = query.batches(words(events=events)), supported(version("pyspark"))
    with (
        SparkProcesses("scripts", folder, EmbeddedOptions(workers=0)) as processes,
        RecoveryWorker(0, processes, query, batches, folder, spark, 90.0, watches_inside=False) as worker,
    ):
        worker.await_ready()
        yield worker


def found(rows: list[dict[str, Any]]) -> dict[str, str]:
    lines = {row["line"]: row["found"] for row in rows}
    assert len(lines) == len(rows) > 20
    return lines


@pytest.mark.long
def test_by_itself(folder: Path, tmp_path: Path) -> None:
    foreign = ("SPARK_", "PYSPARK_", "STREAMPROOF_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    script = [sys.executable, "plain_script.py", str(tmp_path / "home")]
    subprocess.run(script, cwd=folder, env={**environment, "PYSPARK_PYTHON": sys.executable}, check=True, timeout=120)
    files = sorted((tmp_path / "home" / "lines").iterdir())
    lines = found([json.loads(line) for file in files for line in file.read_text().splitlines()])
    assert set(lines.values()) == {"yes"}, lines


def test_in_an_attempt_that_is_attached_to_a_warm_session(query: Query, folder: Path, tmp_path: Path) -> None:
    before = sorted(folder.iterdir())
    with recovery_worker_of(query, tmp_path / "workers", 40) as worker:
        applications, beginnings = set(), set()
        for incarnation in (1, 2):
            # What the first has left in the JVM is not there for the second.
            worker.store.clear()
            attempt = worker.live("driver", "sink", incarnation, watched=False)
            assert attempt.failure is None, attempt.failure
            (kept,) = (stamped.record for stamped in attempt.records if isinstance(stamped.record, Kept))
            lines = found([json.loads(key) for key in kept.rows])
            assert set(lines.values()) == {"yes"}, lines
            assert attempt.kept_in_the_jvm == ()
            applications |= {line for line in lines if line.startswith("an application")}
            beginnings |= {line for line in lines if line.startswith("a beginning")}
        assert len(applications) == 2, "what is called by the application's id is another one after a crash"
        assert len(beginnings) == 2, "and so is what is called by when it began"
    assert sorted(folder.iterdir()) == before, "nothing of Spark's is left where the script is"


@pytest.mark.long
def test_in_the_driver_of_a_cluster(query: Query, tmp_path: Path) -> None:
    of_any_run = replace(query, read=sys.modules["plain_script"].read_what_every_run_has)
    scenario = Scenario(of_any_run, words(events=40), claims=[exactly_once()])
    named = Named("test", "test", "", scenario)
    finished = run_named(named, EmbeddedCluster(), Registry(), seed=1, folder=tmp_path / "run")
    kept = [stamped.record for stamped in finished.history.records if isinstance(stamped.record, Kept)]
    assert len(kept) == 3
    for record in kept:
        lines = found([json.loads(key) for key in record.rows])
        assert set(lines.values()) == {"yes"}, lines
    (verdict,) = finished.judgement.verdicts
    assert verdict.status == "HOLDS"


def adds_files(frame: DataFrame, batch: int, folders: RunFolders) -> None:
    """And a property, and notes what was there before."""
    if batch:
        return
    spark, file = frame.sparkSession, folders.sink / "found.txt"
    found = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'added.by.sql')").collect()[0][0]
    file.write_text(f"{spark.sql('LIST FILES').count()} {found or 'null'}\n")
    spark.sql(f"ADD FILE '{file}'")
    spark.sql("SELECT java_method('java.lang.System', 'setProperty', 'added.by.sql', '1')").collect()


def found_by_then(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.read.text(str(folders.sink / "found.txt"))


@pytest.mark.long
def test_what_sql_has_left_in_the_jvm_beside_all_sessions_the_next_attempt_does_not_find(tmp_path: Path) -> None:
    query = foreach_batch(adds_files, read=found_by_then, batch_events=20)
    with recovery_worker_of(query, tmp_path / "workers", 20) as worker:
        for incarnation in (1, 2):
            worker.store.clear()
            attempt = worker.live("driver", "sink", incarnation, watched=False)
            assert attempt.failure is None, attempt.failure
            assert attempt.kept_in_the_jvm == ("files that were added", "the property added.by.sql")
            (kept,) = (stamped.record for stamped in attempt.records if isinstance(stamped.record, Kept))
            assert [json.loads(row) for row in kept.rows] == [{"value": "0 null"}]


def never_returns(frame: DataFrame, batch: int) -> None:
    frame.count()
    time.sleep(600)


@pytest.mark.long
def test_a_function_that_never_returns_is_said_to_be_running_and_where(tmp_path: Path) -> None:
    query = foreach_batch(never_returns, read=lambda spark, folders: spark.range(0), batch_events=20)
    with recovery_worker_of(query, tmp_path / "workers", 20) as worker:
        worker.patience = 8.0
        attempt = worker.live("driver", "sink", 1, watched=False)
    assert attempt.silent is not None
    assert "still running: never_returns (" in str(attempt.failure)
    assert f"{Path(__file__).name}, line {never_returns.__code__.co_firstlineno + 2})" in str(attempt.failure)
