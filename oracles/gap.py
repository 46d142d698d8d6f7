"""Gap recovery and amnesia: a crash loses something, and nothing but that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from ..harness.judging.guarantees import AMNESIA, GAP, Guarantee
from ..harness.judging.oracle import Case, Oracle, decide
from ..harness.judging.reexecution import Delivery, Derivation, Reexecution, Rerun
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


@dataclass(frozen=True)
class _Stretch:
    """What one incarnation of a receiver took from one incarnation upstream."""

    upstream: str
    incarnation: int
    to: str
    where: str
    seqs: Sequence[int]
    opens: bool
    """It is the first to have opened the channel: until then, the outputs waited."""
    survives: bool
    """Neither end was replaced."""
    ordered: bool
    """Its order says something that no tally says."""
    has: Callable[[], Collection[Derivation | None]]
    """Everything that it ever had, from whomever."""


def _holes(reexecution: Reexecution, complete: bool) -> Iterator[Evidence]:
    """Where a receiver passed over outputs though no crash stood between it and them.

    What it takes of one incarnation upstream is contiguous. It begins with the first output, for the one who opens the
    channel first, and ends with the last one where neither end was replaced. What it has from elsewhere is not passed
    over.
    """
    for stretch in _stretches(reexecution):
        seqs = stretch.seqs
        whole = stretch.survives and complete
        if not seqs and not (stretch.opens and whole):
            continue
        low = 0 if stretch.opens else seqs[0]
        high = sys.maxsize if whole else seqs[-1]
        taken = set(seqs)
        passed = [(seq, d) for seq, d in _made(reexecution, stretch) if low <= seq <= high and seq not in taken]
        has = stretch.has() if passed else ()
        missing = [seq for seq, derivation in passed if derivation not in has]
        disorder = stretch.ordered and any(later <= earlier for earlier, later in pairwise(seqs))
        if missing or disorder:
            took = f"#{seqs[0]:,} to #{seqs[-1]:,}" if seqs else "nothing"
            but = f"not #{missing[0]:,}, and no crash came between" if missing else "not in order"
            yield Evidence(f"took {took} of {stretch.upstream}#{stretch.incarnation}, but {but}", stretch.where)


def _stretches(reexecution: Reexecution) -> Iterator[_Stretch]:
    topology = reexecution.topology
    for to, reruns in reexecution.reruns.items():
        for rerun in reruns.values():
            took: dict[tuple[str, int], list[int]] = {}
            for intake in rerun.intakes:
                record = intake.record
                took.setdefault((record.upstream, record.upstream_incarnation), []).extend(intake.seqs)
            for upstream in topology.upstream(to):
                senders = reexecution.reruns.get(upstream, {1: None})
                for incarnation, sender in senders.items():
                    up_before = sender is None or reexecution.started_at(sender) <= reexecution.started_at(rerun)
                    yield _Stretch(
                        upstream,
                        incarnation,
                        to,
                        f"{to}#{rerun.number}",
                        took.get((upstream, incarnation), ()),
                        rerun.number == 1 or not up_before,
                        rerun.number == max(reruns) and incarnation == max(senders),
                        True,
                        partial(_lineage, rerun),
                    )
    for channel, deliveries in reexecution.deliveries.items():
        upstream, _, sink = channel.partition(">")
        delivered: dict[int, list[int]] = {}
        for delivery in deliveries:
            rows = delivery.record.rows
            delivered.setdefault(delivery.record.incarnation, []).extend(row.seq for row in rows)
        senders = reexecution.reruns.get(upstream, {1: None})
        for incarnation in senders:
            yield _Stretch(
                upstream,
                incarnation,
                sink,
                channel,
                delivered.get(incarnation, ()),
                True,
                incarnation == max(senders),
                False,
                partial(_derivations, deliveries),
            )


def _lineage(rerun: Rerun) -> set[Derivation | None]:
    return set(rerun.lineage())


def _derivations(deliveries: Sequence[Delivery]) -> set[Derivation | None]:
    return {derivation for delivery in deliveries for derivation in delivery.derivations}


def _made(reexecution: Reexecution, stretch: _Stretch) -> Iterable[tuple[int, Derivation]]:
    """What the incarnation upstream made for the receiver itself, and of an inherited log what the receiver took."""
    sender = reexecution.reruns.get(stretch.upstream, {}).get(stretch.incarnation)
    if sender is not None:
        first = min(sender.first_seq, stretch.seqs[0]) if stretch.seqs else sender.first_seq
        events, derivations = sender.channel(stretch.to, first, sys.maxsize)
        return zip((event.seq for event in events), derivations, strict=True)
    receivers = reexecution.topology.receivers
    return (
        (event.seq, (event.source, event.seq))
        for event in reexecution.offered.get(stretch.upstream, ())
        if stretch.to in receivers(stretch.upstream, event.key)
    )


def _rolled_back(reexecution: Reexecution, allowed: int) -> Iterator[Evidence]:
    for slice_id, reruns in reexecution.reruns.items():
        if len(reruns) < 2:
            continue
        survived = set(reruns[max(reruns)].lineage())
        for number, rerun in sorted(reruns.items())[:-1]:
            lost = [d for d in rerun.took if d not in survived]
            if len(lost) > allowed:
                yield Evidence(
                    f"{len(lost):,} events that incarnation {number} had taken are not in the final state, "
                    f"from input {lost[0][0]} #{lost[0][1]:,} on; its checkpoint interval allows {allowed:,}",
                    slice_id,
                )


ORACLES = (Oracle(GAP, judge_gap), Oracle(AMNESIA, judge_amnesia))
