"""Following an event through the topology by an exclusive or of ids (R+SM, section 8.3: Storm's acker).

Every copy of every event on its way has an id. Whoever takes one tells the source, in one number, the id that it took
and the ids of what it made of it. Each id comes twice, when it is made and when it is taken, so the exclusive or of all
that the source was told is zero once nothing of an event is on its way (Zobrist hashing; by chance with probability
2^-64). An operator with a window tells nothing of an event before it has left the window: until then the source may
have to send it again, to rebuild the state.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator, Sequence

from ..model import Event
from .effects import Effect, Send
from .messages import Anchor, Tracked

_MASK = (1 << 64) - 1


def mixed(*parts: int) -> int:
    """64 bits that look random, never 0, from numbers that are not (splitmix64)."""
    value = 0
    for part in parts:
        value = (value + part + 0x9E3779B97F4A7C15) & _MASK
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
        value ^= value >> 31
    return value or 1


class Ids:
    """The ids that one incarnation of a slice gives to what it sends."""

    def __init__(self, slice_id: str, incarnation: int) -> None:
        self._prefix = (zlib.crc32(slice_id.encode()), incarnation)
        self._count = 0

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self._count += 1
        return mixed(*self._prefix, self._count)


class Accounts:
    """What a slice that takes followed events has to tell their sources."""

    def __init__(self, window: int | None) -> None:
        self._window = window
        self._held: deque[tuple[int, Anchor, int]] = deque()
        """(event time, input, exclusive or) of what is still in the window."""
        self._due: dict[str, dict[int, int]] = {}

    def took(self, event: Event, anchor: Anchor, made: Sequence[int]) -> None:
        """An event was taken, and copies with these ids were made of it."""
        ids = anchor.id
        for one in made:
            ids ^= one
        if self._window is None:
            self._tell(anchor, ids)
        else:
            self._held.append((event.time, anchor, ids))

    def passed(self, time: int) -> None:
        """Event time has come so far: what has left the window matters no more."""
        if self._window is not None:
            kept: deque[tuple[int, Anchor, int]] = deque()
            for entry in self._held:
                if entry[0] + self._window <= time:
                    self._tell(*entry[1:])
                else:
                    kept.append(entry)
            self._held = kept

    def _tell(self, anchor: Anchor, ids: int) -> None:
        roots = self._due.setdefault(anchor.source, {})
        roots[anchor.root] = roots.get(anchor.root, 0) ^ ids

    def messages(self, incarnation: int) -> list[Effect]:
        """One for each source that has something to be told."""
        due, self._due = self._due, {}
        return [Send(source, 1, Tracked(incarnation, list(roots.items()))) for source, roots in due.items()]


class Followed:
    """The events of a source of which something is still on its way."""

    def __init__(self, source: str, ids: Ids) -> None:
        self._source = source
        self._ids = ids
        self._open: dict[int, int] = {}
        """Root -> the exclusive or of all that was told of it."""

    def __bool__(self) -> bool:
        return bool(self._open)

    def send(self, root: int, copies: int) -> list[Anchor]:
        """An event goes out in so many copies."""
        anchors = [Anchor(self._source, root, next(self._ids)) for _ in range(copies)]
        ids = 0
        for anchor in anchors:
            ids ^= anchor.id
        if anchors:
            self._open[root] = ids
        return anchors

    def told(self, roots: Sequence[tuple[int, int]]) -> None:
        for root, ids in roots:
            if root in self._open:
                self._open[root] ^= ids
                if self._open[root] == 0:
                    del self._open[root]

    def fail(self, root: int) -> bool:
        """Give up an attempt. False: it has succeeded."""
        return self._open.pop(root, None) is not None
