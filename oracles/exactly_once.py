"""Exactly-once, of effects: nothing is lost and nothing counts twice."""

from __future__ import annotations

from ..harness.core.guarantees import AT_LEAST_ONCE, AT_MOST_ONCE, EXACTLY_ONCE, Guarantee
from ..harness.core.verdicts import Verdict
from ..harness.judging.oracle import EFFECTS, Case, Oracle, decide, effects, missed_states


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """Every input is in the lineage of O and of T exactly once, as far as effects go.

    At-least-once and at-most-once together. An output that is delivered again is no second effect. Of each output one
    copy at least was made of everything that belongs to it; and where the order of inputs does not matter, it and the
    final state are what they are without failures.
    """
    found = effects(case.collation)
    holds = f"{case.collation.inputs:,} inputs, each counted once"
    return decide(case, guarantee, found, holds, unclear=missed_states(case), goes_on=True)


ORACLE = Oracle(EXACTLY_ONCE, judge, implies=(AT_LEAST_ONCE, AT_MOST_ONCE), ranked=True, anomalies=EFFECTS)
