"""What is stored in a file through a shared map of memory: the kernel has it, whoever dies, and no file operation tells
of it until the kernel writes it down. So it is made to, before somebody asks what a death here would leave.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from .open_things import is_written
from .watching import outside

MAPPED: Final = "mmap.__new__"
"""How Python says that a file is mapped."""
_SHARED: Final = (mmap.ACCESS_DEFAULT, mmap.ACCESS_WRITE)
_MAPS: Final = "/proc/self/maps"
_WRITE_AND_WAIT: Final = 1 | 2 | 4
"""SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER: what `fsync` does without telling the disk."""


def written_map(arguments: tuple[Any, ...]) -> int | None:
    """Of what Python says where it maps a file: the descriptor, where others see what is stored; else None."""
    file, _, access, _ = arguments
    return file if file >= 0 and access in _SHARED and is_written(file) else None


class SharedMaps:
    """Of the files in the run's folders that Python code of this process has mapped, from `install` on."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = tuple(folders)
        self._files: dict[int, int] = {}
        """By inode, a descriptor of our own: Python closes the user's with the map."""
        self._mapped: set[int] = set()
        """Those that were seen to be mapped. Python says so before it does it."""
        # One that a finalizer can take again, which runs whenever it likes.
        self._lock = threading.RLock()

    def install(self) -> None:
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """What Python says that it does."""
        if event != MAPPED or (file := written_map(arguments)) is None:
            return
        inode = os.fstat(file).st_ino
        with self._lock:
            if inode not in self._files and not outside(self._folders, os.readlink(f"/proc/self/fd/{file}")):
                self._files[inode] = os.dup(file)

    def write_back(self) -> None:
        """Have the kernel write down what was stored, so that it is in the files."""
        if not self._files:
            return
        with self._lock:
            mapped = _mapped_inodes()
            for inode, file in list(self._files.items()):
                # The file layer refuses what is written while its process is being killed.
                with suppress(OSError):
                    write_down(file)
                if inode in mapped:
                    self._mapped.add(inode)
                elif inode in self._mapped:
                    self._mapped.remove(inode)
                    os.close(self._files.pop(inode))


def _mapped_inodes() -> set[int]:
    with open(_MAPS, encoding="utf-8", errors="replace") as lines:
        return {int(line.split(maxsplit=5)[4]) for line in lines}


def write_down(file: int) -> None:
    """Have the kernel write what of a file is in its memory alone. Raises OSError."""
    zero = ctypes.c_int64(0)
    if ctypes.CDLL(None, use_errno=True).sync_file_range(file, zero, zero, _WRITE_AND_WAIT):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
