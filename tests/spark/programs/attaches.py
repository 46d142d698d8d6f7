"""A process on a JVM of another's. It `leaves` a function there that is needed no more, or `keeps` one, which is called
when the JVM has let go of all that nobody needs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.java_gateway import ensure_callback_server_started

from streamproof.harness.worlds.spark.queries.attaching import attached_session


class Called:
    def run(self) -> None:
        print("called", flush=True)

    class Java:
        implements = ("java.lang.Runnable",)


gateway = attached_session(Path(sys.argv[1])).sparkContext._gateway
ensure_callback_server_started(gateway)
java = gateway.jvm.java
if sys.argv[2] == "leaves":
    java.util.Objects.isNull(Called())
else:
    kept = java.lang.Thread(Called())
    for _ in range(3):
        java.lang.System.gc()
        java.lang.System.runFinalization()
    kept.run()
sys.stdout.flush()
# No order at its end: as a driver that is killed.
os._exit(0)
