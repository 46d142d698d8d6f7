"""Rollback recovery: a crash takes the subject back, and it comes forward again without loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from ..harness.core.events import Event
from ..harness.core.guarantees import (
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    ROLLBACK_CONVERGENT,
    ROLLBACK_DIVERGENT,
    ROLLBACK_REPEATING,
    WITHIN,
    Guarantee,
)
from ..harness.core.parameters import Parameter
from ..harness.core.quantities import Duration, Events
from ..harness.core.reasons import Reason, Why
from ..harness.core.slice_names import channel_name
from ..harness.core.verdicts import Anomaly, Evidence, Tally, Verdict, tally
from ..harness.judging.collation import Collation, seen
from ..harness.judging.contents import outputs_that_lack
from ..harness.judging.exactness import same_value
from ..harness.judging.oracle import EFFECTS, Case, Oracle, decide, effects, missed_states, unseen_outputs
from ..harness.judging.ordering import order_matters
from ..harness.judging.packed import CHUNK
from ..harness.judging.reexecution import Reexecution
from ..harness.judging.reruns import DeliveredRow, Deliveries, Derivation


def judge_repeating(case: Case, guarantee: Guarantee) -> Verdict:
    """Every input is in T exactly once, and outputs after a recovery repeat earlier ones, identical.

    Outputs of one input that were delivered more than once have the same content each time, and come in the same order
    each time; none is missing, none is of an order that was given up, and every one is what re-execution of the
    recorded order gives, from the beginning. That order is legal: each channel in its own, several in that of their
    merge, and timers of event time where the events put them. (StreamMine3G, section 2.2.2; repeating as in Hwang et
    al. 2005.)
    """
    c = case.collation
    found = effects(c) + seen(
        c.conflicting_outputs, c.superseded_outputs, c.reordered, c.reordered_repeats, *_illegal(c)
    )
    unclear = unseen_outputs(case) or missed_states(case)
    return decide(case, guarantee, found, _holds(case), unclear=unclear, goes_on=True)


def judge_convergent(case: Case, guarantee: Guarantee) -> Verdict:
    """Every input is in T exactly once; outputs after a recovery may differ from those of a run without the failure,
    and do so no more once the recovered slice has come the declared horizon further.

    A horizon is in event time, from the first event that it took on its return, or in the number of events that it has
    taken since. An output differs when it is not what its input gives without failures, or, where that depends on order
    or on chance, when it lacks an input that came before its own, or was delivered once more and is not what it was.
    UNKNOWN where outputs still differ, and nothing came past the horizon before the end of the input, or none is
    declared. For a subject that cannot be executed again, every difference is too many. (Hwang et al. 2005:
    convergent recovery.)
    """
    collation = case.collation
    reexecution = collation.reexecution
    found = _state(collation)
    if reexecution is None:
        found += seen(collation.conflicting_outputs)
        return decide(case, guarantee, found, _holds(case), unclear=unseen_outputs(case), goes_on=True)
    differing = [] if found or _all_right(case, reexecution) else list(_differing(case, reexecution))
    horizon = guarantee.within
    missed = missed_states(case)
    if not differing:
        return decide(case, guarantee, found, _holds(case), unclear=missed, goes_on=True)
    if horizon is None:
        said = f"{len(differing):,} outputs differ after a recovery, and the claim states no horizon"
        return decide(case, guarantee, (), "", unclear=Reason(Why.UNSTATED, said), goes_on=True)
    recoveries = list(_recoveries(reexecution))
    late = [one for one in differing if not any(recovery.excuses(one, horizon) for recovery in recoveries)]
    told = (_evidence(reexecution, one) for one in late)
    tallies = (tally(Anomaly.PHANTOM_OUTPUT, len(late), told),) if late else ()
    reached = all(
        recovery.reached(horizon)
        for recovery in recoveries
        if recovery.survives and any(recovery.excuses(one, horizon) for one in differing)
    )
    ended = f"within {horizon} of" if isinstance(horizon, Events) else f"less than {horizon} after"
    short = f"the input ended {ended} a recovery, and outputs still differed"
    unclear = missed if reached else Reason(Why.INCOMPLETE, short)
    holds = f"{_holds(case)}; {len(differing):,} outputs differ, each within {horizon} of a recovery"
    return decide(case, guarantee, tallies, holds, unclear=unclear, goes_on=True)


def judge_divergent(case: Case, guarantee: Guarantee) -> Verdict:
    """Every input is in T exactly once; outputs after a recovery may differ from those before, as long as each
    incarnation's are what a legal order of its own gives.

    The orders are the recorded ones; an output that they do not give is a phantom. A legal order takes each channel in
    its own order, and several in that of their merge, and fires timers of event time where the events put them.
    """
    unclear = unseen_outputs(case) or missed_states(case)
    return decide(case, guarantee, _state(case.collation), _holds(case), unclear=unclear, goes_on=True)


def _illegal(collation: Collation) -> tuple[Tally, ...]:
    """What no legal order of inputs shows."""
    return collation.disordered, collation.unmerged, collation.mistimed


def _state(collation: Collation) -> tuple[Tally, ...]:
    """What shows that an input is not in T exactly once, or that an order was not legal."""
    c = collation
    gone = () if c.incomplete else seen(c.lost_state, c.lost_output)
    return gone + seen(c.duplicate_effects, c.phantoms, c.compensated, c.unfaithful, c.left_out, *_illegal(c))


def _holds(case: Case) -> str:
    c = case.collation
    return f"0 inputs lost, 0 final states wrong, {c.duplicate_outputs.count:,} outputs repeated"


@dataclass(frozen=True)
class _Differing:
    """A delivered output that is not what it should be."""

    output: DeliveredRow
    derivation: Derivation
    should: Event | None
    channel: str
    lacks: bool = False
    """An input of those that it should have been made of is missing from it."""


def _all_right(case: Case, reexecution: Reexecution) -> bool:
    """Whether each copy of every output is known to be what its input gives without failures."""
    if order_matters(reexecution):
        return False
    c = case.collation
    return not seen(c.lacking, c.altered, c.conflicting_outputs, c.superseded_outputs, c.lost_output)


def _differing(case: Case, reexecution: Reexecution) -> Iterator[_Differing]:
    fixed = not order_matters(reexecution)
    wanted = case.collation.wanted
    # What others were made of as well, no order makes good.
    short = {} if fixed or wanted is None else outputs_that_lack(reexecution, wanted)
    for channel, deliveries in reexecution.deliveries.items():
        if channel.partition(">")[0] in reexecution.doubtful:
            continue
        lacking = _made_of_too_little(reexecution, channel, deliveries, short)
        if lacking:
            for output in (output for delivery in deliveries for output in delivery.outputs()):
                if output.derivation is not None and output.derivation in lacking:
                    yield _Differing(output, output.derivation, None, channel, lacks=True)
        if deliveries.count > CHUNK:
            from ..harness.judging.long_channels import differing

            due = wanted.delivered[channel] if fixed and wanted is not None else None
            for output, right in differing(deliveries, due):
                assert output.derivation is not None
                if output.derivation not in lacking:
                    yield _Differing(output, output.derivation, right, channel)
            continue
        should: dict[Derivation, Event] = dict(wanted.delivered[channel]) if fixed and wanted is not None else {}
        for output in (output for delivery in deliveries for output in delivery.outputs()):
            derivation = output.derivation
            if derivation is None or derivation in lacking:
                continue
            right = should.get(derivation) if fixed else should.setdefault(derivation, output.event)
            if right is None or right.key != output.event.key or not same_value(right.value, output.event.value):
                yield _Differing(output, derivation, right, channel)


def _made_of_too_little(
    reexecution: Reexecution,
    channel: str,
    deliveries: Deliveries,
    short: Mapping[str, frozenset[Derivation]],
) -> frozenset[Derivation]:
    """The outputs delivered on a channel that lack an input, or that came, hop by hop, of one that does."""
    if not short:
        return frozenset()
    upstream = reexecution.topology.upstream

    @cache  # In a cycle there are many ways to the same.
    def lacks(derivation: Derivation, up: str, to: str) -> bool:
        if derivation in short.get(channel_name(up, to), ()):
            return True
        # Shorter is an input of a source, or the end of an epoch.
        return len(derivation) > 3 and any(lacks(derivation[:-1], before, up) for before in upstream(up))

    up, _, to = channel.partition(">")
    *_, derivations = deliveries.columns()
    return frozenset(one for one in set(derivations) if one is not None and lacks(one, up, to))


@dataclass(frozen=True)
class _Recovery:
    """What an incarnation took that came after another of its slice."""

    since: int
    """When it started."""
    took: Mapping[Derivation, int]
    """Each event that it took -> as which in number."""
    ended: Mapping[Derivation, int]
    """Each epoch that it came to the end of -> the number of the last event before that."""
    began: int
    """Event time of the first, in ms."""
    upto: int
    """The latest event time that it has come to."""
    survives: bool
    """Nobody came after it, who would converge in its place."""

    def excuses(self, differing: _Differing, horizon: Duration | Events) -> bool:
        """Whether an output comes of what was taken within the horizon, and came after the recovery began."""
        derivation = differing.derivation
        if differing.output.at < self.since:
            return False
        places = (self.took.get(d, self.ended.get(d)) for n in range(2, len(derivation)) for d in (derivation[:n],))
        number = next((place for place in places if place is not None), None)
        if number is None:
            return False
        if isinstance(horizon, Events):
            return number < horizon.count
        return (differing.output.event.time - self.began) * 1_000 < horizon.micros

    def reached(self, horizon: Duration | Events) -> bool:
        """Whether anything came of which an output may not differ."""
        if isinstance(horizon, Events):
            return len(self.took) > horizon.count
        return (self.upto - self.began) * 1_000 >= horizon.micros


def _recoveries(reexecution: Reexecution) -> Iterator[_Recovery]:
    for reruns in reexecution.reruns.values():
        for number, rerun in reruns.items():
            if number > min(reruns) and rerun.took:
                times = [reexecution.time_of(derivation) for derivation in rerun.took]
                took = {derivation: place for place, derivation in reversed(list(enumerate(rerun.took)))}
                ended = {
                    (rerun.slice_id, one.epoch): max(0, one.position - 1) for s in rerun.stretches for one in s.closings
                }
                since = reexecution.started_at(rerun)
                yield _Recovery(since, took, ended, times[0], max(times), not reexecution.replaced(rerun))


def _evidence(reexecution: Reexecution, differing: _Differing) -> Evidence:
    event = differing.output.event
    should = differing.should
    right = "nothing" if should is None else f"({should.key!r}, {should.value!r})"
    said = "lacks an input that came before its own" if differing.lacks else f"should be {right}"
    return Evidence(
        f"({event.key!r}, {event.value!r}) of {reexecution.said(differing.derivation)} {said}, and is past the horizon "
        "of every recovery",
        differing.channel,
        (differing.output.at,),
    )


_ANOMALIES = (*EFFECTS, Anomaly.REORDERED_OUTPUT)
ORACLES = (
    Oracle(
        ROLLBACK_REPEATING,
        judge_repeating,
        implies=(ROLLBACK_CONVERGENT, EXACTLY_ONCE),
        ranked=True,
        anomalies=_ANOMALIES,
        sees_outputs=True,
    ),
    Oracle(
        ROLLBACK_CONVERGENT,
        judge_convergent,
        implies=(ROLLBACK_DIVERGENT,),
        ranked=True,
        anomalies=_ANOMALIES,
        parameters=(
            Parameter(
                WITHIN, (Duration, Events), "the event time, or the events, until outputs differ no more", required=True
            ),
        ),
        sees_outputs=True,
    ),
    Oracle(
        ROLLBACK_DIVERGENT,
        judge_divergent,
        implies=(AT_MOST_ONCE,),
        ranked=True,
        anomalies=_ANOMALIES,
        sees_outputs=True,
    ),
)
