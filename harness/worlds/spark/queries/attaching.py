"""A fresh Python process on a JVM that runs already: what the user's code keeps in memory is gone, as in a crash, and
no JVM has to come up."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....crash_points.inside_python.maps import JVM

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PORT, SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""What pyspark reads: with them in its environment a process starts no JVM of its own."""
WAREHOUSE = "spark.sql.warehouse.dir"
"""The setting that says where Spark puts tables that have no place of their own."""
_APPLICATION, _BEGAN = "spark.app.id", "spark.app.startTime"


def enter_working_folder(folder: Path) -> None:
    """Where the user has started the harness, files are found by the paths that the user's code knows. In a container
    there may be no such folder."""
    if folder.is_dir():
        os.chdir(folder)


def gateway_of(spark: SparkSession) -> Mapping[str, str]:
    """The environment with which another process attaches to the JVM of this one."""
    gateway: Any = spark.sparkContext._gateway
    parameters = gateway.gateway_parameters
    # Who has attached itself knows the number from its environment.
    jvm = {} if gateway.proc is None else {JVM: str(gateway.proc.pid)}
    return {PORT: str(parameters.port), SECRET: parameters.auth_token, **jvm}


def _call_anew(context: Any) -> None:
    """Give the application another id, and another time at which it has begun, as a driver that is started again has: a
    file that is called by one of them is another one then."""
    made = f"local-{uuid.uuid4().int % 10**13:013}"
    now = time.time_ns() // 1_000_000
    for name, setting, value in (("_applicationId", _APPLICATION, made), ("startTime", _BEGAN, now)):
        field = context.getClass().getDeclaredField(name)
        field.setAccessible(True)
        field.set(context, value)
        context.conf().set(setting, str(value))


def attached_session(warehouse: Path) -> SparkSession:
    """A session of its own on the JVM that the environment names: with no table, function, setting or state store of
    another's. As the first session of a process is anywhere, it is the default, and the active one, for Python and for
    the JVM. Python workers are shared with whoever attached before, unless somebody has ended them."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
    # Of a function of Python's that the JVM needs no more, whose ever it was, it tells whoever has attached last, by a
    # number: nobody else may have a function of that number, as what `foreachBatch` calls.
    gateway.gateway_property.pool.next_id = time.time_ns() // 1_000
    jvm = gateway.jvm
    context = jvm.org.apache.spark.SparkContext.getOrCreate()
    _call_anew(context)
    conf = SparkConf(loadDefaults=False, _jvm=jvm, _jconf=context.conf())
    shared = SparkContext(gateway=gateway, jsc=jvm.org.apache.spark.api.java.JavaSparkContext(context), conf=conf)
    # Loaded, a state store knows later versions than the checkpoint that was put back; it must be loaded anew.
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    options = jvm.java.util.HashMap()
    options.put(WAREHOUSE, str(warehouse))
    # No `newSession`: that has the catalog, the cached tables and the global views of the one that it is made from.
    sql = jvm.org.apache.spark.sql
    before_4 = context.version().startswith("3.")
    return SparkSession(shared, (sql if before_4 else sql.classic).SparkSession(context, options))
