"""Databases that SQLite opens by itself: what is attached to one that the user's code is connected to, be it for a
moment (`vacuum into`). Python tells of the first alone, and SQLite of the others where it asks what is allowed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from .whose import OURS

if TYPE_CHECKING:
    import sqlite3

CONNECTED: Final = "sqlite3.connect/handle"
ATTACHED: Final = f"{OURS}.attached"
COMPUTED: Final = "?"
"""In place of a path that SQL computes, which nobody says."""
_ATTACH, _DETACH, _ALLOWED = 24, 25, 0


def tell_of_attached(database: sqlite3.Connection, moment: Callable[[], int]) -> None:
    """From now on what it attaches raises `ATTACHED`. What is attached by a path that is computed is found where it is
    open at the next `moment`; if it is none of that moment any more, nobody can find it, and that is told of.

    The user's code that decides itself what is allowed there goes without."""
    computed: list[int] = []

    # What stands in the user's code has no name of the harness's in between: whoever hears looks one frame further.
    def allow(action: int, name: str | None, *_: str | None, audit: Callable[..., None] = sys.audit) -> int:
        if action == _ATTACH and name is None:
            computed.append(moment())
        elif action == _ATTACH:
            audit(ATTACHED, name)
        elif action == _DETACH and moment() in computed:
            audit(ATTACHED, COMPUTED)
        return _ALLOWED

    with suppress(database.ProgrammingError):
        # Else it was closed again.
        database.set_authorizer(allow)
