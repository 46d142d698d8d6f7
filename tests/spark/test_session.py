"""A local Spark session starts here, and its Python workers run."""

from collections.abc import Iterator

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    yield session
    session.stop()


def test_python_workers_run(spark: SparkSession) -> None:
    words = spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], ["word", "n"])
    shout = udf(str.upper, "string")
    counted = words.groupBy(shout(col("word")).alias("word")).sum("n").withColumnRenamed("sum(n)", "n")
    expected = spark.createDataFrame([("A", 4), ("B", 2)], ["word", "n"])
    assert_df_equality(counted, expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True)
