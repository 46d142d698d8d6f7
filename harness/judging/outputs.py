"""What a query's sink was given, batch by batch, as the recorder took it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ..core.events import NUMBERING_SPAN, Event
from ..recording.history import History
from ..recording.records import Delivered, EmptyBatch


def row_number(batch: int, place: int) -> int:
    """The number that the row at `place` of a batch carries, in the canonical order of its rows, counted from 0."""
    return batch * NUMBERING_SPAN + place


def batch_of_row(number: int) -> int:
    """The batch of the row that carries this number."""
    return number // NUMBERING_SPAN


@dataclass(frozen=True)
class SinkBatch:
    """One batch, as the sink was given it once."""

    batch: int
    incarnation: int
    at: int
    rows: tuple[Event, ...]

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each row is in it, where whole rows are recorded."""
        counts: Counter[str] = Counter()
        for event in self.rows:
            counts[event.key] += event.value
        return counts


def deliveries(history: History, sink: str) -> list[SinkBatch]:
    """In their order, those of a batch without rows among them."""
    return list(_deliveries(history, sink))


def _deliveries(history: History, sink: str) -> Iterator[SinkBatch]:
    for stamped in history.of(Delivered, EmptyBatch):
        record = stamped.record
        if isinstance(record, Delivered) and record.sink == sink:
            for batch, rows in _by_batch(record.rows):
                yield SinkBatch(batch, record.incarnation, stamped.at, rows)
        elif isinstance(record, EmptyBatch) and record.sink == sink:
            yield SinkBatch(record.batch, record.incarnation, stamped.at, ())


def _by_batch(events: Iterable[Event]) -> Iterator[tuple[int, tuple[Event, ...]]]:
    found: dict[int, list[Event]] = {}
    for event in events:
        found.setdefault(batch_of_row(event.seq), []).append(event)
    for batch, rows in found.items():
        yield batch, tuple(rows)


def last_of_each(given: Iterable[SinkBatch]) -> dict[int, SinkBatch]:
    """Of each batch what came last."""
    return {delivery.batch: delivery for delivery in given}
