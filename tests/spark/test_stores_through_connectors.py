"""Sinks that write to stores through connectors that are fetched for the query: killed where right and wrong differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from killed_queries import addresses, killed, verdict
from streamproof.faults.crash import crash
from streamproof.harness.contracts.query import Query
from streamproof.harness.core.addresses import Moment, Point, Side
from streamproof.harness.core.errors import MissingTool
from streamproof.harness.install.machine import find_java
from streamproof.harness.install.packages import kept_jars
from streamproof.harness.install.spark_choice import chosen_spark
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.reaping import labelled_processes
from streamproof.scenarios.subjects.stores import store_line

pytestmark = [pytest.mark.spark, pytest.mark.long]

DELTA, ICEBERG = "4.1.3", "4.0.0"
"""The Spark for which each has its connector."""


def made(name: str, spark: str) -> Query:
    """It is skipped where its Spark or its connector cannot be had."""
    query = store_line(name).make(spark, "")
    try:
        kept_jars(query.configuration, chosen_spark(spark), find_java())
    except MissingTool as error:
        pytest.skip(str(error))
    return query


@pytest.mark.parametrize(
    ("name", "spark", "comes_to"),
    [
        ("delta-blind-append", DELTA, "VIOLATED"),
        ("delta-by-batch", DELTA, "HOLDS"),
        ("delta-sink", DELTA, "HOLDS"),
        ("iceberg-blind-append", ICEBERG, "VIOLATED"),
        ("iceberg-by-batch", ICEBERG, "HOLDS"),
        ("iceberg-sink", ICEBERG, "HOLDS"),
    ],
)
@pytest.mark.parametrize("side", list(Side))
def test_a_batch_that_the_table_has_and_the_commit_log_has_not(
    name: str, spark: str, comes_to: str, side: Side, tmp_path: Path
) -> None:
    """The driver dies when the table has batch 1, and the commit log has or has not: where it has, nothing is done
    again."""
    fault = crash("driver").at(Moment(Point.COMMIT_LOG, side, "1", "driver"))
    finished = killed(tmp_path / "run", EmbeddedCluster(), made(name, spark), fault, batches=2)
    assert addresses(finished) == [f"driver/0#1 {side} commit-log 1"]
    assert verdict(finished) == (comes_to if side is Side.BEFORE else "HOLDS")
    assert labelled_processes(finished.description.run) == []


def test_no_driver_of_a_run_resolves_packages(tmp_path: Path) -> None:
    fault = crash("driver").at(Moment(Point.COMMIT_LOG, Side.BEFORE, "1", "driver"))
    finished = killed(tmp_path / "run", EmbeddedCluster(), made("delta-by-batch", DELTA), fault, batches=2)
    logs = list((finished.folder / "logs").glob("driver*"))
    assert logs
    assert not [log for log in logs if ":: resolving dependencies ::" in log.read_text(errors="replace")]
