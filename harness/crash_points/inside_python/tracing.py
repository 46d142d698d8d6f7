"""Follows the user's code line by line, and says where it is before each line, and around each call that leaves it.

Tracing is on in the user's frames alone. Other code costs the event of its call, and what it does within is not
followed; functions in C are seen by the profiler, which is on while one of the user's frames is the innermost.
"""

from __future__ import annotations

import linecache
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType
from typing import Any, Final

from ...core.addresses import Side
from .batches import UNKNOWN, where
from .effects import Effects, Handed
from .handed_over import THREADS_OF_SPARK
from .imports import leave_imports_alone
from .names import CALLS, builtin_call_of, call_of, first_line_of, function_of, is_quick, module_of, place_of
from .pending import pending_coroutines, pending_functions
from .syncing import Syncing
from .trace_functions import follow_new_threads, set_profiler, set_tracer
from .watching import TIMES, Watching
from .whose import OURS

Hold = Callable[[str, Side, str, str], None]
"""Says that the thread has come to a point: the actor, the side, the key, the text of the line."""
GENERATORS: Final = 0x20 | 0x80 | 0x200
"""The flags of code that is left and entered again: generators and coroutines."""

_CALLERS: Final = frozenset({"pyspark", "py4j", OURS})
"""Whose threads call the user's code."""
_REPORT, _STATUS = "report_times", "write_int"
_SAY_THAT_IT_ENDS: Final = frozenset({_REPORT, _STATUS})
"""Functions of pyspark's by which a Python worker tells Spark that a task has come to its end, or a commit."""
_COMMITS: Final = "pyspark.sql.worker.python_streaming_sink_runner"
"""The module of which the other does so."""
SYNC = os.sync
FUNCTIONS: Final = 0x1
"""The flag of the code of functions."""


@dataclass(frozen=True)
class _Function:
    """What is known of a function of the user's."""

    code: CodeType
    """Kept, so that no other code has its identity."""
    name: str
    calls: bool
    """Whether calls out of it are of interest."""


