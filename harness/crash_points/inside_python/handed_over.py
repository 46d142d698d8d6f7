"""What the user's code has handed over to threads. Where that is a function of a library, no frame of the user's is in
the thread, by which one would know whose work it does."""

from __future__ import annotations

import _thread
import asyncio
import atexit
import multiprocessing.pool
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import thread as pools
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, CoroutineType, FrameType, FunctionType
from typing import Any, Final

from .names import builtin_call_of, call_of, called_of, module_of, name_in, place_of
from .pending import has_something_to_do
from .standing_in import posing_as, tell_of
from .trace_functions import set_tracer, tracer_of_new_threads
from .whose import OURS

SUBMITTED: Final = f"{OURS}.submitted"
STARTED: Final = f"{OURS}.started"
AT_EXIT: Final = f"{OURS}.at-exit"
FINALIZED: Final = f"{OURS}.finalized"
THREADS_OF_SPARK: Final = "pyspark.util"
"""A module of Spark's that starts threads for the user's code."""
_ON_THE_WAY: Final = frozenset({"concurrent", "threading", "asyncio"})
"""Packages that start threads for whoever calls them, and give them work."""
IMPORTS: Final = frozenset({"importlib", "_frozen_importlib"})
FOR_ITSELF: Final = IMPORTS | {"pyspark", "py4j", OURS}
"""What code of these does, or leaves to threads, it does not for the user's."""
LOGS: Final = "logging"
"""What leaves nothing behind but a log; but a thread that writes one later may be what a sink writes its rows by."""
_OF_POOLS: Final = "multiprocessing."
"""Threads of these wait for work that is told of by itself, or serve a process, which is."""
_WAITING: Final = frozenset(
    {
        "anyio._backends._asyncio.WorkerThread.run",
        "eventlet.tpool.tworker",
        "gevent.threadpool._WorkerGreenlet._begin",
        "trio._core._thread_cache.WorkerThread._work",
    }
)
"""What threads of other pools begin with. Whoever gives these some work waits for it, as a rule; the thread stays."""
_TO_WAIT: Final = frozenset({"threading", "queue"})
"""Packages by which a thread waits."""


@dataclass(frozen=True)
class Work:
    """Of a thread."""

    name: str
    """What is called there."""
    place: str
    """The line of the user's code that has handed it over."""
    is_done: Callable[[], bool]
    counts: Callable[[], bool]
    """Whether it is of any consequence, as far as it has come."""


class BareThread:
    """One that begins without a `threading.Thread`: the same is to be known of it."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function = function
        self.ident: int | None = None
        self.native_id: int | None = None
        self.begun = threading.Event()
        self._is_over = False

    def is_alive(self) -> bool:
        return self.ident is not None and not self._is_over

    def begin(self) -> None:
        """In it."""
        self.ident, self.native_id = threading.get_ident(), threading.get_native_id()
        self.begun.set()

    def end(self) -> None:
        self._is_over = True


AnyThread = threading.Thread | BareThread


class HandedOver:
    """Of this process, to be told by audit events. `owns` says of the name of a module and of code whether
    they are the user's: what is the user's is seen in a thread by itself. `has_acted`: whether a thread was heard to
    change files."""

    def __init__(self, owns: Callable[[str, str], bool], has_acted: Callable[[AnyThread], bool]) -> None:
        self._owns = owns
        self._has_acted = has_acted
        self._works: list[Work] = []
        self._lock = threading.Lock()

    def hear(self, event: str, arguments: tuple[Any, ...], frame: FrameType | None) -> None:
        """`frame` is that of the caller, be it a library's that the user's code has called. A thread of a pool begins
        for whoever comes first: what it is given is told of by itself."""
        if event == SUBMITTED:
            promised, *given, named = arguments
            works = [one for one in (*given, *named.values()) if callable(one) or isinstance(one, CoroutineType)]
            if works:
                self._note(works[0], frame, getattr(promised, "ready", None) or promised.done)
            return
        thread = arguments[0]
        given = getattr(thread, "function", None) or getattr(thread, "_target", None) or thread.run
        if given is not pools._worker:
            self._note(given, frame, lambda: thread.ident is not None and not thread.is_alive(), thread)

    def _note(
        self, given: Any, frame: FrameType | None, is_done: Callable[[], bool], begun: AnyThread | None = None
    ) -> None:
        """A thread that a library has `begun` for the user's code counts once it has changed files: most of those that
        live on look after connections, whose messages are seen by themselves."""
        by_a_library = False
        while frame is not None and not self._is_theirs(module_of(frame), frame.f_code):
            module = module_of(frame)
            if _works_for_itself(module):
                return
            by_a_library |= not _is_on_the_way(module)
            frame = frame.f_back
        if frame is None:
            return
        name = self._name_of(given)
        if name is not None:
            counts = _is_at_work(given, name, begun)
            if by_a_library and begun is not None:
                counts = _both(partial(self._has_changed_files, begun), counts)
            with self._lock:
                self._works.append(Work(name, place_of(frame), is_done, counts))

    def _is_theirs(self, module: str, code: CodeType) -> bool:
        return self._owns(module, code.co_filename)

    def _has_changed_files(self, thread: AnyThread) -> bool:
        return self._has_acted(thread) or _has_written(thread)

    def _name_of(self, given: Any) -> str | None:
        """None of the user's own, and of what leaves nothing behind."""
        given = _unwrapped(given)
        function = getattr(given, "__func__", given)
        if isinstance(function, FunctionType):
            module = function.__module__ or "?"
            if self._is_theirs(module, function.__code__) or module.startswith(_OF_POOLS):
                return None
            is_a_log = module.partition(".")[0] == LOGS
            return (name_in if is_a_log else called_of)(module, function.__code__)
        if isinstance(given, CoroutineType):
            begun: FrameType | None = given.cr_frame
            if begun is None or self._is_theirs(module_of(begun), begun.f_code):
                return None
            return call_of(begun)
        if isinstance(given, BuiltinFunctionType):
            return builtin_call_of(given)
        kind = given if isinstance(given, type) else type(given)
        return f"{kind.__module__}.{kind.__qualname__}"

    def remaining(self) -> list[Work]:
        """What is not done yet, and counts, each time that it is asked."""
        with self._lock:
            self._works = [work for work in self._works if not work.is_done()]
            return [work for work in self._works if work.counts()]


