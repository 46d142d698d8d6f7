"""Precise recovery: the failure is masked."""

from __future__ import annotations

from collections.abc import Iterator

from ..harness.judging.collation import Collation
from ..harness.judging.guarantees import PRECISE, Guarantee
from ..harness.judging.oracle import Case, Oracle, decide, lost
from ..harness.judging.reexecution import Reexecution
from ..harness.judging.reruns import Rerun
from ..harness.judging.verdicts import Anomaly, Evidence, Status, Tally, Verdict, tally


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """One legal order pi gives run(pi) = O per sink channel and run(pi) = T, and the order after a recovery extends
    the one before it, up to the last visible effect.

    The order is the recorded one. O has every output once, in order, as pi gives it; T is what pi gives; and wherever
    an incarnation of a slice with state died after something that it took had become visible (delivered, or taken
    downstream), those who replaced it have taken the same, in the same order. (StreamMine3G, section 2.2.2.)
    """
    collation = case.collation
    if collation.reexecution is None:
        return _not_executable(case, guarantee)
    found = lost(collation, "lost_state", "lost_output") + collation.tallies(
        "duplicate_effects", "duplicate_outputs", "phantoms", "reordered"
    )
    found += _changed_order(collation, collation.reexecution)
    return decide(case, guarantee, found, f"{collation.inputs:,} inputs: outputs and state as without the failure")


def _not_executable(case: Case, guarantee: Guarantee) -> Verdict:
    reason = "the subject cannot be executed again, so its order is not known"
    return Verdict(guarantee, Status.UNKNOWN, case.collation.observables, "", reason=reason)


def _changed_order(collation: Collation, reexecution: Reexecution) -> tuple[Tally, ...]:
    stateful = set(reexecution.stateful())
    changed = [
        evidence
        for slice_id, reruns in reexecution.reruns.items()
        if len(reruns) > 1 and slice_id in stateful and slice_id not in reexecution.doubtful
        for evidence in _changes(reexecution, slice_id, reexecution.survivors(slice_id)[0])
    ]
    return (tally(Anomaly.REORDERED_OUTPUT, len(changed), changed),) if changed and not collation.incomplete else ()


def _changes(reexecution: Reexecution, slice_id: str, survivor: Rerun) -> Iterator[Evidence]:
    after = survivor.lineage()
    survivors = reexecution.survivors(slice_id)
    for rerun in reexecution.reruns[slice_id].values():
        if rerun in survivors:
            continue
        for visible in reexecution.visible(rerun):
            for place, derivation in enumerate(rerun.lineage(visible)):
                if place >= len(after) or after[place] != derivation:
                    yield Evidence(
                        f"incarnation {rerun.number} had taken input {derivation[0]} #{derivation[1]:,} as number "
                        f"{place + 1}, and it was visible; after the recovery another came in its place",
                        slice_id,
                    )
                    break


ORACLE = Oracle(PRECISE, judge)
