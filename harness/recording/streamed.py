"""Records that stay on the disk, and are read anew each time that somebody goes through them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from operator import eq
from typing import overload

from .records import Stamped


class StreamedRecords(Sequence[Stamped]):
    """Whoever is one says how to go through them, and how many there are."""

    @overload
    def __getitem__(self, index: int) -> Stamped: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Stamped]: ...
    def __getitem__(self, index: int | slice) -> Stamped | Sequence[Stamped]:
        if isinstance(index, slice):
            places = range(len(self))[index]
            if places.step != 1:
                return list(self)[index]
            # Only what is wanted is kept.
            return list(islice(self, places.start, places.stop))
        place = range(len(self))[index]
        return next(islice(self, place, None))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StreamedRecords | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]
