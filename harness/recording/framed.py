"""The records of a run that is still being written, as they are on the disk: read anew each time, and kept nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .frames import read_frames
from .records import Record, Stamped
from .streamed import StreamedRecords


class FramedRecords(StreamedRecords):
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
