"""pyspark's daemon, which forks Python workers, with what they all need imported before: nothing of the user's.

Spark runs it as `python -m streamproof.harness.certifying.warm_daemon` (`spark.python.daemon.module`).
"""

from __future__ import annotations

import pyarrow  # noqa: F401
import pyspark.sql.types  # noqa: F401
from pyspark.daemon import manager

from ..embedded import query_source  # noqa: F401

MODULE = "streamproof.harness.certifying.warm_daemon"

if __name__ == "__main__":
    manager()
