"""What a channel into a sink comes to: what of it was lost, repeated, out of order, or is not explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING

from ..core.events import Event
from .exactness import same_content, same_events
from .made import is_long
from .packed import CHUNK
from .reexecution import Reexecution
from .reruns import DeliveredRow, Deliveries, Delivery, Derivation

if TYPE_CHECKING:
    from .long_channels import LongChannelCount


def channel_count(
    rerun: Reexecution, channel: str, deliveries: Deliveries, wanted: Mapping[Derivation, Event]
) -> ChannelCount | LongChannelCount:
    if _in_columns(deliveries, wanted):
        from .long_channels import LongChannelCount

        return LongChannelCount(rerun, channel, deliveries, wanted)
    return ChannelCount(rerun, channel, deliveries, wanted)


def _in_columns(deliveries: Deliveries, wanted: Mapping[Derivation, Event]) -> bool:
    return deliveries.count > CHUNK or is_long(wanted)


class ChannelCount:
    """What a channel into a sink comes to."""

    def __init__(
        self,
        rerun: Reexecution,
        channel: str,
        deliveries: Deliveries,
        wanted: Mapping[Derivation, Event],
    ) -> None:
        self.channel = channel
        self.lost: list[tuple[Derivation]] = []
        self.repeated: list[tuple[DeliveredRow, DeliveredRow]] = []
        self.conflicting: list[tuple[DeliveredRow, DeliveredRow]] = []
        self.superseded: list[tuple[DeliveredRow]] = []
        self.phantoms: list[tuple[DeliveredRow]] = []
        self.reordered: list[tuple[DeliveredRow]] = []
        self.reordered_repeats: list[tuple[DeliveredRow]] = []
        if not _is_as_expected(deliveries, wanted):
            self._count(rerun, deliveries, wanted)

    def _count(self, rerun: Reexecution, deliveries: Sequence[Delivery], wanted: Mapping[Derivation, Event]) -> None:
        upstream, _, sink = self.channel.partition(">")
        senders = rerun.reruns.get(upstream, {})
        heard = {delivery.record.incarnation for delivery in deliveries}
        places = {
            number: {derivation: place for place, derivation in enumerate(senders[number].channel(sink)[1])}
            for number in heard & senders.keys()
        }
        highest = dict.fromkeys(places, -1)
        """Sender -> the place, in its order, of the last output that was delivered, whoever sent it."""
        latest: dict[int, int] = {}
        """Replica -> the last of its incarnations that was heard."""
        first: dict[Derivation, DeliveredRow] = {}
        repeats = _Repeats(places)
        for delivery in deliveries:
            number = delivery.record.incarnation
            its = places.get(number, {})
            replica = senders[number].replica if number in senders else 0
            for output in delivery.outputs():
                derivation = output.derivation
                if derivation is None:
                    self.phantoms.append((output,))
                    continue
                place = its.get(derivation)
                if place is not None:
                    repeats.hear(output, place)
                earlier = first.setdefault(derivation, output)
                if earlier is not output:
                    self.repeated.append((earlier, output))
                    continue
                newest = latest.get(replica, 0)
                if number < newest or (place is not None and place < highest[number]):
                    self.reordered.append((output,))
                if number > newest:
                    latest[replica] = number
                for one, known in places.items():
                    if (at := known.get(derivation, -1)) > highest[one]:
                        highest[one] = at
        self.lost = [(derivation,) for derivation in wanted if derivation not in first]
        self.conflicting = [(one, other) for one, other in self.repeated if not says_the_same(one, other)]
        again = {id(later) for _, later in self.repeated}
        openings = Counter(
            (opening.record.slice, opening.record.incarnation)
            for opening in rerun.openings
            if opening.record.downstream == sink
        )
        for number, found in repeats.descending.items():
            reopened = max(0, openings[upstream, number] - 1)
            self.reordered_repeats += [(output,) for output in found[reopened:] if id(output) in again]
        self.superseded = [(output,) for output in _superseded(rerun, upstream, sink, first, wanted)]


def take_out_others(rerun: Reexecution, one: ChannelCount | LongChannelCount) -> list[Derivation]:
    """Of the outputs that were not delivered, take out those that belong to the end of an epoch to which every survivor
    came, and of what it had taken made others: they were not lost on their way."""
    upstream, _, sink = one.channel.partition(">")
    if upstream not in rerun.epochs or not len(one.lost):
        return []
    survivors = rerun.survivors(upstream)
    ended = set.intersection(*(survivor.roots() for survivor in survivors)) if survivors else set()
    made = {d for survivor in survivors for d in survivor.channel(sink)[1]}
    found = [d for (d,) in one.lost if d[:-1] in ended and d not in made]
    others = set(found)
    one.lost = [(d,) for (d,) in one.lost if d not in others]
    return found


class _Repeats:
    """Whether each sender repeats outputs in its order: it goes back in it only when the channel is opened again."""

    def __init__(self, senders: Iterable[int]) -> None:
        self._highest = dict.fromkeys(senders, -1)
        self._heard: dict[int, set[int]] = {number: set() for number in self._highest}
        """The places of what each has sent."""
        self._repeating: dict[int, int] = {}
        """Sender -> the place of what it sent last, if that was not for the first time."""
        self.descending: dict[int, list[DeliveredRow]] = {number: [] for number in self._highest}

    def hear(self, output: DeliveredRow, place: int) -> None:
        """What was delivered next, and its place in the order of its sender, which has one for each."""
        number = output.incarnation
        heard = self._heard[number]
        if place not in heard:
            heard.add(place)
            before = self._highest[number]
            if place > before:
                self._highest[number] = place
            if self._repeating:
                self._repeating.pop(number, None)
        else:
            before = self._repeating.get(number, -1)
            self._repeating[number] = place
        if place <= before:
            self.descending[number].append(output)


def _superseded(
    rerun: Reexecution,
    upstream: str,
    sink: str,
    first: Mapping[Derivation, DeliveredRow],
    wanted: Mapping[Derivation, Event],
) -> Iterator[DeliveredRow]:
    """Outputs of an order that was given up: what survives has taken the input too, and makes no such output of it.
    That what survives came to the end of an epoch does not say that it had taken what was in it: what should have been
    made there is right."""
    survivors = rerun.survivors(upstream) if upstream in rerun.reruns else ()
    if not survivors:
        return
    made = {d for survivor in survivors for d in survivor.channel(sink)[1]}
    given_up = [d for d in first if d not in made]
    if given_up:
        had = [{*survivor.lineage(), *survivor.roots()} for survivor in survivors]
        others = (d for d in given_up if all(d[:-1] in known for known in had))
        yield from (first[d] for d in others if d[0] not in rerun.epochs or d not in wanted)


def altered_outputs(deliveries: Deliveries, wanted: Mapping[Derivation, Event]) -> Sequence[tuple[DeliveredRow, Event]]:
    """Outputs of which no copy is what its input gives without failures, each beside what that is."""
    if _in_columns(deliveries, wanted):
        from .long_channels import altered

        return altered(deliveries, wanted)
    if _are_these(deliveries, wanted):
        return ()
    wrong: dict[Derivation, DeliveredRow] = {}
    right: set[Derivation] = set()
    for delivery in deliveries:
        for event, derivation in zip(delivery.record.rows, delivery.derivations, strict=True):
            should = None if derivation is None else wanted.get(derivation)
            if derivation is None or should is None:
                continue
            if same_content(event, should):
                if wrong:
                    wrong.pop(derivation, None)
                right.add(derivation)
            elif derivation not in right:
                wrong.setdefault(derivation, DeliveredRow(event, derivation, delivery.record.incarnation, delivery.at))
    return [(output, wanted[derivation]) for derivation, output in wrong.items()]


def _are_these(deliveries: Deliveries, wanted: Mapping[Derivation, Event]) -> bool:
    """Whether just these events were delivered, in this order and with these numbers, as in most histories of a
    search."""
    rows, derivations = deliveries.in_one()
    return derivations == list(wanted) and same_events(rows, list(wanted.values()))


def says_the_same(one: DeliveredRow, other: DeliveredRow) -> bool:
    return same_content(one.event, other.event)


def _is_as_expected(deliveries: Deliveries, expected: Mapping[Derivation, Event]) -> bool:
    """Whether everything was delivered once, in order: most of the histories of a search."""
    rows, seen = deliveries.in_one()
    if seen != list(expected):
        if len(seen) != len(expected) or expected.keys() != set(seen):
            return False
        # Numbers tell an order among those of one sender only.
        if len({delivery.record.incarnation for delivery in deliveries}) > 1:
            return False
    seqs = [event.seq for event in rows]
    return all(map(lt, seqs, islice(seqs, 1, None)))
