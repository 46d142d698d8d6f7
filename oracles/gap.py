"""Gap recovery and amnesia: a crash loses something, and nothing but that."""

from __future__ import annotations

from collections.abc import Iterator

from ..harness.guarantees import AMNESIA, GAP, Guarantee
from ..harness.oracle import Case, Oracle, decide
from ..harness.quantities import Events
from ..harness.reexecution import Reexecution
from ..harness.verdicts import Anomaly, Evidence, Status, Tally, Verdict, tally


def judge_gap(case: Case, guarantee: Guarantee) -> Verdict:
    """T = run(input less the gaps); O is the incarnations one after the other, each a run from its restored state over one
    contiguous interval per channel; what a crash takes back is no more than the checkpoint interval allows; nothing twice.

    A slice takes a checkpoint every n events and never lets a second interval pass while one is not durable, so what an
    incarnation had taken and its successors do not hold is at most 2n events. What was on its way to the slice, or came
    while it was away, belongs to the gap too; its length depends on the outage and is not bounded by n.
    (StreamMine3G, section 2.2.2 and table 7.1.)
    """
    every = guarantee.within.count if isinstance(guarantee.within, Events) else case.checkpoint_every
    reexecution = case.collation.reexecution
    if reexecution is None or every is None:
        reason = "the subject declares no checkpoint interval" if reexecution else "the subject cannot be executed again"
        return Verdict(guarantee, Status.UNKNOWN, case.collation.observables, "", reason=reason)
    rolled_back = list(_rolled_back(reexecution, 2 * every))
    found = _common(case, reexecution)
    if rolled_back:
        found += (tally(Anomaly.STATE_ROLLBACK, len(rolled_back), rolled_back),)
    return decide(case, guarantee, found, _holds(case))


def judge_amnesia(case: Case, guarantee: Guarantee) -> Verdict:
    """As gap recovery, without a bound: a crashed slice may have started blank.

    Each incarnation is still a run over one contiguous interval per channel, and nothing counts twice.
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
    holes = list(_holes(reexecution))
    if holes:
        found += (tally(Anomaly.LOST_INPUT, len(holes), holes),)
    return found


def _holes(reexecution: Reexecution) -> Iterator[Evidence]:
    """Places where an incarnation took something, left out the next of the same channel, and went on after it."""
    for slice_id, reruns in reexecution.reruns.items():
        for rerun in reruns.values():
            bounds: dict[tuple[str, int], list[int]] = {}
            for intake in rerun.intakes:
                sender = (intake.record.upstream, intake.record.upstream_incarnation)
                bounds.setdefault(sender, []).extend(intake.seqs)
            for (upstream, incarnation), seqs in bounds.items():
                sent = _sent(reexecution, upstream, incarnation, slice_id, seqs[0], seqs[-1])
                if sent != seqs:
                    missing = sorted(set(sent) - set(seqs))
                    yield Evidence(
                        f"took {upstream}#{incarnation} #{seqs[0]:,} to #{seqs[-1]:,}, but not "
                        + (f"#{missing[0]:,}" if missing else "in order"),
                        f"{slice_id}#{rerun.number}",
                    )


def _sent(reexecution: Reexecution, upstream: str, incarnation: int, to: str, first: int, last: int) -> list[int]:
    sender = reexecution.reruns.get(upstream, {}).get(incarnation)
    if sender is not None:
        return [event.seq for event in sender.channel(to, first, last)[0]]
    events = reexecution.offered.get(upstream, ())
    receivers = reexecution.topology.receivers
    return [e.seq for e in events if first <= e.seq <= last and to in receivers(upstream, e.key)]


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
