"""At-most-once: nothing counts twice."""

from __future__ import annotations

from ..harness.core.guarantees import AT_MOST_ONCE, Guarantee
from ..harness.core.verdicts import Anomaly, Verdict
from ..harness.judging.collation import seen
from ..harness.judging.oracle import Case, Oracle, decide, neither_lost_nor_doubled


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """Every input is in the lineage of T, and of each output in O, at most once; of effects.

    An output that is delivered again is no second effect; what it says is checked against what was taken. UNKNOWN where
    a black box gave a wrong one.
    """
    collation, unclear = case.collation, neither_lost_nor_doubled(case)
    found = () if collation.doubt else seen(collation.duplicate_effects)
    found += seen(collation.phantoms) if unclear is None else ()
    return decide(case, guarantee, found, "0 inputs counted twice", unclear=unclear)


ORACLE = Oracle(
    AT_MOST_ONCE,
    judge,
    ranked=True,
    anomalies=(Anomaly.DUPLICATE_EFFECT, Anomaly.PHANTOM_OUTPUT, Anomaly.WRONG_VALUE),
)
