"""pyspark's daemon, which forks Python workers, with what they all need imported before: nothing of the user's.

Spark runs it as a module, `settings.DAEMON_MODULE` (`spark.python.daemon.module`).
"""

from __future__ import annotations

import pyarrow  # noqa: F401
import pyspark.sql.types  # noqa: F401
from pyspark import daemon

from ....crash_points.inside_python.following import followed_each
from ....install.python_versions import has_module

if has_module("pyspark.sql.streaming.datasource"):
    from . import python_source  # noqa: F401

if __name__ == "__main__":
    # What each of its children does for one task after the other.
    daemon.worker = followed_each(daemon.worker)
    daemon.manager()
