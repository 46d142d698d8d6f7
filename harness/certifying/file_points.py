"""File operations as crash points: what each is called, and who it is that acts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec

from ..core.addresses import Address, Point
from ..install.settings import DAEMON_MODULE
from .attempts import Passed
from .varying_names import VaryingNames, varying_names

_RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # a UUID
    r"|(?<=tmp)[0-9a-z_]{8}(?![0-9a-z_])"  # what Python's tempfile adds
    r"|[0-9a-f]{16,}|[0-9]{14,}"
)
"""What two runs call differently."""
_NUMBERED = re.compile(r"_[0-9]{4}_m_([0-9]{6})(_[0-9]+)?")
"""In the names of Hadoop's committers: the job and the attempt, which count what a session has done before; what lies
between is the partition."""
_TASK_THREAD = "Executor task l"
"""How Spark's threads for tasks are called, as far as the kernel keeps a name."""


class FilePoints:
    """Names the file operations of one attempt."""

    def __init__(self, names: VaryingNames) -> None:
        self._names = names
        self._times: Counter[tuple[str, str]] = Counter()

    def name(self, batch: str, said: str) -> str:
        """Of an operation as it is announced (`rename checkpoint/offsets/.3.1f6b....tmp > checkpoint/offsets/3`), what
        it is called, with which time it is in its batch."""
        name = self._names.plain(without_randoms(said))
        self._times[batch, name] += 1
        return f"{name}#{self._times[batch, name]}"


def varying_in(one: Iterable[Passed], other: Iterable[Passed]) -> VaryingNames:
    """What two attempts that did the same have called differently."""
    first, second = ([_said(passed.address) for passed in some if _is_of_file(passed)] for some in (one, other))
    return varying_names(first, second)


def called_alike(passed: Iterable[Passed], names: VaryingNames) -> list[Passed]:
    """The points of an attempt, as they are called once it is known what varies."""
    points = FilePoints(names)

    def called(one: Passed) -> Passed:
        if not _is_of_file(one):
            return one
        batch, said = _said(one.address)
        return replace(one, address=msgspec.structs.replace(one.address, key=f"{batch}/{points.name(batch, said)}"))

    return [called(one) for one in passed]


def _is_of_file(passed: Passed) -> bool:
    return passed.address.point is Point.FILE


def deed_of(key: str) -> str:
    """What was done at a point of a file, whatever time it was."""
    return key.partition("/")[2].rpartition("#")[0]


def _said(address: Address) -> tuple[str, str]:
    """With its batch."""
    return address.key.partition("/")[0], deed_of(address.key)


def without_randoms(said: str) -> str:
    return _RANDOM.sub("*", _NUMBERED.sub(r"_*_m_\1", said))


def acts_for_task(thread: int) -> bool:
    """Whether a thread of this machine runs a task of Spark's, or is in a Python worker."""
    folder = Path(f"/proc/{thread}")
    try:
        if (folder / "comm").read_text().startswith(_TASK_THREAD):
            return True
        return DAEMON_MODULE.encode() in (folder / "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
