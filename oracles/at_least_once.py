"""At-least-once: nothing is lost."""

from __future__ import annotations

from ..harness.judging.guarantees import AT_LEAST_ONCE, Guarantee
from ..harness.judging.oracle import Case, Oracle, decide, lost, neither_lost_nor_doubled
from ..harness.judging.verdicts import Verdict


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """Every input is in the lineage of O and of T at least once.

    For each derivation of an input that an execution without failures takes into a state, the surviving incarnation's
    lineage has it; for each that it makes an output of, the recorder took that output at least once. Decidable only
    after the end of the input and quiescence. UNKNOWN where a black box lacks no output, and gave a wrong one, or
    where it gave wrong ones that can stand in the place of what it lacks.
    """
    found = () if case.collation.doubt else lost(case.collation, "lost_state", "lost_output")
    holds = f"0 of {case.collation.inputs:,} inputs lost"
    return decide(case, guarantee, found, holds, unclear=neither_lost_nor_doubled(case))


ORACLE = Oracle(AT_LEAST_ONCE, judge)
