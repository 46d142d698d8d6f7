"""Precise recovery: the failure is masked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..harness.core.guarantees import EXACTLY_ONCE_OUTPUT, GAP, PRECISE, ROLLBACK_REPEATING, Guarantee
from ..harness.core.reasons import Reason, Why
from ..harness.core.slice_names import channel_name
from ..harness.core.verdicts import Anomaly, Evidence, Tally, Verdict, tally
from ..harness.judging.collation import Collation, seen
from ..harness.judging.exactness import same_rows, same_value
from ..harness.judging.expected import made_by
from ..harness.judging.long_lineages import first_difference
from ..harness.judging.oracle import EFFECTS, Case, Oracle, decide, effects, missed_states
from ..harness.judging.ordering import first_moved, order_matters
from ..harness.judging.reexecution import Reexecution
from ..harness.judging.reruns import Rerun
from ..harness.protocol.merging import Order


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """One legal order pi gives run(pi) = O per sink channel and run(pi) = T, and the order after a recovery extends
    the one before it, up to the last visible effect.

    The order is the recorded one; of a slice with replicas that of one of them which lives to the end, and the others
    hold what it holds. O has every output once, in order, as pi gives it, and so has every slice what it took of
    another; T is what pi gives; and wherever an incarnation of a slice with state is gone after something that it took
    had become visible (delivered, or taken downstream), those who are left have taken the same, in the same order, or,
    where that is declared to be free within an epoch, in the same epoch. It is
    legal: every incarnation takes each channel in its own order and without holes, and several in that of their merge;
    and a timer of event time fires when the operator asks for it, after all events up to then and before any later.
    run(pi) is executed from the beginning, and restores nothing.
    (StreamMine3G, section 2.2.2.) A black box does not say its order: UNKNOWN, unless it differs from the runs
    without failures.
    """
    collation = case.collation
    if collation.reexecution is None:
        return _not_executable(case, guarantee)
    found = effects(collation) + _wrong(collation)
    if not collation.incomplete:
        found += _not_of_one_order(collation.reexecution)
    holds = f"{collation.inputs:,} inputs: outputs and state as without the failure"
    return decide(case, guarantee, found, holds, unclear=missed_states(case), goes_on=True)


def _wrong(collation: Collation) -> tuple[Tally, ...]:
    """What shows beyond effects that the failure was not masked."""
    c = collation
    orders = seen(c.reordered, c.disordered, c.unmerged, c.mistimed)
    return seen(c.duplicate_outputs, c.superseded_outputs) + orders + seen(c.passed_over)


def _not_executable(case: Case, guarantee: Guarantee) -> Verdict:
    """What differs from the runs without failures shows that the failure was not masked. Nothing shows that it was."""
    collation = case.collation
    found = effects(collation) + _wrong(collation) + seen(collation.conflicting_outputs)
    unclear = Reason(Why.NOT_EXECUTABLE, ", so its order is not known")
    return decide(case, guarantee, found, "", unclear=unclear, goes_on=True)


def _not_of_one_order(reexecution: Reexecution) -> tuple[Tally, ...]:
    found: dict[Anomaly, list[Evidence]] = {}
    stateful = set(reexecution.stateful())
    for slice_id, reruns in reexecution.reruns.items():
        survivors = reexecution.survivors(slice_id)
        if len(reruns) < 2 or slice_id in reexecution.doubtful or slice_id not in stateful:
            continue
        complaints = (list(_complaints(reexecution, survivor, survivors)) for survivor in survivors)
        for anomaly, evidence in min(complaints, key=len):
            found.setdefault(anomaly, []).append(evidence)
    return tuple(tally(anomaly, len(evidence), evidence) for anomaly, evidence in found.items())


_Complaint = tuple[Anomaly, Evidence]


def _complaints(reexecution: Reexecution, pi: Rerun, survivors: Sequence[Rerun]) -> Iterator[_Complaint]:
    """What the order of one survivor does not explain."""
    slice_id = pi.slice_id
    held = reexecution.kept.get(slice_id, {})
    compared = len(survivors) > 1 or order_matters(reexecution)
    for rerun in reexecution.reruns[slice_id].values():
        if rerun is pi:
            continue
        if rerun not in survivors:
            yield from ((Anomaly.REORDERED_OUTPUT, evidence) for evidence in _changes(reexecution, rerun, pi))
        elif rerun.number in held and pi.number in held and not same_rows(held[rerun.number], held[pi.number]):
            what = f"#{rerun.number} and #{pi.number} do not hold the same at the end"
            yield Anomaly.REPLICA_DIVERGENCE, Evidence(what, slice_id)
        if compared:
            yield from ((Anomaly.PHANTOM_OUTPUT, evidence) for evidence in _other_outputs(reexecution, rerun, pi))


def _changes(reexecution: Reexecution, rerun: Rerun, survivor: Rerun) -> Iterator[Evidence]:
    if reexecution.order(rerun.slice_id) is Order.PER_EPOCH:
        yield from _changed_epochs(reexecution, rerun, survivor)
        return
    after = survivor.lineage()
    for visible in reexecution.visible(rerun):
        before = rerun.lineage(visible)
        place = first_difference(before, after)
        if place is not None:
            derivation = before[place]
            yield Evidence(
                f"incarnation {rerun.number} had taken {reexecution.said(derivation)} as number "
                f"{place + 1}, and it was visible; after the recovery another came in its place",
                rerun.slice_id,
            )


def _changed_epochs(reexecution: Reexecution, rerun: Rerun, survivor: Rerun) -> Iterator[Evidence]:
    """The same where the order within an epoch is free: what it had taken in an epoch is taken in that epoch again."""
    for visible in reexecution.visible(rerun):
        moved = first_moved(rerun, visible, survivor)
        if moved is not None:
            derivation, epoch = moved
            yield Evidence(
                f"incarnation {rerun.number} had taken {reexecution.said(derivation)} in epoch {epoch:,}, and it was "
                "visible; after the recovery it was not taken there",
                rerun.slice_id,
            )


def _other_outputs(reexecution: Reexecution, rerun: Rerun, pi: Rerun) -> Iterator[Evidence]:
    """Outputs of one incarnation that somebody took, and that are others in the order of another."""
    for to in rerun.emitted:
        if rerun.emitted[to] is pi.emitted[to]:
            continue
        made, should = made_by(rerun, to), made_by(pi, to)
        for derivation in dict.fromkeys(reexecution.heard(rerun, to)):
            one, other = made.get(derivation), should.get(derivation)
            if one is None or one is other:
                continue
            if other is None or one.key != other.key or not same_value(one.value, other.value):
                instead = "nothing" if other is None else f"({other.key!r}, {other.value!r})"
                yield Evidence(
                    f"of #{rerun.number} came ({one.key!r}, {one.value!r}) for {reexecution.said(derivation)}; the "
                    f"order that survives in #{pi.number} gives {instead}",
                    channel_name(rerun.slice_id, to),
                )
                break


ORACLE = Oracle(
    PRECISE,
    judge,
    implies=(ROLLBACK_REPEATING, EXACTLY_ONCE_OUTPUT, GAP),
    ranked=True,
    anomalies=(
        *EFFECTS,
        Anomaly.DUPLICATE_OUTPUT,
        Anomaly.REORDERED_OUTPUT,
        Anomaly.STATE_ROLLBACK,
        Anomaly.REPLICA_DIVERGENCE,
    ),
    executes=True,
)
