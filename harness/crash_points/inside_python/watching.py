"""What a process of a run is told of the user's code that it runs: whose it is, and which of its lines are announced.

It stands in a file, and the environment says where: the processes of a warm session outlive what they are told.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from ...core.addresses import Side
from ...core.errors import OwnFailure, StorageFailed
from .whose import Whose

LINES: Final = "STREAMPROOF_LINES"
"""The environment variable that says where the file is; none: nobody is told anything."""
TIMES: Final = 3
"""How often a line of a batch is announced in one process, where all of them are."""


class Watching(msgspec.Struct, frozen=True):
    """What is watched. By default, nothing."""

    whose: Whose = Whose()
    whole: bool = False
    """Every line is announced, and every effect outside of `folders` is noted."""
    armed: tuple[tuple[Side, str], ...] = ()
    """Else these lines alone: a side and a key."""
    folders: tuple[str, ...] = ()
    """Where effects can be held, or copied."""

    def __bool__(self) -> bool:
        return bool(self.whose) and (self.whole or bool(self.armed))


def lines_environment(path: Path) -> dict[str, str]:
    return {LINES: str(path)}


def write_watching(path: Path, watching: Watching) -> None:
    """Tell the processes whose environment names the file, from the next task on. Raises StorageFailed."""
    draft = path.with_name(f"{path.name}.draft")
    try:
        draft.write_bytes(msgspec.json.encode(watching))
        draft.replace(path)
    except OSError as error:
        raise StorageFailed(f"cannot write {path}: {error.strerror or error}") from error


def read_watching() -> Watching:
    """What this process is told now. Raises OwnFailure."""
    path = os.environ.get(LINES)
    if not path:
        return Watching()
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=Watching)
    except FileNotFoundError:
        # The run is over, and with it the harness.
        return Watching()
    except (OSError, msgspec.MsgspecError) as error:
        raise OwnFailure(f"what {LINES} names cannot be read: {path}: {error}") from error


def outside(folders: Sequence[str], path: str) -> bool:
    return not any(path == folder or path.startswith(folder + os.sep) for folder in folders)
