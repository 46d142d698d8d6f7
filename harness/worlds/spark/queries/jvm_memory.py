"""What Spark's JVM keeps beside all of its sessions, where the user's code can have it keep something, by a call of
pyspark's or by SQL: files that were added, properties, settings of the application. A crash forgets it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from .attaching import WAREHOUSE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _kept(context: Any, java: Any) -> dict[str, str]:
    """By what it is called, in the words of the JVM; of its SparkContext, and its package `java`."""
    # As one text: there are a hundred, and each would be asked for by itself.
    written = java.io.StringWriter()
    java.lang.System.getProperties().store(written, None)
    properties = [line for line in written.toString().splitlines() if not line.startswith("#")]
    lines = context.getConf().toDebugString().splitlines()
    # A session's own, which it tells the application of.
    settings = {name: line for line in lines if (name := line.partition("=")[0]) != WAREHOUSE}
    return {
        "archives that were added": context.listArchives().toString(),
        "files that were added": context.listFiles().toString(),
        "jars that were added": context.listJars().toString(),
        "the folder of RDDs that are checkpointed": context.getCheckpointDir().toString(),
        **{f"the setting {name}": line for name, line in settings.items()},
        **{f"the property {line.partition('=')[0]}": line for line in properties},
    }


@contextmanager
def telling_what_is_kept(spark: SparkSession, tell: Callable[[tuple[str, ...]], object]) -> Iterator[None]:
    """Tell what is another one afterwards, whatever comes of what is done within; nothing where all is as it was."""
    shared: Any = spark.sparkContext
    # Python forgets both where the user's code stops the application.
    context, java = shared._jsc.sc(), shared._jvm.java
    before = _kept(context, java)
    try:
        yield
    finally:
        # Where the JVM has gone, or whoever would be told, nothing is kept.
        with suppress(Py4JError, OSError):
            after = _kept(context, java)
            changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
            if changed:
                tell(tuple(sorted(changed)))
