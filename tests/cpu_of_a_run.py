"""The CPU time that the Python processes of a run on embedded Spark take: the harness, and whoever hosts slices. On a
machine that others use, too, a rate says how much of it was left; CPU time says what a run needs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

_EVERY = 0.1
"""Seconds between two looks at the processes that are known."""
_LOOKS = 10
"""After so many, others are looked for."""
_TICKS = os.sysconf("SC_CLK_TCK")


class CpuOfRun:
    """Use it as a context manager around a run in a folder, by whose path its processes are known."""

    def __init__(self, folder: Path) -> None:
        self._folder = os.fsencode(folder)
        self._known: dict[str, bool] = {str(os.getpid()): True}
        self._seen: list[tuple[int, Mapping[str, int]]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="cpu-of-a-run")

    def __enter__(self) -> CpuOfRun:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def between(self, first_ns: int, last_ns: int) -> float:
        """Seconds, of all of them together, from one moment of the machine's monotonic clock to another, or a little
        more. Of whoever came later all counts."""
        before = max((seen for seen in self._seen if seen[0] <= first_ns), key=_when)[1]
        after = min((seen for seen in self._seen if seen[0] >= last_ns), key=_when, default=self._seen[-1])[1]
        return sum(ticks - before.get(process, 0) for process, ticks in after.items()) / _TICKS

    def _look_on(self) -> None:
        looks = 0
        while not self._over.wait(_EVERY):
            if looks % _LOOKS == 0:
                for process in filter(str.isdigit, os.listdir("/proc")):
                    if process not in self._known:
                        self._known[process] = self._is_ours(process)
            looks += 1
            used = {process: _used(process) for process, ours in self._known.items() if ours}
            self._seen.append((time.monotonic_ns(), {one: ticks for one, ticks in used.items() if ticks is not None}))

    def _is_ours(self, process: str) -> bool:
        try:
            told = [(Path("/proc") / process / name).read_bytes() for name in ("comm", "cmdline", "environ")]
        except OSError:
            return False  # It has ended.
        return not told[0].startswith(b"java") and any(self._folder in one for one in told)


def _when(seen: tuple[int, Mapping[str, int]]) -> int:
    return seen[0]


def _used(process: str) -> int | None:
    """User and system time in ticks; None where it has ended."""
    try:
        fields = (Path("/proc") / process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[11]) + int(fields[12])
