"""Gap recovery and amnesia: a crash loses something, and nothing but that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from ..harness.judging.guarantees import AMNESIA, GAP, Guarantee
from ..harness.judging.oracle import Case, Oracle, decide
from ..harness.judging.reexecution import Reexecution
from ..harness.judging.reruns import Derivation, Rerun
from ..harness.judging.verdicts import Anomaly, Evidence, Status, Tally, Verdict, tally
from ..harness.quantities import Events


def judge_gap(case: Case, guarantee: Guarantee) -> Verdict:
    """T = run(input less the gaps); O is the incarnations one after the other, each a run from its restored state
    over one contiguous interval per channel; what a crash takes back is no more than the checkpoint interval allows;
    nothing twice.

    A slice takes a checkpoint every n events and never lets a second interval pass while one is not durable, so what an
    incarnation had taken and its successors do not hold is at most 2n events. What was on its way to the slice, or came
    while it was away, belongs to the gap too; its length depends on the outage and is not bounded by n.
    (StreamMine3G, section 2.2.2 and table 7.1.)
    """
    every = guarantee.within.count if isinstance(guarantee.within, Events) else case.checkpoint_every
    reexecution = case.collation.reexecution
    if reexecution is None or every is None:
        reason = (
            "the subject declares no checkpoint interval" if reexecution else "the subject cannot be executed again"
        )
        return Verdict(guarantee, Status.UNKNOWN, case.collation.observables, "", reason=reason)
    rolled_back = [] if case.collation.incomplete else list(_rolled_back(reexecution, 2 * every))
    found = _common(case, reexecution)
    if rolled_back:
        found += (tally(Anomaly.STATE_ROLLBACK, len(rolled_back), rolled_back),)
    return decide(case, guarantee, found, _holds(case))


def judge_amnesia(case: Case, guarantee: Guarantee) -> Verdict:
    """As gap recovery, without a bound: a crashed slice may have started blank.

    Each incarnation is still a run over one contiguous interval per channel, and nothing counts twice; what a receiver
    passes over without a crash is lost beyond that.
    (StreamMine3G, section 2.2.2.)
    """
    reexecution = case.collation.reexecution
    if reexecution is None:
        reason = "the subject cannot be executed again"
        return Verdict(guarantee, Status.UNKNOWN, case.collation.observables, "", reason=reason)
    return decide(case, guarantee, _common(case, reexecution), _holds(case))


def _holds(case: Case) -> str:
    c = case.collation
    return f"{c.lost_state.count:,} inputs missing from the final state, all within the gaps; nothing twice"


def _common(case: Case, reexecution: Reexecution) -> tuple[Tally, ...]:
    found = case.collation.tallies("duplicate_effects", "duplicate_outputs", "phantoms", "reordered")
    holes = list(_holes(reexecution, complete=not case.collation.incomplete))
    if holes:
        found += (tally(Anomaly.LOST_INPUT, len(holes), holes),)
    return found


_Opened = Mapping[tuple[str, int, str, int], Sequence[int]]
"""(sender, its incarnation, receiver, its incarnation) -> for each time that it opened the channel, the place of the
first output that it had to be sent from then on."""


def _holes(reexecution: Reexecution, complete: bool) -> Iterator[Evidence]:
    """Where a receiver passed over outputs though no crash stood between it and them.

    Of what one incarnation upstream makes for it, it takes everything from when it opened the channel until either end
    is gone, or the channel is opened again; and whoever is the first to open it, all that was made until then too. What
    is replayed to it is contiguous. What it has from elsewhere is not passed over.
    """
    opened = _openings(reexecution)
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
                    yield from channel.holes(had, where, ordered=True)
                if deaf and alive:
                    yield Evidence(f"did not open the channel of {up} again", where)
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
            yield from channel.holes(partial(frozenset, has), name, ordered=False)


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


def _openings(reexecution: Reexecution) -> _Opened:
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
        found.setdefault((*channel, record.downstream_incarnation), []).append(made)
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

    def holes(
        self, has: Callable[[], Collection[Derivation | None]], where: str, *, ordered: bool
    ) -> Iterator[Evidence]:
        taken = set(self._taken)
        passed = [place for low, high in self._intervals() for place in range(low, high) if place not in taken]
        known = has() if passed else ()
        missing = [place for place in passed if self._made[place][1] not in known]
        back = sum(later <= earlier for earlier, later in pairwise(self._taken)) if ordered else 0
        disorder = back > max(0, len(self._opened) - 1)
        if missing or disorder:
            seqs = [self._made[place][0] for place in self._taken]
            took = f"#{seqs[0]:,} to #{seqs[-1]:,}" if seqs else "nothing"
            but = f"not #{self._made[missing[0]][0]:,}, and no crash came between" if missing else "not in order"
            yield Evidence(f"took {took} of {self._sender}, but {but}", where)

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


def _rolled_back(reexecution: Reexecution, allowed: int) -> Iterator[Evidence]:
    for slice_id, reruns in reexecution.reruns.items():
        if len(reruns) < 2 or slice_id in reexecution.doubtful:
            continue
        survivors = reexecution.survivors(slice_id)
        survived = set().union(*(survivor.lineage() for survivor in survivors))
        for number, rerun in sorted(reruns.items()):
            lost = [d for d in rerun.took if d not in survived]
            if rerun not in survivors and len(lost) > allowed:
                yield Evidence(
                    f"{len(lost):,} events that incarnation {number} had taken are not in the final state, "
                    f"from input {lost[0][0]} #{lost[0][1]:,} on; its checkpoint interval allows {allowed:,}",
                    slice_id,
                )


ORACLES = (Oracle(GAP, judge_gap), Oracle(AMNESIA, judge_amnesia))
