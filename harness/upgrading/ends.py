"""How an upgrade that does not come to its end is kept: with what was found by then, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from ..certifying.so_far import INTERRUPTED
from ..core.errors import StorageFailed, StreamproofError
from .record import UpgradeRecord, write_upgrade

KEPT: Final = "what was found by then is kept; to see it: streamproof judge {folder}"
NOTHING_KEPT: Final = "nothing had been found, and nothing is kept"


class UpgradeInterrupted(KeyboardInterrupt):
    """Somebody has interrupted it. What was found by then is kept."""

    def __init__(self, path: Path, record: UpgradeRecord) -> None:
        super().__init__()
        self.path = path
        self.record = record


def why_cut_short(error: BaseException) -> str:
    """In words, what has ended it."""
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return INTERRUPTED
    return str(error) if isinstance(error, StreamproofError) else f"{type(error).__name__}: {error}"


def leave(path: Path, record: UpgradeRecord) -> None:
    """Write the record, and leave nothing else: no run of which it does not speak, such as one that was cut short, and
    nothing that it was worked with. Raises StorageFailed."""
    told = set(record.folders)
    for run in (path / "runs").iterdir():
        if f"runs/{run.name}" not in told:
            shutil.rmtree(run, ignore_errors=True)
    try:
        write_upgrade(path, record)
    except StorageFailed:
        # What is in the way on a full disk may be what it was worked with.
        shutil.rmtree(path / "work", ignore_errors=True)
        write_upgrade(path, record)
    shutil.rmtree(path / "work", ignore_errors=True)
