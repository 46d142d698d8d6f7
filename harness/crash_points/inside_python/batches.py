"""Which batch of a query code is run for, and whether by its driver or by a task: the process itself knows."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Final

from ...core.addresses import DRIVER, TASK

UNKNOWN: Final = "?"
_BATCH: Final = "streaming.sql.batchId"
_CALLERS: Final = {
    "ForeachBatchFunction.call": "pyspark.sql.utils",
    "_main": "pyspark.sql.worker.python_streaming_sink_runner",
    # Before 4.2.
    "main": "pyspark.sql.worker.python_streaming_sink_runner",
}
"""Functions of pyspark's that call the user's code in the driver, or beside it; `batch_id` is the batch."""


def of_the_task() -> tuple[str, str] | None:
    """The actor and the batch, where a task runs in this process."""
    found = sys.modules.get("pyspark.taskcontext")
    task = None if found is None else found.TaskContext.get()
    return None if task is None else (TASK, task.getLocalProperty(_BATCH) or UNKNOWN)


def where(frame: FrameType | None) -> tuple[str, str]:
    """Who runs a frame, and for which batch."""
    return of_the_task() or (DRIVER, _batch_above(frame))


def _batch_above(frame: FrameType | None) -> str:
    while frame is not None:
        module = _CALLERS.get(frame.f_code.co_qualname)
        if module is not None and frame.f_globals.get("__name__") == module:
            batch = frame.f_locals.get("batch_id")
            return UNKNOWN if batch is None else str(batch)
        frame = frame.f_back
    return UNKNOWN
