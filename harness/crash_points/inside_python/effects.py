"""What the user's code does outside of what a run can hold or copy: files, connections, processes.

Python tells of them (`sys.addaudithook`). Of what a library does in C without Python, four things are seen: a file or
a connection that is open when the user's next line is reached; a file whose path was handed to a function of somebody
else's, and that is another one when it returns; or to Spark's JVM, and that is another one when the user's code is
left; and that a line has written to some file on a disk, and to none of those that are known. Only what happens while
code of the user's is being executed counts, and nothing that Spark, the import of others' modules or a log in a file
does for it, unless the user's code reads that again.
"""

from __future__ import annotations

import importlib
import multiprocessing.util
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary, WeakSet, finalize

import msgspec

from ...core.wire import Endpoint
from .attached import ATTACHED, COMPUTED, CONNECTED, tell_of_attached
from .children import adopt_orphans, children, program_of
from .disk_writes import DiskWrites, has_changed_since, waited_for_children
from .greenlets import in_a_greenlet
from .handed_over import (
    AT_EXIT,
    FINALIZED,
    FOR_ITSELF,
    IMPORTS,
    LOGS,
    STARTED,
    SUBMITTED,
    AnyThread,
    HandedOver,
    name_of_any,
    tell_of_handing_over,
)
from .imports import leave_imports_alone
from .jvm_calls import ASKED, done_in_the_jvm, tell_of_asking_the_jvm
from .maps import MAPPED, written_map
from .names import first_line_of, function_of, is_drawn, module_of, module_of_code, place_of, shortened
from .open_things import OPEN, OpenThings, Positions
from .outliving import outliving
from .standing_in import tell_of
from .watching import Watching, outside
from .whose import OURS

_OTHERS: Final = FOR_ITSELF | {LOGS}
"""What code of these does, it does not do for the user's; but for the library's own subjects, which are the user's."""
_PANDAS_ON_SPARK: Final = "pyspark.pandas."
"""But these write files by Python, where the user's code says: `to_html`, `to_excel`."""
_JVM: Final = "py4j"
"""By which the user's code calls Spark's JVM itself."""
_SYSTEM: Final = ("/dev/", "/proc/", "/sys/")
_MEMORY: Final = ("/dev/shm/", "/dev/mqueue/")
"""But what lies here outlives who has written it."""
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_COMPILED: Final = re.compile(r"/__pycache__(/[^/]+\.pyc(\.\d+)?)?$")
"""What Python leaves of a module that it has imported, and its draft."""
_MOST: Final = 20
"""Arguments without a name that are looked at."""
_LONGEST_PATH: Final = 1_000
NOT_WAITED_FOR: Final = " (not waited for)"
"""Ends the name of a process that is there, or was not waited for, when the user's code has returned."""
_TIMERS: Final = {
    signal.ITIMER_REAL: signal.SIGALRM,
    signal.ITIMER_VIRTUAL: signal.SIGVTALRM,
    signal.ITIMER_PROF: signal.SIGPROF,
}
_LISTENERS: Final = "pyspark.sql.streaming.listener"
"""The module by which Spark tells the user's code of batches."""
_TOLD_LATER: Final = frozenset({"onQueryProgress", "onQueryIdle", "onQueryTerminated"})
"""When it does not wait for what that does."""
PIPED: Final = "RDD.pipe"
"""A place that is no line of the user's: it is called in tasks, where nothing of theirs has to be."""
LONGEST: Final = 500
"""Characters of a target."""


Handed = tuple[tuple[str, object], ...]
"""Paths, and what tells whether there is another file there by now."""


class OutsideEffect(msgspec.Struct, frozen=True, order=True):
    """What was done, as often as it was done in the same place."""

    kind: str
    """`file`, `connection`, `process`, `thread`, `exit`, `tracing` or `message`."""
    target: str
    """A path, `host:port`, a program, or the function that a thread has begun with, or was given, or that is to be
    called when the process exits, or once nobody refers to an object that lives on."""
    place: str
    """The line of the user's code: `sinks.write:17`."""
    times: int = 1
    passing: bool = False
    """Of a file that was made, and was gone again when this was told: a crash in between leaves it."""


