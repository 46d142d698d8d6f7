"""Memory and time of a verdict, by the number of outputs; and of chispa and exceptAll on the same rows."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import long_histories

pytestmark = [pytest.mark.bench]

ALONE = Path(long_histories.__file__).with_name("judged_alone.py")


BOUND = 300
"""Bytes that one more output may take."""
GROWTH = 1.5
"""One more of many outputs may take so much of the time that one more of few takes."""


def _judged(folder: Path, outputs: int) -> dict[str, Any]:
    words = [sys.executable, str(ALONE), str(folder), str(outputs)]
    said: dict[str, Any] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert "HOLDS" in said["verdicts"][0]
    return said


@pytest.mark.parametrize("crash", [True, False], ids=["crash", "calm"])
def test_one_more_output_takes_little_however_many_there_are(crash: bool, tmp_path: Path) -> None:
    judged = []
    for outputs in (250_000, 500_000, 1_000_000):
        folder = tmp_path / str(outputs)
        delivered = long_histories.write(folder, outputs, crash=crash, masked=False)
        judged.append((delivered, _judged(folder, outputs)))
    more = [
        [(other[what] - one[what]) / (several - some) for what in ("bytes", "cpu")]
        for (some, one), (several, other) in pairwise(judged)
    ]
    told = "; ".join(f"{memory:,.0f} bytes and {seconds * 1e6:.1f} µs" for memory, seconds in more)
    print(f"\none more output, of up to 500,000 and of up to 1,000,000: {told}")
    (_, of_few), (memory, of_many) = more
    assert memory < BOUND
    assert of_many < GROWTH * of_few


@pytest.mark.parametrize("crash", [True, False], ids=["crash", "calm"])
@pytest.mark.parametrize("outputs", [100_000, 1_000_000, 10_000_000])
def test_a_verdict(outputs: int, crash: bool, tmp_path: Path) -> None:
    delivered = long_histories.write(tmp_path, outputs, crash=crash, masked=False)
    said = _judged(tmp_path, outputs)
    print(
        f"\n{delivered:,} outputs: {said['bytes'] / delivered:,.0f} bytes an output, {said['peak'] / 1e6:,.0f} MB",
        end="",
    )
    print(f" at the peak, {said['seconds']:.1f} s ({said['cpu']:.1f} s on the processor): {said['verdicts'][0]}")


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
