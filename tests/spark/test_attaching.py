"""Processes that attach themselves to one JVM, one after the other, do not take each other's functions away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamproof.harness.worlds.spark.queries.attaching import gateway_of

pytestmark = pytest.mark.spark

PROGRAM = Path(__file__).parent / "programs" / "attaches.py"


def test_a_function_is_there_when_the_jvm_lets_go_of_one_of_a_process_before(tmp_path: Path) -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        ended = [
            subprocess.run(
                [sys.executable, str(PROGRAM), str(tmp_path), does],
                env={**os.environ, **gateway_of(spark)},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            for does in ("leaves", "keeps")
        ]
    finally:
        spark.stop()
    assert [(one.returncode, one.stdout) for one in ended] == [(0, ""), (0, "called\n")], ended[-1].stderr[-2000:]
