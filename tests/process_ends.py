"""Whether a process has ended, be it waited for by its parent or not."""

from __future__ import annotations

from pathlib import Path


def has_ended(pid: int) -> bool:
    """Who inherits a process waits for it when it likes, and some machines' first process never does."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"
