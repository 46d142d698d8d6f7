"""What a long channel into a sink comes to: as `channel_counts` has it for a short one, in columns.

An output is a place in the order of delivery. What is found is kept as places, and told of a few only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.events import Event
from .codes import NONE, among, coded, column_of, first_of_each, places_in
from .columns import Numbers
from .exactness import same_content, same_contents
from .made import Chosen, Each, derivations_of, events_of, gathered
from .packed import CHUNK, joined, same_chunks
from .reexecution import Reexecution
from .reruns import DeliveredRow, Deliveries, Derivation, Rerun

_NOWHERE = -1
Mask = NDArray[np.bool_]


class Outputs:
    """Everything that was delivered on a channel."""

    def __init__(self, deliveries: Deliveries) -> None:
        heads, self.rows, self.derivations = deliveries.columns()
        self._ends = np.cumsum(column_of(heads, 3)) if len(heads) else np.zeros(0, np.int64)
        self._at = column_of(heads, 0)
        self._senders = column_of(heads, 1)
        counts = column_of(heads, 3)
        self.incarnations: Numbers = np.repeat(self._senders, counts)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def senders(self) -> set[int]:
        """Incarnations of which anything was delivered, if only a batch without rows."""
        return set(self._senders.tolist())

    def at(self, place: int) -> DeliveredRow:
        delivery = int(np.searchsorted(self._ends, place, "right"))
        return DeliveredRow(
            self.rows[place], self.derivations[place], int(self.incarnations[place]), int(self._at[delivery])
        )


class LongChannelCount:
    """As `ChannelCount`."""

    def __init__(
        self, rerun: Reexecution, channel: str, deliveries: Deliveries, wanted: Mapping[Derivation, Event]
    ) -> None:
        self.channel = channel
        self._outputs = outputs = Outputs(deliveries)
        self._upstream, _, self._sink = channel.partition(">")
        senders = rerun.reruns.get(self._upstream, {})
        heard = sorted(outputs.senders & senders.keys())
        sent = [senders[number].channel(self._sink)[1] for number in heard]
        should = derivations_of(wanted)
        delivered, due, *made = coded(outputs.derivations, should, *sent)
        self.lost: Sequence[tuple[Derivation]] = Each(
            np.flatnonzero(~among(due, delivered)), lambda place: (should[place],)
        )
        del due
        known = delivered != NONE
        first = first_of_each(delivered)
        """Output -> the first of the same derivation."""
        places = np.arange(len(outputs))
        fresh = known & (first == places)
        again = known & (first != places)
        self._first = first
        self.phantoms = self._told(np.flatnonzero(~known))
        repeated = np.flatnonzero(again)
        self.repeated = self._pairs(repeated)
        self.conflicting = self._pairs(np.array(list(self._conflicting(repeated)), np.int64))
        orders = {}
        for number in reversed(heard):
            orders[number] = places_in(delivered, made.pop())
        self.reordered = self._told(self._reordered(fresh, orders, senders))
        self.reordered_repeats = self._told(self._reordered_repeats(rerun, delivered, orders, again))
        self.superseded = self._told(self._superseded(rerun, np.flatnonzero(fresh), should))

    def _told(self, places: Numbers) -> Sequence[tuple[DeliveredRow]]:
        return Each(places, lambda place: (self._outputs.at(place),))

    def _pairs(self, places: Numbers) -> Sequence[tuple[DeliveredRow, DeliveredRow]]:
        return Each(places, lambda place: (self._outputs.at(int(self._first[place])), self._outputs.at(place)))

    def _conflicting(self, repeated: Numbers) -> Iterator[int]:
        for start in range(0, len(repeated), CHUNK):
            block = repeated[start : start + CHUNK]
            earlier = gathered(self._outputs.rows, self._first[block])
            for place, one, other in zip(block.tolist(), earlier, gathered(self._outputs.rows, block), strict=True):
                if not same_content(one, other):
                    yield place

    def _reordered(self, fresh: Mask, orders: Mapping[int, Numbers], senders: Mapping[int, Rerun]) -> Numbers:
        """What came for the first time after a later one of its sender's order, or of an incarnation whose successor
        had been heard."""
        places = np.flatnonzero(fresh)
        who = self._outputs.incarnations[places]
        late = np.zeros(len(places), bool)
        replicas = {number: senders[number].replica for number in orders}
        for number, order in orders.items():
            mine = order[places]
            late |= (who == number) & (mine != _NOWHERE) & (mine < _highest_before(mine))
        replica_of = np.zeros(len(places), np.int64)
        for number, replica in replicas.items():
            replica_of[who == number] = replica
        for replica in set(replicas.values()) | {0}:
            mine = replica_of == replica
            numbers = np.where(mine, who, 0)
            late |= mine & (who < np.maximum(_highest_before(numbers), 0))
        return places[late]

    def _reordered_repeats(
        self, rerun: Reexecution, delivered: Numbers, orders: Mapping[int, Numbers], again: Mask
    ) -> Numbers:
        """Whether each sender repeats outputs in its order: it goes back only when the channel is opened again."""
        openings = Counter(
            (opening.record.slice, opening.record.incarnation)
            for opening in rerun.openings
            if opening.record.downstream == self._sink
        )
        found: list[Numbers] = [np.zeros(0, np.int64)]
        for number, order in orders.items():
            places = np.flatnonzero((self._outputs.incarnations == number) & (order != _NOWHERE))
            mine = order[places]
            repeats = first_of_each(delivered[places]) != np.arange(len(places))
            before = _highest_before(np.where(repeats, _NOWHERE, mine))
            previous = np.concatenate(([_NOWHERE], np.where(repeats, mine, _NOWHERE)[:-1])) if len(mine) else mine
            descending = places[mine <= np.where(repeats, previous, before)]
            reopened = max(0, openings[self._upstream, number] - 1)
            found.append(descending[reopened:][again[descending[reopened:]]])
        return np.concatenate(found)

    def _superseded(self, rerun: Reexecution, fresh: Numbers, should: Sequence[Derivation]) -> Numbers:
        """Outputs of an order that was given up: what survives has taken the input too, and makes no such output. What
        should have been made at the end of an epoch is right, whatever had been taken of it."""
        survivors = rerun.survivors(self._upstream) if self._upstream in rerun.reruns else ()
        if not survivors:
            return fresh[:0]
        delivered, *made = coded(
            self._outputs.derivations, *(survivor.channel(self._sink)[1] for survivor in survivors)
        )
        given_up: Numbers = fresh[~np.logical_or.reduce([among(delivered[fresh], codes) for codes in made])]
        if not len(given_up):
            return given_up
        parents = [d[:-1] for d in Chosen(self._outputs.derivations, given_up) if d is not None]
        had = ((survivor.lineage(), sorted(survivor.roots())) for survivor in survivors)
        triggers, *lineages = coded(parents, *(joined(parts) if parts[1] else parts[0] for parts in had))
        known = np.logical_and.reduce([among(triggers, lineage) for lineage in lineages])
        found: Numbers = np.compress(known, given_up)
        if self._upstream not in rerun.epochs:
            return found
        due = set(should)
        rows = Chosen(self._outputs.derivations, found)
        others = np.array([d is None or d[0] not in rerun.epochs or d not in due for d in rows], bool)
        return np.compress(others, found)


def altered(deliveries: Deliveries, wanted: Mapping[Derivation, Event]) -> Sequence[tuple[DeliveredRow, Event]]:
    """Outputs of which no copy is what its input gives without failures, each beside what that is."""
    outputs = Outputs(deliveries)
    should = events_of(wanted)
    delivered, due = coded(outputs.derivations, derivations_of(wanted))
    places = places_in(delivered, due)
    wrong = np.array(list(_unlike(outputs.rows, should, places)), np.int64)
    if not len(wrong):
        return ()
    right = np.setdiff1d(np.flatnonzero(places != _NOWHERE), wrong, assume_unique=True)
    wrong = wrong[~among(delivered[wrong], delivered[right])]
    wrong = wrong[first_of_each(delivered[wrong]) == np.arange(len(wrong))]
    return Each(wrong, lambda place: (outputs.at(place), should[int(places[place])]))


def differing(
    deliveries: Deliveries, wanted: Mapping[Derivation, Event] | None
) -> Iterator[tuple[DeliveredRow, Event | None]]:
    """Outputs that are not what is wanted of them, each beside what is; without `wanted`, that is what the first of the
    same derivation was."""
    outputs = Outputs(deliveries)
    if wanted is None:
        (delivered,) = coded(outputs.derivations)
        should: Sequence[Event] = outputs.rows
        places = np.where(delivered == NONE, _NOWHERE, first_of_each(delivered))
        found = set[int]()
    else:
        should = events_of(wanted)
        delivered, due = coded(outputs.derivations, derivations_of(wanted))
        places = places_in(delivered, due)
        found = set(np.flatnonzero((places == _NOWHERE) & (delivered != NONE)).tolist())
    found.update(_unlike(outputs.rows, should, places))
    for place in sorted(found):
        right = int(places[place])
        yield outputs.at(place), None if right == _NOWHERE else should[right]


def _unlike(rows: Sequence[Event], should: Sequence[Event], places: Numbers) -> Iterator[int]:
    """The rows that are not like those at their places, of those that have one."""
    for start in range(0, len(rows), CHUNK):
        block = places[start : start + CHUNK]
        known = np.flatnonzero(block != _NOWHERE)
        if not len(known):
            continue
        in_a_row = len(known) == len(block) and bool((np.diff(block) == 1).all())
        if in_a_row and same_chunks(rows, start, start + len(block), should, int(block[0])):
            continue
        some = rows[start : start + CHUNK]
        if len(known) < len(some):
            some = [some[place] for place in known.tolist()]
        others = gathered(should, block[known])
        if same_contents(some, others):
            continue
        yield from (
            start + place
            for place, one, other in zip(known.tolist(), some, others, strict=True)
            if one is not other and not same_content(one, other)
        )


def _highest_before(numbers: Numbers) -> Numbers:
    """For each, the highest of those before it; -1 for the first."""
    if not len(numbers):
        return numbers
    found: Numbers = np.concatenate(([_NOWHERE], np.maximum.accumulate(numbers)[:-1]))
    return found
