"""How a query has failed, incarnation after incarnation, and what follows from it.

One that fails in an incarnation that a fault has touched was made to fail by it. One that fails at the same batch so
often, in incarnations that no fault has touched, is in a crash loop, and is given up.
"""

from __future__ import annotations

from typing import Final

from ....judging.stalls import ATTEMPTS
from ....recording.history import IncarnationFailed

_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 8.0
"""Seconds before a query that a fault has made to fail is started again."""


class QueryFailures:
    """Those of one run."""

    def __init__(self) -> None:
        self.in_this_incarnation = False
        """Whether the query has failed in its newest incarnation."""
        self.under_faults: list[str] = []
        """Why, without having delivered anything in between."""
        self.given_up = ""
        """Why the query does not recover."""
        self._loop: list[IncarnationFailed] = []
        """How it failed at one batch in its last incarnations, which no fault has touched."""

    @property
    def pause(self) -> float:
        """Seconds until the query is started again, which grow while it keeps failing."""
        if not self.in_this_incarnation:
            return 0.0
        failures = max(1, len(self.under_faults), len(self._loop))
        return min(_FIRST_PAUSE * 2.0 ** (failures - 1), _LONGEST_PAUSE)

    def begin_incarnation(self) -> None:
        self.in_this_incarnation = False

    def see_batch(self) -> None:
        """It has delivered something."""
        self.under_faults.clear()

    def add_touched(self, message: str) -> None:
        """In an incarnation that a fault has touched."""
        self.in_this_incarnation = True
        self.under_faults.append(message)
        self._loop.clear()

    def add_untouched(self, failed: IncarnationFailed, message: str) -> None:
        """In one that no fault has touched, after an earlier one that a fault has."""
        self.in_this_incarnation = True
        self._loop = [*(one for one in self._loop if one.batch == failed.batch), failed]
        if len(self._loop) >= ATTEMPTS:
            self.given_up = message
