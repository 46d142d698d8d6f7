"""A fresh Python process on a JVM that runs already: what the user's code keeps in memory is gone, as in a crash, and
no JVM has to come up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""What pyspark reads: with them in its environment a process starts no JVM of its own."""


def gateway_of(spark: SparkSession) -> Mapping[str, str]:
    """The environment with which another process attaches to the JVM of this one."""
    gateway: Any = spark.sparkContext._gateway
    parameters = gateway.gateway_parameters
    return {PORT: str(parameters.port), SECRET: parameters.auth_token}


def attached_session() -> SparkSession:
    """A session of its own on the JVM that the environment names: with no table, function, setting or state store of
    another's. Python workers are shared with whoever attached before, unless somebody has ended them."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    jvm = gateway.jvm
    context = jvm.org.apache.spark.SparkContext.getOrCreate()
    conf = SparkConf(loadDefaults=False, _jvm=jvm, _jconf=context.conf())
    shared = SparkContext(gateway=gateway, jsc=jvm.org.apache.spark.api.java.JavaSparkContext(context), conf=conf)
    # Loaded, a state store knows later versions than the checkpoint that was put back; it must be loaded anew.
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    return SparkSession(shared, jvm.org.apache.spark.sql.classic.SparkSession.builder().getOrCreate()).newSession()
