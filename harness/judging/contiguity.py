"""Whether each incarnation took its channels as they are: contiguous pieces, in their order.

That is what every legal order of inputs keeps, whatever a crash takes away at its ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from .reexecution import Reexecution
from .reruns import Derivation, Rerun
from .verdicts import Evidence

OpensBy = Callable[[Reexecution, Rerun, Rerun, int], int]
"""(history, sender, receiver, when it was opened) -> by when the receiver had to have opened the channel, in
microseconds since the run began."""
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
    stateful = set(reexecution.stateful())
    for to, reruns in reexecution.reruns.items():
        if to in reexecution.doubtful:
            continue
        for rerun in reruns.values():
            took: dict[tuple[str, int], list[_Piece]] = {}
            for intake in reexecution.intakes(rerun):
                pieces = took.setdefault((intake.record.upstream, intake.record.upstream_incarnation), [])
                pieces += zip(intake.seqs, intake.derivations, strict=True)
            where = f"{to}#{rerun.number}"
            alive = complete and _alive(reexecution, rerun)
            for up in topology.upstream(to):
                deaf = bool(opened)
                for number, sender in _senders(reexecution, up).items():
                    lasts = _alive(reexecution, sender)
                    times = opened.get((up, number, to, rerun.number), ())
                    deaf = deaf and not (lasts and times)
                    channel = _Channel(sender, to, times, took.get((up, number), ()), alive and lasts)
                    had = partial(_lineage, rerun) if to in stateful else partial(_ever_taken, reruns)
                    yield from channel.flaws(had, where, ordered=True)
                if deaf and alive:
                    yield Flaw(Evidence(f"did not open the channel of {up} again", where), disorder=False)
    for name, deliveries in reexecution.deliveries.items():
        up, _, sink = name.partition(">")
        if up in reexecution.doubtful:
            continue
        delivered: dict[int, list[_Piece]] = {}
        for delivery in deliveries:
            pieces = delivered.setdefault(delivery.record.incarnation, [])
            seqs = (row.seq for row in delivery.record.rows)
            pieces += zip(seqs, delivery.derivations, strict=True)
        has = {derivation for pieces in delivered.values() for _, derivation in pieces}
        for number, sender in _senders(reexecution, up).items():
            times = opened.get((up, number, sink, 1), ())
            whole = complete and _alive(reexecution, sender)
            channel = _Channel(sender, sink, times, delivered.get(number, ()), whole)
            # In which order they came is told by the tallies.
            yield from channel.flaws(partial(frozenset, has), name, ordered=False)


def _lineage(rerun: Rerun) -> Collection[Derivation | None]:
    return set(rerun.lineage())


def _ever_taken(reruns: Mapping[int, Rerun]) -> Collection[Derivation | None]:
    """A slice that keeps nothing loses nothing of what an earlier life of it took."""
    return {derivation for rerun in reruns.values() for derivation in rerun.took}


def _senders(reexecution: Reexecution, upstream: str) -> Mapping[int, Rerun]:
    source = reexecution.sources.get(upstream)
    return reexecution.reruns[upstream] if source is None else {1: source}


def _alive(reexecution: Reexecution, rerun: Rerun) -> bool:
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


class _Channel:
    """What one incarnation of a receiver took of what one incarnation upstream had for it."""

    def __init__(self, sender: Rerun, to: str, opened: Sequence[int], taken: Sequence[_Piece], whole: bool) -> None:
        events, derivations = sender.channel(to)
        self._sender = f"{sender.slice_id}#{sender.number}"
        self._made = [(event.seq, derivation) for event, derivation in zip(events, derivations, strict=True)]
        places: dict[_Piece, int] = {(seq, None): place for place, (seq, _) in enumerate(self._made)}
        places.update((piece, place) for place, piece in enumerate(self._made))
        self._taken = [places[piece] for piece in taken if piece in places]
        inherited = len(self._made) - len(sender.emitted[to].events)
        self._opened = [inherited + made for made in opened]
        self._whole = whole
        """Neither end was gone before the other had taken everything."""

    def flaws(self, has: Callable[[], Collection[Derivation | None]], where: str, *, ordered: bool) -> Iterator[Flaw]:
        taken = set(self._taken)
        passed = [place for low, high in self._intervals() for place in range(low, high) if place not in taken]
        known = has() if passed else ()
        missing = [place for place in passed if self._made[place][1] not in known]
        back = sum(later <= earlier for earlier, later in pairwise(self._taken)) if ordered else 0
        disorder = back > max(0, len(self._opened) - 1)
        seqs = [self._made[place][0] for place in self._taken] if missing or disorder else []
        took = f"took {f'#{seqs[0]:,} to #{seqs[-1]:,}' if seqs else 'nothing'} of {self._sender}, but"
        if missing:
            what = f"{took} not #{self._made[missing[0]][0]:,}, and no crash came between"
            yield Flaw(Evidence(what, where), disorder=False)
        if disorder:
            yield Flaw(Evidence(f"{took} not in order", where), disorder=True)

    def _intervals(self) -> Iterator[tuple[int, int]]:
        """From where to where it has to have everything."""
        taken, opened, end = self._taken, self._opened, len(self._made)
        if not opened:
            if taken:
                yield min(taken), max(taken) + 1
            return
        bounds = [*opened, end]
        replayed = [place for place in taken if place < opened[0]]
        if replayed:
            over = any(opened[0] <= place < bounds[1] for place in taken) or (self._whole and len(opened) == 1)
            yield min(replayed), opened[0] if over else max(replayed) + 1
        for number, (low, high) in enumerate(pairwise(bounds), start=1):
            inside = [place for place in taken if low <= place < high]
            if self._whole and number == len(opened):
                yield low, high
            elif inside:
                yield low, max(inside) + 1
