"""Bounded error: failures cost a little, and never more than that."""

from __future__ import annotations

from dataclasses import replace

from ..harness.core.guarantees import AT_MOST_ONCE, BOUNDED_ERROR, Guarantee
from ..harness.core.parameters import Parameter
from ..harness.core.quantities import Duration
from ..harness.core.reasons import Reason, Why
from ..harness.core.verdicts import Anomaly, Evidence, Measured, Tally, Verdict, tally, unknown
from ..harness.judging.bounded_losses import ErrorBound, MeasuredLosses, is_over, unknowable
from ..harness.judging.collation import seen
from ..harness.judging.oracle import Case, Oracle, decide


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """However many failures there are, the states of an operator are no further than Theta e + alpha x (inputs that no
    slice of it took) from what they were without failures; no more than L e inputs, and Gamma e outputs of each
    operator that feeds it, were made and taken by nobody; and no more than (Gamma + L beta) e outputs are missing at
    the sinks. e is 1 - 2^-k after k failures of the slice that failed most, which is less than 1. On a channel, and in
    the state of a slice, no more may be missing than by the failures of its own ends, or its own: one that never failed
    loses nothing. What was lost of a state counts in the end, and as it was when it had just been lost. With windows,
    what failures in one of them took from states is no further than Theta e by the failures in it; of inputs and
    outputs, of which no record says when they were lost, e is the sum over the windows. A failure is an incarnation in
    the place of another. Nothing counts twice or comes out of order, and what an operator takes
    for a punctuation is not lost.

    The ideal state is that of an execution of all input, as those upstream made it, in the order of its channels. beta
    is measured, and so is what the lost inputs have moved, where that is less than alpha allows, but for operators that
    compensate; alpha is compared with how far events move the state. The operator's distance of two states is examined:
    it has to be 0 where, and only where, their rows are the same, the same both ways round, no longer than by way of a
    third state, and all that also once everything was measured. UNKNOWN for operators without one, or without an ideal
    state, as those with timers or epochs.
    (AF-Stream, sections 3.4 and 3.5; the paper leaves out what is lost upstream, and at the sinks what several
    operators in a row lose.)
    """
    collation = case.collation
    reexecution, wanted = collation.reexecution, collation.wanted
    if reexecution is None or wanted is None:
        return unknown(guarantee, collation.observables, Reason(Why.NOT_EXECUTABLE))
    if why := unknowable(reexecution):
        return unknown(guarantee, collation.observables, Reason(Why.UNSTATED, why))
    never = (collation.duplicate_effects, collation.duplicate_outputs, collation.phantoms, collation.unfaithful)
    found = seen(*never) + _disorder(case)
    if collation.incomplete or reexecution.doubtful:
        return decide(case, guarantee, found, "", goes_on=True)
    losses = MeasuredLosses(reexecution, wanted, bound_of(guarantee))
    if gone := list(losses.lost_punctuations()):
        found += (tally(Anomaly.LOST_INPUT, len(gone), (Evidence(f"{d} ended a window", s) for s, d in gone)),)
    distances = list(losses.false_distances())
    measured = tuple(losses.measured())
    distances += losses.false_distances(once_more=True) if not distances else ()
    false = [Evidence(one.why, one.slice_id) for one in distances]
    exceeded = [_exceeded(one) for one in measured if is_over(one)]
    if false or exceeded:
        found += (tally(Anomaly.BOUND_EXCEEDED, len(false) + len(exceeded), (*false, *exceeded)),)
    wide = losses.said_of_wide_bounds(measured)
    verdict = decide(case, guarantee, found, said_of_amounts(measured) + wide, goes_on=True)
    return replace(verdict, measured=measured)


def said_of_amounts(measured: tuple[Measured, ...]) -> str:
    """What came closest to its bound."""
    closest = max(measured, key=lambda one: one.ratio)
    return f"at most {closest.ratio:.0%} of a bound was used: {closest}"


def bound_of(guarantee: Guarantee) -> ErrorBound:
    window = guarantee.amount("window")
    return ErrorBound(
        guarantee.required("theta", float),
        guarantee.required("l", float),
        guarantee.required("gamma", float),
        window.micros // 1_000 if isinstance(window, Duration) else None,
    )


def _exceeded(one: Measured) -> Evidence:
    return Evidence(
        f"after {one.failures} failures: {one.what} {one.amount:,.6g}, {one.allowed:,.6g} allowed", one.where
    )


def _disorder(case: Case) -> tuple[Tally, ...]:
    """What an incarnation took of a channel in another order than it was sent in; and where there is one channel all
    the way, what came out in another."""
    topology = case.collation.reexecution.topology if case.collation.reexecution is not None else None
    lines = topology is not None and all(len(topology.upstream(s)) < 2 for s in topology.operator_slices)
    return seen(case.collation.disordered, *([case.collation.reordered] if lines else []))


ORACLE = Oracle(
    BOUNDED_ERROR,
    judge,
    implies=(AT_MOST_ONCE,),
    anomalies=(
        Anomaly.BOUND_EXCEEDED,
        Anomaly.LOST_INPUT,
        Anomaly.DUPLICATE_EFFECT,
        Anomaly.DUPLICATE_OUTPUT,
        Anomaly.PHANTOM_OUTPUT,
        Anomaly.REORDERED_OUTPUT,
        Anomaly.UNFAITHFUL_SNAPSHOT,
        Anomaly.STALL,
    ),
    parameters=(
        Parameter("theta", (float,), "how far all failures together may move a state", required=True, least=0),
        Parameter("l", (float,), "how many inputs they may take from each operator", required=True, least=0),
        Parameter("gamma", (float,), "how many outputs of each operator they may take", required=True, least=0),
        Parameter(
            "window",
            (Duration,),
            "event time after which a failure counts no more; the whole run if not said",
            least=Duration(1_000),
        ),
    ),
    executes=True,
)
