"""Gap recovery and amnesia: a crash loses something, and nothing but that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from ..harness.core.guarantees import AMNESIA, AT_MOST_ONCE, GAP, OPENS_WITHIN, WITHIN, Guarantee
from ..harness.core.parameters import Parameter
from ..harness.core.quantities import Duration, Events, ms
from ..harness.core.reasons import Reason, Why
from ..harness.core.verdicts import Anomaly, Evidence, Tally, Verdict, tally, unknown
from ..harness.judging.changes import most_unprotected, raised
from ..harness.judging.collation import seen
from ..harness.judging.contiguity import find_flaws, was_there_to_the_end
from ..harness.judging.long_lineages import both_in, not_in
from ..harness.judging.oracle import Case, Oracle, decide, missed_states
from ..harness.judging.reexecution import Reexecution
from ..harness.judging.reruns import Derivation, Rerun
from ..harness.judging.stalls import STATED
from ..harness.recording.history import FaultHealed, FaultStruck, History, NodeGone
from ..harness.recording.records import Changed, Delivered, Opened, Taken

OPENS_WITHIN_SIMULATED = ms(20)
"""After its start a slice has opened its channels by then on virtual time, where a message takes some milliseconds at
most and a claim does not say otherwise; on a real clock, by when it would have stalled."""


def judge_gap(case: Case, guarantee: Guarantee) -> Verdict:
    """T = run(input less the gaps); O is the incarnations one after the other, each a run from its restored state
    over one contiguous interval per channel, with timers of event time where the events put them, all that are due;
    nothing twice. A gap is what a crash takes back and what comes until the slice hears again, and no more.

    What it takes back comes after the newest checkpoint that was durable, and is no more than 2n events: a slice takes
    a checkpoint every n events and never lets a second interval pass while one is not durable. Where a coordinator has
    changed the interval, each of the two is no longer than was in force when it passed, if no amount is claimed. What
    comes until the slice hears again ends when it opens its channels, and that follows its start, and the last fault
    before, within a declared time. Its length depends on the outage and is not bounded by n. A checkpoint gives back
    the state that it was taken of. (StreamMine3G, section 2.2.2 and table 7.1.)
    """
    stated = isinstance(guarantee.within, Events)
    every = guarantee.within.count if isinstance(guarantee.within, Events) else case.checkpoint_every
    collation = case.collation
    reexecution = collation.reexecution
    if reexecution is None or every is None:
        undeclared = Reason(Why.UNSTATED, "the subject declares no checkpoint interval")
        reason = undeclared if reexecution else Reason(Why.NOT_EXECUTABLE)
        return unknown(guarantee, collation.observables, reason)
    found = _common(case) + seen(collation.unfaithful)
    gone = () if collation.incomplete else seen(collation.lost_state, collation.lost_output)
    late = list(_opened_late(case, guarantee, reexecution)) if gone and not collation.passed_over.count else []
    if late:
        found += (tally(Anomaly.LOST_INPUT, len(late), late, "taken up too late"),)
    changes = {} if stated else reexecution.changes
    missed = missed_states(case)
    rolled_back = list(_rolled_back(reexecution, every, changes)) if gone or missed else []
    if rolled_back and gone:
        found += (tally(Anomaly.STATE_ROLLBACK, len(rolled_back), rolled_back),)
    if gone and not found and (why := case.analysis(unopened)):
        return unknown(guarantee, collation.observables, Reason(Why.UNJUDGEABLE, why))
    holds, seldom = _holds(case), raised(changes, every)
    if seldom:
        holds += f"; gaps could be longer than declared, since a coordinator let checkpoints be taken by {seldom}"
    # Of what only the window of an operator excuses, its rows may miss more than a gap may take.
    beyond = "; ".join(one.what for one in rolled_back[:1])
    unclear = replace(missed, about=f"{missed.about}; {beyond}") if missed and rolled_back else None
    return decide(case, guarantee, found, holds, unclear=unclear, goes_on=True)


def unopened(case: Case) -> str:
    """Who took from a channel, and is not on record to have opened it: then nobody knows where its gap ends. Nor does
    anybody where no channel at all was opened. In words; empty where there is none."""
    return _never_opened(case, lambda opened, taken: False)


def unopened_by_the_living(case: Case) -> str:
    """The same, but for what was taken where one of both was gone in the end, and an incarnation before had opened the
    channel: a receiver that starts again takes that from a backup of its own, and opens nothing."""
    reexecution = case.collation.reexecution
    assert reexecution is not None, "whoever asks has executed it again"

    @cache
    def lasts(slice_id: str, number: int) -> bool:
        rerun = reexecution.reruns.get(slice_id, {}).get(number)
        return rerun is None or was_there_to_the_end(reexecution, rerun)

    def was_kept(opened: Collection[_Ends], taken: Taken) -> bool:
        up, number = taken.upstream, taken.upstream_incarnation
        if lasts(up, number) and lasts(taken.slice, taken.incarnation):
            return False
        return any((up, number, taken.slice, before) in opened for before in range(1, taken.incarnation))

    return _never_opened(case, was_kept)


_Ends = tuple[str, int, str, int]
"""Upstream and its incarnation, downstream and its incarnation."""


def _never_opened(case: Case, was_kept: Callable[[Collection[_Ends], Taken], bool]) -> str:
    """As `unopened`, but for what the receiver had kept of what was sent before."""
    history = case.history
    opened = {(o.slice, o.incarnation, o.downstream, o.downstream_incarnation) for o in history.each(Opened)}
    for t in history.each(Taken):
        if (t.upstream, t.upstream_incarnation, t.slice, t.incarnation) not in opened and not was_kept(opened, t):
            return _unopened(f"{t.slice}#{t.incarnation}", f"{t.upstream}#{t.upstream_incarnation}")
    # A delivery does not say which incarnation of its sink took it.
    by_anybody = {ends[:3] for ends in opened}
    reexecution = case.collation.reexecution
    assert reexecution is not None, "whoever asks has executed it again"
    for name, deliveries in reexecution.deliveries.items():
        up, _, sink = name.partition(">")
        made = reexecution.reruns.get(up, {})
        silent = {number for number in made if (up, number, sink) not in by_anybody}
        # As a rule there is none, and nobody has to go through what was delivered.
        for delivery in deliveries if silent else ():
            number = delivery.record.incarnation
            if number in silent and not _is_first(made[number], delivery.record):
                return _unopened(sink, f"{up}#{number}")
            silent.discard(number)
    return "" if opened else "when any channel was opened is not on record"


def _is_first(sender: Rerun, delivered: Delivered) -> bool:
    """Whether all that an incarnation made for a sink begins with this: then nothing was passed over before."""
    made = sender.emitted[delivered.sink].events
    return not delivered.rows or (len(made) > 0 and made[0].seq == delivered.rows[0].seq)


def _unopened(receiver: str, sender: str) -> str:
    return f"{receiver} took from {sender}, and when it opened that channel is not on record"


def judge_amnesia(case: Case, guarantee: Guarantee) -> Verdict:
    """As gap recovery, without a bound: a crashed slice may have started blank.

    Each incarnation is still a run over one contiguous interval per channel, in its order, from a state that inputs
    gave, and nothing counts twice; what a receiver passes over without a crash is lost beyond that.
    (StreamMine3G, section 2.2.2.)
    """
    collation = case.collation
    if collation.reexecution is None:
        return unknown(guarantee, collation.observables, Reason(Why.NOT_EXECUTABLE))
    found = _common(case)
    gone = () if collation.incomplete or found else seen(collation.lost_state, collation.lost_output)
    if gone and (why := case.analysis(unopened_by_the_living)):
        # From when on it had to take everything is not known, so it may have passed over something.
        return unknown(guarantee, collation.observables, Reason(Why.UNJUDGEABLE, why))
    return decide(case, guarantee, found, _holds(case), goes_on=True)


def _holds(case: Case) -> str:
    c = case.collation
    beside = ", beside what has left the window of its operator" if c.missed else ""
    return f"{c.lost_state.count:,} inputs missing from the final state{beside}, all within the gaps; nothing twice"


def _common(case: Case) -> tuple[Tally, ...]:
    c = case.collation
    moved = seen(c.compensated, c.left_out)
    orders = seen(c.reordered, c.disordered, c.mistimed)
    return seen(c.duplicate_effects, c.duplicate_outputs, c.phantoms) + moved + orders + seen(c.passed_over, c.untold)


def _opened_late(case: Case, guarantee: Guarantee, reexecution: Reexecution) -> Iterator[Evidence]:
    """What is missing since a slice was back, and opened its channel too late."""
    stated = guarantee.amount(OPENS_WITHIN)
    usual = OPENS_WITHIN_SIMULATED if case.virtual_time else STATED
    allowed = stated if isinstance(stated, Duration) else usual
    opens_by = partial(_opens_by, _disturbances(case.history), allowed)
    for flaw in find_flaws(reexecution, True, opens_by):
        if not flaw.disorder:
            evidence = flaw.evidence
            yield Evidence(f"{evidence.what}: it was back, and opened the channel later than {allowed}", evidence.where)


def _disturbances(history: History) -> list[int]:
    """When something was broken, or mended."""
    return sorted(e.stamp.at for e in history.timeline if isinstance(e, FaultStruck | FaultHealed | NodeGone))


def _opens_by(
    disturbances: list[int], allowed: Duration, reexecution: Reexecution, sender: Rerun, receiver: Rerun, opened: int
) -> int:
    """By when a channel had to be opened: both ends were there, and nothing was broken or mended any more."""
    sources = reexecution.sources
    started = [reexecution.started_at(one) for one in (sender, receiver) if one.slice_id not in sources]
    return max([*started, *(at for at in disturbances if at <= opened)]) + allowed.micros


def _rolled_back(reexecution: Reexecution, every: int, changes: Mapping[str, Sequence[Changed]]) -> Iterator[Evidence]:
    for slice_id, reruns in reexecution.reruns.items():
        if len(reruns) < 2 or slice_id in reexecution.doubtful:
            continue
        survivors = reexecution.survivors(slice_id)
        survived = [survivor.lineage() for survivor in survivors]
        for number, rerun in sorted(reruns.items()):
            if rerun in survivors:
                continue
            lost = not_in(rerun.took, survived)
            allowed = most_unprotected(changes.get(slice_id, ()), every, len(rerun.lineage()))
            if len(lost) > allowed:
                yield Evidence(
                    f"{len(lost):,} events that incarnation {number} had taken are not in the final state, "
                    f"from input {lost[0][0]} #{lost[0][1]:,} on; its checkpoint interval allows {allowed:,}",
                    slice_id,
                )
            yield from _lost_though_durable(reexecution, rerun, lost)


def _lost_though_durable(reexecution: Reexecution, rerun: Rerun, lost: Sequence[Derivation]) -> Iterator[Evidence]:
    """What its newest durable checkpoint held, and the final state does not."""
    durable = [number for number in rerun.cuts if (rerun.number, number) in reexecution.durable[rerun.slice_id]]
    if not durable or not lost:
        return
    cut = rerun.cuts[max(durable)]
    gone = both_in(lost, rerun.lineage(cut.position) if cut.position else ())
    if gone:
        yield Evidence(
            f"{len(gone):,} events, from input {gone[0][0]} #{gone[0][1]:,} on, are not in the final state, though "
            f"checkpoint {max(durable)} of incarnation {rerun.number}, which holds them, was durable",
            rerun.slice_id,
        )


_ANOMALIES = (
    Anomaly.LOST_INPUT,
    Anomaly.DUPLICATE_EFFECT,
    Anomaly.DUPLICATE_OUTPUT,
    Anomaly.PHANTOM_OUTPUT,
    Anomaly.WRONG_VALUE,
    Anomaly.REORDERED_OUTPUT,
    Anomaly.STALL,
)
ORACLES = (
    Oracle(
        GAP,
        judge_gap,
        implies=(AMNESIA,),
        ranked=True,
        anomalies=(*_ANOMALIES, Anomaly.STATE_ROLLBACK, Anomaly.UNFAITHFUL_SNAPSHOT),
        parameters=(
            Parameter(
                WITHIN, (Events,), "the interval of its checkpoints; what the subject says, where none is stated"
            ),
            Parameter(OPENS_WITHIN, (Duration,), "within what time of its start a slice hears again"),
        ),
        executes=True,
    ),
    Oracle(
        AMNESIA,
        judge_amnesia,
        implies=(AT_MOST_ONCE,),
        ranked=True,
        anomalies=(*_ANOMALIES, Anomaly.UNFAITHFUL_SNAPSHOT),
        executes=True,
    ),
)
