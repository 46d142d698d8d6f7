"""Keeps in a run's folder how an oracle failed, so that its verdict can name the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..core.errors import StorageFailed
from ..core.verdicts import Verdict
from .judgement import Judgement


def kept(folder: Path, judgement: Judgement) -> Judgement:
    """The judgement of a run, with each traceback in its logs. Raises StorageFailed."""
    verdicts = kept_of(folder, (*judgement.verdicts, *judgement.broken))
    claimed = len(judgement.verdicts)
    return replace(judgement, verdicts=verdicts[:claimed], broken=verdicts[claimed:])


def kept_of(folder: Path, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Verdicts on a run, each traceback in its logs. Raises StorageFailed."""
    found = []
    for number, verdict in enumerate(verdicts, start=1):
        reason = verdict.unknown
        if reason is not None and reason.traceback:
            name = re.sub(r"[^A-Za-z0-9_.-]", "-", verdict.guarantee.name)
            file = Path("logs") / f"oracle-{number}-{name}.txt"
            try:
                (folder / file).write_text(reason.traceback, encoding="utf-8")
            except OSError as error:
                raise StorageFailed(f"cannot write {folder / file}: {error.strerror or error}") from error
            verdict = replace(verdict, unknown=replace(reason, kept_in=file.as_posix()))
        found.append(verdict)
    return tuple(found)
