"""How a command ends that does not come to its end: what is said, where more is to be found, and the exit status."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..core.errors import ExitStatus, RunFolderInUse, StreamproofError
from .output import complain, print_json

INTERRUPTED: Final = 130


class Terminated(SystemExit):
    """By a signal."""


@dataclass
class Session:
    """What the end of a command has to know of its course."""

    commanded: bool = False
    """Whether a command has been called: before that, none of a user's code has."""
    folder: Path | None = None
    """That of the run which has begun."""
    judged: list[Any] = field(default_factory=list)
    """With --json, the documents of the runs before it."""

    def begins(self, folder: Path) -> None:
        """A run is about to be recorded there, unless another one is there already."""
        self.folder = None if (folder / "scenario.json").exists() else folder


def complain_of(error: BaseException) -> None:
    """What whoever met an error has added to it."""
    for note in getattr(error, "__notes__", ()):
        complain(note)


def complain_of_interruption(session: Session) -> None:
    """Say that somebody has interrupted the command, and where the run is that it cut short."""
    folder = session.folder
    if folder is not None and (folder / "scenario.json").exists():
        named = shlex.quote(str(folder))
        complain(f"what was recorded is in {named}; to draw how far it came: streamproof report {named}")
    complain("interrupted; nothing is left running")


def failed(text: str, error: Exception, status: ExitStatus, session: Session, arguments: Sequence[str]) -> int:
    """Say what went wrong; where the run had begun or the mistake may be ours, also where to find more."""
    complain(text)
    complain_of(error)
    folder = session.folder
    begun = folder is not None and not isinstance(error, RunFolderInUse) and (folder / "scenario.json").exists()
    ours = not isinstance(error, StreamproofError) and status is ExitStatus.OWN_FAILURE
    if begun or ours:
        kept = _keep_traceback(error, folder if begun else None)
        if kept is not None:
            complain(f"the traceback is in {kept}")
    if "--json" in arguments:
        kind = (
            type(error).__name__ if isinstance(error, StreamproofError) else "WrongUsage" if not ours else "OwnFailure"
        )
        before = {"runs": session.judged} if session.judged else {}
        print_json({**before, "error": {"kind": kind, "message": text, "exit_status": int(status)}})
    return int(status)


def _keep_traceback(error: Exception, folder: Path | None) -> Path | None:
    """Write a traceback to the run's logs, or to a new file of its own; None when neither can be written."""
    content = "".join(traceback.format_exception(error))
    if folder is not None:
        with contextlib.suppress(OSError):
            path = folder / "logs" / "failure.txt"
            path.write_text(content, encoding="utf-8")
            return path
    with contextlib.suppress(OSError):
        number, name = tempfile.mkstemp(prefix="streamproof-failure-", suffix=".txt")
        with open(number, "w", encoding="utf-8") as file:
            file.write(content)
        return Path(name)
    return None
