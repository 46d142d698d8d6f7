"""Recovers: after a fault the subject comes back by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

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
from ..harness.judging.waiting_inputs import WORTH_SAYING, ChannelPassages, Waited
from ..harness.recording.history import Aborted, Drained, FaultHealed, FaultStruck, History, IncarnationFailed, Placed
from ..harness.recording.records import (
    Adopted,
    Changed,
    CheckpointDurable,
    CheckpointTaken,
    Compensated,
    Decided,
    Fired,
    InSync,
    Offered,
    Opened,
    PartialTaken,
    Promoted,
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
    left what there was for it alone for longer than that, beyond what it took nearly all before the first fault; nor
    must one that was started again, and had given a sign without taking any of it, as where it asked for its input, was
    promoted, or took a checkpoint. A wait ends where the one that is waited for is lost once more: that fault has its
    own; and while another fault that hit it is in force, nobody waits. Of a query with a sink of its own, whose record
    has nothing of its work before the end, the bound is the time without any sign of work (a batch planned, or
    committed) after which the run is given up. UNKNOWN where it was still at work when it was given up, where a fault
    was in force until then, where no fault struck, where one that was ended gave no sign of work at all until the run
    came to its end, later than that, where the clock is virtual and a bound was stated, or where something was left
    alone for longer than that and nobody knows what is usual, since nothing had passed there before the first fault,
    or, in a topology with feedback, since when it was there, or whether anything was there for anybody. It says nothing
    of what comes out, and no guarantee that does implies it.
    """
    history = case.history
    struck = [one for one in history.struck() if one.bite.node is not None]
    found, unclear = _end(case, guarantee, struck)
    allowed = ""
    if not found and unclear is None and isinstance(guarantee.within, Duration):
        if case.timeless:
            unclear = Reason(Why.VIRTUAL_TIME)
        else:
            limit = guarantee.within.micros
            waits = (*_waits(case, struck, limit), *_left_alone(case, struck)) if _shows_work(case) else ()
            late = [one for one in waits if one.micros - one.usual > limit]
            found, unclear = _too_late([one for one in late if one.sure]), _unsure(late)
            allowed = _allowed([one for one in waits if one.micros > limit >= one.micros - one.usual])
    said = "fault" if len(struck) == 1 else "faults"
    return decide(case, guarantee, found, f"back after {len(struck):,} {said}{allowed}", unclear=unclear)


def _too_late(late: list[_Wait]) -> tuple[Tally, ...]:
    return (tally(Anomaly.BOUND_EXCEEDED, len(late), (one.evidence for one in late)),) if late else ()


def _allowed(longer: list[_Wait]) -> str:
    """What was within the bound only by what is usual."""
    if not longer:
        return ""
    most = max(longer, key=lambda one: one.micros)
    return f"; allowed of {most.where}: {most.said}"


def _unsure(late: list[_Wait]) -> Reason | None:
    """Why it is not known whether somebody was back in time; None where it is."""
    for one in late:
        if not one.sure:
            said = f"of {one.where} nobody knows how soon it was back after fault {one.struck.number + 1}: {one.said}"
            return Reason(Why.NOTHING_TO_JUDGE, said)
    return None


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


def _seconds(micros: int) -> str:
    return f"{micros / 1e6:.2f} s"


@dataclass(frozen=True)
class _Wait:
    """How long it took after a fault until somebody was back."""

    micros: int
    where: str
    struck: FaultStruck
    what: str = "the first sign of work came {} later"
    sure: bool = True
    """Whether it took so long; else it took no longer."""
    usual: int = 0
    """What it takes without a fault, which it may take beside the bound."""

    @property
    def said(self) -> str:
        said = self.what.format(_seconds(self.micros))
        usual = f", and {_seconds(self.usual)} is what it took before the first fault"
        return said + usual if self.usual >= WORTH_SAYING else said

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.said, self.where, (self.struck.stamp.at,), self.struck.number)


def _left_alone(case: Case, struck: list[FaultStruck]) -> Iterator[_Wait]:
    """How long slices that a fault hit, and did not end, left their input alone after it."""
    healed = case.analysis(_healed)
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
            for waited in case.analysis(ChannelPassages).waited(slice_id, senders, at):
                yield _untaken(waited, slice_id, one, _TAKEN)


def _untaken(waited: Waited, where: str, struck: FaultStruck, what: str) -> _Wait:
    said = f"{what}; {waited.unknown}" if waited.unknown else what
    return _Wait(waited.micros, where, struck, said, sure=not waited.unknown, usual=waited.usual)


def _healed(case: Case) -> dict[tuple[int, str], int]:
    """An analysis."""
    return case.history.healed()


def _waits(case: Case, struck: list[FaultStruck], limit: int) -> Iterator[_Wait]:
    """How long after each fault the first sign of work came, in microseconds: of each actor that it ended, or else of
    anybody for whom there was something to do."""
    signs = _signs(case.history, struck)
    healed = case.analysis(_healed)
    for one in struck:
        ended = healed.get((one.number, one.bite.target), one.stamp.at) if one.bite.lasting else one.stamp.at
        for actor in one.bite.actors if one.bite.gone else ():
            # Who is lost once more is waited for anew, by what that fault says.
            gone = min((e.stamp.at for e in struck if e.stamp.at > ended and _ends(e, actor)), default=None)
            mine = signs.get(slice_of(actor), signs[_ANYBODY])
            coming = [sign for sign in mine if sign.at > ended and (gone is None or sign.at <= gone)]
            yield from _waits_for(case, one, actor, ended, gone, coming, limit)
        first = next((sign.at for sign in signs[_ANYBODY] if sign.at > ended), None)
        if first is not None and not (one.bite.gone and one.bite.actors):
            began = _began(case.history, one.bite.actors, ended, first)
            since = ended if began is None else began
            there = case.analysis(ChannelPassages).something_since(ended) if first - since > limit else None
            if there is not None or case.collation.reexecution is None:
                yield _Wait(first - max(since, there or 0), _where(one), one)
            else:
                yield _Wait(first - since, _where(one), one, _NOTHING_TO_DO, sure=False)


