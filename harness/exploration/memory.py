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
_OF_PYTHON: Final = 10_000
"""Objects: Python 3.12 itself keeps some hundreds out of its collector's sight, and whoever searches has made more than
these."""


@contextmanager
def seldom_looked_at() -> Iterator[None]:
    """While this process searches. Where what was there is out of the collector's sight by now, as in a search of many,
    that is left as it is: to look at all of it once more takes longer than many a search."""
    before, was, in_sight = gc.get_threshold(), gc.isenabled(), gc.get_freeze_count() < _OF_PYTHON
    if in_sight:
        look_seldom()
    else:
        _enable()
    try:
        yield
    finally:
        if in_sight:
            gc.unfreeze()
        gc.set_threshold(*before)
        if not was:
            gc.disable()


def look_seldom() -> None:
    """From now on, and never at what is there already: for a process that does nothing but search."""
    _enable()
    gc.collect()
    gc.freeze()


def _enable() -> None:
    gc.set_threshold(*_MANY)
    gc.enable()
