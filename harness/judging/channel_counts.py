"""What a channel into a sink comes to: what of it was lost, repeated, out of order, or is not explained."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, repeat
from operator import lt
from typing import TYPE_CHECKING, Any, overload

from ..core.events import Event
from .exactness import same_content, same_contents, same_events
from .made import is_long
from .packed import CHUNK
from .reexecution import Reexecution
from .reruns import DeliveredRow, Deliveries, Derivation

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


class _Rows:
    """Everything that was delivered on a channel, by its place in the order of delivery."""

    def __init__(self, deliveries: Deliveries) -> None:
        self.events, self.derivations = deliveries.in_one()
        self._deliveries = list(deliveries)
        self._ends = list(accumulate([len(one.derivations) for one in self._deliveries]))

    @property
    def senders(self) -> set[int]:
        """Incarnations of which anything was delivered, if only a batch without rows."""
        return {one.record.incarnation for one in self._deliveries}

    def in_a_row(self) -> Iterator[tuple[int, int, int]]:
        """Incarnations, and from where to where came what it sent with nothing of others in between."""
        begin = end = 0
        sender = 0
        for one, upto in zip(self._deliveries, self._ends, strict=True):
            number = one.record.incarnation
            if number != sender:
                if begin < end:
                    yield sender, begin, end
                sender, begin = number, end
            end = upto
        if begin < end:
            yield sender, begin, end

    def at(self, place: int) -> DeliveredRow:
        one = self._deliveries[bisect_right(self._ends, place)]
        return DeliveredRow(self.events[place], self.derivations[place], one.record.incarnation, one.at)

    def told(self, places: Iterable[int]) -> list[tuple[DeliveredRow]]:
        return [(self.at(place),) for place in places]


class _Pairs(Sequence[tuple[DeliveredRow, DeliveredRow]]):
    """Pairs of what was delivered, which are many where a recovery repeats, and of which few are told."""

    def __init__(self, rows: _Rows, pairs: Sequence[tuple[int, int]]) -> None:
        self._rows = rows
        self._pairs = pairs

    def __len__(self) -> int:
        return len(self._pairs)

    @overload
    def __getitem__(self, index: int) -> tuple[DeliveredRow, DeliveredRow]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[DeliveredRow, DeliveredRow]]: ...
    def __getitem__(
        self, index: int | slice
    ) -> tuple[DeliveredRow, DeliveredRow] | Sequence[tuple[DeliveredRow, DeliveredRow]]:
        if isinstance(index, slice):
            return _Pairs(self._rows, self._pairs[index])
        one, other = self._pairs[index]
        return self._rows.at(one), self._rows.at(other)


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
        self.repeated: Sequence[tuple[DeliveredRow, DeliveredRow]] = ()
        self.conflicting: Sequence[tuple[DeliveredRow, DeliveredRow]] = ()
        self.superseded: list[tuple[DeliveredRow]] = []
        self.phantoms: list[tuple[DeliveredRow]] = []
        self.reordered: list[tuple[DeliveredRow]] = []
        self.reordered_repeats: list[tuple[DeliveredRow]] = []
        if not _is_as_expected(deliveries, wanted):
            self._count(rerun, _Rows(deliveries), wanted)

    def _count(self, rerun: Reexecution, rows: _Rows, wanted: Mapping[Derivation, Event]) -> None:
        upstream, _, sink = self.channel.partition(">")
        senders = rerun.reruns.get(upstream, {})
        orders = {number: list(senders[number].channel(sink)[1]) for number in rows.senders & senders.keys()}
        comings = _Comings(rows, orders, {number: one.replica for number, one in senders.items()})
        for number, begin, end in rows.in_a_row():
            comings.come(number, begin, end)
        first, repeated = comings.first, comings.repeated
        self.phantoms = rows.told(comings.phantoms)
        self.repeated = _Pairs(rows, repeated)
        self.reordered = rows.told(comings.reordered)
        if not all(map(first.__contains__, wanted)):
            self.lost = [(derivation,) for derivation in wanted if derivation not in first]
        self.conflicting = _Pairs(rows, _conflicting(rows.events, repeated))
        if any(comings.repeats.descending.values()):
            again = {later for _, later in repeated}
            openings = Counter(
                opening.record.incarnation
                for opening in rerun.openings
                if (opening.record.slice, opening.record.downstream) == (upstream, sink)
            )
            for number, found in comings.repeats.descending.items():
                reopened = max(0, openings[number] - 1)
                self.reordered_repeats += rows.told(place for place in found[reopened:] if place in again)
        self.superseded = rows.told(_superseded(rerun, upstream, sink, first, wanted, comings.places))


class _Comings:
    """What comes on a channel for the first time, and what again, in which order; all by its place in the order of
    delivery. What follows one another in its sender's order, as nearly all does, is looked at together."""

    def __init__(self, rows: _Rows, orders: Mapping[int, Sequence[Derivation]], replicas: Mapping[int, int]) -> None:
        """`orders`: what each sender sent, in its order; `replicas`: which replica each is."""
        self._derivations = rows.derivations
        self._orders = orders
        self._replicas = replicas
        self.places = {number: dict(zip(order, range(len(order)), strict=True)) for number, order in orders.items()}
        """Sender -> the place of each output in its order."""
        self._once = {number for number, order in orders.items() if len(self.places[number]) == len(order)}
        """Those who sent nothing twice."""
        self._highest = dict.fromkeys(orders, -1)
        """Sender -> the place, in its order, of the last output that was delivered, whoever sent it."""
        self._latest: dict[int, int] = {}
        """Replica -> the last of its incarnations that was heard."""
        self.repeats = _Repeats(orders)
        self.first: dict[Derivation, int] = {}
        self.repeated: list[tuple[int, int]] = []
        """The first, and one that came later."""
        self.phantoms: list[int] = []
        self.reordered: list[int] = []

    def come(self, number: int, begin: int, end: int) -> None:
        """What of one sender came with nothing of others in between."""
        some = self._derivations[begin:end]
        place = self.places[number].get(some[0], -1) if number in self._once else -1  # type: ignore[arg-type]
        if place < 0 or self._orders[number][place : place + end - begin] != some:
            self._one_by_one(number, begin, end)
            return
        known = list(map(self.first.__contains__, some))
        while begin < end:
            again = known[0]
            upto = known.index(not again) if (not again) in known else len(known)
            together = self._again if again else self._new
            if not together(number, begin, begin + upto, place):
                self._one_by_one(number, begin, begin + upto)
            begin, place, known = begin + upto, place + upto, known[upto:]

    def _new(self, number: int, begin: int, end: int, place: int) -> bool:
        """Whether they come in order for the first time, and were taken together."""
        replica = self._replicas[number]
        newest = self._latest.get(replica, 0)
        if number < newest or place < self._highest[number] or not self.repeats.go_on(number, place, end - begin):
            return False
        some: list[Any] = self._derivations[begin:end]
        self._latest[replica] = number
        for one, known in self.places.items():
            upto = place + end - begin - 1 if one == number else max(map(known.get, some, repeat(-1)))
            if upto > self._highest[one]:
                self._highest[one] = upto
        self.first.update(zip(some, range(begin, end), strict=True))
        return True

    def _again(self, number: int, begin: int, end: int, place: int) -> bool:
        """Whether they are repeated in order, and were taken together."""
        if not self.repeats.go_on(number, place, end - begin):
            return False
        some: list[Any] = self._derivations[begin:end]
        self.repeated += zip(map(self.first.__getitem__, some), range(begin, end), strict=True)
        return True

    def _one_by_one(self, number: int, begin: int, end: int) -> None:
        its, replica = self.places.get(number, {}), self._replicas.get(number, 0)
        for row, derivation in enumerate(self._derivations[begin:end], begin):
            if derivation is None:
                self.phantoms.append(row)
                continue
            place = its.get(derivation)
            if place is not None:
                self.repeats.hear(number, row, place)
            earlier = self.first.setdefault(derivation, row)
            if earlier != row:
                self.repeated.append((earlier, row))
                continue
            newest = self._latest.get(replica, 0)
            if number < newest or (place is not None and place < self._highest[number]):
                self.reordered.append(row)
            if number > newest:
                self._latest[replica] = number
            for one, known in self.places.items():
                if (at := known.get(derivation, -1)) > self._highest[one]:
                    self._highest[one] = at


def _conflicting(events: Sequence[Event], repeated: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that did not say the same when they came again."""
    if same_contents([events[one] for one, _ in repeated], [events[other] for _, other in repeated]):
        return []
    return [(one, other) for one, other in repeated if not same_content(events[one], events[other])]


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
        self.descending: dict[int, list[int]] = {number: [] for number in self._highest}

    def go_on(self, number: int, place: int, count: int) -> bool:
        """Whether so many follow one another in the order of their sender from a place on, all for the first time or
        all once more, and none of them goes back."""
        heard, some = self._heard[number], range(place, place + count)
        if place > self._highest[number]:
            # None of these was heard.
            heard.update(some)
            self._highest[number] = some[-1]
            self._repeating.pop(number, None)
            return True
        if place > self._repeating.get(number, -1) and heard.issuperset(some):
            self._repeating[number] = some[-1]
            return True
        return False

    def hear(self, number: int, row: int, place: int) -> None:
        """What was delivered next, and its place in the order of its sender, which has one for each."""
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
            self.descending[number].append(row)


def _superseded(
    rerun: Reexecution,
    upstream: str,
    sink: str,
    first: Mapping[Derivation, int],
    wanted: Mapping[Derivation, Event],
    places: Mapping[int, Mapping[Derivation, int]],
) -> Iterator[int]:
    """Outputs of an order that was given up: what survives has taken the input too, and makes no such output of it.
    That what survives came to the end of an epoch does not say that it had taken what was in it: what should have been
    made there is right."""
    survivors = rerun.survivors(upstream) if upstream in rerun.reruns else ()
    if not survivors:
        return
    made: Container[Derivation]
    if len(survivors) == 1 and survivors[0].number in places:
        made = places[survivors[0].number]
    else:
        made = {d for survivor in survivors for d in survivor.channel(sink)[1]}
    given_up = [] if all(map(made.__contains__, first)) else [d for d in first if d not in made]
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
    if _say_what_they_should(deliveries, wanted):
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


def _say_what_they_should(deliveries: Deliveries, wanted: Mapping[Derivation, Event]) -> bool:
    """Whether each copy of every output that is wanted says what it should, as far as that is seen at once."""
    rows, derivations = deliveries.in_one()
    should: list[Event | None] = list(map(wanted.get, derivations))  # type: ignore[arg-type]
    if not all(should):
        rows = [row for row, due in zip(rows, should, strict=True) if due is not None]
    return same_contents(rows, [due for due in should if due is not None])


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
