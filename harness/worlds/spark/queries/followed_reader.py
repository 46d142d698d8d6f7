"""pyspark's process in which a stream's reader says how far it goes, plans and commits, with the user's code followed.

The agent has Spark run it in the place of pyspark's own module (`settings.READER_MODULE`).
"""

from __future__ import annotations

import runpy
from typing import Final

from ....crash_points.inside_python.following import followed

RUNS: Final = "pyspark.sql.streaming.python_streaming_source_runner"

if __name__ == "__main__":
    with followed():
        runpy.run_module(RUNS, run_name="__main__", alter_sys=True)
