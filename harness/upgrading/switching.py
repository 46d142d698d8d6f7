"""Lets another version of a query go on, in a recovery worker, from what a crash of the first has left; and looks at
what that changes in the folders."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import msgspec

from ..certifying.attempts import Attempt
from ..certifying.crash_states import CopiedFolders, CrashState
from ..certifying.recovering import live_on
from ..certifying.recovery_worker import RecoveryWorker
from ..contracts.query import Query
from ..core.errors import StorageFailed
from ..crash_points.inside_spark.versions import SparkVersion
from ..worlds.embedded.processes import SparkProcesses
from ..worlds.spark.queries.driver_incarnations import last_planned_batch

Files = Mapping[str, str]
"""Every file and link in a recovery worker's folders, by its path in them: the digest of what is in it. A folder, whose
path ends in a slash, is there or not."""


@dataclass(frozen=True)
class UpgradeVersion:
    """One version of the query, and where it runs."""

    query: Query
    processes: SparkProcesses
    spark: SparkVersion
    origin: str = ""

    def moves_into(self, worker: RecoveryWorker) -> None:
        """From now on."""
        worker.take_up(self.query, self.processes, self.spark)


@dataclass(frozen=True)
class WentOn:
    """What a version did that went on from a state."""

    attempt: Attempt
    """The last of its attempts, which has those before it."""
    changed: tuple[str, ...]
    """What it has changed in the folders, by path, with how; only of one that has failed."""
    kept: tuple[str, ...] = ()
    """Settings of its that are not in force, since the checkpoint holds others."""
    left: CrashState | None = None
    """Of one that has failed, and has changed something: what the folders hold."""


def files_in(worker: RecoveryWorker) -> dict[str, str]:
    """Raises StorageFailed."""
    found: dict[str, str] = {}
    for folder in worker.folders.stored:
        above = folder.parent
        for root, folders, names in os.walk(folder):
            for name in (*names, *folders):
                path = Path(root, name)
                if path.is_dir() and not path.is_symlink():
                    found[f"{path.relative_to(above).as_posix()}/"] = ""
                    continue
                try:
                    if path.is_symlink():
                        content = os.fsencode(os.readlink(path))
                    else:
                        # Who reads a named pipe waits for somebody who writes to it.
                        content = path.read_bytes() if path.is_file() else b""
                except OSError as error:
                    raise StorageFailed(f"cannot read {path}: {error.strerror or error}") from error
                found[path.relative_to(above).as_posix()] = hashlib.sha256(content).hexdigest()
    return found


def changes(before: Files, after: Files) -> tuple[str, ...]:
    """Paths, each with what became of it."""
    found = []
    for path in sorted(before.keys() | after.keys()):
        if path not in before:
            found.append(f"{path} (new)")
        elif path not in after:
            found.append(f"{path} (gone)")
        elif before[path] != after[path]:
            found.append(f"{path} (changed)")
    return tuple(found)


def go_on_in(
    worker: RecoveryWorker,
    number: int,
    contents: Path,
    alone: Mapping[str, str] = MappingProxyType({}),
    begun: Files | None = None,
) -> WentOn:
    """Start the version that lives in the recovery worker on what is in its folders; where it fails by an error of its
    own, again, as whoever runs it would: until it fails at one batch too often, or has failed twice from the very same
    files. `contents` is a folder for what is kept, `alone` are the settings that are in force where it begins anew;
    what it has changed is what is there otherwise than in `begun`, or than now.
    Raises what went wrong with the recovery worker."""
    found = [files_in(worker) if begun is None else begun]

    def is_in_vain(failed: Attempt) -> bool:
        found.append(files_in(worker))
        return bool(failed.before) and found[-2] == found[-1]

    attempt = live_on(worker, number, is_in_vain)
    if attempt.failure is None:
        return WentOn(attempt, (), settings_kept(worker.folders.checkpoint, alone))
    changed = changes(found[0], files_in(worker))
    left = CopiedFolders(worker.folders.stored, contents).capture() if changed else None
    return WentOn(attempt, changed, left=left)


def settings_kept(checkpoint: Path, alone: Mapping[str, str]) -> tuple[str, ...]:
    """What Spark keeps from a checkpoint, whatever a query or its own version says: where what is in force is not what
    it is where the version begins anew."""
    return tuple(
        f"{name} is {value}, which the checkpoint holds, and {alone[name]} where the version begins anew"
        for name, value in sorted(settings_in_force(checkpoint).items())
        if alone.get(name, value) != value
    )


def settings_in_force(checkpoint: Path) -> dict[str, str]:
    """By the last entry of the offset log, where Spark has written them. Of a log that looks otherwise nothing is
    known: none."""
    newest = checkpoint / "offsets" / str(last_planned_batch(checkpoint))
    try:
        head = newest.read_text(encoding="utf-8").splitlines()[1]
        return msgspec.json.decode(head, type=_OffsetHead).conf
    except (OSError, IndexError, UnicodeDecodeError, msgspec.MsgspecError):
        return {}


class _OffsetHead(msgspec.Struct):
    """As much as is read of the second line of an entry of Spark's offset log."""

    conf: dict[str, str]


def put_back(worker: RecoveryWorker, left: CrashState, contents: Path) -> None:
    """What one that has failed has left, as `go_on_in` kept it."""
    worker.store.clear()
    CopiedFolders(worker.folders.stored, contents).restore(left)
