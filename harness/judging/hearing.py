"""What each delivered row was made of, by what its sender made."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..core.model import Event
from ..recording.records import Delivered
from .exactness import same_events
from .packed import PackedRows
from .reruns import Deliveries, Delivery, Derivation, Rerun


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

    def hear(self, at: int, record: Delivered) -> None:
        self.deliveries.append(self._following(at, record) or _delivery(record, at, self._senders, self._seen))

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
