"""Where the user's code fails in a search, it is said under which schedule."""

from __future__ import annotations

from ..core.errors import UsersCodeFailed
from ..core.schedule import Schedule


def failed_under(schedule: Schedule, seed: int, error: UsersCodeFailed) -> UsersCodeFailed:
    """The same error, with what it takes to see it again."""
    story = "; ".join(map(str, schedule))
    return type(error)(f"{error}\nThis was under seed {seed} and the schedule: {story}")
