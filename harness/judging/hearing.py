"""What each delivered row was made of, by what its sender made."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.events import Event
from ..recording.records import Delivered
from .exactness import same_events
from .packed import PackedRows, seq_at
from .reruns import Deliveries, Delivery, Derivation, Rerun

if TYPE_CHECKING:
    from ..recording.sealed import DeliveredColumns

_TOGETHER: Final = 64
"""Deliveries that are looked at together."""


class Hearing:
    """Finds what each row was made of that was delivered on a channel."""

    def __init__(self, channel: str, senders: Mapping[int, Rerun]) -> None:
        self.deliveries = Deliveries(channel)
        self._senders = senders
        sink = channel.partition(">")[2]
        self._rising = all(sender.emitted[sink].places is None for sender in senders.values())
        self._seen: set[Derivation] | None = None if self._rising else set()
        self._emitted = {number: sender.emitted[sink] for number, sender in senders.items()} if self._rising else {}
        self._heard = dict.fromkeys(self._emitted, 0)
        """Incarnation -> the place after what was heard last of it, where that is known."""
        self._waiting: list[tuple[int, Delivered]] = []

    def hear(self, at: int, record: Delivered) -> None:
        """What was delivered next. Call `end` after the last."""
        waiting = self._waiting
        if waiting and (waiting[0][1].incarnation != record.incarnation or len(waiting) == _TOGETHER):
            self.end()
        self._waiting.append((at, record))

    def end(self) -> None:
        """Find what those were made of that were heard last, which are of one sender."""
        waiting, begin = self._waiting, 0
        self._waiting = []
        while begin < len(waiting):
            together = self._in_a_row(waiting[begin:])
            some = waiting[begin : begin + max(1, together)]
            found = self._all_following(some) if together > 1 else None
            for delivery in found or (
                self._following(at, record) or _delivery(record, at, self._senders, self._seen) for at, record in some
            ):
                self.deliveries.append(delivery)
            begin += len(some)

    def hear_columns(self, some: DeliveredColumns) -> None:
        """What was delivered next, much of it at once."""
        self.end()
        whose = some.incarnation.tolist()
        bounds = [0, *(place for place in range(1, len(whose)) if whose[place] != whose[place - 1]), len(whose)]
        for first, last in pairwise(bounds):
            if not self._lend(some, first, last):
                for at, record in some.records(first, last):
                    self.hear(at, record)
                self.end()

    def _lend(self, some: DeliveredColumns, first: int, last: int) -> bool:
        """Whether these, from one up to another, are what their sender made, one after the other, and in columns."""
        import numpy as np  # which only long histories need

        from .as_made import are_as_made

        number = int(some.incarnation[first])
        emitted = self._emitted.get(number)
        start, stop = int(some.ends[first - 1]) if first else 0, int(some.ends[last - 1])
        if emitted is None or not emitted.events.packed or start == stop:
            return False
        events, seq = emitted.events, int(some.rows.seq[start])
        place = self._heard[number]
        if place >= len(events) or seq_at(events, place) != seq:
            place = bisect_left(range(len(events)), seq, key=partial(seq_at, events))
        end = place + stop - start
        if end > len(events) or not are_as_made(some.rows, start, stop, events, place):
            return False
        self._heard[number] = end
        counts = np.diff(some.ends[first:last], prepend=start)
        heads = some.at[first:last], some.incarnation[first:last], some.position[first:last], counts
        self.deliveries.lend(heads, emitted, place, end)
        return True

    def _in_a_row(self, some: Sequence[tuple[int, Delivered]]) -> int:
        """How many of these are, by their numbers, what their sender made next, and are at hand."""
        number = some[0][1].incarnation
        emitted = self._emitted.get(number)
        if emitted is None or type(events := emitted.events.at_hand) is not list:
            return 0
        end = self._heard[number]
        for count, (_, record) in enumerate(some):
            place, end = end, end + len(record.rows)
            if not place < end <= len(events) or events[place].seq != record.rows[0].seq:
                return count
        return len(some)

    def _all_following(self, some: Sequence[tuple[int, Delivered]]) -> list[Delivery] | None:
        """As `_following`, of several at once."""
        number = some[0][1].incarnation
        emitted, begin = self._emitted[number], self._heard[number]
        rows = [row for _, record in some for row in record.rows]
        end = begin + len(rows)
        if not same_events(emitted.events.at_hand[begin:end], rows):
            return None
        self._heard[number] = end
        derivations = emitted.derivations.at_hand
        found: list[Delivery] = []
        for at, record in some:
            place, begin = begin, begin + len(record.rows)
            found.append(Delivery(record, at, derivations[place:begin]))
        return found

    def _following(self, at: int, record: Delivered) -> Delivery | None:
        """What was delivered, if it is what its sender made after that of which it was heard last, as it is nearly
        always."""
        emitted, rows = self._emitted.get(record.incarnation), record.rows
        if emitted is None or not rows:
            return None
        place = self._heard[record.incarnation]
        made = emitted.at(place, rows[0].seq, rows[-1].seq, len(rows))
        if made is None or not same_events(made[0], rows):
            return None
        self._heard[record.incarnation] = place + len(rows)
        if type(made[0]) is PackedRows:
            # What was made is kept already.
            record = msgspec.structs.replace(record, rows=made[0])
        return Delivery(record, at, made[1])


def _delivery(
    record: Delivered, at: int, senders: Mapping[int, Rerun], seen: set[Derivation] | None = None
) -> Delivery:
    """What was delivered, each row beside the one that re-execution gives for its id.

    Where numbers do not rise, the same can stand for several events. They are told apart by what they say, and by what
    was `seen` before.
    """
    rows = record.rows
    sender = senders.get(record.incarnation)
    if sender is None or not rows:
        return Delivery(record, at, [None] * len(rows))
    if seen is None:
        events, derivations = sender.channel(record.sink, rows[0].seq, rows[-1].seq)
        if same_events(events, rows):
            return Delivery(record, at, derivations)
        seen = set()
    seqs = [row.seq for row in rows]
    made: dict[int, list[tuple[Event, Derivation]]] = {}
    views = [stretch.emitted[record.sink].between(min(seqs), max(seqs)) for stretch in sender.stretches[:-1]]
    for events, derivations in (sender.channel(record.sink, min(seqs), max(seqs)), *views):
        for event, derivation in zip(events, derivations, strict=True):
            made.setdefault(event.seq, []).append((event, derivation))
    known: list[Derivation | None] = []
    for row in rows:
        fitting = [one for event, one in made.get(row.seq, ()) if same_events([event], [row])]
        unseen = [one for one in fitting if one not in seen]
        known.append((unseen or fitting)[0] if fitting else None)
        seen.update(unseen[:1])
    return Delivery(record, at, known)