class Tracer:
    """Of one process. What it has counted lasts from one use to the next."""

    def __init__(
        self,
        watching: Watching,
        hold: Hold,
        left: Callable[[], object],
        effects: Effects | None = None,
        ends: Callable[[], object] = lambda: None,
    ) -> None:
        """`left` is called whenever the user's code is left, for good or until it is asked for more, and `ends` when a
        task has come to its end, and is about to say so. `effects` are told what other code is called with."""
        self._watching = watching
        self._whole = watching.whole
        self._hold = hold
        self._left = left
        self._effects = effects
        self._ends = ends
        self._armed = {(side, key) for side, key in watching.armed}
        self._rests = {(side, key.partition("/")[2]) for side, key in watching.armed}
        self._with_calls = {_function_in(key) for _, key in watching.armed if CALLS in key}
        self._functions = self._with_calls | {_function_in(key) for _, key in watching.armed}
        self._places = {key.partition("/")[2].rpartition("#")[0] for _, key in watching.armed}
        self._known: dict[int, _Function | CodeType] = {}
        self._times: Counter[tuple[str, int, str]] = Counter()
        """How often this batch has come to a place: a function, a line, and what is called."""
        self._actor, self._batch = "", UNKNOWN
        self._calling: dict[int, str] = {}
        """By frame, the function in C that it has called and that was announced."""
        self.syncing = Syncing(watching.folders)
        self._on = False
        self._before: Any = None
        """The profiler that somebody else has set."""
        self.unannounced = 0
        """How often lines were passed that had been announced often enough."""

    @contextmanager
    def following(self) -> Iterator[None]:
        """Follow this thread, and those that begin meanwhile. Whoever followed them before does so again afterwards."""
        leave_imports_alone(_is_ours)
        before = sys.gettrace(), threading.gettrace(), sys.getprofile()
        self._before = before[2]
        self._on = True
        follow_new_threads(self._enter)
        set_tracer(self._enter)
        try:
            yield
        finally:
            # Threads that have begun meanwhile are still told of.
            self._on = False
            set_tracer(before[0])
            threading.settrace(before[1])
            set_profiler(before[2])

    def owns(self, frame: FrameType) -> bool:
        return isinstance(self._look(frame), _Function)

    def is_left(self) -> bool:
        """Whether all of the user's code that Spark has called, or the harness, has returned in this thread."""
        # That of the caller: one that held itself would keep all that the user's code has in its variables.
        here = sys._getframe(1)
        return self._begun_with(here) is None and not self._is_within(here)

    def lasting_threads(self) -> list[str]:
        """Threads that are in the user's code though all of it that Spark has called, or the harness, has returned, or
        are still to call it: nobody has to have waited for what they do. The function that each has begun with, or is
        to call, and its line. Asked when the user's code is left."""
        if not self.is_left():
            return []
        mine = threading.get_ident()
        begun = (self._begun_with(frame) for thread, frame in sys._current_frames().items() if thread != mine)
        return sorted({one for one in (*begun, *self._pending()) if one is not None})

    def _pending(self) -> Iterator[str]:
        owns = self._watching.whose.owns
        for function in pending_functions():
            module, code = function.__module__ or "", function.__code__
            if owns(module, code.co_filename):
                yield first_line_of(module, code)
        for coroutine in pending_coroutines():
            frame = coroutine.cr_frame
            if frame is not None and self.owns(frame):
                yield first_line_of(module_of(frame), frame.f_code)

    def _begun_with(self, frame: FrameType) -> str | None:
        """The user's function with which a thread of their own has begun; None of one of Spark's or ours, and where
        it does nothing for the user."""
        outermost = None
        above: FrameType | None = frame
        while above is not None:
            if self.owns(above):
                outermost = above
            elif outermost is not None and _calls_for_itself(module_of(above)):
                return None
            above = above.f_back
        return None if outermost is None else first_line_of(module_of(outermost), outermost.f_code)

    def _is_within(self, frame: FrameType) -> bool:
        """Whether more of the user's code is being executed than the function that is left."""
        theirs = 0
        above: FrameType | None = frame
        while above is not None and theirs < 2:
            theirs += self.owns(above)
            above = above.f_back
        return theirs > 1

    # What Python tells

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not self._on:
            return None
        known = self._known.get(id(frame.f_code)) or self._look(frame)
        back = frame.f_back
        caller = None if back is None else self._known.get(id(back.f_code))
        if not isinstance(known, _Function):
            if known.co_name in _SAY_THAT_IT_ENDS and _says_that_it_ends(frame):
                self._ends()
            return self._call(frame, back, caller) if back is not None and isinstance(caller, _Function) else None
        if not isinstance(caller, _Function):
            self._come(frame)
        if not self._whole and known.name not in self._functions:
            return None
        if known.calls:
            set_profiler(self._profile)
        return partial(self._follow, known)

    def _follow(self, function: _Function, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._arrive(function, frame)
        elif event == "return":
            self._leave(frame)
        return frame.f_trace

    def _call(self, frame: FrameType, caller: FrameType, function: _Function) -> Any:
        """A function of Python's that is not the user's is called."""
        called = call_of(frame) if function.calls else None
        if called is None:
            return None
        said = self._arrive(function, caller, called)
        set_profiler(self._before)
        frame.f_trace_lines = False
        handed = self._effects.handed(frame) if said and self._effects is not None else ()
        return partial(self._return, said, handed)

    def _returned(self, function: Any) -> None:
        """From C."""
        if function is SYNC:
            self.syncing.sync_all()
        self.syncing.returned()

    def _return(self, said: str, handed: Handed, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return":
            self.syncing.returned()
            if handed and self._effects is not None and frame.f_back is not None:
                self._effects.given_back(handed, place_of(frame.f_back))
            if said and frame.f_back is not None:
                self._say(Side.AFTER, said, frame.f_back)
            set_profiler(self._profile)
        return frame.f_trace

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            if is_quick(argument):
                return
            function = self._known.get(id(frame.f_code))
            if not isinstance(function, _Function) or not function.calls:
                return
            called = builtin_call_of(argument)
            if called is not None:
                said = self._arrive(function, frame, called)
                if said:
                    self._calling[id(frame)] = said
            return
        if self._whole and event == "c_return":
            self._returned(argument)
        if event in ("c_return", "c_exception") and self._calling and not is_quick(argument):
            said = self._calling.pop(id(frame), "")
            if said:
                self._say(Side.AFTER, said, frame)

    # What is made of it

    def _look(self, frame: FrameType) -> _Function | CodeType:
        """Whose code it is."""
        code = frame.f_code
        found = self._known.get(id(code))
        if found is None:
            # Bodies of modules and of classes are none; and one that is imported is no part of any batch.
            theirs = bool(code.co_flags & FUNCTIONS) and self._watching.whose.owns(module_of(frame), code.co_filename)
            if theirs and _imports(frame):
                return code
            name = function_of(frame) if theirs else ""
            found = _Function(code, name, self._whole or name in self._with_calls) if theirs else code
            self._known[id(code)] = found
        return found

    def _come(self, frame: FrameType) -> None:
        """The user's code is called by somebody else's."""
        actor, batch = where(frame)
        if batch == UNKNOWN and self._actor:
            # A thread of the user's own, which works for the batch that is on.
            batch = self._batch
        if (actor, batch) != (self._actor, self._batch):
            self._actor, self._batch = actor, batch
            self._times.clear()

    def _leave(self, frame: FrameType) -> None:
        back = frame.f_back
        if back is not None and isinstance(self._known.get(id(back.f_code)), _Function):
            return
        set_profiler(self._before)
        if self._effects is not None:
            self._effects.leave()
        if not frame.f_code.co_flags & GENERATORS:
            self._left()

    def _arrive(self, function: _Function, frame: FrameType, called: str = "") -> str:
        """Before a line, or a call that it makes. Returns what there is to say of it; empty for nothing."""
        key = function.name, frame.f_lineno, called
        times = self._times[key] + 1
        self._times[key] = times
        if self._whole and times > TIMES:
            self.unannounced += 1
            return ""
        place = f"{function.name}:{frame.f_lineno}" + (f"{CALLS}{called}" if called else "")
        if not self._whole and place not in self._places:
            return ""
        said = f"{place}#{times}"
        self._say(Side.BEFORE, said, frame)
        return said

    def _say(self, side: Side, said: str, frame: FrameType) -> None:
        key = f"{self._batch}/{said}"
        wanted = self._whole or (side, key) in self._armed or (self._batch == UNKNOWN and (side, said) in self._rests)
        if wanted:
            text = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
            self._hold(self._actor, side, key, text)


def _is_ours(function: object) -> bool:
    return isinstance(getattr(function, "__self__", None), Tracer)


def _calls_for_itself(module: str) -> bool:
    return module != THREADS_OF_SPARK and module.partition(".")[0] in _CALLERS


def _says_that_it_ends(frame: FrameType) -> bool:
    if frame.f_code.co_name == _REPORT:
        return module_of(frame).startswith("pyspark.")
    return frame.f_back is not None and module_of(frame.f_back) == _COMMITS


def _imports(frame: FrameType | None) -> bool:
    """Whether a frame is executed because a module is imported."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap":
            return True
        frame = frame.f_back
    return False


def _function_in(key: str) -> str:
    """`sinks.write` of `3/sinks.write:17 calls os.rename#1`."""
    return key.partition("/")[2].partition(CALLS)[0].rpartition(":")[0]
