"""How much a campaign may spend, and what it says of that while it works."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from typing import Final

from ..core.errors import InvalidScenario

MINUTES: Final = 10.0
KILLS: Final = 10
"""What is spent unless somebody says otherwise."""


@dataclass(frozen=True)
class Budget:
    """How much may be spent. What does not fit is said to be not covered."""

    runs: int | None = None
    """Recoveries and runs with kills, at most."""
    minutes: float = MINUTES
    kills: int = KILLS
    """The size of the random sample of real kills."""
    goes_on: bool = False
    """Whether it is spent to its end although every claim is known to be violated."""

    def __post_init__(self) -> None:
        if self.runs is not None and (not isinstance(self.runs, int) or isinstance(self.runs, bool) or self.runs < 1):
            raise InvalidScenario(f"a budget of runs={self.runs!r} needs a positive whole number")
        minutes = self.minutes
        if not isinstance(minutes, int | float) or isinstance(minutes, bool) or not isfinite(minutes) or minutes <= 0:
            raise InvalidScenario(f"a budget of minutes={self.minutes!r} needs a number above 0")
        if not isinstance(self.kills, int) or isinstance(self.kills, bool) or self.kills < 0:
            raise InvalidScenario(f"a sample of kills={self.kills!r} needs a whole number that is not negative")


@dataclass(frozen=True)
class CampaignProgress:
    """What the live line of a campaign shows."""

    phase: str
    done: int
    planned: int
    seconds_left: float


@contextmanager
def time_spent(durations: dict[str, float], part: str) -> Iterator[None]:
    """Add what is spent meanwhile to a part's, in seconds."""
    before = time.monotonic()
    try:
        yield
    finally:
        durations[part] = durations.get(part, 0.0) + time.monotonic() - before