def _began(history: History, actors: Sequence[str], ended: int, until: int) -> int | None:
    """When the first of these was started again after a fault had ended; None where none was by then."""
    placed = (entry for entry in history.timeline if isinstance(entry, Placed))
    return min((e.stamp.at for e in placed if e.actor in actors and ended <= e.stamp.at <= until), default=None)


def _waits_for(
    case: Case, struck: FaultStruck, actor: str, ended: int, gone: int | None, coming: Sequence[_Sign], limit: int
) -> Iterator[_Wait]:
    """How long an actor was waited for that a fault ended, up to when it was lost again, by the signs that came until
    then."""
    if not coming:
        yield from _in_vain(case, struck, actor, ended, gone)
        return
    first = coming[0]
    began = _began(case.history, [actor], ended, first.at)
    since = ended if began is None else began
    yield _Wait(_undisturbed(case, struck, actor, since, first.at), actor, struck)
    if not first.takes_nothing:
        return
    work = next((sign.at for sign in coming if not sign.takes_nothing), None)
    until = gone if work is None else work
    if until is not None and until - since > limit:
        for waited in _left_alone_anew(case, actor, ended, until):
            yield _untaken(waited, actor, struck, _LOST_UNTAKEN if work is None else _TAKEN)


def _in_vain(case: Case, struck: FaultStruck, actor: str, ended: int, gone: int | None) -> Iterator[_Wait]:
    """How long an actor was waited for that gave no sign any more, or none before it was lost again."""
    if gone is None:
        end = next((entry.stamp.at for entry in case.history.timeline if isinstance(entry, Drained)), ended)
        began = _began(case.history, [actor], ended, end)
        yield _Wait(end - (ended if began is None else began), actor, struck, _NO_SIGN, sure=False)
        return
    began = _began(case.history, [actor], ended, gone)
    # Who was lost again before it was started again was waited for by nobody.
    if began is not None:
        yield _Wait(_undisturbed(case, struck, actor, began, gone), actor, struck, _LOST_AGAIN)


def _ends(struck: FaultStruck, actor: str) -> bool:
    return bool(struck.bite.gone) and actor in struck.bite.actors


def _undisturbed(case: Case, struck: FaultStruck, actor: str, since: int, until: int) -> int:
    """The longest stretch of a wait for an actor, in microseconds, in which no other fault that hit it was in force."""
    healed = case.analysis(_healed)
    spans = sorted(
        (other.stamp.at, healed.get((other.number, other.bite.target), until))
        for other in case.history.struck()
        if other.number != struck.number and other.bite.lasting and actor in other.bite.actors
    )
    longest = 0
    for begin, end in spans:
        longest = max(longest, min(begin, until) - since)
        since = max(since, min(end, until))
    return max(longest, until - since)


def _left_alone_anew(case: Case, actor: str, ended: int, until: int) -> Sequence[Waited]:
    """How long somebody who was there, after it was started again, left alone what was there for it."""
    placed = (entry for entry in case.history.timeline if isinstance(entry, Placed))
    before = {one.incarnation for one in placed if one.actor == actor and one.stamp.at < ended}
    return case.analysis(ChannelPassages).waited_anew(slice_of(actor), before, ended, until)


_NOTHING_TO_DO: Final = "the first sign of work came {} later, and nothing is known to have been there for anybody"
_TAKEN: Final = "what was there for it was taken {} later"
_LOST_AGAIN: Final = "it was lost again {} later, without a sign of work"
_LOST_UNTAKEN: Final = "it was lost again {} after something was there for it, of which it had taken nothing"
_NO_SIGN: Final = "it gave no sign of work until the run came to its end {} later"


@dataclass(frozen=True, order=True)
class _Sign:
    """That somebody was at work."""

    at: int
    takes_nothing: bool = False
    """It shows that somebody is there, and not that it takes what comes."""


_TAKES_NOTHING: Final = (
    Opened,
    CheckpointTaken,
    PartialTaken,
    CheckpointDurable,
    Fired,
    Promoted,
    Compensated,
    Adopted,
)
"""What a slice does of itself, or as others ask or change it: the first is of who has asked for a channel, and of who
was asked for it."""


def _signs(history: History, struck: list[FaultStruck]) -> dict[str, list[_Sign]]:
    """The signs of work, by the slice whose they are, and of anybody. Who gives none in the whole run, as a driver or a
    coordinator, is not among them."""
    signs: dict[str, list[_Sign]] = {_ANYBODY: []}
    for stamped in history.records:
        record = stamped.record
        if _is_sign(record):
            sign = _Sign(stamped.at, isinstance(record, _TAKES_NOTHING))
            signs[_ANYBODY].append(sign)
            signs.setdefault(slice_of(whose(record)), []).append(sign)
            if isinstance(record, Opened):
                signs.setdefault(record.downstream, []).append(sign)
    for one in struck:
        if one.address is not None:
            # Whoever has come so far was at work.
            signs[_ANYBODY].append(_Sign(one.stamp.at))
            signs.get(Address.parse(one.address).actor, []).append(_Sign(one.stamp.at))
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
