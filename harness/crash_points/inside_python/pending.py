"""What threads of a process are still to do, though nothing of it is being executed: functions for which a timer or a
pool waits, and coroutines that are to go on."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import thread as pools
from functools import partial
from types import CoroutineType, FrameType, FunctionType
from typing import Any, Final


def pending_functions() -> Iterator[FunctionType]:
    """Those that a timer, a pool of threads, or the event loop of another thread is to call."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer) and not thread.finished.is_set():
            yield from _function_in(thread.function)
    # By their identity: each thread of a pool has the same.
    queues = {id(queue): queue for queue in list(pools._threads_queues.values())}
    for item in (item for queue in queues.values() for item in _items_in(queue)):
        if isinstance(item, pools._WorkItem):
            yield from _function_in(item.fn)
    for loop in _loops_of_others():
        for callback in _callbacks_of(loop):
            yield from _function_in(callback)


def pending_coroutines() -> Iterator[CoroutineType[Any, Any, Any]]:
    """Those of the event loops of other threads, be they begun or handed over a moment ago."""
    for loop in _loops_of_others():
        for task in asyncio.all_tasks(loop):
            coroutine = task.get_coro()
            if isinstance(coroutine, CoroutineType):
                yield coroutine
        for callback in _callbacks_of(loop):
            # That is how `asyncio.run_coroutine_threadsafe` hands one over.
            for held in gc.get_referents(*(getattr(callback, "__closure__", None) or ())):
                if isinstance(held, CoroutineType):
                    yield held


def has_something_to_do(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether it has a task that is not done, or something to call, be it later, or is calling it just now. Of a loop
    that is not written in Python nobody can tell: it has."""
    if not isinstance(loop, asyncio.BaseEventLoop):
        return True
    frames = [frame for frame in sys._current_frames().values() if _loop_of(frame) is loop]
    return (
        any(map(_calls, frames))
        or any(not task.done() for task in asyncio.all_tasks(loop))
        or bool(_callbacks_of(loop))
    )


def _loops_of_others() -> Iterator[asyncio.AbstractEventLoop]:
    mine = threading.get_ident()
    for number, frame in sys._current_frames().items():
        if number != mine and (loop := _loop_of(frame)) is not None:
            yield loop


def _callbacks_of(loop: asyncio.AbstractEventLoop) -> list[Any]:
    """What it is to call soon or later. Its lists are copied, since its thread changes them."""
    handles = [*getattr(loop, "_ready", deque()).copy(), *getattr(loop, "_scheduled", []).copy()]
    return [handle._callback for handle in handles if not handle.cancelled()]


def _loop_of(frame: Any) -> asyncio.AbstractEventLoop | None:
    """The loop that is run by the thread of a frame."""
    while frame is not None:
        if frame.f_code is asyncio.BaseEventLoop.run_forever.__code__:
            found = frame.f_locals.get("self")
            return found if isinstance(found, asyncio.AbstractEventLoop) else None
        frame = frame.f_back
    return None


def _calls(frame: FrameType | None) -> bool:
    """Whether a thread is executing what somebody has given its loop to call. A task that is done, or a result that was
    just handed over, is the loop's own."""
    while frame is not None:
        if frame.f_code is asyncio.Handle._run.__code__:
            called = frame.f_locals["self"]._callback
            while isinstance(called, partial):
                called = called.func
            home = getattr(called, "__module__", None) or type(getattr(called, "__self__", called)).__module__
            return home.partition(".")[0] not in _LOOPS_OWN
        frame = frame.f_back
    return False


_LOOPS_OWN: Final = frozenset({"asyncio", "_asyncio"})


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
