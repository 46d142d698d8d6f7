"""What runs inside containers, as far as it needs none."""

from __future__ import annotations

import pytest

from streamproof.harness.containers import inside

WORKER = ["/opt/java/bin/java", "-cp", "jars", "org.apache.spark.deploy.worker.Worker", ""]
EXECUTOR = ["/opt/java/bin/java", "org.apache.spark.executor.CoarseGrainedExecutorBackend", "--executor-id", "0", ""]
DAEMON = ["python3", "-m", "pyspark.daemon", "pyspark.worker", ""]
OURS = ["python3", "-c", "... pyspark.daemon ... org.apache.spark.executor. ...", "kill_part", "executor", ""]
LIVING = {
    1: (0, ["/sbin/docker-init", ""]),
    7: (1, WORKER),
    20: (7, EXECUTOR),
    31: (20, DAEMON),
    32: (31, DAEMON),
    33: (32, ["cat", ""]),
    40: (0, OURS),
}


@pytest.mark.parametrize(("part", "pids"), [("executor", {20, 31, 32, 33}), ("python", {31, 32})])
def test_a_part_of_a_node_is_what_spark_started_and_not_who_looks_for_it(part: str, pids: set[int]) -> None:
    assert inside.part_of(part, LIVING) == pids
