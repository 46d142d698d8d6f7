"""While a module is imported, its thread is not followed: what is done there is no part of any batch.

A function that is called while its thread is followed costs an event, whosever it is. Python calls a dozen for each
entry of each archive on its path when it looks what those hold now, which pyspark has it do for every task; and Spark's
own jar, of thousands of entries, is on the path of each Python worker.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib.machinery import SourceFileLoader
from typing import Any
from zipimport import zipimporter

from .trace_functions import set_profiler, set_tracer


def leave_imports_alone(follows: Callable[[object], bool]) -> None:
    """From now on, in this process. `follows` says of a function for tracing or profiling whether it is ours: what a
    debugger has set stays."""
    if not hasattr(SourceFileLoader.exec_module, "__wrapped__"):
        SourceFileLoader.exec_module = _unfollowed(SourceFileLoader.exec_module, follows)  # type: ignore[method-assign]
        zipimporter.invalidate_caches = _unfollowed(zipimporter.invalidate_caches, follows)  # type: ignore[method-assign]


def _unfollowed(work: Callable[..., Any], follows: Callable[[object], bool]) -> Callable[..., Any]:
    @wraps(work)
    def done(*arguments: Any) -> Any:
        tracer, profiler = sys.gettrace(), sys.getprofile()
        traced, profiled = follows(tracer), follows(profiler)
        if profiled:
            set_profiler(None)
        if traced:
            set_tracer(None)
        try:
            return work(*arguments)
        finally:
            if traced:
                set_tracer(tracer)
            if profiled:
                set_profiler(profiler)

    return done
