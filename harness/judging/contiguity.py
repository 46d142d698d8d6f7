"""Whether each incarnation took its channels as they are: contiguous pieces, in their order.

That is what every legal order of inputs keeps, whatever a crash takes away at its ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice, pairwise, takewhile
from operator import attrgetter, eq
from typing import Any, TypeVar

from ..core.events import Event
from ..core.verdicts import Evidence
from .made import is_long
from .packed import CHUNK, joined
from .reexecution import Reexecution
from .reruns import Deliveries, Derivation, Rerun

T = TypeVar("T")
OpensBy = Callable[[Reexecution, Rerun, Rerun, int], int]
"""(history, sender, receiver, when it was opened) -> by when the receiver had to have opened the channel, in
microseconds since the run began."""
_Took = tuple[Sequence[int], Sequence[Derivation | None]]
"""The numbers and derivations of what was taken of one sender, in the order in which it was taken."""
_NOTHING: _Took = ((), ())
_seq: Callable[[Event], int] = attrgetter("seq")
_Opened = Mapping[tuple[str, int, str, int], Sequence[int]]
"""(sender, its incarnation, receiver, its incarnation) -> for each time that it opened the channel, the place of the
first output that it had to be sent from then on."""


@dataclass(frozen=True)
class Flaw:
    """Where what an incarnation took of a channel is not one contiguous piece of it, in its order."""

    evidence: Evidence
    disorder: bool
    """It was taken in another order than it was sent; else something was passed over."""


def find_flaws(reexecution: Reexecution, complete: bool, opens_by: OpensBy | None = None) -> Iterator[Flaw]:
    """Where a receiver passed over outputs though no crash stood between it and them, or took them out of order.

    Of what one incarnation upstream makes for it, it takes everything from when it opened the channel until either end
    is gone, or the channel is opened again; and whoever is the first to open it, all that was made until then too. What
    is replayed to it is contiguous. What it has from elsewhere is not passed over. `opens_by` says until when it has to
    have opened a channel: what is made later is its to take.
    """
    opened = _openings(reexecution, opens_by)
    topology = reexecution.topology
    alive_at_end: dict[Rerun, bool] = {}

    def alive_of(rerun: Rerun) -> bool:
        if rerun not in alive_at_end:
            alive_at_end[rerun] = was_there_to_the_end(reexecution, rerun)
        return alive_at_end[rerun]

    stateful = set(reexecution.stateful())
    for to, reruns in reexecution.reruns.items():
        if to in reexecution.doubtful:
            continue
        for rerun in reruns.values():
            long = is_long(rerun.took)
            took = _long_taken(reexecution, rerun) if long else {}
            places = {} if long else reexecution.taken_of(rerun)
            where = f"{to}#{rerun.number}"
            alive = complete and alive_of(rerun)
            for up in topology.upstream(to):
                deaf = bool(opened)
                for number, sender in _senders(reexecution, up).items():
                    lasts = alive_of(sender)
                    times = opened.get((up, number, to, rerun.number), ())
                    deaf = deaf and not (lasts and times)
                    which = () if long else places.get((up, number), ())
                    some = took.get((up, number), _NOTHING)
                    if not len(some[0]) and not which and not times:
                        continue
                    made_long = is_long(sender.emitted[to].events)
                    if not long:
                        derivations = _pieces(rerun.took, which)
                        if not made_long and _took_all(sender, to, derivations):
                            continue
                        some = _pieces(rerun.seqs, which), derivations
                    if long or made_long:
                        known = [rerun.lineage()] if to in stateful else [one.took for one in reruns.values()]
                        yield from _long_flaws(sender, to, times, some, alive and lasts, known, where, ordered=True)
                        continue
                    channel = _Channel(sender, to, times, some, alive and lasts)
                    had = partial(_lineage, rerun) if to in stateful else partial(_ever_taken, reruns)
                    yield from channel.flaws(had, where, ordered=True)
                if deaf and alive:
                    yield Flaw(Evidence(f"did not open the channel of {up} again", where), disorder=False)
    for name, deliveries in reexecution.deliveries.items():
        up, _, sink = name.partition(">")
        if up in reexecution.doubtful:
            continue
        if opened and complete:
            yield from _deaf_sink(reexecution, opened, name, alive_of)
        if deliveries.count > CHUNK:
            yield from _long_deliveries(reexecution, name, deliveries, opened, complete)
            continue
        delivered = _delivered(deliveries)
        has = partial(_ever_delivered, delivered)
        for number, sender in _senders(reexecution, up).items():
            times = _opened_by(opened, up, number, sink)
            whole = complete and was_there_to_the_end(reexecution, sender)
            some = delivered.get(number, _NOTHING)
            if is_long(sender.emitted[sink].events):
                heard = [derivations for _, derivations in delivered.values()]
                yield from _long_flaws(sender, sink, times, some, whole, heard, name, ordered=False)
                continue
            if _took_all(sender, sink, some[1]):
                continue
            channel = _Channel(sender, sink, times, some, whole)
            # In which order they came is told by the tallies.
            yield from channel.flaws(has, name, ordered=False)


def _deaf_sink(
    reexecution: Reexecution, opened: _Opened, name: str, alive_of: Callable[[Rerun], bool]
) -> Iterator[Flaw]:
    """Where a sink opened no channel of those upstream who were there until the end, and lacks what these made."""
    up, _, sink = name.partition(">")
    lasting = {number: one for number, one in _senders(reexecution, up).items() if alive_of(one)}
    if any((up, number, sink) == ends[:3] for ends in opened for number in lasting):
        return
    had = Counter(one.record.incarnation for one in reexecution.deliveries[name] for _ in one.record.rows)
    if any(had[number] < len(sender.emitted[sink].events) for number, sender in lasting.items()):
        yield Flaw(Evidence(f"did not open the channel of {up} again", name), disorder=False)


def _pieces(rows: Sequence[T], which: Sequence[tuple[int, int]]) -> Sequence[T]:
    """What stands between these places, one after the other."""
    if len(which) == 1:
        ((begin, end),) = which
        return rows[begin:end]
    return joined([rows[begin:end] for begin, end in which])


def _long_taken(reexecution: Reexecution, rerun: Rerun) -> dict[tuple[str, int], Any]:
    from .long_intakes import taken_of

    return dict(taken_of(reexecution, rerun))


def _delivered(deliveries: Deliveries) -> dict[int, _Took]:
    found: dict[int, tuple[list[int], list[Derivation | None]]] = {}
    for delivery in deliveries:
        seqs, derivations = found.setdefault(delivery.record.incarnation, ([], []))
        seqs += [row.seq for row in delivery.record.rows]
        derivations += delivery.derivations
    return dict(found)


def _long_deliveries(
    reexecution: Reexecution, name: str, deliveries: Deliveries, opened: _Opened, complete: bool
) -> Iterator[Flaw]:
    from .long_intakes import delivered_of

    up, _, sink = name.partition(">")
    delivered = delivered_of(deliveries)
    known = [derivations for _, derivations in delivered.values()]
    for number, sender in _senders(reexecution, up).items():
        times = _opened_by(opened, up, number, sink)
        whole = complete and was_there_to_the_end(reexecution, sender)
        # In which order they came is told by the tallies.
        some = delivered.get(number, _NOTHING)
        yield from _long_flaws(sender, sink, times, some, whole, known, name, ordered=False)


def _long_flaws(
    sender: Rerun,
    to: str,
    opened: Sequence[int],
    taken: Any,
    whole: bool,
    known: Sequence[Sequence[Derivation | None]],
    where: str,
    *,
    ordered: bool,
) -> Iterator[Flaw]:
    import numpy as np

    from .long_intakes import LongChannel

    seqs, derivations = taken
    channel = LongChannel(sender, to, opened, (np.asarray(seqs, np.int64), derivations), whole)
    took, missing, disorder = channel.flaws(known, ordered)
    yield from _told(sender, took, missing, disorder, where)


def _told(sender: Rerun, took: str, missing: str, disorder: bool, where: str) -> Iterator[Flaw]:
    beginning = f"took {took} of {sender.slice_id}#{sender.number}, but"
    if missing:
        yield Flaw(Evidence(f"{beginning} not {missing}, and no crash came between", where), disorder=False)
    if disorder:
        yield Flaw(Evidence(f"{beginning} not in order", where), disorder=True)


def _lineage(rerun: Rerun) -> Collection[Derivation | None]:
    return set(rerun.lineage())


def _ever_taken(reruns: Mapping[int, Rerun]) -> Collection[Derivation | None]:
    """A slice that keeps nothing loses nothing of what an earlier incarnation of it took."""
    return {derivation for rerun in reruns.values() for derivation in rerun.took}


def _ever_delivered(delivered: Mapping[int, _Took]) -> Collection[Derivation | None]:
    return {derivation for _, derivations in delivered.values() for derivation in derivations}


def _opened_by(opened: _Opened, up: str, number: int, sink: str) -> Sequence[int]:
    """The same for a sink, whichever of its incarnations opened the channel: a delivery does not say whose it is."""
    return sorted(
        made
        for (sender, incarnation, to, _), places in opened.items()
        if (sender, incarnation, to) == (up, number, sink)
        for made in places
    )


def _senders(reexecution: Reexecution, upstream: str) -> Mapping[int, Rerun]:
    source = reexecution.sources.get(upstream)
    return reexecution.reruns[upstream] if source is None else {1: source}


def was_there_to_the_end(reexecution: Reexecution, rerun: Rerun) -> bool:
    """Whether it was there until the end; those of the harness always are."""
    if rerun.slice_id not in reexecution.reruns:
        return True
    return rerun.number in reexecution.kept.get(rerun.slice_id, ()) and not reexecution.replaced(rerun)


def _openings(reexecution: Reexecution, opens_by: OpensBy | None) -> _Opened:
    found: dict[tuple[str, int, str, int], list[int]] = {}
    heard: set[tuple[str, int, str]] = set()
    for opening in reexecution.openings:
        record = opening.record
        sender = _senders(reexecution, record.slice).get(record.incarnation)
        if sender is None or record.downstream not in sender.emitted:
            continue
        channel = (record.slice, record.incarnation, record.downstream)
        made = 0 if channel not in heard else reexecution.made_before(opening, sender)
        heard.add(channel)
        ends = (*channel, record.downstream_incarnation)
        if made and opens_by is not None and ends not in found and record.downstream in reexecution.reruns:
            receiver = reexecution.reruns[record.downstream].get(record.downstream_incarnation)
            if receiver is not None:
                latest = opens_by(reexecution, sender, receiver, opening.at)
                made = min(made, reexecution.made_until(latest, sender, record.downstream))
        found.setdefault(ends, []).append(made)
    return found


_Piece = tuple[int, Derivation | None]
"""Number and derivation: what an output is known by among those of one sender. One without a derivation says something
that was never made; by its number it has come all the same."""
_Range = tuple[int, int]
"""Places on a channel, the second one excluded."""


def _took_all(sender: Rerun, to: str, taken: Sequence[Derivation | None]) -> bool:
    """Whether everything was taken, once and in order: the channels that no fault touches."""
    emissions = sender.emitted[to]
    return (not emissions.inherited or emissions.places is None) and sender.channel(to)[1] == taken


class _Channel:
    """What one incarnation of a receiver took of what one incarnation upstream had for it."""

    def __init__(self, sender: Rerun, to: str, opened: Sequence[int], taken: _Took, whole: bool) -> None:
        self._events, self._derivations = sender.channel(to)
        self._sender = sender
        self._rising = sender.emitted[to].places is None
        self._taken: list[_Range] = []
        """In the order in which it was taken."""
        self._find(*taken)
        inherited = len(self._events) - len(sender.emitted[to].events)
        self._opened = [inherited + made for made in opened]
        self._whole = whole
        """Neither end was gone before the other had taken everything."""

    def _find(self, seqs: Sequence[int], derivations: Sequence[Derivation | None]) -> None:
        begin = 0
        while begin < len(seqs):
            low, high = self._in_a_row(begin, seqs, derivations) if self._rising else (0, 0)
            if low == high:
                place = self._places.get((seqs[begin], derivations[begin]))
                if place is None:
                    begin += 1
                    continue
                low, high = place, place + 1
            self._taken.append((low, high))
            begin += high - low

    def _in_a_row(self, begin: int, seqs: Sequence[int], derivations: Sequence[Derivation | None]) -> _Range:
        """As many of these from `begin` on as stand there one after the other: all of them, as a rule."""
        made, events = self._derivations, self._events
        # As a rule from the first on.
        low = 0 if len(events) and events[0].seq == seqs[begin] else bisect_left(events, seqs[begin], key=_seq)
        if not begin and made[low : low + len(seqs)] == derivations:
            return low, low + len(seqs)
        same = map(eq, islice(made, low, None), islice(derivations, begin, None))
        return low, low + sum(1 for _ in takewhile(bool, same))

    @cached_property
    def _in_place(self) -> list[_Range]:
        return _joined(self._taken)

    @cached_property
    def _places(self) -> dict[_Piece, int]:
        places: dict[_Piece, int] = {(event.seq, None): place for place, event in enumerate(self._events)}
        for place, (event, derivation) in enumerate(zip(self._events, self._derivations, strict=True)):
            places[event.seq, derivation] = place
        return places

    def flaws(self, has: Callable[[], Collection[Derivation | None]], where: str, *, ordered: bool) -> Iterator[Flaw]:
        if self._is_one_piece():
            return
        passed = [hole for interval in self._intervals() for hole in self._holes(interval)]
        known = has() if passed else ()
        missing = next((p for low, high in passed for p in range(low, high) if self._derivations[p] not in known), None)
        back = sum(later[0] < earlier[1] for earlier, later in pairwise(self._taken)) if ordered else 0
        disorder = back > max(0, len(self._opened) - 1)
        if missing is None and not disorder:
            return
        took = "nothing"
        if self._taken:
            first, last = self._taken[0][0], self._taken[-1][1] - 1
            took = f"#{self._events[first].seq:,} to #{self._events[last].seq:,}"
        what = "" if missing is None else f"#{self._events[missing].seq:,}"
        yield from _told(self._sender, took, what, disorder, where)

    def _is_one_piece(self) -> bool:
        """Whether one piece was taken that nothing is missing of, as nearly always: of a channel that was opened once
        at most, from there on at least, and up to its end where neither end was gone before."""
        if len(self._taken) != 1 or len(self._opened) > 1:
            return False
        ((low, high),) = self._taken
        return not self._opened or (low <= self._opened[0] and (not self._whole or high == len(self._events)))

    def _holes(self, interval: _Range) -> Iterator[_Range]:
        """What of an interval was not taken."""
        place, high = interval
        for begin, end in self._in_place:
            if begin >= high:
                break
            if begin > place:
                yield place, begin
            place = max(place, end)
        if place < high:
            yield place, high

    def _within(self, low: int, high: int) -> _Range | None:
        """The first place and the end of what was taken between two places."""
        inside = [(max(begin, low), min(end, high)) for begin, end in self._in_place if begin < high and end > low]
        return (inside[0][0], inside[-1][1]) if inside else None

    def _intervals(self) -> Iterator[_Range]:
        """From where to where it has to have everything."""
        opened, end = self._opened, len(self._events)
        if not opened:
            if self._in_place:
                yield self._in_place[0][0], self._in_place[-1][1]
            return
        bounds = [*opened, end]
        replayed = self._within(0, opened[0])
        if replayed is not None:
            over = self._within(opened[0], bounds[1]) is not None or (self._whole and len(opened) == 1)
            yield replayed[0], opened[0] if over else replayed[1]
        for number, (low, high) in enumerate(pairwise(bounds), start=1):
            if self._whole and number == len(opened):
                yield low, high
            elif (inside := self._within(low, high)) is not None:
                yield low, inside[1]


def _joined(ranges: Sequence[_Range]) -> list[_Range]:
    """The same places in their order."""
    joined: list[_Range] = []
    for begin, end in sorted(ranges):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined
