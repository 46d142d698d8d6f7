"""What the logs of nodes tell of, from some moment on."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path


class LogsFromNow:
    """The logs of one node, or of all: of every incarnation, and of the executors on it."""

    def __init__(self, folder: Path, node: str | None = None) -> None:
        """`folder` is where a cluster keeps the logs of its nodes."""
        self._folder = folder
        self._names = "*" if node is None else glob.escape(node)
        self._began = {path: path.stat().st_size for path in self._logs()}

    def _logs(self) -> Iterator[Path]:
        for path in (*self._folder.glob(f"{self._names}.*.log"), *self._folder.glob(f"{self._names}/*/*/stderr")):
            if path.is_file():
                yield path

    def lines_with(self, *words: str) -> int:
        """How many lines have been written since that have all of these words."""
        return sum(self._lines_of(path, [word.encode() for word in words]) for path in self._logs())

    def _lines_of(self, path: Path, words: list[bytes]) -> int:
        with path.open("rb") as log:
            log.seek(self._began.get(path, 0))
            return sum(all(word in line for word in words) for line in log)
