"""What the user's code does outside of what a run can hold or copy: files, connections, processes.

Python tells of them (`sys.addaudithook`); what a library does in C without Python it does not. Only what happens while
code of the user's is being executed counts, and nothing that Spark, the import of a module or a log does for it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, Final

import msgspec

from ...core.wire import Endpoint
from .names import module_of, place_of, shortened
from .watching import Watching, outside
from .whose import OURS

_OTHERS: Final = frozenset({"pyspark", "py4j", "logging", "importlib", "_frozen_importlib", OURS})
"""What code of these does, it does not do for the user's; but for the library's own subjects, which are the user's."""
_SYSTEM: Final = ("/dev/", "/proc/", "/sys/")
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
LONGEST: Final = 500
"""Characters of a target."""


class OutsideEffect(msgspec.Struct, frozen=True, order=True):
    """What was done, as often as it was done in the same place."""

    kind: str
    """`file`, `connection`, `process` or `thread`."""
    target: str
    """A path, `host:port`, a program, or the function that a thread has begun with."""
    place: str
    """The line of the user's code: `sinks.write:17`."""
    times: int = 1


class Effects:
    """Notes them, from `install` on, while it is `active`. A hook of Python's cannot be taken away again."""

    def __init__(self, watching: Watching, owns: Callable[[FrameType], bool], harness: Endpoint) -> None:
        self._folders = tuple({name for one in watching.folders for name in (one, os.path.realpath(one))})
        self._owns = owns
        self._harness = harness
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self._within = threading.local()
        self._lock = threading.Lock()
        self.active = False

    def install(self) -> None:
        sys.addaudithook(self._hear)

    @property
    def any(self) -> bool:
        """Whether something was noted since it was last asked."""
        return bool(self._seen)

    def taken(self) -> list[OutsideEffect]:
        """Those since it was last asked. Files that are gone again are none."""
        with self._lock:
            seen, self._seen = self._seen, Counter()
        lasting = {key: times for key, times in seen.items() if key[0] != "file" or os.path.lexists(key[1])}
        merged: Counter[tuple[str, str, str]] = Counter()
        for (kind, target, place), times in lasting.items():
            merged[kind, shortened(target)[:LONGEST], place] += times
        return [OutsideEffect(*key, times) for key, times in sorted(merged.items())]

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        found = _EFFECTS.get(event)
        if found is None or not self.active or getattr(self._within, "busy", False):
            return
        self._within.busy = True
        try:
            kind, target = found(arguments)
            if target:
                self._note(event, kind, target)
        finally:
            self._within.busy = False

    def _note(self, event: str, kind: str, target: str) -> None:
        if kind == "file":
            target = os.path.realpath(target)
            if not outside(self._folders, target) or target.startswith(_SYSTEM) or "__pycache__" in target:
                return
            if event == "open" and os.path.isdir(target):
                # For a file in it that has no name, and goes when it is closed.
                return
        elif kind == "connection" and target == f"{self._harness[0]}:{self._harness[1]}":
            return
        frame = self._user_frame(sys._getframe(2))
        if frame is not None:
            with self._lock:
                self._seen[kind, target, place_of(frame)] += 1

    def _user_frame(self, frame: FrameType | None) -> FrameType | None:
        """The innermost frame of the user's, where nobody else stands between it and the effect."""
        while frame is not None:
            if self._owns(frame):
                return frame
            if module_of(frame).partition(".")[0] in _OTHERS:
                return None
            frame = frame.f_back
        return None


def _path(given: Any) -> str:
    """Empty for a number, which is a file that is open already."""
    if isinstance(given, bytes):
        return os.fsdecode(given)
    if isinstance(given, os.PathLike):
        return _path(os.fspath(given))
    return given if isinstance(given, str) else ""


def _opened(arguments: tuple[Any, ...]) -> tuple[str, str]:
    path, mode, flags = arguments
    writes = any(sign in mode for sign in "wax+") if isinstance(mode, str) else bool((flags or 0) & _WRITES)
    return "file", _path(path) if writes else ""


def _first(arguments: tuple[Any, ...]) -> tuple[str, str]:
    return "file", _path(arguments[0])


def _second(arguments: tuple[Any, ...]) -> tuple[str, str]:
    return "file", _path(arguments[1])


def _database(arguments: tuple[Any, ...]) -> tuple[str, str]:
    path = _path(arguments[0])
    if path.startswith("file:"):
        path, _, how = path.removeprefix("file:").partition("?")
        path = "" if {"mode=ro", "mode=memory", "immutable=1"} & set(how.split("&")) else path
    return "file", "" if path == ":memory:" else path


def _connected(arguments: tuple[Any, ...]) -> tuple[str, str]:
    peer = arguments[1]
    if isinstance(peer, tuple) and len(peer) >= 2:
        return "connection", f"{peer[0]}:{peer[1]}"
    return "connection", _path(peer)


def _started(arguments: tuple[Any, ...]) -> tuple[str, str]:
    return "process", _path(arguments[0]) or "?"


def _forked(arguments: tuple[Any, ...]) -> tuple[str, str]:
    return "process", "fork"


_EFFECTS: Final[Mapping[str, Callable[[tuple[Any, ...]], tuple[str, str]]]] = {
    "open": _opened,
    "sqlite3.connect": _database,
    "os.rename": _second,
    "os.link": _second,
    "os.symlink": _second,
    "os.truncate": _first,
    "os.mkdir": _first,
    "socket.connect": _connected,
    "socket.sendto": _connected,
    "subprocess.Popen": _started,
    "os.system": _started,
    "os.exec": _started,
    "os.fork": _forked,
    "os.forkpty": _forked,
}
"""What Python calls them. One that starts a process by other means is found by those."""
