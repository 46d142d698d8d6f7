"""What syncs all, told to the file layer: Linux does not tell a file system of FUSE's of it.

It is `os.sync`, `sync` and `syncfs` of C as `ctypes` calls them, and the program `sync`.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from functools import wraps
from typing import Any, Final

from .whose import OURS

SYNCED: Final = f"{OURS}.synced"
"""Python is told so, with the descriptor of a file whose file system alone it is, or none."""
_ALL, _OF_A_FILE = "sync", "syncfs"
_STARTED: Final = {"subprocess.Popen": 1, "os.system": 0, "os.posix_spawn": 1}
"""How a process is started, and where among what Python says of it the command is."""


class Syncing:
    """Of one process."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = folders
        self._synced: dict[str, tuple[int, int, int]] = {}
        """Of each path, what it was when it was last synced here."""
        self._started = False
        """Whether the program `sync` was, by a call that has not returned."""

    def install(self) -> None:
        """A hook of Python's cannot be taken away again."""
        _tell_of_ctypes()
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """What Python says that it does."""
        if event == SYNCED:
            self.sync_all(*arguments)
        elif event in _STARTED and _command(arguments[_STARTED[event]]) == _ALL:
            self._started = True

    def returned(self) -> None:
        """A call has, which may have waited for the program."""
        if self._started:
            self._started = False
            self.sync_all()

    def sync_all(self, file: int | None = None) -> None:
        """Sync each file and folder that is another one since it was last called, contents first; where a file is
        named by its descriptor, those of its file system."""
        device = None if file is None else os.fstat(file).st_dev
        folders = (one for one in self._folders if device is None or _device(one) == device)
        for path in (path for folder in folders for path in _within(folder)):
            try:
                about = os.lstat(path)
                seen = about.st_ino, about.st_size, about.st_mtime_ns
                if self._synced.get(path) != seen and (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
                    _sync(path)
                    self._synced[path] = seen
            except FileNotFoundError:
                # Somebody has removed it meanwhile.
                continue


def _tell_of_ctypes() -> None:
    """Python says nothing of the functions in C that it calls."""
    find = ctypes.CDLL.__getitem__
    if hasattr(find, "__wrapped__"):
        return

    @wraps(find)
    def told(library: ctypes.CDLL, name: Any) -> Any:
        return _telling(library, name) if name in (_ALL, _OF_A_FILE) else find(library, name)

    ctypes.CDLL.__getitem__ = told  # type: ignore[method-assign]


def _telling(library: ctypes.CDLL, name: str) -> Any:
    """The function of that name, which says so once it has synced."""

    plain: Any = library._FuncPtr

    class Telling(plain):  # type: ignore[misc]
        _flags_ = plain._flags_
        _restype_ = plain._restype_

        def __call__(self, *arguments: Any) -> Any:
            result = super().__call__(*arguments)
            if name == _ALL:
                sys.audit(SYNCED)
            elif result in (0, None):
                # None: it was told to give nothing back.
                sys.audit(SYNCED, getattr(arguments[0], "value", arguments[0]))
            return result

    return Telling((name, library))


def _command(given: Any) -> str:
    """The one word of a command, or that which it gives a shell; empty where it is more, or none."""
    words = [os.fsdecode(one) for one in ([given] if isinstance(given, str | bytes) else given)]
    if words[1:2] == ["-c"]:
        words = words[2:]
    return os.path.basename(words[0].strip()) if len(words) == 1 else ""


def _device(folder: str) -> int | None:
    try:
        return os.stat(folder).st_dev
    except FileNotFoundError:
        return None


def _within(folder: str) -> Iterator[str]:
    for path, _, names in os.walk(folder, topdown=False):
        yield from (os.path.join(path, name) for name in names)
        yield path


def _sync(path: str) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
