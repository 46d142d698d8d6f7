"""`os.sync`, told to the file layer: Linux does not tell a file system of FUSE's that all is to be synced."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence


class Syncing:
    """Of one process."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = folders
        self._synced: dict[str, tuple[int, int, int]] = {}
        """Of each path, what it was when it was last synced here."""

    def sync_all(self) -> None:
        """Sync each file and folder that is another one since it was last called, contents first."""
        for path in (path for folder in self._folders for path in _within(folder)):
            try:
                about = os.lstat(path)
                seen = about.st_ino, about.st_size, about.st_mtime_ns
                if self._synced.get(path) != seen and (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
                    _sync(path)
                    self._synced[path] = seen
            except FileNotFoundError:
                # Somebody has removed it meanwhile.
                continue


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
