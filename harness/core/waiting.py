"""The one way to wait in streamproof: for a condition, up to a deadline, saying what was seen when it passes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from .errors import DeadlinePassed

T = TypeVar("T")


def wait_until(
    condition: Callable[[], T | None],
    seconds: float,
    waited_for: str,
    seen: Callable[[], str] = lambda: "nothing of it",
    every: float = 0.02,
) -> T:
    """Ask `condition` until it answers something true, and return that; after `seconds`, raise DeadlinePassed.

    The condition is asked at least once, and once more at the deadline, so a slow machine is not blamed for a condition
    that came true while this process did not run. What the condition raises goes through.
    """
    deadline = time.monotonic() + seconds
    while True:
        last_chance = time.monotonic() >= deadline
        answer = condition()
        if answer:
            return answer
        if last_chance:
            raise DeadlinePassed(waited_for, seconds, seen())
        time.sleep(min(every, max(0.0, deadline - time.monotonic())))
