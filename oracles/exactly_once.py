"""Exactly-once, of effects: nothing is lost and nothing counts twice."""

from __future__ import annotations

from ..harness.judging.guarantees import EXACTLY_ONCE, Guarantee
from ..harness.judging.oracle import Case, Oracle, decide, lost
from ..harness.judging.verdicts import Verdict


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """Every input is in the lineage of O and of T exactly once, as far as effects go.

    At-least-once and at-most-once together. An output that is delivered again is no second effect.
    """
    found = lost(case.collation, "lost_state", "lost_output") + case.collation.tallies("duplicate_effects", "phantoms")
    return decide(case, guarantee, found, f"{case.collation.inputs:,} inputs, each counted once")


ORACLE = Oracle(EXACTLY_ONCE, judge)
