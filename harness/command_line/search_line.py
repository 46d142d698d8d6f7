"""The live line of `explore`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TextIO

from ..core.verdicts import Status
from .progress_line import LiveLine

if TYPE_CHECKING:
    from ..exploration.search import SearchBudget, SearchFindings

_EVERY: Final = 0.1


class SearchLine(LiveLine):
    """That of a search."""

    def __init__(self, stream: TextIO, budget: SearchBudget) -> None:
        super().__init__(stream, "starting the search")
        self._budget = budget
        self._next = 0.0

    def show(self, findings: SearchFindings) -> None:
        if not self._shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY
        parts = [f"{findings.tried:,} schedules"]
        if self._budget.schedules is not None:
            parts[0] = f"{findings.tried:,} of {self._budget.schedules:,} schedules"
        if self._budget.seconds is not None:
            parts.append(f"{max(0.0, self._budget.seconds - findings.seconds):.0f} s left")
        parts += [f"{findings.statuses[status]:,} {status}" for status in Status]
        self._draw(" · ".join(parts))

    def say(self, what: str) -> None:
        self._draw(what)
