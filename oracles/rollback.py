"""Rollback recovery: a crash takes the subject back, and it comes forward again without loss."""

from __future__ import annotations

from ..harness.judging.guarantees import ROLLBACK_DIVERGENT, ROLLBACK_REPEATING, Guarantee
from ..harness.judging.oracle import Case, Oracle, decide, lost
from ..harness.judging.verdicts import Verdict


def judge_repeating(case: Case, guarantee: Guarantee) -> Verdict:
    """Every input is in T exactly once, and outputs after a recovery repeat earlier ones, identical.

    Outputs of one input that were delivered more than once have the same content each time; none is missing, and
    every one is what re-execution of the recorded order gives. (StreamMine3G, section 2.2.2; repeating as in Hwang et
    al. 2005.)
    """
    found = lost(case.collation, "lost_state", "lost_output") + case.collation.tallies(
        "duplicate_effects", "conflicting_outputs", "phantoms", "reordered"
    )
    return decide(case, guarantee, found, _holds(case))


def judge_divergent(case: Case, guarantee: Guarantee) -> Verdict:
    """Every input is in T exactly once; outputs after a recovery may differ from those before, as long as each
    incarnation's are what a legal order of its own gives.

    The orders are the recorded ones; an output that they do not give is a phantom.
    """
    found = lost(case.collation, "lost_state", "lost_output") + case.collation.tallies("duplicate_effects", "phantoms")
    return decide(case, guarantee, found, _holds(case))


def _holds(case: Case) -> str:
    c = case.collation
    return f"0 inputs lost, 0 final states wrong, {c.duplicate_outputs.count:,} outputs repeated"


ORACLES = (Oracle(ROLLBACK_REPEATING, judge_repeating), Oracle(ROLLBACK_DIVERGENT, judge_divergent))
