"""What is stored in a file through a shared map of memory: the kernel has it, whoever dies, and no file operation tells
of it until the kernel writes it down. So it is made to, before somebody asks what a death here would leave.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from ..files.operations import LOG_INDEX
from .open_things import is_written

MAPPED: Final = "mmap.__new__"
"""How Python says that it maps a file. Of a library in C that does, it says nothing."""
_SHARED: Final = (mmap.ACCESS_DEFAULT, mmap.ACCESS_WRITE)
JVM: Final = "STREAMPROOF_JVM"
"""The variable of the environment that has the number of the process of Spark's JVM."""
_MAPS: Final = "/proc/{}/maps"
_MAPS_AND_PAGES: Final = "/proc/self/smaps"
_DIRTY: Final = (b"Shared_Dirty:", b"Private_Dirty:")
"""How lines begin that say how much of a map is to be written down yet, in KiB."""
_WRITE_AND_WAIT: Final = 1 | 2 | 4
"""SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER: what `fsync` does without telling the disk."""
_MADE_ANEW: Final = os.fsencode(LOG_INDEX)


def written_map(arguments: tuple[Any, ...]) -> int | None:
    """Of what Python says where it maps a file: the descriptor, where others see what is stored; else None."""
    file, _, access, _ = arguments
    return file if file >= 0 and access in _SHARED and is_written(file) else None


class SharedMaps:
    """Of the files in the run's folders that this process has mapped to store into: Python code, or a library in C. And
    of those that Spark's JVM has, once the user's code has asked it for something."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = tuple(os.fsencode(folder) + b"/" for folder in folders)
        self._files: dict[int, int] = {}
        """By inode, a descriptor of our own: who has mapped a file may have closed it."""
        # One that a finalizer can take again, which runs whenever it likes.
        self._lock = threading.RLock()
        self._jvm = os.environ.get(JVM, "")

    def write_back(self, *, asks_the_jvm: bool = False) -> None:
        """Have the kernel write down what was stored, so that it is in the files. What was stored in a map that is gone
        again is written by then: the kernel does that when a file is closed."""
        with self._lock:
            mapped = dict(self._mapped("self"))
            if asks_the_jvm and self._jvm:
                # It may be gone.
                with suppress(OSError):
                    mapped |= self._mapped(self._jvm)
            for inode in self._files.keys() - mapped.keys():
                os.close(self._files.pop(inode))
            for inode, path in mapped.items():
                # The file may be gone, and the file layer refuses what is done while its process is being killed.
                with suppress(OSError):
                    if inode not in self._files:
                        self._files[inode] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                    write_down(self._files[inode])

    def _mapped(self, process: str) -> Iterator[tuple[int, bytes]]:
        """Inode and path of each, but for SQLite's, which nobody finds after a death: it is made anew."""
        return (one for one in stored_into(process, self._folders) if not one[1].endswith(_MADE_ANEW))


def stored_into(process: str, folders: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Inode and path of each file in folders, which end in a slash, that a process has mapped to store into. Raises
    OSError."""
    with open(_MAPS.format(process), "rb") as maps:
        content = maps.read()
    # There are hundreds of maps, and mostly none of such a file.
    if any(folder in content for folder in folders):
        for line in content.splitlines():
            if (file := _file_of(line, folders)) is not None:
                yield file


def not_written_down(folders: Sequence[bytes]) -> int:
    """How much this process has stored in maps of files in folders, which end in a slash, that the kernel has not begun
    to write down: bytes, in whole pages. Raises OSError."""
    # The kernel takes milliseconds to say how much, and next to nothing to say where.
    if not any(stored_into("self", folders)):
        return 0
    found, counts = 0, False
    with open(_MAPS_AND_PAGES, "rb") as maps:
        for line in maps:
            first, *rest = line.split(maxsplit=2)
            if not first.endswith(b":"):
                counts = _file_of(line, folders) is not None
            elif counts and first in _DIRTY:
                found += int(rest[0]) << 10
    return found


def _file_of(line: bytes, folders: Sequence[bytes]) -> tuple[int, bytes] | None:
    """Of a line for a map: inode and path of the file, if it lies in one of these folders and is shared to be stored
    into."""
    _, rights, _, _, inode, *named = line.split(maxsplit=5)
    path = b"".join(named)
    return (int(inode), path) if b"w" in rights and b"s" in rights and path.startswith(tuple(folders)) else None


def write_down(file: int) -> None:
    """Have the kernel write what of a file is in its memory alone. Raises OSError."""
    zero = ctypes.c_int64(0)
    if ctypes.CDLL(None, use_errno=True).sync_file_range(file, zero, zero, _WRITE_AND_WAIT):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
