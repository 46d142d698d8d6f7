"""Recovers within t: how long a failure is felt."""

from __future__ import annotations

from ..harness.core.guarantees import RECOVERS, RECOVERS_WITHIN, WITHIN, Guarantee
from ..harness.core.parameters import Parameter
from ..harness.core.quantities import Duration
from ..harness.core.reasons import Reason, Why
from ..harness.core.verdicts import Anomaly, Evidence, Tally, Verdict, tally, unknown
from ..harness.judging.oracle import Case, Oracle, decide
from ..harness.judging.recovery import Recovery, less_what_others_did, recoveries_of
from ..harness.judging.waiting_inputs import WORTH_SAYING
from . import recovers


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """On a real clock, from the failure until the pre-failure progress vector is reached again, and the slice is heard
    again, no recovery takes longer than t.

    Its parts: detected, redeployed, restored, caught up (StreamMine3G, section 7.3.4), heard again: when an output that
    nobody had heard before the failure is taken downstream, or delivered. What it waits for inputs is not counted, and
    where it has made no output of an input, as where only timers or ends of epochs tell, none was due. Nor is counted
    what 95 % of the channel's events took before the first fault, as where outputs are held back until a transaction
    ends; where that decides it, it is said. A receiver that takes late for no reason that is on record counts against
    the slice. A slice that starts blank wants nothing of what it has lost, and is where it was when it opens its
    channels. Who is, and leaves alone what is there for it, has not recovered: it is asked what `recovers` asks, with
    the same limit.

    Of what is not executed again, as a query, outputs are not looked at. Where another replica of the slice was in
    sync, until the slice's outputs go on.

    UNKNOWN where a slice was lost again before it was heard. UNKNOWN, too, where it was heard too late, and others may
    have kept it from that: another fault that was in force meanwhile, and hit it, who takes its outputs or anybody
    after these; a channel with which a receiver merges this one in an order; and where nothing had passed before the
    first fault, so that nobody knows what is usual. So it is where nobody can tell what the slice has made since, or it
    took the state of another meanwhile. UNKNOWN where the clock is virtual, where no fault struck, and where one bit
    that ended no slice, as a pause or a link that broke: how long that is felt, nobody has measured. It cannot be
    claimed of a query with a source or a sink of its own, of which nobody sees when it takes what, nor certified of any
    query: a crash state is put back at no moment of a run.
    """
    observables = ("progress",)
    limit = guarantee.within
    if not isinstance(limit, Duration):
        return unknown(guarantee, observables, Reason(Why.UNSTATED, "the claim states no limit"))
    if case.timeless:
        return unknown(guarantee, observables, Reason(Why.VIRTUAL_TIME))
    found = [
        less_what_others_did(case, one) if (one.total or 0) > limit.micros else one
        for one in case.analysis(recoveries_of)
    ]
    late = [r for r in found if r.at_least > limit.micros]
    unfinished = [r for r in found if r.total is None]
    if unfinished and not late:
        return unknown(guarantee, observables, Reason(Why.INCOMPLETE, _unfinished(case, unfinished[0])))
    unsure = [r for r in found if (r.total or 0) > limit.micros]
    if unsure and not late:
        return unknown(guarantee, observables, Reason(Why.AMBIGUOUS, _unsure(unsure[0])))
    measured = {r.fault for r in found}
    felt = [struck for struck in case.history.struck() if struck.bite.bit and struck.number not in measured]
    if felt and not late:
        told = (
            f"fault {felt[0].number + 1} ended no slice, and how long it was felt is not measured: {felt[0].fault}; "
            "recovers, with a bound, says when work went on after it"
        )
        return unknown(guarantee, observables, Reason(Why.NOTHING_TO_JUDGE, told))
    anomalies: tuple[Tally, ...] = ()
    if late:
        anomalies = (tally(Anomaly.BOUND_EXCEEDED, len(late), map(_evidence, late)),)
    slowest = max((r.total or 0 for r in found), default=0)
    nothing = Reason(Why.NOTHING_TO_JUDGE, "no fault struck, so there was nothing to recover from")
    said = f"slowest of {len(found)} recoveries {slowest / 1e6:.2f} s"
    usual = max((r.usual for r in found), default=0)
    if usual >= WORTH_SAYING:
        said += f"; beside it, {usual / 1e6:.2f} s is what outputs took before the first fault"
    unclear = None if found or case.unproven else nothing
    if found and not late:
        # Who is back where it was, and leaves what is there for it alone, has not recovered.
        back = recovers.judge(case, Guarantee(RECOVERS, limit))
        anomalies = tuple(one for one in back.anomalies if one.anomaly is Anomaly.BOUND_EXCEEDED)
        unclear = back.unknown
    return decide(case, guarantee, anomalies, said, unclear=unclear)


def _unfinished(case: Case, recovery: Recovery) -> str:
    """Why it is not known how long a recovery took."""
    actor, fault, struck = recovery.actor, recovery.fault + 1, case.history.struck()
    at = next(one.stamp.at for one in struck if one.number == recovery.fault and actor in one.bite.actors)
    again = [one for one in struck if one.bite.gone and actor in one.bite.actors and one.stamp.at > at]
    if again:
        next_fault = min(again, key=lambda one: one.stamp.at).number + 1
        short = "had caught up" if recovery.until_caught_up is None else "was heard"
        return f"{actor} was lost again, by fault {next_fault}, before it {short} after fault {fault}"
    if recovery.why:
        return f"{actor} came to where it was after fault {fault}, and when it was heard is not known: {recovery.why}"
    if recovery.until_caught_up is not None:
        return f"{actor} came to where it was after fault {fault}, and no new output of it was heard"
    return f"{actor} was not seen to catch up after fault {fault}"


def _unsure(recovery: Recovery) -> str:
    """Why it is not known whether a recovery took too long."""
    before, whole = (recovery.until_caught_up or 0) / 1e6, (recovery.total or 0) / 1e6
    return (
        f"{recovery.actor} came to where it was {before:.2f} s after fault {recovery.fault + 1} and was heard after "
        f"{whole:.2f} s, which others may have brought about: {recovery.why}"
    )


def _evidence(recovery: Recovery) -> Evidence:
    least = recovery.at_least / 1e6
    said = f"not recovered after {least:.2f} s" if recovery.total is None else f"recovered after {least:.2f} s"
    if recovery.unsure:
        said += ", or later"
    if recovery.usual >= WORTH_SAYING:
        said += f", beside {recovery.usual / 1e6:.2f} s that outputs took before the first fault"
    return Evidence(said, recovery.actor, (), recovery.fault)


ORACLE = Oracle(
    RECOVERS_WITHIN,
    judge,
    anomalies=(Anomaly.BOUND_EXCEEDED,),
    parameters=(Parameter(WITHIN, (Duration,), "how long a recovery may take", required=True),),
    on_clock=True,
    sees_progress=True,
)
