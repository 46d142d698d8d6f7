"""Where certificates go."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..core.errors import RunFolderInUse, StorageFailed
from ..running.run import new_run_id

ROOT: Final = Path("certificates")
_LOCK: Final = ".lock"


def new_folder(subject: str, root: Path = ROOT, worker: str = "") -> Path:
    """One that nobody else is given; `worker` is that of a distributed test run. It is not made yet."""
    return root / "-".join(filter(None, (new_run_id(subject), worker)))


def check_unused(folder: Path) -> None:
    """Raises RunFolderInUse where something lies in it, StorageFailed where that cannot be seen."""
    try:
        used = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise StorageFailed(f"cannot look into {folder}: {error.strerror}") from error
    if used:
        raise RunFolderInUse(f"{folder} is not empty; name another folder, or remove it")


def runs_so_far(folder: Path) -> int:
    """The highest number of a run in the folder."""
    runs = folder / "runs"
    numbers = [run.name.rpartition("-")[2] for run in (runs.iterdir() if runs.exists() else ())]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


@contextlib.contextmanager
def one_at_a_time(root: Path) -> Iterator[None]:
    """Wait until no other process certifies into this folder: two at once would take the time of each other's budgets,
    and the memory of each other's nodes. The lock goes when its holder dies. Raises StorageFailed."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StorageFailed(f"cannot lock {root}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