class _Before(NamedTuple):
    """What was counted when a thread came by, in this order: what another thread writes meanwhile is known."""

    moment: int
    """In nanoseconds since 1970."""
    opened: int
    written: int
    children: int
    positions: Positions


class Effects:
    """Notes them, from `install` on, while it is `active`. A hook of Python's cannot be taken away again."""

    def __init__(self, watching: Watching, harness: Endpoint) -> None:
        self._folders = tuple({name for one in watching.folders for name in (one, os.path.realpath(one))})
        self._whose = watching.whose
        self._known: dict[CodeType, bool] = {}
        """Whether code is the user's."""
        self._open = OpenThings()
        self._harness = harness
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self._imported: list[tuple[str, str, str]] = []
        """What the import of somebody else's module has opened for the user's code, and the place: it counts where it
        stays open, since that code may write to it."""
        self._removed: set[str] = set()
        """Files that were there before."""
        self._written_by_others: set[str] = set()
        """Files that were opened for no code of the user's: by a log, say."""
        self._in_the_jvm: dict[str, tuple[object, str]] = {}
        """Paths that the user's code has handed to Spark's JVM since it was last left: what was there just before, and
        the place."""
        self._unplaced: list[tuple[Sequence[str], str]] = []
        """Of each file that was opened by a name in some folder, where it may be, and the place in the user's code."""
        self._started: tuple[frozenset[int], str] | None = None
        """Where the user's code has started a process since it was last left, this process's children just before, and
        the place."""
        self._forgotten: dict[int, str] = {}
        """Of them, those that it has forgotten before it was left: Python itself waits for what has ended by then."""
        self._begun: WeakKeyDictionary[AnyThread, str] = WeakKeyDictionary()
        """Threads that began for the user's code, and its place: what a library does there, it does for that."""
        self._acted: WeakSet[AnyThread] = WeakSet()
        """Of them, those that have changed files, in the run's folders or elsewhere."""
        self._handed_over = HandedOver(watching.whose.owns, self._acted.__contains__)
        self._finalizers: list[tuple[finalize[..., Any], str, str]] = []
        """Those that the user's code has made, what they call, and the place."""
        self._places_passed = 0
        self._last_place = ""
        """Where the user's code was when it last came by, in whichever thread."""
        self._connected = threading.local()
        """Of each thread: databases that it has connected to since it last came by."""
        self._within = threading.local()
        """Of each thread: whether it is busy here, where in the user's code it was when it last came by, and what was
        counted then."""
        self._disks = DiskWrites(self._folders)
        self._opened = 0
        """How many files Python was heard to open to be written, outside of the run's folders."""
        self._starts = False
        """Whether Python was heard to start a process, whoever has."""
        self._lock = threading.Lock()
        self._due = False
        """Whether a place was come to since it was last looked around."""
        self.asks_the_jvm = False
        """Whether the user's code has called something of Spark's JVM itself."""
        self.active = False

    def install(self) -> None:
        sys.addaudithook(self._hear)
        # Processes that `multiprocessing` starts afresh, without a fork.
        tell_of(multiprocessing.util, "spawnv_passfds", _SPAWNED)
        _tell_of_forgetting()
        tell_of_handing_over()
        tell_of_asking_the_jvm()
        for name in _INTERPRETERS:
            with suppress(ImportError):
                tell_of(importlib.import_module(name), "create", _INTERPRETER)
        for name in ("mkfifo", "mknod"):
            tell_of(os, name, _MADE)
        tell_of(signal, "pidfd_send_signal", _SIGNALLED)

    def begin(self, place: str = "") -> None:
        """From now on, at a place that is no line. What is open already was opened by somebody else."""
        self._open.begin()
        self._within.place = place
        self._due = bool(place)
        self.active = True

    def come_by(self, place: str) -> None:
        """The user's code has come to another place: note what libraries have opened since the one before."""
        before = getattr(self._within, "place", "")
        self._within.place = self._last_place = place
        self._due = True
        self._places_passed += 1
        for database in self._connected.__dict__.pop("databases", ()):
            tell_of_attached(database, lambda: self._places_passed)
        self._find_unplaced()
        self._look_around(before or place)
        self._find_unknown(before)
        self._within.before = _Before(
            time.time_ns(),
            self._opened,
            self._disks.elsewhere(),
            waited_for_children(),
            self._positions(),
        )

    def leave(self) -> None:
        """The user's code is left: what is written until it is entered again, somebody else writes."""
        self._find_unknown(getattr(self._within, "place", ""))
        self._within.before = None

    def handed(self, callee: FrameType) -> Handed:
        """The files and folders whose paths a function of somebody else's is called with, and what they are."""
        owner = module_of(callee).partition(".")[0]
        if owner in _OTHERS and owner != _JVM:
            return ()
        given = [callee.f_locals.get(name) for name in callee.f_code.co_varnames]
        more = [one for packed in given if issubclass(type(packed), tuple | dict) for one in _few(packed)]
        found = {_written_path(one) for one in (*given, *more)} - {""}
        told = tuple((path, _signs_of(path)) for path in sorted(found) if self._counts("file", path))
        if owner != _JVM:
            return told
        self.asks_the_jvm = True
        place = "" if callee.f_back is None else place_of(callee.f_back)
        # It may be no more than the name of a thing that is asked to write later.
        for path, signs in told:
            self._in_the_jvm.setdefault(path, (signs, place))
        return ()

    def given_back(self, handed: Handed, place: str) -> None:
        """It has returned: what is not as it was, it has written."""
        for path, signs in handed:
            if path not in self._open.heard_files and _signs_of(path) != signs:
                with self._lock:
                    self._seen["file", path, place] += 1

    def _look_around(self, place: str) -> None:
        if not self.active or not place:
            return
        self._within.busy = True
        try:
            with self._lock:
                for kind, target in self._open.new():
                    if self._counts(kind, target):
                        self._seen[kind, target, place] += 1
        finally:
            self._within.busy = False

    def _find_unknown(self, place: str) -> None:
        """What was done since this thread came by here, and nobody knows more of: a file on some disk was written, and
        none of those that are known has changed, or a process has ended, and Python was never heard to start one."""
        before: _Before | None = getattr(self._within, "before", None)
        if not self.active or before is None or not place:
            return
        if waited_for_children() > before.children:
            if not self._starts:
                with self._lock:
                    self._seen["process", COMPUTED, place] += 1
            return
        if self._opened == before.opened and self._disks.has_written(before.written):
            # It may be one that is open by now.
            self._look_around(place)
            if self._positions() != before.positions:
                return
            with self._lock:
                known = self._open.files(self._is_elsewhere, self._written_by_others)
                known += [target for kind, target, _ in self._seen if kind == "file"]
                if not has_changed_since(before.moment, known):
                    self._seen["file", COMPUTED, place] += 1

    def _positions(self) -> Positions:
        return self._open.positions(self._is_elsewhere, self._written_by_others)

    def _is_elsewhere(self, path: str) -> bool:
        return self._counts("file", path)

    def taken(self) -> list[OutsideEffect]:
        """Those since it was last asked. Files that were made since, and are gone again, are passing ones, but for
        those whose names were drawn: nobody finds what a crash has left of them."""
        if self._due:
            # A function that is called for each row is left thousands of times.
            self._due = False
            self._look_around(getattr(self._within, "place", ""))
        self._find_unplaced()
        self._find_imported()
        in_the_jvm, self._in_the_jvm = self._in_the_jvm, {}
        for path, (signs, place) in in_the_jvm.items():
            self.given_back(((path, signs),), place)
        with self._lock:
            seen, self._seen = self._seen, Counter()
            removed, self._removed = self._removed, set()
        merged: Counter[tuple[str, str, str, bool]] = Counter()
        for (kind, target, place), times in seen.items():
            known = kind == "file" and target != COMPUTED
            passing = known and target not in removed and not os.path.lexists(target)
            if not (passing and is_drawn(target)):
                merged[kind, shortened(target)[:LONGEST], place, passing] += times
        return [
            OutsideEffect(kind, target, place, times, passing)
            for (kind, target, place, passing), times in sorted(merged.items())
        ]

    def left_behind(self) -> list[OutsideEffect]:
        """The processes that the user's code has started since it was last left, and has not waited for: what they do
        later, and in which order with what is done here, no run can try. Asked when that code is left."""
        started, self._started = self._started, None
        forgotten, self._forgotten = self._forgotten, {}
        if started is None:
            return []
        before, place = started
        adopt_orphans(False)
        there = {number: name for number, name in children().items() if number not in before}
        names = Counter((forgotten | there).values())
        return [OutsideEffect("process", name + NOT_WAITED_FOR, place, times) for name, times in sorted(names.items())]

    def left_to_the_end(self) -> list[OutsideEffect]:
        """What of the user's is called when its process ends, or once nobody refers to what it is for. Asked when all
        that Spark wants of that code in a task, or the harness of it in a run, is done: what it does then, a death
        takes away, and no run has waited for it."""
        with self._lock:
            alive = [(name, place) for one, name, place in self._finalizers if one.alive]
            self._finalizers.clear()
        times = Counter([*alive, *outliving(self._whose.owns)])
        return [OutsideEffect("exit", name, place, times[name, place]) for name, place in sorted(times)]

    def left_to_threads(self) -> list[OutsideEffect]:
        """What the user's code has handed over to threads, and has not waited for, where it is a library's; and what a
        timer of the process is to interrupt it by. Asked when that code is left."""
        times = Counter((work.name, work.place) for work in self._handed_over.remaining())
        times.update(_timed())
        return [OutsideEffect("thread", name, place, times[name, place]) for name, place in sorted(times)]

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in (STARTED, SUBMITTED):
            caller = sys._getframe(1).f_back
            if event == STARTED and (begun := self._user_place(caller, by_a_log=True)) is not None:
                self._begun[arguments[0]] = begun
            if self.active:
                self._handed_over.hear(event, arguments, caller)
            return
        if event == ASKED:
            self._note_asked(*arguments, sys._getframe(1))
            return
        if event == CONNECTED:
            if self.active and self._user_place(sys._getframe(1)) is not None:
                # It is none yet that could be told anything.
                self._connected.__dict__.setdefault("databases", []).append(arguments[0])
            return
        if event == AT_EXIT:
            caller = sys._getframe(1).f_back
            # What a library does there is part of what it does otherwise.
            if self.active and caller is not None and self._is_theirs(caller):
                with self._lock:
                    self._seen["exit", name_of_any(arguments[0]), place_of(caller)] += 1
            return
        if event == FINALIZED:
            caller = sys._getframe(1).f_back
            if self.active and caller is not None and self._is_theirs(caller):
                with self._lock:
                    self._finalizers.append((arguments[0], name_of_any(arguments[2]), place_of(caller)))
            return
        if event == _FORGOTTEN and self._started is not None:
            (number,) = arguments
            if number not in self._started[0]:
                self._forgotten[number] = children().get(number, "?")
            return
        if event == _CONNECTS:
            # Whether it counts or not: what is connected is looked at later, and would seem to be nobody's.
            self._open.heard_peers.update(_port_of(target) for target in _connected(arguments))
        found = _EFFECTS.get(event)
        self._starts |= found is not None and found[0] == "process" and event not in _NO_CHILD
        if found is None or not self.active or getattr(self._within, "busy", False):
            return
        if event == _TRACED and not self._is_set_by_theirs(sys._getframe(1)):
            return
        self._within.busy = True
        try:
            kind, targets = found
            frame: FrameType | None = sys._getframe(1)
            if event in (_SPAWNED, ATTACHED) and frame is not None:
                frame = frame.f_back
            self._find_unplaced()
            named = [target for target in targets(arguments) if target]
            if named and self._user_place(frame) is not None:
                self._note_later(kind, frame)
            if event == "open" and not named:
                self._note_read(arguments[0], frame)
            if event == "open" and len(named) > 1:
                self._note_one_of(named, frame)
                return
            for target in named:
                self._note(event, kind, target, frame)
            if event == "os.rename" and (old := _path(arguments[0], arguments[2])):
                # The old name goes.
                self._note("os.remove", kind, old, frame)
        finally:
            self._within.busy = False

    def _note_asked(self, asked: object, *given: Any) -> None:
        """What Spark's JVM is asked for, be it through a class of pyspark's: Spark itself asks for none of these."""
        *arguments, _, frame = given
        if self.active and (done := done_in_the_jvm(asked, tuple(arguments))) is not None:
            while frame is not None and not self._is_theirs(frame):
                frame = frame.f_back
            if frame is not None:
                with self._lock:
                    self._seen[*done, place_of(frame)] += 1

    def _note(self, event: str, kind: str, target: str, frame: FrameType | None) -> None:
        if kind == "file":
            target = _real(target, followed=event not in _OF_NAMES)
            self._open.heard_files.add(target)
            self._opened += event in _OPENS and outside(self._folders, target)
            if event == "open" and os.path.isdir(target):
                # For a file in it that has no name, and goes when it is closed.
                return
            if event in _REMOVE and (not os.path.lexists(target) or self._has_made(target)):
                return
            if event == _MKDIR and os.path.lexists(target):
                # It fails, or nobody minds.
                return
        elif kind == "connection":
            self._open.heard_peers.add(_port_of(target))
        if not self._counts(kind, target):
            return
        place = self._user_place(frame, by_a_log=kind == "connection")
        if place is None and event in _OPENS and (by_import := self._user_place(frame, by_import=True)) is not None:
            with self._lock:
                self._imported.append((kind, target, by_import))
        if place is None and event == "open":
            self._written_by_others.add(target)
        if kind == "process" and place is None and _is_piped(frame):
            with self._lock:
                self._seen[kind, target, PIPED] += 1
            return
        if place is not None:
            with self._lock:
                self._seen[kind, target, place] += 1
                if event in _REMOVE:
                    self._removed.add(target)
                if kind == "process" and event not in _NO_CHILD and self._started is None:
                    # Python tells of it just before.
                    adopt_orphans(True)
                    self._started = frozenset(children()), place

    def _note_read(self, path: Any, frame: FrameType | None) -> None:
        """What others have written for the user's code, and that goes by it: a log that says what is done."""
        if not self._written_by_others or not (given := _path(path)):
            return
        target = _real(given, followed=True)
        if target in self._written_by_others and (place := self._user_place(frame)) is not None:
            with self._lock:
                self._seen["file", target, place] += 1

    def _note_one_of(self, targets: Sequence[str], frame: FrameType | None) -> None:
        real = [_real(target, followed=True) for target in targets]
        self._open.heard_files.update(real)
        self._opened += any(outside(self._folders, one) for one in real)
        place = self._user_place(frame)
        if place is not None:
            with self._lock:
                self._unplaced.append((real, place))

    def _find_unplaced(self) -> None:
        """Once they are there. Of one that is nowhere any more, each place counts."""
        if not self._unplaced:
            return
        with self._lock:
            unplaced, self._unplaced = self._unplaced, []
            for targets, place in unplaced:
                for target in [one for one in targets if os.path.lexists(one)] or targets:
                    if self._counts("file", target) and not os.path.isdir(target):
                        self._seen["file", target, place] += 1

    def _find_imported(self) -> None:
        with self._lock:
            imported, self._imported = self._imported, []
            for kind, target, place in imported:
                if self._open.has(kind, target):
                    self._seen[kind, target, place] += 1

    def _counts(self, kind: str, target: str) -> bool:
        if kind == "connection":
            return target != f"{self._harness[0]}:{self._harness[1]}"
        if kind != "file":
            return True
        return outside(self._folders, target) and not is_the_systems(target) and not _COMPILED.search(target)

    def _has_made(self, target: str) -> bool:
        """Whether a path has come about since it was last asked, or a folder above it has."""
        with self._lock:
            made = [path for kind, path, _ in self._seen if kind == "file" and path not in self._removed]
        return not outside(made, target)

    def _user_place(self, frame: FrameType | None, *, by_a_log: bool = False, by_import: bool = False) -> str | None:
        """Of the innermost frame of the user's, where nobody else stands between it and the effect; in a thread that
        has none, of that by which it began. A log may stand there `by_a_log` alone: what it sends is a message; and
        Python's import `by_import` alone."""
        while frame is not None:
            if self._is_theirs(frame):
                return place_of(frame)
            module = module_of(frame)
            top = module.partition(".")[0]
            stands = (by_a_log and top == LOGS) or module.startswith(_PANDAS_ON_SPARK)
            stands |= by_import and (top in IMPORTS or module == leave_imports_alone.__module__)
            if top in _OTHERS and not stands:
                return None
            frame = frame.f_back
        here = self._begun_here()
        if here is not None:
            return self._begun.get(here)
        # No frame says who has begun a greenlet, which takes turns with those of its thread.
        return self._last_place or None if in_a_greenlet() else None

    def _note_later(self, kind: str, frame: FrameType | None) -> None:
        """That something is done for the user's code where nobody may wait for it, be it in the run's folders."""
        if kind == "file" and (thread := self._begun_here()) is not None:
            self._acted.add(thread)
        if (called := self._called_by_a_listener(frame)) is not None:
            with self._lock:
                self._seen["thread", *called] += 1

    def _called_by_a_listener(self, frame: FrameType | None) -> tuple[str, str] | None:
        """What of the user's Spark has called to tell of a batch, for which no batch waits: its name, and where it is.
        Be it by pyspark, or by a listener of the JVM's that they have made of an object of theirs. One that does
        nothing but count has no effect."""
        outermost = called = None
        while frame is not None:
            if self._is_theirs(frame):
                outermost = called = frame
            elif outermost is not None:
                told = frame.f_code.co_name in _TOLD_LATER and module_of(frame) == _LISTENERS
                if told or (called is outermost and module_of(frame).partition(".")[0] == _JVM):
                    return function_of(outermost), first_line_of(module_of(outermost), outermost.f_code)
                called = frame
            frame = frame.f_back
        return None

    def _begun_here(self) -> AnyThread | None:
        """This thread, where it began for the user's code."""
        here = threading.get_ident()
        # The number of one that is over is given again.
        return next((one for one in list(self._begun) if one.ident == here and one.is_alive()), None)

    def _is_set_by_theirs(self, frame: FrameType) -> bool:
        """Whether what follows this thread's lines is set for code of the user's that it is in. A thread that begins
        comes to be followed so, and a pool has its own followed while they work."""
        if module_of(frame) in _THREADS:
            return False
        within: FrameType | None = frame
        while within is not None and not self._is_theirs(within):
            within = within.f_back
        return within is not None

    def _is_theirs(self, frame: FrameType) -> bool:
        """The bodies of their modules are theirs, too: what these open, all that comes after writes to."""
        code = frame.f_code
        if code not in self._known:
            self._known[code] = self._whose.owns(module_of(frame), code.co_filename)
        return self._known[code]


