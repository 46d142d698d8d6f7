"""Memory and time of a verdict, by the number of outputs; and of chispa and exceptAll on the same rows."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

import long_histories

pytestmark = [pytest.mark.bench]

ALONE = Path(long_histories.__file__).with_name("judged_alone.py")


@pytest.mark.parametrize("crash", [True, False], ids=["crash", "calm"])
@pytest.mark.parametrize("outputs", [100_000, 1_000_000, 10_000_000])
def test_a_verdict(outputs: int, crash: bool, tmp_path: Path) -> None:
    delivered = long_histories.write(tmp_path, outputs, crash=crash, masked=False)
    words = [sys.executable, str(ALONE), str(tmp_path), str(outputs)]
    said = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    print(
        f"\n{delivered:,} outputs: {said['bytes'] / delivered:,.0f} bytes an output, {said['peak'] / 1e6:,.0f} MB",
        end="",
    )
    print(f" at the peak, {said['seconds']:.1f} s ({said['cpu']:.1f} s on the processor): {said['verdicts'][0]}")
    assert "HOLDS" in said["verdicts"][0]


_COMPARED = """
import sys, time
from chispa import assert_df_equality
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.driver.memory", "8g").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.read.parquet(sys.argv[1] + "/delivered.parquet").select("channel", "key", "value")
rows.limit(1).collect()
began = time.monotonic()
if sys.argv[2] == "chispa":
    assert_df_equality(rows, rows.select("channel", "key", "value"), ignore_row_order=True)
else:
    assert rows.exceptAll(rows.select("channel", "key", "value")).isEmpty()
print(time.monotonic() - began)
"""


@pytest.mark.spark
@pytest.mark.parametrize("how", ["chispa", "exceptAll"])
@pytest.mark.parametrize("outputs", [100_000, 1_000_000])
def test_what_others_take(outputs: int, how: str, tmp_path: Path) -> None:
    """They say whether two tables have the same rows, and nothing of inputs, order or state."""
    long_histories.write(tmp_path, outputs, crash=False, masked=False)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _COMPARED, str(tmp_path), how], capture_output=True, text=True, check=False
    )
    peak = max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    said = f"{float(done.stdout):.1f} s" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
    print(f"\n{how} of {outputs:,} rows: {said}; {time.monotonic() - began:.1f} s in all; at most {peak / 1e3:,.0f} MB")
