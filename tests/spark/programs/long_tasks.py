"""A driver with one job of N tasks that do not end before they are told to: each notes where it runs, and waits.

Arguments: a folder, and the number of tasks. A task writes `<partition>-<node>-<pid>` there; the file `end` ends them.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession


def main(notes: str, tasks: int) -> None:
    def run(partitions: Iterable[int]) -> Iterator[int]:
        for partition in partitions:
            Path(notes, f"{partition}_{os.environ['STREAMPROOF_NODE']}_{os.getpid()}").touch()
            while not Path(notes, "end").exists():
                time.sleep(0.02)
            yield partition

    spark = SparkSession.builder.getOrCreate()
    done = spark.sparkContext.parallelize(range(tasks), tasks).mapPartitions(run).collect()
    print("done", sorted(done), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
