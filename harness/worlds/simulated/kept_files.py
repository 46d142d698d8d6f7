"""What code keeps in files, in processes and behind connections, where no crash of a simulated node takes it.

Python tells of them (`sys.addaudithook`); what a library does in C without Python it does not, nor who asks whether a
file is there. A hook cannot be taken away again: this is for processes that end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Final

_SYSTEM: Final = ("/dev/", "/proc/", "/sys/")
_WRITES: Final = os.O_WRONLY | os.O_RDWR
_NEW: Final = os.O_TRUNC | os.O_EXCL | getattr(os, "O_TMPFILE", 0)
"""What is opened so holds nothing yet."""


class KeptFiles:
    """Listens from when it is made."""

    def __init__(self) -> None:
        self._written: dict[str, None] = {}
        self._read: set[str] = set()
        self._updated: dict[str, None] = {}
        self._others: dict[str, None] = {}
        sys.addaudithook(self._hear)

    @property
    def kept(self) -> tuple[str, ...]:
        """What was written and can have been read again."""
        again = [path for path in self._written if path in self._read or os.path.dirname(path) in self._read]
        files = (f"the file {path}" for path in dict.fromkeys([*self._updated, *again]))
        return (*files, *self._others)

    @property
    def written(self) -> tuple[str, ...]:
        """Files that were written, and opened by nobody to be read."""
        kept = set(self.kept)
        return tuple(path for path in self._written if f"the file {path}" not in kept)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        listens = _LISTENERS.get(event)
        if listens is not None:
            listens(self, arguments)

    def _opened(self, arguments: tuple[Any, ...]) -> None:
        path, flags = _path(arguments[0]), arguments[2] or 0
        if not path:
            return
        if not flags & _WRITES:
            self._read.add(path)
            return
        self._written[path] = None
        if flags & os.O_RDWR and not flags & _NEW:
            self._updated[path] = None

    def _moved(self, arguments: tuple[Any, ...]) -> None:
        for one in arguments[:2]:
            if path := _path(one):
                self._written[path] = None

    def _listed(self, arguments: tuple[Any, ...]) -> None:
        if path := _path(arguments[0] or "."):
            self._read.add(path)

    def _database(self, arguments: tuple[Any, ...]) -> None:
        named = arguments[0] if isinstance(arguments[0], str) else os.fsdecode(arguments[0])
        if named not in ("", ":memory:") and "mode=memory" not in named:
            self._others[f"the database {named}"] = None

    def _connected(self, arguments: tuple[Any, ...]) -> None:
        self._others[f"a connection to {arguments[1]}"] = None

    def _started(self, arguments: tuple[Any, ...]) -> None:
        self._others["a process of its own"] = None


_LISTENERS: Final[dict[str, Callable[[KeptFiles, tuple[Any, ...]], None]]] = {
    "open": KeptFiles._opened,
    "os.rename": KeptFiles._moved,
    "os.link": KeptFiles._moved,
    "os.symlink": KeptFiles._moved,
    "os.mkdir": lambda kept, arguments: kept._moved(arguments[:1]),
    "os.listdir": KeptFiles._listed,
    "os.scandir": KeptFiles._listed,
    "sqlite3.connect": KeptFiles._database,
    "socket.connect": KeptFiles._connected,
    "socket.sendto": KeptFiles._connected,
    **dict.fromkeys(
        ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"), KeptFiles._started
    ),
}


def _path(given: Any) -> str:
    """Empty for a number, which is a file that is open already, and for what is no file of anybody's."""
    try:
        path = os.path.realpath(os.fsdecode(given))
    except TypeError:
        return ""
    return "" if path.startswith(_SYSTEM) or "__pycache__" in path else path
