"""Where a consumer finds what a run has left, where that is in none of the run's folders: in a file that has changed
since, or over a connection. What the run has left there nobody holds or copies, whoever has written it: a log, a
library in C, a thread."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from ...core.wire import Endpoint
from .effects import LONGEST, OutsideEffect, is_the_systems
from .names import module_of, shortened
from .watching import outside
from .whose import OURS

READ: Final = "what reads the sink"
"""A place that is no line of the sink's."""
_NOT_ITS_OWN: Final = frozenset({"pyspark", "py4j", "logging", "importlib", "_frozen_importlib"})
_FILES: Final = frozenset({"open", "sqlite3.connect"})
_CONNECTION: Final = "socket.connect"


class Consuming:
    """What is heard within one call of a consumer's, in its thread."""

    def __init__(self, folders: tuple[str, ...], harness: Endpoint, since: float) -> None:
        self._folders = tuple({name for one in folders for name in (one, os.path.realpath(one))})
        self._harness = harness
        self._since = since
        self._thread = 0
        self._found: set[tuple[str, str]] = set()

    @contextmanager
    def hearing(self) -> Iterator[Callable[[], list[OutsideEffect]]]:
        """Gives what was found, once it is asked. A hook of Python's cannot be taken away again."""
        self._thread = threading.get_ident()
        sys.addaudithook(self._hear)
        try:
            yield self._effects
        finally:
            self._thread = 0

    def _effects(self) -> list[OutsideEffect]:
        return [OutsideEffect(kind, target[:LONGEST], READ) for kind, target in sorted(self._found)]

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._thread != threading.get_ident() or (event not in _FILES and event != _CONNECTION):
            return
        if not _is_its_own(sys._getframe(1)):
            return
        if event == _CONNECTION:
            peer = arguments[1]
            named = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) and len(peer) > 1 else str(peer)
            if named != f"{self._harness[0]}:{self._harness[1]}":
                self._found.add(("connection", named))
        elif isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(arguments[0]).removeprefix("file:").partition("?")[0])
            if self._has_changed(path):
                self._found.add(("file", shortened(path)))

    def _has_changed(self, path: str) -> bool:
        if not outside(self._folders, path) or is_the_systems(path):
            return False
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
