"""Which input a row was probably made of. A black box does not say; a row that carries what its input carried does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from ..core.events import Event, Value
from ..recording.history import History
from ..recording.records import Offered

BatchPosition = tuple[int, int]
"""A batch, and an event's place in it."""


class Inputs:
    """What was offered, batch by batch: the n-th that a source gave is Spark's batch n."""

    def __init__(self, history: History | None) -> None:
        """None: the input was not the harness's."""
        records = () if history is None else (stamped.record for stamped in history.of(Offered))
        self._batches = [record.events for record in records if isinstance(record, Offered)]

    def likely(self, row: Value, batch: int | None = None) -> tuple[int, Event | None] | None:
        """The batch of a row's input, and the input: the event of which it says most, where it says as much of no
        other. None where several batches have such, and the row's own is not known."""
        seq = row.get("seq") if isinstance(row, Mapping) else None
        if type(seq) is int and seq in self._by_seq:
            return self._told(self._by_seq[seq])
        said: Counter[BatchPosition] = Counter()
        for text in set(_texts(row)):
            said.update(place for place in self._by_text.get(text, ()) if batch is None or place[0] == batch)
        if not said:
            return None
        most = max(said.values())
        best = [place for place, count in said.items() if count == most]
        if len(best) == 1:
            return self._told(best[0])
        return (best[0][0], None) if len({place[0] for place in best}) == 1 else None

    def _told(self, place: BatchPosition) -> tuple[int, Event | None]:
        return place[0], self._batches[place[0]][place[1]]

    @cached_property
    def _by_seq(self) -> dict[int, BatchPosition]:
        return {event.seq: place for place, event in self._events()}

    @cached_property
    def _by_text(self) -> dict[str, list[BatchPosition]]:
        found: dict[str, list[BatchPosition]] = {}
        for place, event in self._events():
            for text in {*_texts(event.key), *_texts(event.value)}:
                found.setdefault(text, []).append(place)
        return found

    def _events(self) -> Iterator[tuple[BatchPosition, Event]]:
        for batch, events in enumerate(self._batches):
            for place, event in enumerate(events):
                yield (batch, place), event


def _texts(value: Value) -> Iterator[str]:
    """The texts in a value, and their words; of a text that is JSON, those within."""
    if isinstance(value, str):
        inner = _parsed(value)
        if inner is not None:
            yield from _texts(inner)
            return
        yield value
        words = value.split()
        if len(words) > 1:
            yield from words
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def _parsed(text: str) -> Any:
    if not text.startswith(("{", "[")):
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
