"""How an embedded cluster's Spark is set up: the named profiles, and the files that carry them to the processes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ..core.errors import UnknownName

DAEMON_MODULE: Final = "streamproof.harness.worlds.spark.queries.warm_daemon"
"""What forks the Python workers of queries."""
READER_MODULE: Final = "streamproof.harness.worlds.spark.queries.followed_reader"
"""What runs the reader of a stream in Python, but for what its tasks read."""
MOST_CORES: Final = 2
"""Of an executor."""

_ALWAYS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "768m",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Ten lost executors in a row would otherwise end the application: here executors are lost on purpose.
    "spark.deploy.maxExecutorRetries": "-1",
}

_TUNED: Final = {
    # A killed worker stalls a query for 8 s with the default, since tasks wait for a place near their state.
    "spark.locality.wait": "0s",
    "spark.network.timeout": "6s",
    # The session refuses an interval above the timeout.
    "spark.network.timeoutInterval": "1s",
    "spark.executor.heartbeatInterval": "1s",
    "spark.rpc.askTimeout": "5s",
    "spark.shuffle.io.maxRetries": "2",
    "spark.shuffle.io.retryWait": "500ms",
    "spark.task.maxFailures": "8",
    # Read by master and workers.
    "spark.worker.timeout": "8",
}

_SLICES: Final = {
    **_TUNED,
    # A node agent is one task that is meant to be killed often and must start with a blank interpreter each time.
    "spark.task.maxFailures": "10000",
    "spark.python.worker.reuse": "false",
    # The manager decides which nodes are lost; a node that was paused for long must find its executor alive, and an
    # executor gives a driver up that leaves 60 heartbeats unanswered.
    "spark.executor.heartbeatInterval": "10s",
    "spark.network.timeout": "600s",
    "spark.worker.timeout": "600",
    # For which a master that comes back would wait for a worker that is gone, and let nobody start meanwhile.
    "spark.deploy.recoveryTimeout": "8",
}

PROFILES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "default": MappingProxyType({}),
        "tuned": MappingProxyType(_TUNED),
        "slices": MappingProxyType(_SLICES),
    }
)
"""default: Spark's own time-outs. tuned: failures are noticed in seconds. slices: tuned, for long-running tasks."""


def profile_settings(name: str, worker_memory_mb: int) -> dict[str, str]:
    if name not in PROFILES:
        raise UnknownName("profile", name, sorted(PROFILES))
    return {**_ALWAYS, "spark.executor.memory": f"{worker_memory_mb}m", **PROFILES[name]}


def as_properties(settings: Mapping[str, str]) -> str:
    """A Java properties file."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in sorted(settings.items()))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


LOG4J2: Final = """\
status = error
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %p %c{1}: %m%n%ex
# By name: pyspark's driver, which Spark takes for a shell, mutes what only the root logger lets through.
logger.spark.name = org.apache.spark
logger.spark.level = info
logger.jetty.name = org.sparkproject.jetty
logger.jetty.level = warn
logger.jetty2.name = org.eclipse.jetty
logger.jetty2.level = warn
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""
