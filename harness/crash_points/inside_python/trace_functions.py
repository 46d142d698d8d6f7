"""Sets functions for tracing and profiling where other threads set theirs at the same time, and has threads followed
that begin.

CPython refuses to set one, with a RuntimeError, while another thread is about to: it tells of that first
(`sys.addaudithook`), and a hook in Python lets other threads run meanwhile. `threading` does not expect it: a thread
that began just then died before its first line, and whoever waited for what it was to do waited for ever.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from .standing_in import posing_as

_BEING_SET: Final = "function is being installed"
_TURNS: Final = 1_000_000
"""So often another thread is let go before it is given up: each takes a few microseconds."""


class OfNewThreads:
    """What threads that begin are followed by. It is none to `threading`, which would set it at once: `if` takes it for
    False."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __bool__(self) -> bool:
        return False


def set_tracer(function: Any) -> None:
    _set(sys.settrace, function)


def set_profiler(function: Any) -> None:
    _set(sys.setprofile, function)


def _set(setter: Callable[[Any], None], function: Any) -> None:
    for _ in range(_TURNS):
        try:
            setter(function)
            return
        except RuntimeError as error:
            if _BEING_SET not in str(error):
                raise
            os.sched_yield()
    setter(function)


def follow_new_threads(function: Callable[..., Any]) -> None:
    """From now on, until `threading.settrace` says otherwise."""
    _have_them_followed()
    threading.settrace(OfNewThreads(function))  # type: ignore[arg-type]


def tracer_of_new_threads() -> Any:
    """What a thread that begins is to be followed by."""
    found = threading.gettrace()
    return found.function if isinstance(found, OfNewThreads) else found


def _have_them_followed() -> None:
    meant: Any = threading.Thread._bootstrap  # type: ignore[attr-defined]
    if hasattr(meant, "__wrapped__"):
        return
    # What stands in for a function of another module has no names of this one.
    set_theirs, kind, ours = set_tracer, OfNewThreads, threading.gettrace

    def begin(thread: threading.Thread) -> None:
        found = ours()
        if isinstance(found, kind):
            set_theirs(found.function)
        meant(thread)

    threading.Thread._bootstrap = posing_as(meant, begin)  # type: ignore[attr-defined]
