"""Operators that are more than a function of what they are given and of the state that Spark keeps for them."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ...harness.contracts.query import Query, RunFolders
from ...harness.judging.shapes import OutputMode
from .files import lines, to_parquet
from .inputs import BATCH

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
"""How often each word has come, by query: as long as the worker lives, that is, which is what is wrong with it."""


def count_in_global(frame: DataFrame) -> DataFrame:
    """How often each word has come so far. All words go to one worker."""
    return frame.select("value").repartition(1).mapInPandas(_count, "word STRING, count LONG")


def _count(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    import pandas as pd
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    counts = _counts[str(task.getLocalProperty("sql.streaming.queryId"))]
    now = Counter(word for frame in frames for word in frame["value"])
    counts.update(now)
    yield pd.DataFrame({"word": list(now), "count": [counts[word] for word in now]})


def stamp(frame: DataFrame) -> DataFrame:
    """Each line with the time at which it was handled."""
    from pyspark.sql import functions as f

    return frame.select("seq", "value", f.unix_micros(f.current_timestamp()).alias("handled"))


def sample(frame: DataFrame) -> DataFrame:
    """About half of the lines, drawn without a seed."""
    from pyspark.sql import functions as f

    return frame.where(f.rand() < 0.5).select("seq", "value")


def note_and_write(frame: DataFrame, folders: RunFolders) -> DataStreamWriter:
    """Writes the lines to Spark's own sink, and on the way there notes each in a file."""
    noted = frame.mapInPandas(partial(_note, folders.sink / "noted.jsonl"), frame.schema)
    return to_parquet(noted, folders)


def _note(file: Path, frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for frame in frames:
            os.write(opened, frame.to_json(orient="records", lines=True).encode())
            yield frame
    finally:
        os.close(opened)


def what_was_noted(spark: SparkSession, folders: RunFolders) -> DataFrame:
    return spark.read.schema("seq LONG, key STRING, value STRING").json(str(folders.sink / "noted.jsonl"))


counts_in_global = Query(
    count_in_global,
    name="counts-in-global",
    mode=OutputMode.UPDATE,
    key=("word",),
    # One executor with one slot, so that there is one worker, and its counts are right until it dies.
    settings={"spark.cores.max": "1", "spark.executor.cores": "1"},
    batch_events=BATCH,
)
asks_the_clock = Query(stamp, name="asks-the-clock", batch_events=BATCH)
draws_at_random = Query(sample, name="draws-at-random", batch_events=BATCH)
writes_outside = Query(lines, name="writes-outside", write=note_and_write, read=what_was_noted, batch_events=BATCH)
