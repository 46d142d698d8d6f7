"""File operations as crash points: what each is called, and who it is that acts."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from ..install.settings import DAEMON_MODULE

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

    def __init__(self) -> None:
        self._times: Counter[tuple[str, str]] = Counter()

    def name(self, batch: str, said: str) -> str:
        """Of an operation as it is announced (`rename checkpoint/offsets/.3.1f6b....tmp > checkpoint/offsets/3`), what
        it is called, with which time it is in its batch."""
        name = without_randoms(said)
        self._times[batch, name] += 1
        return f"{name}#{self._times[batch, name]}"


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
