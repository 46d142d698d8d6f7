"""The garbage collector, while millions of objects are made that hold no cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_OFTEN = 100_000
"""Objects made between two looks at the youngest."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Cycles, of which the user's code may make some, are looked for a hundred times less often."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _OFTEN) if before[0] else 0, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