def _timed() -> Iterator[tuple[str, str]]:
    """The handlers of signals for which a timer of this process goes: their names, and where they are."""
    for timer, number in _TIMERS.items():
        called = signal.getsignal(number)
        function = getattr(called, "__func__", called)
        if isinstance(function, FunctionType) and signal.getitimer(timer)[0] > 0:
            yield name_of_any(called), first_line_of(module_of_code(function), function.__code__)


def _is_piped(frame: FrameType | None) -> bool:
    """Whether it is Spark that starts a program in a task, as it was asked to."""
    while frame is not None:
        if frame.f_code.co_qualname == f"{PIPED}.<locals>.func" and module_of(frame).startswith("pyspark."):
            return True
        frame = frame.f_back
    return False


def _few(packed: Any) -> list[Any]:
    return list(dict.values(packed) if issubclass(type(packed), dict) else tuple.__iter__(packed))[:_MOST]


def _written_path(given: Any) -> str:
    """Where a text or a path leads that somebody is told; empty where it can be none. Nothing else is asked what it is:
    what stands for another object would ask that, which may be gone."""
    if issubclass(type(given), os.PathLike):
        try:
            given = os.fspath(given)
        except Exception:  # Whatever somebody else's code raises: of a path that is just being made, say.
            return ""
    elif not issubclass(type(given), str):
        return ""
    path = _path(given).removeprefix("file://").removeprefix("file:")
    if not path or len(path) > _LONGEST_PATH or "\0" in path or "\n" in path:
        return ""
    return os.path.realpath(path)


