"""The end of a log, which says why its process has ended."""

from __future__ import annotations

from pathlib import Path


def log_tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) or "(its log is empty)"
