"""What it costs the batches of a query that its folders are journalled, and each operation is told as a crash point,
with nothing held: the same query in one session, in plain folders and in mounted ones, in turns."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from held_operations import Controller, needs_mounts
from streamproof.harness.crash_points.files.mounting import MountedFolder

pytestmark = [pytest.mark.bench, needs_mounts]

BATCHES = 40
TURNS = 9
SECONDS = 900
QUERY = '''
"""Counts words into a database, in each of the folders that it is given, and says how long its batches took, in ms."""
import json, pathlib, sqlite3, sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import explode, split

def upsert(frame, batch):
    rows = [(row["word"], row["count"]) for row in frame.collect()]
    with sqlite3.connect(sink) as database:
        database.execute("CREATE TABLE IF NOT EXISTS counts (word TEXT PRIMARY KEY, count INT)")
        database.executemany("INSERT OR REPLACE INTO counts VALUES (?, ?)", rows)
    database.close()

lines, folders = sys.argv[1], list(map(pathlib.Path, sys.argv[2:]))
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.sql.shuffle.partitions", 2)
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
for folder in folders:
    folder.mkdir(parents=True)
    sink = folder / "sink.db"
    read = spark.readStream.option("maxFilesPerTrigger", 1).text(lines)
    words = read.select(explode(split("value", " ")).alias("word"))
    query = (
        words.groupBy("word").count().writeStream.outputMode("update").foreachBatch(upsert)
        .option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    took = [one["durationMs"]["triggerExecution"] for one in query.recentProgress if one["numInputRows"]]
    print(json.dumps(took), flush=True)
spark.stop()
'''


def test_a_batch_in_journalled_folders_and_in_plain_ones(tmp_path: Path) -> None:
    """The first turn of each brings Spark up to speed, and is left out, and so are the first batches of a query."""
    lines = tmp_path / "lines"
    lines.mkdir()
    for number in range(BATCHES):
        (lines / f"{number:03}.txt").write_text("\n".join(f"a b c d{number} e{number % 7}" for _ in range(50)))
        os.utime(lines / f"{number:03}.txt", (number, number))
    script = tmp_path / "query.py"
    script.write_text(QUERY)
    home = tmp_path / "home"
    home.mkdir()
    with (
        closing(Controller()) as controller,
        MountedFolder(home, "bench-of-batches", os.environ, tmp_path / "log") as mounted,
    ):
        mounted.announce(controller.place, "token", "node", 1)
        places = {"plain": tmp_path / "plain", "journalled": mounted.mount}
        turns = [(kind, place / str(turn)) for turn in range(TURNS + 1) for kind, place in places.items()]
        ended = subprocess.run(
            [sys.executable, script, lines, *(folder for _, folder in turns)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    assert ended.returncode == 0, ended.stderr[-2_000:]
    took = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [len(one) for one in took] == [BATCHES] * len(turns)
    medians = [statistics.median(one[BATCHES // 4 :]) for one in took]
    ratios = [journalled / plain for plain, journalled in zip(medians[2::2], medians[3::2], strict=True)]
    operations = len(controller.heard) / ((TURNS + 1) * BATCHES)
    print(f"\nms a batch, plain and journalled in turns: {', '.join(f'{one:,.0f}' for one in medians[2:])}")
    print(f"{operations:.0f} operations a batch; {', '.join(f'{one:.2f}' for one in ratios)} times as long", end="")
    print(f", {statistics.median(ratios):.2f} in the median")
    assert operations > 10
