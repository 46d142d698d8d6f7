"""Exactly-once output: exactly-once, and no output is repeated."""

from __future__ import annotations

from ..harness.core.guarantees import EXACTLY_ONCE, EXACTLY_ONCE_OUTPUT, Guarantee
from ..harness.core.verdicts import Anomaly, Verdict
from ..harness.judging.collation import seen
from ..harness.judging.oracle import EFFECTS, Case, Oracle, decide, effects, missed_states, unseen_outputs


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """Every input is in the lineage of O and of T exactly once, and the recorder took each output once.

    An output of an order of inputs that was given up counts as one too many: what is in T shows, or showed, otherwise.
    UNKNOWN where nothing but T was observed, and T is right.
    """
    collation = case.collation
    found = effects(collation) + seen(collation.duplicate_outputs, collation.superseded_outputs)
    holds = f"{collation.inputs:,} inputs, each counted and delivered once"
    return decide(case, guarantee, found, holds, unclear=unseen_outputs(case) or missed_states(case), goes_on=True)


ORACLE = Oracle(
    EXACTLY_ONCE_OUTPUT,
    judge,
    implies=(EXACTLY_ONCE,),
    ranked=True,
    anomalies=(*EFFECTS, Anomaly.DUPLICATE_OUTPUT),
    sees_outputs=True,
)
