"""Recovers: after a fault the subject comes back by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from ..harness.core.addresses import Address
from ..harness.core.guarantees import RECOVERS, WITHIN, Guarantee
from ..harness.core.parameters import Parameter
from ..harness.core.quantities import Duration
from ..harness.core.reasons import Reason, Why
from ..harness.core.schedule import is_link
from ..harness.core.slice_names import slice_of
from ..harness.core.verdicts import Anomaly, Evidence, Tally, Verdict, tally
from ..harness.judging.oracle import Case, Oracle, decide
from ..harness.judging.references import BATCH_JOB, REFERENCES
from ..harness.judging.stalls import ATTEMPTS, STATED
from ..harness.judging.waiting_inputs import ChannelPassages
from ..harness.recording.history import Aborted, FaultHealed, FaultStruck, History, IncarnationFailed, Placed
from ..harness.recording.records import (
    Changed,
    Decided,
    InSync,
    Offered,
    Opened,
    Record,
    Refused,
    Restored,
    Started,
    whose,
)


def judge(case: Case, guarantee: Guarantee) -> Verdict:
    """After every fault that struck, the subject is back without manual work, in the stated time: no stall, no crash
    loop.

    It is back when the run has come to its end. A *crash loop*: its last incarnations, three or more, failed one after
    the other at the same batch, and no fault was in force in any of them. A *stall*: the run has not come to its end,
    no fault was in force any more, and the subject had given no sign of work for the stated time (30 s, unless the
    claim states one); in the simulator, where waiting costs no time, the world had come to rest. With a bound also
    *bound-exceeded*: after a fault had ended, the first sign of work came later than that; where it had ended a slice,
    the first one of that slice, or of another replica of it, after it was started again. Where it had ended none, as a
    pause or a cut link, the first one of anybody once there was something to do; and a slice that was hit must not have
    left what there was for it alone for longer than that, beyond the longest that it had before the first fault. Of a
    query with a sink of its own, whose record has nothing of its work before the end, the bound is the time without any
    sign of work (a batch planned, or committed) after which the run is given up.
    UNKNOWN where it was still at work when it was given up, where a fault was in force until then, where no fault
    struck, or the clock is virtual and a bound was stated. It says nothing of what comes out, and no guarantee that
    does implies it.
    """
    history = case.history
    struck = [one for one in history.struck() if one.bite.node is not None]
    found, unclear = _end(case, guarantee, struck)
    if not found and unclear is None and isinstance(guarantee.within, Duration):
        if case.timeless:
            unclear = Reason(Why.VIRTUAL_TIME)
        else:
            limit = guarantee.within.micros
            waits = (*_waits(case, struck, limit), *_left_alone(case, struck)) if _shows_work(case) else ()
            late = [one for one in waits if one.micros > limit]
            found += (tally(Anomaly.BOUND_EXCEEDED, len(late), (one.evidence for one in late)),) if late else ()
    said = "fault" if len(struck) == 1 else "faults"
    return decide(case, guarantee, found, f"back after {len(struck):,} {said}", unclear=unclear)


def _end(case: Case, guarantee: Guarantee, struck: list[FaultStruck]) -> tuple[tuple[Tally, ...], Reason | None]:
    """What the end of the run shows, and why it shows nothing."""
    history, collation = case.history, case.collation
    if history.drained:
        nothing = Reason(Why.NOTHING_TO_JUDGE, "no fault struck, so there was nothing to recover from")
        return (), None if struck or case.unproven else nothing
    if not history.sealed:
        return (), None
    if not struck:
        return (), Reason(Why.INCOMPLETE, f"{collation.incomplete}; no fault had struck before")
    last = struck[-1].number
    loop = _loop(history)
    if loop:
        failure = loop[-1]
        what = f"started again, it failed at {_at(failure)} {len(loop)} times in a row: {failure.why}"
        at = tuple(one.stamp.at for one in loop)
        return (tally(Anomaly.CRASH_LOOP, 1, [Evidence(what, failure.actor, at, last)]),), None
    in_force = _in_force(history)
    if in_force is not None:
        until_then = f"fault {in_force.number + 1} was in force until then: {in_force.fault}"
        return (), Reason(Why.INCOMPLETE, f"{collation.incomplete}; {until_then}")
    given_up = next((entry for entry in history.timeline if isinstance(entry, Aborted)), None)
    if case.virtual_time and not collation.stalled:
        return (), Reason(Why.INCOMPLETE, collation.incomplete)
    if not case.virtual_time:
        stated = guarantee.within if isinstance(guarantee.within, Duration) else STATED
        silent = None if given_up is None else given_up.silent
        if silent is None:
            return (), Reason(Why.INCOMPLETE, collation.incomplete)
        if silent < stated.micros:
            why = f"it gave no sign of work for {silent / 1e6:.0f} s, and a stall takes {stated}"
            return (), Reason(Why.INCOMPLETE, f"{collation.incomplete}; {why}")
    where = _where(struck[-1])
    at = () if given_up is None else (given_up.stamp.at,)
    return (tally(Anomaly.STALL, 1, [Evidence(collation.incomplete, where, at, last)]),), None


def _where(struck: FaultStruck) -> str:
    return struck.bite.actors[0] if struck.bite.actors else struck.bite.target


def _at(failure: IncarnationFailed) -> str:
    return f"batch {failure.batch}" if failure.batch >= 0 else "its start"


def _loop(history: History) -> list[IncarnationFailed]:
    """The last failures, as far as they are at one place and nobody's but its own."""
    failures = [entry for entry in history.timeline if isinstance(entry, IncarnationFailed)]
    runs = [list(same) for _, same in groupby(failures, lambda one: (one.actor, one.batch, one.disturbed))]
    last = runs[-1] if runs else []
    return last if len(last) >= ATTEMPTS and not last[0].disturbed else []