def _signs_of(path: str) -> object:
    """Of a file, or of a folder that is no place for everybody's."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    if stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_ISVTX:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


def _tell_of_forgetting() -> None:
    """Python says nothing of the processes whose object goes before anybody has waited for them, but by a warning."""
    forget = subprocess.Popen.__del__
    if hasattr(forget, "__wrapped__"):
        return

    @wraps(forget)
    def told(popen: subprocess.Popen[Any], audit: Callable[..., None] = sys.audit) -> None:
        if getattr(popen, "_child_created", False) and popen.returncode is None:
            audit(_FORGOTTEN, popen.pid)
        forget(popen)

    subprocess.Popen.__del__ = told  # type: ignore[method-assign]


def is_the_systems(path: str) -> bool:
    """Whether nothing of it outlives who has written it."""
    return path.startswith(_SYSTEM) and not path.startswith(_MEMORY)


def _real(path: str, followed: bool) -> str:
    """Where a path leads; of one that is about a name alone, that name, wherever it leads itself."""
    if followed:
        return os.path.realpath(path)
    folder, _, name = path.rstrip("/").rpartition("/")
    return os.path.join(os.path.realpath(folder or ("/" if path.startswith("/") else ".")), name)


def _path(given: Any, folder: Any = -1) -> str:
    """As it was given, in a folder that is open, where it was given one; that of a number, which is a file that is open
    already, is what that was opened by. Empty: nobody knows."""
    if isinstance(given, bool):
        return ""
    if isinstance(given, int):
        try:
            found = os.readlink(f"{OPEN}/{given}")
        except OSError:
            return ""
        # A pipe, a socket, or memory that has no name.
        return found if found.startswith("/") and not found.startswith("/memfd:") else ""
    if isinstance(given, bytes):
        return _path(os.fsdecode(given), folder)
    if isinstance(given, os.PathLike):
        return _path(os.fspath(given), folder)
    if not isinstance(given, str):
        return ""
    inside = isinstance(folder, int) and folder >= 0 and not given.startswith("/")
    return f"{OPEN}/{folder}/{given}" if inside and given else given


def _opened(arguments: tuple[Any, ...]) -> Sequence[str]:
    path, mode, flags = arguments
    if isinstance(path, int):
        # Opened before, and noted then.
        return ()
    writes = any(sign in mode for sign in "wax+") if isinstance(mode, str) else bool((flags or 0) & _WRITES)
    if not writes:
        return ()
    given = _path(path)
    if mode is not None or not given or given.startswith("/"):
        return (given,)
    # It may be meant in any folder that is open: Python does not say in which. Where it is, is seen afterwards.
    return (given, *(f"{folder}/{given}" for folder in _open_folders()))


def opened_for_writing(arguments: tuple[Any, ...]) -> bool:
    """Whether a file is, by what Python tells of its opening."""
    return bool(_opened(arguments))


def _open_folders() -> list[str]:
    found = {_path(int(number)) for number in os.listdir(OPEN)}
    return sorted(folder for folder in found if folder and os.path.isdir(folder) and folder != os.getcwd())


def _at(which: int, folder: int | None = None) -> Callable[[tuple[Any, ...]], Sequence[str]]:
    """The path among the arguments, and the open folder that it is meant in, where one can be given."""

    def of(arguments: tuple[Any, ...]) -> Sequence[str]:
        return (_path(arguments[which], -1 if folder is None else arguments[folder]),)

    return of


def _database(arguments: tuple[Any, ...]) -> Sequence[str]:
    path = _path(arguments[0])
    if path.startswith("file:"):
        path, _, how = path.removeprefix("file:").partition("?")
        path = "" if {"mode=ro", "mode=memory", "immutable=1"} & set(how.split("&")) else path
    return ("" if path == ":memory:" else path,)


def _mapped(arguments: tuple[Any, ...]) -> Sequence[str]:
    """A file that is written to through a shared map of memory, whoever has opened it: a segment of shared memory."""
    file = written_map(arguments)
    return () if file is None else (_path(file),)


def _connected(arguments: tuple[Any, ...]) -> Sequence[str]:
    peer = arguments[1]
    if isinstance(peer, tuple) and len(peer) >= 2:
        return (f"{peer[0]}:{peer[1]}",)
    return (_path(peer),)


def _port_of(peer: str) -> str:
    """Or the path, where it is none."""
    return peer.rpartition(":")[2]


def _bound(arguments: tuple[Any, ...]) -> Sequence[str]:
    """Of a socket that has a name among files, which stays when its process is gone."""
    address = arguments[1]
    named = isinstance(address, str | bytes) and len(address) > 0 and address[0] not in ("\0", 0)
    return (_path(address) if named else "",)


def _made(arguments: tuple[Any, ...]) -> Sequence[str]:
    """A named pipe, or a file that is made without being opened."""
    *given, named = arguments
    folder = named.get("dir_fd")
    return (_path(given[0] if given else named.get("path"), -1 if folder is None else folder),)


def _started(arguments: tuple[Any, ...]) -> Sequence[str]:
    return (_path(arguments[0]) or "?",)


def _forked(arguments: tuple[Any, ...]) -> Sequence[str]:
    return ("fork",)


def _signalled(arguments: tuple[Any, ...]) -> Sequence[str]:
    """A signal to a process, but for this one and those that it has started, which are named by themselves. Signal 0
    only asks whether it is there."""
    process, number, *_ = arguments
    if number == 0 or process == os.getpid() or process in children():
        return ()
    return (f"signal {int(number)} to {program_of(abs(process)) or '?'}",)


def _signalled_by_file(arguments: tuple[Any, ...]) -> Sequence[str]:
    file, *rest = arguments
    try:
        with open(f"/proc/self/fdinfo/{file}") as about:
            process = next((int(line.split()[1]) for line in about if line.startswith("Pid:")), 0)
    except OSError:
        return ()
    return _signalled((process, *rest))


def _logged(arguments: tuple[Any, ...]) -> Sequence[str]:
    return ("/dev/log",)


_SPAWNED: Final = f"{OURS}.spawned"
_SIGNALLED: Final = f"{OURS}.signalled"
_SIGNALS: Final = frozenset({"os.kill", "os.killpg", _SIGNALLED})
_INTERPRETER: Final = f"{OURS}.interpreter"
"""Another one in this process: of what is done there Python tells nobody here."""
_INTERPRETERS: Final = ("_interpreters", "_xxsubinterpreters")
"""Modules that make one, of Python 3.13 and newer, and of older ones."""
_NO_CHILD: Final = _SIGNALS | {_INTERPRETER}
"""Of what counts as a process, what starts none."""
_FORGOTTEN: Final = f"{OURS}.forgotten"
_MADE: Final = f"{OURS}.made"
_MKDIR: Final = "os.mkdir"
_TRACED: Final = "sys.settrace"
_THREADS: Final = frozenset({"threading", "_thread"})
"""Modules by which a thread begins."""
_CONNECTS: Final = "socket.connect"
_OPENS: Final = frozenset({"open", "sqlite3.connect", _CONNECTS})
_REMOVE: Final = frozenset({"os.remove", "os.rmdir"})
_OF_NAMES: Final = _REMOVE | {"os.rename", "os.link", "os.symlink"}
"""What is done to a name, and not to what it leads to."""
_EFFECTS: Final[Mapping[str, tuple[str, Callable[[tuple[Any, ...]], Sequence[str]]]]] = {
    "open": ("file", _opened),
    "sqlite3.connect": ("file", _database),
    ATTACHED: ("file", _database),
    MAPPED: ("file", _mapped),
    "os.rename": ("file", _at(1, 3)),
    "os.link": ("file", _at(1, 3)),
    "os.symlink": ("file", _at(1, 2)),
    "os.truncate": ("file", _at(0)),
    _MKDIR: ("file", _at(0, 2)),
    _MADE: ("file", _made),
    "socket.bind": ("file", _bound),
    "os.remove": ("file", _at(0, 1)),
    "os.rmdir": ("file", _at(0, 1)),
    "os.utime": ("file", _at(0, 3)),
    "os.chmod": ("file", _at(0, 2)),
    "os.chown": ("file", _at(0, 3)),
    "os.setxattr": ("file", _at(0)),
    "os.removexattr": ("file", _at(0)),
    _CONNECTS: ("connection", _connected),
    "socket.sendto": ("connection", _connected),
    "socket.sendmsg": ("connection", _connected),
    "subprocess.Popen": ("process", _started),
    "os.system": ("process", _started),
    "os.exec": ("process", _started),
    "os.posix_spawn": ("process", _started),
    _SPAWNED: ("process", _started),
    "os.fork": ("process", _forked),
    "os.forkpty": ("process", _forked),
    "os.kill": ("process", _signalled),
    "os.killpg": ("process", _signalled),
    _SIGNALLED: ("process", _signalled_by_file),
    _INTERPRETER: ("process", lambda _: ("another interpreter",)),
    "syslog.syslog": ("connection", _logged),
    _TRACED: ("tracing", lambda _: (_TRACED,)),
}
"""What Python calls them. One that starts a process by other means is found by those."""
