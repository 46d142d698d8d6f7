"""A query in a local session, over files that are there. Arguments: its kind, its folder, Spark's settings as JSON."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from streamproof import crash_point


def counted(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    count = sum(len(frame) for frame in frames) + (state.get[0] if state.exists else 0)
    state.update((count,))
    crash_point("counted")
    yield pd.DataFrame({"key": [key[0]], "count": [count]})


def writer(kind: str, events: DataFrame, folder: Path) -> DataStreamWriter:
    out = str(folder / "out")

    def append(frame: DataFrame, batch: int) -> None:
        frame.write.mode("append").parquet(out)
        crash_point("appended")

    def collect(frame: DataFrame, batch: int) -> None:
        frame.collect()

    if kind == "append":
        return events.writeStream.foreachBatch(append)
    if kind == "files":
        return events.writeStream.format("parquet").option("path", out)
    if kind == "count":
        return events.groupBy("key").count().writeStream.outputMode("update").foreachBatch(collect)
    schema = "key long, count long"
    groups = events.groupBy("key")
    frame = groups.applyInPandasWithState(counted, schema, "count long", "update", GroupStateTimeout.NoTimeout)
    return frame.writeStream.outputMode("update").foreachBatch(collect)


def main(kind: str, folder: Path, settings: dict[str, str]) -> None:
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    # A job that is of no batch.
    spark.range(3).write.parquet(str(folder / "apart"))
    events = spark.readStream.schema("key long, n long").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    query = writer(kind, events, folder).option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