def _in_force(history: History) -> FaultStruck | None:
    """A fault that lasts, and had not ended when the run was given up."""
    found: dict[tuple[int, str], FaultStruck] = {}
    for entry in history.timeline:
        if isinstance(entry, FaultStruck) and entry.bite.lasting:
            found[entry.number, entry.bite.target] = entry
        elif isinstance(entry, FaultHealed):
            found.pop((entry.number, entry.target), None)
        elif isinstance(entry, Aborted):
            break
    return next(iter(found.values()), None)


def _shows_work(case: Case) -> bool:
    """Whether signs of work are in the record when they come."""
    shape = case.collation.shape
    return shape is None or not shape.reads


_ANYBODY = ""
"""Whose signs of work count where a fault ended nobody."""


@dataclass(frozen=True)
class _Wait:
    """How long it took after a fault until somebody was back."""

    micros: int
    where: str
    struck: FaultStruck
    what: str = "the first sign of work came"

    @property
    def evidence(self) -> Evidence:
        said = f"{self.what} {self.micros / 1e6:.2f} s later"
        return Evidence(said, self.where, (self.struck.stamp.at,), self.struck.number)


def _left_alone(case: Case, struck: list[FaultStruck]) -> Iterator[_Wait]:
    """How long slices that a fault hit, and did not end, left their input alone after it."""
    healed = _healed(case.history)
    for one in struck:
        at = healed.get((one.number, one.bite.target)) if one.bite.lasting else one.stamp.at
        reexecution = case.collation.reexecution
        if one.bite.gone or at is None or reexecution is None:
            continue
        topology, hit = reexecution.topology, dict.fromkeys(map(slice_of, one.bite.actors))
        for slice_id in (name for name in hit if name in topology.slices):
            ups = topology.upstream(slice_id)
            # Of a link both ends are hit, and nothing but what passes between them.
            senders = [up for up in ups if up in hit] if is_link(one.bite.target) else ups
            micros = case.analysis(ChannelPassages).waited(slice_id, senders, at)
            if micros is not None:
                yield _Wait(micros, slice_id, one, "what was there for it was taken")


def _healed(history: History) -> dict[tuple[int, str], int]:
    """Fault and target -> when it had ended."""
    return {(e.number, e.target): e.stamp.at for e in history.timeline if isinstance(e, FaultHealed)}


def _waits(case: Case, struck: list[FaultStruck], limit: int) -> Iterator[_Wait]:
    """How long after each fault the first sign of work came, in microseconds: of each actor that it ended, or else of
    anybody for whom there was something to do."""
    history = case.history
    signs = _signs(history, struck)
    healed = _healed(history)
    placed = [entry for entry in history.timeline if isinstance(entry, Placed)]
    for one in struck:
        ended = healed.get((one.number, one.bite.target), one.stamp.at) if one.bite.lasting else one.stamp.at
        for actor in (one.bite.actors if one.bite.gone else ()) or (_ANYBODY,):
            first = next((at for at in signs.get(slice_of(actor), signs[_ANYBODY]) if at > ended), None)
            lost = one.bite.actors if actor is _ANYBODY else (actor,)
            again = (e.stamp.at for e in placed if e.actor in lost and e.stamp.at >= ended)
            began = min(again, default=ended)
            if first is None:
                continue
            since = began if began <= first else ended
            if first - since > limit and actor is _ANYBODY:
                there = case.analysis(ChannelPassages).something_since(ended)
                since = since if there is None else max(since, there)
            yield _Wait(first - since, actor or _where(one), one)


def _signs(history: History, struck: list[FaultStruck]) -> dict[str, list[int]]:
    """When there were signs of work, by the slice whose they are, and of anybody. Who gives none in the whole run, as a
    driver or a coordinator, is not among them."""
    signs: dict[str, list[int]] = {_ANYBODY: []}
    for stamped in history.records:
        record = stamped.record
        if _is_sign(record):
            signs[_ANYBODY].append(stamped.at)
            signs.setdefault(slice_of(whose(record)), []).append(stamped.at)
            if isinstance(record, Opened):
                # Who asks for a channel is at work, though there may be nothing for it to take.
                signs.setdefault(record.downstream, []).append(stamped.at)
    for one in struck:
        if one.address is not None:
            # Whoever has come so far was at work.
            signs[_ANYBODY].append(one.stamp.at)
            signs.get(Address.parse(one.address).actor, []).append(one.stamp.at)
    return {who: sorted(times) for who, times in signs.items()}


def _is_sign(record: Record) -> bool:
    """Whether it is work of the subject's, not of its references, and more than that it was started, or says that it is
    ready."""
    if isinstance(record, Offered | Refused | Started | Restored | InSync | Decided | Changed):
        return False
    return slice_of(whose(record)) not in (*REFERENCES, BATCH_JOB)


ORACLE = Oracle(
    RECOVERS,
    judge,
    anomalies=(Anomaly.STALL, Anomaly.CRASH_LOOP, Anomaly.BOUND_EXCEEDED),
    parameters=(Parameter(WITHIN, (Duration,), "how soon after it was started again it must be back"),),
    on_clock=True,
)
