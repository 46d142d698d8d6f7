"""How much this process has written to files on disks outside of the run's folders, as the kernel counts it, whoever in
it has: also code in C that opens a file, writes and closes it within one of the user's lines, of which Python tells
nobody.

The kernel counts no pipes, no sockets, and no file systems that are in memory alone. What goes to the run's folders it
counts, and who serves these says how much that is.

It counts for a process what children of it have done that it has waited for, too, in blocks. That is left out, since a
process is an effect of its own; that there was one is seen by what it has cost.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from resource import RUSAGE_CHILDREN, getrusage
from typing import Final

from ...core.errors import DeadlinePassed
from ...core.waiting import wait_until
from ..files.mounts import mounts_of
from ..files.operations import WRITTEN
from .maps import not_written_down
from .watching import outside

_COUNTS: Final = "/proc/self/io"
_DIRTIED, _TAKEN_BACK = b"write_bytes", b"cancelled_write_bytes"
_BLOCK: Final = 512
"""Bytes of one, as the kernel counts what children have written."""
_SERVED: Final = 0.1
"""Seconds within which what is on its way to the run's folders is served."""
_TICK: Final = 10_000_000
"""Nanoseconds by which the clock may be behind that says when a file was changed."""


class DiskWrites:
    """Of this process."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = [os.fsencode(folder) + b"/" for folder in folders]
        served = [str(mount) for mount in mounts_of() if any(not outside((str(mount),), one) for one in folders)]
        self._served = served
        self._knows = all(not outside(served, folder) for folder in folders)
        """Whether somebody says what of it went to the run's folders."""
        self._last = 0, 0
        """What the kernel has counted, and what of that was elsewhere, when both were last asked."""

    def elsewhere(self) -> int:
        """Bytes so far, less those of files that were gone before they were written down. What is on its way to the
        run's folders is among them until it has come there, but not what is stored in maps of files there."""
        if not self._knows:
            return 0
        if _counted() != self._last[0]:
            # In this order: else what another thread writes there meanwhile would be taken off before it is counted.
            within = self._within_the_run()
            counted = _counted()
            self._last = counted, counted - within
        return self._last[1]

    def has_written(self, before: int) -> bool:
        """Whether there is more by now than `before`: not where that may be on its way to the run's folders."""
        if self.elsewhere() <= before:
            return False
        if not self._served:
            return True
        counted = _counted()

        def is_none() -> bool:
            return not self._knows or counted - self._within_the_run() < before + mmap.PAGESIZE

        try:
            # The kernel counts what another thread writes there before it is served. Elsewhere it counts whole pages.
            wait_until(is_none, _SERVED, "what was written")
        except DeadlinePassed:
            return True
        return False

    def _within_the_run(self) -> int:
        """Bytes that have come to the run's folders, and those that are stored in maps of files there. In this order,
        too: none is counted twice."""
        try:
            served = sum(int(os.getxattr(mount, WRITTEN)) for mount in self._served)
        except OSError:
            # It is gone, and with it the run.
            self._knows = False
            return 0
        with suppress(OSError):
            return served + not_written_down(self._folders)
        return served


def waited_for_children() -> int:
    """A number that is higher once this process has waited for another child: the faults of all their pages."""
    return getrusage(RUSAGE_CHILDREN).ru_minflt


def has_changed_since(moment: int, paths: Iterable[str]) -> bool:
    """Whether one of some files may have, since a moment in nanoseconds since 1970."""
    return any(_last_change(path) >= moment - _TICK for path in paths)


def _counted() -> int:
    """By the kernel, and nothing where it does not count."""
    try:
        with open(_COUNTS, "rb") as counts:
            found = dict(line.split(b": ") for line in counts)
    except OSError:
        return 0
    of_children = getrusage(RUSAGE_CHILDREN).ru_oublock * _BLOCK
    return int(found.get(_DIRTIED, 0)) - int(found.get(_TAKEN_BACK, 0)) - of_children


def _last_change(path: str) -> int:
    """Of what is in it, or of what is said of it: who copies a file may give it the other one's time."""
    try:
        return os.stat(path).st_ctime_ns
    except (OSError, ValueError):
        return 0
