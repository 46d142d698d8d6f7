"""What operations on files are called, as crash points."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ...core.addresses import Side

SINK: Final = "sink/"
"""Begins the paths of what a query writes."""
_RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # a UUID
    r"|(?<=tmp)[0-9a-z_]{8}(?![0-9a-z_])"  # what Python's tempfile adds
    r"|[0-9a-f]{16,}|[0-9]{14,}"
)
"""What two runs call differently."""
_NUMBERED = re.compile(r"_[0-9]{4}_m_([0-9]{6})(_[0-9]+)?")
"""In the names of Hadoop's committers: the job and the attempt, which count what a session has done before; what lies
between is the partition."""


def is_in_sink(path: str, home: Path | None = None) -> bool:
    """Whether a path lies in the sink's folder: as operations have it, from the folder that sink and checkpoint lie in;
    or an absolute one, where that is `home`."""
    return path.startswith(SINK if home is None else os.path.join(home, SINK))


def is_done_to_sink(deed: str) -> bool:
    """Whether an operation, such as `rename checkpoint/draft > sink/rows`, is done to something there, or puts it
    there."""
    return any(map(is_in_sink, deed.partition(" ")[2].split(" > ")))


class FilePoints:
    """Names the file operations of one attempt."""

    def __init__(self, plain: Callable[[str], str] = str) -> None:
        """`plain` leaves out of an operation what is known to vary beside that."""
        self._plain = plain
        self._times: Counter[tuple[str, str]] = Counter()
        """How often each was done, of each batch."""

    def name(self, batch: str, said: str, side: Side = Side.AFTER) -> str:
        """Of an operation as it is announced (`rename checkpoint/offsets/.3.1f6b....tmp > checkpoint/offsets/3`), what
        it is called, with which time it is in its batch. One that is about to be done is called as it will be then: one
        that is refused does not count."""
        name = self._plain(without_randoms(said))
        if side is Side.BEFORE:
            return f"{name}#{self._times[batch, name] + 1}"
        self._times[batch, name] += 1
        return f"{name}#{self._times[batch, name]}"


class FilePointsOfNodes:
    """Names those of an attempt whose tasks run on several nodes at once. An operation of a task has the number that it
    would have if no other node had done anything: it is called as that of the first task is where one task comes after
    another, whichever of them comes first."""

    def __init__(self) -> None:
        self._times: Counter[tuple[str, str, str]] = Counter()
        """How often each was done, of each batch, by the driver, which has no name here, and by each other node."""
        self._in_all = FilePoints()

    def name(self, batch: str, said: str, side: Side, node: str = "") -> str:
        """As of `FilePoints`; `node` is on which a task does it, empty where the driver does."""
        in_all = self._in_all.name(batch, said, side)
        name = in_all.rpartition("#")[0]
        if side is Side.AFTER:
            self._times[node, batch, name] += 1
        if not node:
            return in_all
        times = self._times["", batch, name] + self._times[node, batch, name]
        return f"{name}#{times + (side is Side.BEFORE)}"


_ENTRY = re.compile(r"checkpoint/offsets/\.{0,2}([0-9]+)\b")


def entry_of_offsets(said: str) -> int:
    """The batch whose entry in the offset log an operation is about, as it is announced; -1: it is about none. What is
    done to it is of that batch, also where the log does not have it yet."""
    found = _ENTRY.search(said)
    return -1 if found is None else int(found[1])


def without_randoms(said: str) -> str:
    return _RANDOM.sub("*", _NUMBERED.sub(r"_*_m_\1", said))
