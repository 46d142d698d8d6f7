"""Whether rows of a table are what a sender made, column by column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core.events import Event
from .columns import Column, numbers_of
from .exactness import same_events
from .packed import EventChunk, Packed

if TYPE_CHECKING:
    from ..recording.sealed import CodedColumn, EventColumns, Whole


def are_as_made(rows: EventColumns, start: int, stop: int, made: Packed[Event], place: int) -> bool:
    """Whether the rows from `start` up to `stop` are the events that were made from a place on."""
    for chunk, low, high in made.chunks(place, place + stop - start):
        some = slice(start, start + high - low)
        if not isinstance(chunk, EventChunk) or not _same(rows, some, chunk, slice(low, high)):
            events = chunk if isinstance(chunk, list) else chunk.rows()
            if not same_events(events[low:high], rows.events(some)):
                return False
        start = some.stop
    return True


def _same(rows: EventColumns, some: slice, chunk: EventChunk, others: slice) -> bool:
    """As far as columns show it: they may be the same where these do not."""
    return (
        _same_numbers(rows.seq[some], chunk.seq, others)
        and _same_numbers(rows.time[some], chunk.time, others)
        and _same_texts(rows.source, some, chunk.source, others)
        and _same_texts(rows.key, some, chunk.key, others)
        and rows.value is not None
        and _same_values(rows.value, some, chunk.value, others)
    )


def _same_numbers(numbers: Whole, column: Column, others: slice) -> bool:
    theirs = numbers_of(column)
    return theirs is not None and np.array_equal(numbers, theirs[others])


def _same_texts(texts: CodedColumn, some: slice, column: Column, others: slice) -> bool:
    return texts.listed(some) == column.values()[others]


def _same_values(values: CodedColumn, some: slice, column: Column, others: slice) -> bool:
    kinds = set(map(type, values.values))
    if kinds == {str}:
        return _same_texts(values, some, column, others)
    if kinds != {int} or (theirs := numbers_of(column)) is None:
        return False
    try:
        numbers = np.array(values.values, np.int64)
    except OverflowError:
        return False
    return np.array_equal(numbers[values.codes[some]], theirs[others])
