"""What code keeps in files, in processes and behind connections, where no crash of a simulated node takes it.

Python tells of them (`sys.addaudithook`); what a library does in C without Python it does not, nor who asks whether a
file is there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident
from typing import Any, Final

import msgspec

from .audit_hooks import heard_by

_SYSTEM: Final = ("/dev/", "/proc/", "/sys/")
_IN_MEMORY: Final = "/dev/shm/"
"""Files like any others: they outlive every process."""
_WRITES: Final = os.O_WRONLY | os.O_RDWR
_NEW: Final = os.O_TRUNC | os.O_EXCL | getattr(os, "O_TMPFILE", 0)
"""What is opened so holds nothing yet."""


class KeptFiles(msgspec.Struct, frozen=True, array_like=True):
    """What was heard of files, and of what is like them."""

    opened_to_write: tuple[str, ...] = ()
    opened_to_read: tuple[str, ...] = ()
    """Folders that were listed, too."""
    updated: tuple[str, ...] = ()
    """Files that were opened for both, with what they held, or read as they had been written before."""
    others: tuple[str, ...] = ()
    """Databases, connections and processes, in words."""

    @property
    def kept(self) -> tuple[str, ...]:
        """What was written and can have been read again."""
        read = set(self.opened_to_read)
        again = [path for path in self.opened_to_write if path in read or os.path.dirname(path) in read]
        files = (f"the file {path}" for path in dict.fromkeys([*self.updated, *again]))
        return (*files, *self.others)

    @property
    def written(self) -> tuple[str, ...]:
        """Files that were written, and opened by nobody to be read."""
        kept = set(self.kept)
        return tuple(path for path in self.opened_to_write if f"the file {path}" not in kept)


def all_heard(several: Iterable[KeptFiles]) -> KeptFiles:
    """What was heard of several runs: what one has written another may have read."""
    heard: list[dict[str, None]] = [{} for _ in KeptFiles.__struct_fields__]
    for one in several:
        for known, field in zip(heard, KeptFiles.__struct_fields__, strict=True):
            known.update(dict.fromkeys(getattr(one, field)))
    return KeptFiles(*map(tuple, heard))


_written_before: Final[dict[str, None]] = {}
"""By code that was listened to, in this process or in one that it began: whoever reads it later may rest on that."""


class FileListener:
    """Hears what is done to files, by the thread that has made it."""

    def __init__(self, but: Path | None = None) -> None:
        """`but`: a folder of the harness's own."""
        self._thread = get_ident()
        self._but = "" if but is None else f"{os.path.realpath(but)}{os.sep}"
        self._written: dict[str, None] = {}
        self._read: dict[str, None] = {}
        self._updated: dict[str, None] = {}
        self._others: dict[str, None] = {}

    @property
    def heard(self) -> KeptFiles:
        # Python itself lists where modules are looked for.
        seen = self._read.keys() - set(map(os.path.realpath, sys.path))
        found = [path for path in _written_before if path in seen or os.path.dirname(path) in seen]
        updated = dict.fromkeys([*self._updated, *found])
        return KeptFiles(tuple(self._written), tuple(self._read), tuple(updated), tuple(self._others))

    def _path(self, given: Any) -> str:
        path = _path(given)
        return "" if self._but and path.startswith(self._but) else path

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        listens = _LISTENERS.get(event)
        if listens is not None and get_ident() == self._thread:
            listens(self, arguments)

    def _opened(self, arguments: tuple[Any, ...]) -> None:
        path, flags = self._path(arguments[0]), arguments[2] or 0
        if not path:
            return
        if not flags & _WRITES:
            self._read[path] = None
            return
        self._written[path] = None
        if flags & os.O_RDWR and not flags & _NEW:
            self._updated[path] = None

    def _moved(self, arguments: tuple[Any, ...]) -> None:
        for one in arguments[:2]:
            if path := self._path(one):
                self._written[path] = None

    def _listed(self, arguments: tuple[Any, ...]) -> None:
        if path := self._path(arguments[0] or "."):
            self._read[path] = None

    def _database(self, arguments: tuple[Any, ...]) -> None:
        named = arguments[0] if isinstance(arguments[0], str) else os.fsdecode(arguments[0])
        if named not in ("", ":memory:") and "mode=memory" not in named:
            self._others[f"the database {named}"] = None

    def _connected(self, arguments: tuple[Any, ...]) -> None:
        self._others[f"a connection to {arguments[1]}"] = None

    def _started(self, arguments: tuple[Any, ...]) -> None:
        self._others["a process of its own"] = None


_LISTENERS: Final[dict[str, Callable[[FileListener, tuple[Any, ...]], None]]] = {
    "open": FileListener._opened,
    "os.rename": FileListener._moved,
    "os.link": FileListener._moved,
    "os.symlink": FileListener._moved,
    **dict.fromkeys(
        ("os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.utime", "os.chmod", "os.setxattr"),
        lambda listener, arguments: listener._moved(arguments[:1]),
    ),
    "os.listdir": FileListener._listed,
    "os.scandir": FileListener._listed,
    "sqlite3.connect": FileListener._database,
    "socket.connect": FileListener._connected,
    "socket.sendto": FileListener._connected,
    **dict.fromkeys(
        ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"), FileListener._started
    ),
}


@contextmanager
def listening(but: Path | None = None) -> Iterator[FileListener]:
    """Hear what is done to files meanwhile, but to those of a folder of the harness's own."""
    listener = FileListener(but)
    try:
        with heard_by(listener.hear):
            yield listener
    finally:
        note_written(listener.heard)


def note_written(heard: KeptFiles) -> None:
    """Whoever reads later in this process what was written then reads what it has kept."""
    _written_before.update(dict.fromkeys([*heard.opened_to_write, *heard.updated]))


def _path(given: Any) -> str:
    """Empty for a number, which is a file that is open already, and for what is no file of anybody's."""
    try:
        path = os.path.realpath(os.fsdecode(given))
    except TypeError:
        return ""
    if path.startswith(_SYSTEM) and not path.startswith(_IN_MEMORY):
        return ""
    return "" if "__pycache__" in path else path
