"""Replicas agree: those who took the same hold and give the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from operator import itemgetter

from ..harness.core.events import Event
from ..harness.core.guarantees import REPLICAS_AGREE, Guarantee
from ..harness.core.reasons import Reason, Why
from ..harness.core.slice_names import channel_name, replica_name
from ..harness.core.verdicts import Anomaly, Evidence, Verdict, tally, unknown
from ..harness.judging.exactness import same_value
from ..harness.judging.incarnations import losses
from ..harness.judging.oracle import Case, Oracle, decide
from ..harness.judging.reexecution import Reexecution
from ..harness.judging.reruns import Derivation, Rerun
from ..harness.protocol.merging import Order
from ..harness.recording.records import InSync, Taken


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """Replicas of a slice that were in sync at the same time agree, compared by their inputs and not by the clock.

    As far as two of them have taken the same inputs in the same order, they gave the same outputs for each, and at the
    end of each epoch; when all that they took is the same, they hold the same at the end. Where a slice has one input
    channel, or a deterministic merge, the inputs of one are a prefix of the other's. A divergence is told by the first
    input after which it shows. UNKNOWN where there was nothing to compare, where two took the rest in other orders,
    where a replica that took inputs was never in sync with another, and where an output is one that nothing explains.
    (StreamMine3G, section 3.7.3; Schneider
    1990: state machines that start alike and take the same.)
    """
    reexecution = case.collation.reexecution
    if reexecution is None:
        reason = Reason(Why.NOT_EXECUTABLE, ", so it has no replicas to compare")
        return unknown(guarantee, case.collation.observables, reason)
    pairs = list(_pairs(case, reexecution))
    found = [evidence for one, other in pairs for evidence in _divergences(case, reexecution, one, other)]
    tallies = (tally(Anomaly.REPLICA_DIVERGENCE, len(found), found),) if found else ()
    compared = [pair for pair in pairs if _in_common(*pair)]
    unclear = _left_out(case, reexecution, compared) or _parted(compared) if compared else _nobody(pairs)
    return decide(case, guarantee, tallies, f"{len(compared)} pairs of replicas agree", unclear=unclear)


def _nobody(pairs: Sequence[tuple[Rerun, Rerun]]) -> Reason:
    did = "took anything in common" if pairs else "were in sync at the same time"
    return Reason(Why.NOTHING_TO_JUDGE, f"no two replicas of a slice {did}")


def _parted(compared: Sequence[tuple[Rerun, Rerun]]) -> Reason | None:
    """Which two took the same inputs in the same order up to some input, and others after it: those were compared with
    nothing. Where their order is fixed, that is a divergence."""
    for one, other in compared:
        common, shorter = _in_common(one, other), min(len(one.lineage()), len(other.lineage()))
        if common < shorter:
            names = " and ".join(replica_name(each.slice_id, each.replica) for each in (one, other))
            said = f"{names} took {common:,} of {shorter:,} inputs in one order, and what came then in others"
            return Reason(Why.NOTHING_TO_JUDGE, f"{said}, where nothing is compared")
    return None


def _left_out(case: Case, reexecution: Reexecution, compared: Sequence[tuple[Rerun, Rerun]]) -> Reason | None:
    """Which replica took inputs while another of its slice did, and was compared with none: it never said that it was
    in sync, and could hold anything. One that is promoted takes them after the other was lost."""
    gone = losses(case.history)
    known = {(one.slice_id, one.replica) for pair in compared for one in pair}
    for slice_id, reruns in reexecution.reruns.items():
        spans: dict[int, list[int]] = {}
        for record, at in zip(reexecution.books[slice_id], reexecution.times[slice_id], strict=True):
            if isinstance(record, Taken) and at < gone.get((slice_id, record.incarnation), at + 1):
                spans.setdefault(record.incarnation, []).append(at)
        at_work = [(reruns[number], min(ats), max(ats)) for number, ats in spans.items() if number in reruns]
        for (one, began, ended), (other, since, until) in permutations(at_work, 2):
            beside = one.replica != other.replica and began <= until and since <= ended
            if beside and (slice_id, one.replica) not in known:
                said = f"{replica_name(slice_id, one.replica)} took inputs, and was never in sync with another replica"
                return Reason(Why.NOTHING_TO_JUDGE, said)
    return None


def _pairs(case: Case, reexecution: Reexecution) -> Iterator[tuple[Rerun, Rerun]]:
    """Incarnations of two replicas of a slice that were in sync at the same time."""
    began = {
        (record.slice, record.incarnation): stamped.at
        for stamped in reversed(list(case.history.of(InSync)))
        if isinstance(record := stamped.record, InSync)
    }
    ended = losses(case.history)
    for slice_id, reruns in reexecution.reruns.items():
        if slice_id in reexecution.doubtful:
            continue
        stepped = [rerun for number, rerun in sorted(reruns.items()) if (slice_id, number) in began]
        for one, other in combinations(stepped, 2):
            keys = (slice_id, one.number), (slice_id, other.number)
            overlap = all(began[a] < ended[b] for a, b in (keys, keys[::-1]) if b in ended)
            if one.replica != other.replica and overlap:
                yield one, other


def _divergences(case: Case, reexecution: Reexecution, one: Rerun, other: Rerun) -> Iterator[Evidence]:
    """At most the first, since one leads to others."""
    slice_id = one.slice_id
    where = f"{slice_id}#{one.number} and #{other.number}"
    lineages = one.lineage(), other.lineage()
    shorter = min(len(lineage) for lineage in lineages)
    common = _in_common(one, other)
    alike = lineages[0][:common]
    differing = _outputs_differ(reexecution, one, other, alike)
    if differing is not None:
        trigger, said, otherwise = differing
        yield Evidence(f"{_told(reexecution, trigger, alike)} one gave {said}, the other {otherwise}", where)
    elif common < shorter:
        if reexecution.order(slice_id) is Order.TOTAL:
            took = " and ".join(reexecution.said(lineage[common]) for lineage in lineages)
            yield Evidence(f"after {common:,} inputs in common they took {took}, though their order is fixed", where)
    elif len(lineages[0]) == len(lineages[1]) and not case.collation.incomplete:
        kept = reexecution.kept.get(slice_id, {})
        if one.number in kept and other.number in kept:
            rows, others = kept[one.number], kept[other.number]
            for key in sorted(rows.keys() | others.keys()):
                if key not in rows or key not in others or not same_value(rows[key], others[key]):
                    held = (repr(r[key]) if key in r else "nothing" for r in (rows, others))
                    last = _told(reexecution, alike[-1], alike) if alike else "before any input"
                    yield Evidence(f"{last} they hold {' and '.join(held)} under {key!r}", where)
                    return


def _in_common(one: Rerun, other: Rerun) -> int:
    """How many inputs both took before one took another, or none."""
    lineages = one.lineage(), other.lineage()
    shorter = min(len(lineage) for lineage in lineages)
    return next((n for n in range(shorter) if lineages[0][n] != lineages[1][n]), shorter)


def _outputs_differ(
    reexecution: Reexecution, one: Rerun, other: Rerun, alike: Sequence[Derivation]
) -> tuple[Derivation, str, str] | None:
    """The first input of which two replicas did not give the same: the input, and what each gave."""
    places: dict[Derivation, int] = {}
    for place, derivation in enumerate(alike):
        places.setdefault(derivation, place)
    others = dict(other.closings())
    for epoch, position in one.closings():
        if position <= len(alike) and others.get(epoch) == position:
            places[one.slice_id, epoch] = position
    found: list[tuple[int, Derivation, str, str]] = []
    for to in one.emitted:
        said, otherwise = (_said(reexecution, rerun, to) for rerun in (one, other))
        for derivation in said.keys() | otherwise.keys():
            gave, other_gave = said.get(derivation), otherwise.get(derivation)
            if derivation[:-1] in places and not _same(gave, other_gave):
                found.append((places[derivation[:-1]], derivation[:-1], _text(gave), _text(other_gave)))
    return min(found, key=itemgetter(0))[1:] if found else None


def _said(reexecution: Reexecution, rerun: Rerun, to: str) -> dict[Derivation, Event]:
    """What an incarnation gave: what its execution gives, but where the recorder took something else under the same
    number."""
    events, derivations = rerun.channel(to)
    said = dict(zip(derivations, events, strict=True))
    for delivery in reexecution.deliveries.get(channel_name(rerun.slice_id, to), ()):
        if delivery.record.incarnation == rerun.number and None in delivery.derivations:
            numbers = {event.seq: derivation for derivation, event in said.items()}
            for row, derivation in zip(delivery.record.rows, delivery.derivations, strict=True):
                if derivation is None and row.seq in numbers:
                    said[numbers[row.seq]] = row
    return said


def _same(one: Event | None, other: Event | None) -> bool:
    if one is None or other is None:
        return one is other
    return one is other or (one.key == other.key and same_value(one.value, other.value))


def _text(output: Event | None) -> str:
    return "nothing" if output is None else f"({output.key!r}, {output.value!r})"


def _told(reexecution: Reexecution, trigger: Derivation, alike: Sequence[Derivation]) -> str:
    what = reexecution.said(trigger)
    return (
        f"after {what}, as number {alike.index(trigger) + 1:,} of what both took,"
        if trigger in alike
        else f"after {what}"
    )


ORACLE = Oracle(REPLICAS_AGREE, judge, ranked=True, anomalies=(Anomaly.REPLICA_DIVERGENCE,), executes=True)
