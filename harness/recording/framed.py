"""The records of a run that is still being written, as they are on the disk: read anew each time, and kept nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import eq
from pathlib import Path
from typing import overload

from .frames import read_frames
from .records import Record, Stamped


class FramedRecords(Sequence[Stamped]):
    """What the frames held when this was made: whoever goes through them twice meets the same, though more is written
    meanwhile. Reading raises what `read_frames` raises."""

    def __init__(self, path: Path) -> None:
        """Raises OSError where there are none, or no more: they are sealed by now."""
        self._path = path
        self._size = path.stat().st_size

    def of(self, *kinds: type[Record]) -> Iterator[Stamped]:
        """The records of these kinds, in their order."""
        wanted = frozenset(kinds)
        return (stamped for stamped in self if type(stamped.record) in wanted)

    def __iter__(self) -> Iterator[Stamped]:
        return read_frames(self._path, self._size)

    def __len__(self) -> int:
        return sum(1 for _ in self)

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
        if not isinstance(other, FramedRecords | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]
