"""How long somebody has given no sign of work, where the machine may be slow."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

_MOST: Final = 1.0
"""Seconds between two looks that count at most: who was stopped meanwhile, the machine or the one who looks, saw
nothing of the rest."""


class Signs:
    """Looks for signs of work, and counts the time without any.

    Time counts by the share of it that the machine had for one process: where twice as many processes want to run as
    there are cores, it takes twice as long until somebody has been silent for a minute.
    """

    def __init__(
        self,
        look: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
        share: Callable[[], float] = lambda: share_of_machine(),
    ) -> None:
        """What `look` gives is another whenever there was a sign. `clock` is in seconds."""
        self._look = look
        self._clock = clock
        self._share = share
        self._last = look()
        self._looked = clock()
        self._silent = 0.0

    def silent(self) -> float:
        """Seconds. To be asked every now and then: what happens between two looks is one sign."""
        now, seen = self._clock(), self._look()
        if seen == self._last:
            self._silent += min(now - self._looked, _MOST) * self._share()
        else:
            self._silent = 0.0
        self._last, self._looked = seen, now
        return self._silent


def share_of_machine() -> float:
    """Of a core's time, how much one process gets, by how many want to run."""
    return min(1.0, (os.cpu_count() or 1) / max(os.getloadavg()[0], 1.0))
