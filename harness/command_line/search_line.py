"""The live line of `explore`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TextIO

from ..core.verdicts import Status
from .progress_line import Heard, LiveLine

if TYPE_CHECKING:
    from ..exploration.search import SearchBudget, SearchFindings

_EVERY: Final = 0.1


class SearchLine(LiveLine):
    """That of a search."""

    def __init__(
        self,
        stream: TextIO,
        budget: SearchBudget,
        heard: Heard | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream, "starting the search", heard, clock=clock)
        self._budget = budget
        self._next = 0.0

    def show(self, findings: SearchFindings) -> None:
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _EVERY
        parts = [f"{findings.tried:,} schedules"]
        if self._budget.schedules is not None:
            parts[0] = f"{findings.tried:,} of {self._budget.schedules:,} schedules"
        if self._budget.seconds is not None:
            parts.append(f"{max(0.0, self._budget.seconds - findings.seconds):.0f} s left")
        parts += [f"{findings.statuses[status]:,} {status}" for status in Status]
        self._draw(" · ".join(parts))

    def say(self, what: str) -> None:
        self._draw(what)
