"""At-least-once: nothing is lost."""

from __future__ import annotations

from ..harness.core.guarantees import AT_LEAST_ONCE, Guarantee
from ..harness.core.reasons import Reason, Why
from ..harness.core.verdicts import Anomaly, Verdict
from ..harness.judging.collation import seen
from ..harness.judging.oracle import Case, Oracle, decide, missed_states, neither_lost_nor_doubled


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """Every input is in the lineage of O and of T at least once.

    For each derivation of an input that an execution without failures takes into a state, the surviving incarnation's
    lineage has it; for each that it makes an output of, the recorder took that output at least once; where inputs come
    again in another order, it is what that order gives. What belongs to an
    output by the operator's window, and is missing from each copy of it, comes again while it is in the window: what
    came late is not lost. A checkpoint gives back the state that it was taken of, and a partial one that somebody began
    with leaves out nothing. Decidable only after the end of the
    input and quiescence. UNKNOWN where outputs or rows of state are wrong, since the records do not say then what they
    hold; and where a black box's can stand in the place of what it lacks.
    """
    collation = case.collation
    found = seen(collation.unfaithful, collation.left_out)
    if not collation.doubt and not collation.incomplete:
        found = seen(*collation.lost_in_order) + found
    unclear = neither_lost_nor_doubled(case)
    if unclear is None and collation.phantoms.count:
        wrong = f"{collation.phantoms.count:,} outputs or rows of state are not what was taken gives"
        unclear = Reason(Why.AMBIGUOUS, wrong)
    unclear = unclear or missed_states(case)
    late = collation.lacking.count
    came_late = f"; {late:,} came again only after outputs that they belong to" if late else ""
    return decide(
        case, guarantee, found, f"0 of {collation.inputs:,} inputs lost{came_late}", unclear=unclear, goes_on=True
    )


ORACLE = Oracle(
    AT_LEAST_ONCE,
    judge,
    ranked=True,
    anomalies=(Anomaly.LOST_INPUT, Anomaly.UNFAITHFUL_SNAPSHOT, Anomaly.STALL),
)