def _both(one: Callable[[], bool], other: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: one() and other()


def _is_at_work(given: Any, name: str, begun: AnyThread | None) -> Callable[[], bool]:
    """Whether there is something to do for a thread that has begun with what was given, as far as that can be told: for
    an event loop that it runs, or for one of a pool."""
    loop: Any = getattr(given, "__self__", None)
    if issubclass(type(loop), asyncio.AbstractEventLoop):
        return partial(has_something_to_do, loop)
    if begun is not None and name in _WAITING:
        return partial(_does_more_than_wait, begun, name.partition(".")[0])
    return lambda: True


def _does_more_than_wait(thread: AnyThread, pool: str) -> bool:
    """By the functions that it is in: others than those of its pool, which wait."""
    frame = None if thread.ident is None else sys._current_frames().get(thread.ident)
    while frame is not None:
        if module_of(frame).partition(".")[0] not in _TO_WAIT | {pool, OURS}:
            return True
        frame = frame.f_back
    return False


def _unwrapped(given: Any) -> Any:
    """Without what hands on what it is called with: of Spark's, which has it in its closure."""
    while True:
        if isinstance(given, partial):
            given = given.func
        elif isinstance(given, FunctionType) and given.__module__ == THREADS_OF_SPARK:
            held = (cell.cell_contents for cell in given.__closure__ or ())
            found = next(filter(callable, held), None)
            if found is None:
                return given
            given = found
        else:
            return given


def name_of_any(given: Any) -> str:
    """What can be called, by its name, be it the user's own."""
    given = _unwrapped(given)
    function = getattr(given, "__func__", given)
    if isinstance(function, FunctionType):
        return name_in(function.__module__ or "?", function.__code__)
    if isinstance(given, BuiltinFunctionType):
        return builtin_call_of(given) or given.__qualname__
    return f"{type(given).__module__}.{type(given).__qualname__}"


def _works_for_itself(module: str) -> bool:
    return module != THREADS_OF_SPARK and module.partition(".")[0] in FOR_ITSELF


def _is_on_the_way(module: str) -> bool:
    return module == THREADS_OF_SPARK or module.partition(".")[0] in _ON_THE_WAY


def _has_written(thread: AnyThread) -> bool:
    """Whether it has called the system to write to a file, as the kernel counts; what it does not tell is taken for
    so. What is sent over a connection is no such call, but for that of some libraries in C."""
    try:
        counts = Path(f"/proc/self/task/{thread.native_id}/io").read_text()
        return int(counts.partition("syscw:")[2].split()[0]) > 0
    except (OSError, ValueError, IndexError):
        return True


def tell_of_handing_over() -> None:
    """Python says nothing of what a pool of threads or a loop is given, or is to be called when the process exits, nor,
    before 3.12, of threads that begin."""
    tell_of(threading.Thread, "start", STARTED)
    _tell_of_bare_threads()
    tell_of(ThreadPoolExecutor, "submit", SUBMITTED, once_done=True)
    for name in ("apply_async", "map_async"):
        tell_of(multiprocessing.pool.Pool, name, SUBMITTED, once_done=True)
    tell_of(asyncio, "run_coroutine_threadsafe", SUBMITTED, once_done=True)
    tell_of(atexit, "register", AT_EXIT)
    tell_of(weakref.finalize, "__init__", FINALIZED)


def _tell_of_bare_threads() -> None:
    """Those that `threading` knows nothing of, which it does not have followed either."""
    meant = _thread.start_new_thread
    if hasattr(meant, "__wrapped__"):
        return
    # What stands in for a function of another module has no names of this one.
    audit, get_tracer, trace, event, kind, posing = (
        sys.audit,
        tracer_of_new_threads,
        set_tracer,
        STARTED,
        BareThread,
        posing_as,
    )

    def followed(meant: Any, thread: BareThread) -> Any:
        function = thread.function

        def run(*given: Any, **named: Any) -> None:
            thread.begin()
            trace(get_tracer())
            try:
                function(*given, **named)
            finally:
                thread.end()

        return posing(meant, run)

    def start_new_thread(function: Callable[..., object], given: Any = (), *named: Any) -> int:
        thread = kind(function)
        audit(event, thread, {})
        number = meant(followed(meant, thread), given, *named)
        # As `threading` does: who looks for it afterwards finds it.
        thread.begun.wait()
        return number

    _thread.start_new_thread = _thread.start_new = posing_as(meant, start_new_thread)

    joinable = getattr(_thread, "start_joinable_thread", None)
    if joinable is None:
        # Before 3.13.
        return

    def start_joinable_thread(function: Callable[..., object], *given: Any, **named: Any) -> Any:
        thread = kind(function)
        audit(event, thread, {})
        handle = joinable(followed(joinable, thread), *given, **named)
        thread.begun.wait()
        return handle

    setattr(_thread, "start_joinable_thread", posing_as(joinable, start_joinable_thread))  # noqa: B010
