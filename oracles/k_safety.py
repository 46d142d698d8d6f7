"""k-safety: no failure is felt while every key group keeps a replica."""

from __future__ import annotations

from collections.abc import Sequence

from ..harness.core.guarantees import EXACTLY_ONCE, K_SAFETY, WITHIN, Guarantee
from ..harness.core.parameters import Parameter
from ..harness.core.quantities import Duration
from ..harness.core.reasons import Reason, Why
from ..harness.core.verdicts import Anomaly, Evidence, Tally, Verdict, tally, unknown
from ..harness.judging.latencies import GroupLatencies, latencies
from ..harness.judging.oracle import EFFECTS, Case, Oracle, decide, effects, missed_states, stalled


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """Every input is in the lineage of O and of T exactly once, of effects, the run does not stall, and with a bound,
    no output comes later than that after its input, in any key group.

    That is claimed for as long as every key group had one replica in sync at every moment: with any k machines gone,
    where each group is on k + 1. There is no recovery that it would have to wait for. A key group is what one final
    slice works on; the latency of an output is from when the input at its root was offered until it was first
    delivered. UNKNOWN with a bound where the clock is virtual, and where outputs come of ends of epochs, which are of
    no one input. (k-safety on Storm, sections 2 and 3.)
    """
    collation = case.collation
    limit = guarantee.within
    found = effects(collation)
    holds = f"{collation.inputs:,} inputs, each counted once"
    if found or stalled(case) or not isinstance(limit, Duration):
        return decide(case, guarantee, found, holds, unclear=missed_states(case), goes_on=True)
    if case.timeless:
        reason = Reason(Why.VIRTUAL_TIME)
    elif collation.reexecution is None:
        reason = Reason(Why.NOT_EXECUTABLE, ", so it is not known which input an output is of")
    else:
        groups = case.analysis(latencies)
        slowest = max((group.slowest for group in groups), default=0)
        holds = f"{holds}; the slowest output took {slowest / 1e6:.3f} s"
        unclear = _unmeasured(groups) or missed_states(case)
        return decide(case, guarantee, _late(groups, limit), holds, unclear=unclear, goes_on=True)
    return unknown(guarantee, collation.observables, reason)


def _unmeasured(groups: Sequence[GroupLatencies]) -> Reason | None:
    """Why it is not known how long outputs took; None where it is of all."""
    for group in groups:
        if group.of_no_input:
            said = f"{group.of_no_input:,} outputs of {group.name} come of ends of epochs, and of no one input"
            return Reason(Why.UNSTATED, f"{said}: from when on they are late is not said")
    return None


def _late(groups: Sequence[GroupLatencies], limit: Duration) -> tuple[Tally, ...]:
    late = [
        Evidence(f"the output of {what} came after {latency / 1e6:.3f} s", group.name)
        for group in groups
        for latency, what in sorted(group.latencies, reverse=True)
        if latency > limit.micros
    ]
    return (tally(Anomaly.BOUND_EXCEEDED, len(late), late),) if late else ()


ORACLE = Oracle(
    K_SAFETY,
    judge,
    implies=(EXACTLY_ONCE,),
    anomalies=(*EFFECTS, Anomaly.BOUND_EXCEEDED),
    parameters=(Parameter(WITHIN, (Duration,), "how long after its input an output may come"),),
    on_clock=True,
    executes=True,
)
