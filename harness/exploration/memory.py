"""The garbage collector in a search. A run lets go of all that it has held when it ends, so that nothing is left to be
collected but the cycles that a user's code makes, or a part of a judgement: those are looked for once there are many,
and only among what is young.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MANY: Final = (100_000, 50, 100)
"""Objects that have been made since and are still there, when the youngest are looked at; and how many such looks until
the older ones are."""


@contextmanager
def seldom_looked_at() -> Iterator[None]:
    """While this process searches."""
    before, was = gc.get_threshold(), gc.isenabled()
    look_seldom()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
        if not was:
            gc.disable()


def look_seldom() -> None:
    """From now on, and never at what is there already: for a process that does nothing but search."""
    gc.set_threshold(*_MANY)
    gc.enable()
    gc.collect()
    gc.freeze()
