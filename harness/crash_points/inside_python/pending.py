"""What threads of a process are still to do, though nothing of it is being executed: functions for which a timer or a
pool waits, and coroutines that are to go on."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import thread as pools
from functools import partial
from types import CoroutineType, FunctionType
from typing import Any


def pending_functions() -> Iterator[FunctionType]:
    """Those that a timer or a pool of threads is to call."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer) and not thread.finished.is_set():
            yield from _function_in(thread.function)
    # By their identity: each thread of a pool has the same.
    queues = {id(queue): queue for queue in list(pools._threads_queues.values())}
    for item in (item for queue in queues.values() for item in _items_in(queue)):
        if isinstance(item, pools._WorkItem):
            yield from _function_in(item.fn)


def pending_coroutines() -> Iterator[CoroutineType[Any, Any, Any]]:
    """Those of the event loops of other threads."""
    mine = threading.get_ident()
    for number, frame in sys._current_frames().items():
        loop = None if number == mine else _loop_of(frame)
        for task in asyncio.all_tasks(loop) if loop is not None else ():
            coroutine = task.get_coro()
            if isinstance(coroutine, CoroutineType):
                yield coroutine


def _loop_of(frame: Any) -> asyncio.AbstractEventLoop | None:
    """The loop that is run by the thread of a frame."""
    while frame is not None:
        if frame.f_code is asyncio.BaseEventLoop.run_forever.__code__:
            found = frame.f_locals.get("self")
            return found if isinstance(found, asyncio.AbstractEventLoop) else None
        frame = frame.f_back
    return None


def _items_in(queue: object) -> list[object]:
    """What waits in a queue that cannot be looked into; Python 3.11 keeps it in a list of the queue's."""
    held = gc.get_referents(queue)
    return [item for one in held for item in (one if isinstance(one, list) else [one])]


def _function_in(given: Any) -> Iterator[FunctionType]:
    while isinstance(given, partial):
        given = given.func
    given = getattr(given, "__func__", given)
    if isinstance(given, FunctionType):
        yield given
