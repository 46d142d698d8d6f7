"""Whether events are what they were when they were given away: whoever made them may give them away again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from .events import PLAIN, Event

_CANNOT_CHANGE: Final = frozenset({*PLAIN, float})
"""Types of values."""
_encode = msgspec.msgpack.Encoder(order="sorted").encode


class Unchanged:
    """Remembers of some events what they say."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._given = [(event, _encode(event.value)) for event in events if type(event.value) not in _CANNOT_CHANGE]

    def spoilt(self) -> str:
        """Which of them is another now, and what it was; empty where all are as they were."""
        for event, before in self._given:
            if _encode(event.value) != before:
                was = msgspec.msgpack.decode(before)
                return f"the value of event ({event.source}, {event.seq}) was {was!r}, and is {event.value!r} since"
        return ""
