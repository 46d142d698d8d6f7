"""The driver that makes Spark load its classes, for the class archive: a job with Python workers, and two streams.

Argument: a folder for the streams' checkpoints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def main(folder: str) -> None:
    from pyspark.sql import DataFrame, SparkSession, functions

    def add_one(numbers: Iterable[int]) -> Iterator[int]:
        return (number + 1 for number in numbers)

    def collect(batch: DataFrame, batch_id: int) -> None:
        batch.collect()

    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.parallelize(range(4), 2).mapPartitions(add_one).collect()
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    source = Path(folder, "source")
    spark.range(10).select((functions.col("id") % 3).alias("key")).write.parquet(str(source))
    rows = spark.readStream.schema("key long").parquet(str(source))
    counts = rows.groupBy("key").count().writeStream.outputMode("complete").foreachBatch(collect)
    counts.option("checkpointLocation", f"{folder}/counts").trigger(availableNow=True).start().awaitTermination()
    copies = rows.writeStream.format("parquet").option("path", f"{folder}/sink")
    copies.option("checkpointLocation", f"{folder}/copies").trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
