"""Where a consumer finds what a run has left, where that is in none of the run's folders: in a file that has changed
since, or over a connection. What the run has left there nobody holds or copies, whoever has written it: a log, a
library in C, a thread. And what it leaves there itself, since it may give that the next time: what the first run has
left, whatever a crash has made of another."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ...core.audit_hooks import heard_by
from ...core.wire import Endpoint
from .effects import LONGEST, OutsideEffect, is_the_systems, opened_for_writing
from .names import is_drawn, module_of, shortened
from .watching import outside
from .whose import OURS

READ: Final = "what reads the sink"
"""A place that is no line of the sink's."""
_NOT_ITS_OWN: Final = frozenset({"pyspark", "py4j", "logging", "importlib", "_frozen_importlib"})
_FILES: Final = frozenset({"open", "sqlite3.connect"})
_NAMED: Final = frozenset({"os.rename", "os.link", "os.symlink"})
"""By which a file gets another name, which Python says second."""
_CONNECTION: Final = "socket.connect"


class Consuming:
    """What is heard within one call of a consumer's, in its thread."""

    def __init__(self, folders: tuple[str, ...], harness: Endpoint, since: float) -> None:
        self._folders = tuple({name for one in folders for name in (one, os.path.realpath(one))})
        self._harness = harness
        self._since = since
        self._thread = 0
        self._found: set[tuple[str, str]] = set()
        self._written: set[str] = set()
        """Files that it has written itself: what it reads there is no other's."""

    @contextmanager
    def hearing(self) -> Iterator[None]:
        self._thread = threading.get_ident()
        with heard_by(self._hear):
            yield

    def read_by_spark(self, files: Iterable[str]) -> None:
        """Of its frame, the URIs of files that Spark's JVM reads."""
        for file in files:
            given = urlsplit(file)
            path = os.path.realpath(unquote(given.path))
            if given.scheme in ("", "file") and self._counts(path) and self._has_changed(path):
                self._found.add(("file", shortened(path)))

    def effects(self) -> list[OutsideEffect]:
        """What was found. What it has written is there still where another call may come upon it; a name that was drawn
        nobody finds again."""
        left = {("file", shortened(path)) for path in self._written if os.path.lexists(path) and not is_drawn(path)}
        return [OutsideEffect(kind, target[:LONGEST], READ) for kind, target in sorted(self._found | left)]

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._thread != threading.get_ident() or not (event in _FILES or event in _NAMED or event == _CONNECTION):
            return
        if not _is_its_own(sys._getframe(1)):
            return
        if event == _CONNECTION:
            peer = arguments[1]
            named = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) > 1 else str(peer)
            if named != f"{self._harness[0]}:{self._harness[1]}":
                self._found.add(("connection", named))
            return
        given = arguments[event in _NAMED]
        if not isinstance(given, str | bytes | os.PathLike):
            return
        path = os.path.realpath(os.fsdecode(given).removeprefix("file:").partition("?")[0])
        if not self._counts(path):
            return
        # A database that is not there yet is made by being connected to.
        writes = opened_for_writing(arguments) if event == "open" else event in _NAMED or not os.path.lexists(path)
        if event in _FILES and path not in self._written and self._has_changed(path):
            self._found.add(("file", shortened(path)))
        elif writes:
            self._written.add(path)

    def _counts(self, path: str) -> bool:
        return outside(self._folders, path) and not is_the_systems(path)

    def _has_changed(self, path: str) -> bool:
        try:
            return os.path.isfile(path) and os.stat(path).st_mtime >= self._since
        except (OSError, ValueError):
            return False


def _is_its_own(frame: FrameType | None) -> bool:
    """Whether nobody else stands between it and the harness, which has called it."""
    while frame is not None:
        top = module_of(frame).partition(".")[0]
        if top == OURS:
            return True
        if top in _NOT_ITS_OWN:
            return False
        frame = frame.f_back
    return True
