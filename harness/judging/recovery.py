"""How long each recovery took, in parts: detected, redeployed, restored, caught up, heard again.

It is over when the slice has come to where it was before, and is heard again: what it makes from there on has been
taken downstream, or delivered. How long it waits for inputs of which to make anything is not part of it, and where
nothing is made, nothing was due.

Where a slice has another replica in sync, nothing has to be redeployed or restored: its recovery is over when its
outputs go on. They never stop where the other is active already; then what is measured is how long nobody heard of it,
which is an upper bound. Where it is promoted, that it is active stands for restored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from ..core.slice_names import slice_of
from ..recording.history import FaultStruck, History, NodeGone, NodeUp, Placed, TimelineEntry
from ..recording.records import CheckpointTaken, Decided, Delivered, InSync, Opened, Promoted, Restored, Started, Taken
from .heard_again import CaughtUp, FeltFault, HeardBy, excused, lasting_faults, said_to, until_heard
from .incarnations import in_time, losses

if TYPE_CHECKING:
    from .oracle import Case
    from .reexecution import Reexecution
    from .reruns import Derivation


@dataclass(frozen=True)
class Recovery:
    """One actor's way back from one fault. Durations in microseconds; None: that part was not reached."""

    fault: int
    actor: str
    incarnation: int
    """The one that took over."""
    detected: int | None
    """From the failure until it was known."""
    redeployed: int | None
    """From then until a node began to start the new incarnation."""
    restored: int | None
    """From then until its state was there."""
    caught_up: int | None
    """From then until it had reached the progress vector of the one that died."""
    heard: int | None = 0
    """From then until its outputs went on; none where nothing was due, or nobody looked."""
    by: tuple[HeardBy, ...] = ()
    """On each channel on which anything was due."""
    usual: int = 0
    """What outputs take at any time, where that was taken off."""
    unsure: int = 0
    """So much of it others may have brought about, where that was asked."""
    why: str = ""
    """Who, or why it is not known when it was heard."""

    @property
    def total(self) -> int | None:
        whole = self.until_caught_up
        return None if whole is None or self.heard is None else whole + self.heard

    @property
    def until_caught_up(self) -> int | None:
        parts = [part for part in self._parts if part is not None]
        return sum(parts) if len(parts) == len(self._parts) else None

    @property
    def at_least(self) -> int:
        """How long it took for sure, or longer, where a part was not reached."""
        return sum(part or 0 for part in (*self._parts, self.heard)) - self.unsure

    @property
    def _parts(self) -> tuple[int | None, ...]:
        return self.detected, self.redeployed, self.restored, self.caught_up


def recoveries_of(case: Case) -> list[Recovery]:
    """An analysis: the recoveries, and when the slices were heard again, where operators were executed again. Where
    another replica was in sync, that is what is measured of it."""
    history, run = case.history, case.collation.reexecution
    found = recoveries(history, run)
    if run is None:
        return found
    lost = losses(history)
    hits = history.hits()
    back: dict[Recovery, CaughtUp] = {}
    for one in found:
        slice_id, failed, took = slice_of(one.actor), hits[one.fault, one.actor].stamp.at, one.until_caught_up
        if took is not None and not _peers(history, failed, slice_id, lost):
            again = lost.get((slice_id, one.incarnation))
            back[one] = CaughtUp(slice_id, one.incarnation, failed, failed + took, again)
    told = dict(zip(back, until_heard(run, list(back.values())), strict=True))
    return [
        one if (known := told.get(one)) is None else replace(one, heard=known.micros, by=known.by, why=known.why)
        for one in found
    ]


def less_what_others_did(case: Case, recovery: Recovery) -> Recovery:
    """A recovery without what outputs take at any time on its channels, and with how much of it others may have brought
    about. It is asked where that matters: it takes to know when each output was made and taken."""
    run = case.collation.reexecution
    if run is None or not recovery.by:
        return recovery
    found = excused(case, run, slice_of(recovery.actor), recovery.by, case.analysis(_felt_faults))
    return replace(recovery, heard=found.micros, usual=found.usual, unsure=found.unsure, why=found.why)


def _felt_faults(case: Case) -> list[FeltFault]:
    """An analysis: those that ended no slice, until they had healed, and the crashes, until who was lost had come to
    where it was."""
    history = case.history
    lost, hits = losses(history), history.hits()
    found = list(lasting_faults(history))
    for one in case.analysis(recoveries_of):
        slice_id, hit, took = slice_of(one.actor), hits[one.fault, one.actor], one.until_caught_up
        begins = hit.stamp.at
        ends = lost.get((slice_id, one.incarnation)) if took is None else begins + took
        found.append(FeltFault(one.fault, hit.fault, frozenset({slice_id}), begins, ends, deadly=True))
    return found


def recoveries(history: History, reexecution: Reexecution | None = None) -> list[Recovery]:
    """Every recovery of a slice that a fault made necessary, in the order of the faults, until it had caught up. What
    the loss of a coordinator costs shows in the slices that it leads. Where a subject was executed again, it is known
    what the numbers of another incarnation upstream stand for, which may begin above all that were before."""
    lost, timeline = losses(history), in_time(history)
    leaders = {one.actor for one in history.each(Decided)}
    return [
        _taken_over(history, timeline, struck, actor, peers, reexecution)
        if peers
        else _recovery(history, timeline, struck, actor, reexecution)
        for struck in history.struck()
        if struck.bite.gone
        for actor in struck.bite.actors
        if actor not in leaders
        for peers in (_peers(history, struck.stamp.at, slice_of(actor), lost),)
    ]


def sure_recoveries(history: History) -> list[Recovery]:
    """Those of which the records alone tell when they had come to where they were before, or that they have not: what
    is not here may have taken longer than its numbers say, which shows when the operators are executed again. So does
    when they were heard again, which is in none of these."""
    lost, hits = losses(history), history.hits()
    return [
        one
        for one in recoveries(history)
        if one.caught_up is None
        or not (
            _peers(history, hits[one.fault, one.actor].stamp.at, slice_of(one.actor), lost)
            or may_take_longer(history, slice_of(one.actor), one.incarnation)
        )
    ]


def may_take_longer(history: History, slice_id: str, incarnation: int) -> bool:
    """Whether numbers alone do not tell when an incarnation had caught up: those before it had taken of incarnations
    upstream that it did not hear, whose numbers say nothing beside those of their successors."""
    sources = {span.source for span in history.offered()}
    senders: dict[bool, set[tuple[str, int]]] = {True: set(), False: set()}
    for one in history.each(Taken):
        if one.slice == slice_id and one.incarnation <= incarnation and one.upstream not in sources:
            senders[one.incarnation == incarnation].add((one.upstream, one.upstream_incarnation))
    return not senders[False] <= senders[True]


def _peers(history: History, failed: int, slice_id: str, lost: Mapping[tuple[str, int], int]) -> frozenset[int]:
    """The incarnations of a slice that were in sync when another was lost, and were not lost with it."""
    return frozenset(
        record.incarnation
        for stamped in history.of(InSync)
        if isinstance(record := stamped.record, InSync)
        and record.slice == slice_id
        and stamped.at <= failed
        and lost.get((slice_id, record.incarnation), failed + 1) > failed
    )


def _taken_over(
    history: History,
    timeline: Sequence[TimelineEntry],
    struck: FaultStruck,
    actor: str,
    peers: frozenset[int],
    reexecution: Reexecution | None,
) -> Recovery:
    slice_id, failed = slice_of(actor), struck.stamp.at
    promotions = (
        stamped
        for stamped in history.of(Promoted)
        if isinstance(stamped.record, Promoted)
        and stamped.record.slice == slice_id
        and stamped.record.incarnation in peers
        and stamped.at >= failed
    )
    promoted = min(promotions, key=lambda stamped: stamped.at, default=None)
    known = None if reexecution is None or slice_id in reexecution.doubtful else reexecution
    told = _heard(history, slice_id) if known is None else _heard_anew(known, slice_id)
    heard = [(at, number) for at, number in told if at >= failed and number in peers]
    if promoted is None:
        at, number = min(heard, default=(failed, min(peers)))
        return Recovery(struck.number, actor, number, 0, 0, 0, at - failed)
    gone = _gone(timeline, struck)
    assert isinstance(promoted.record, Promoted)
    number = promoted.record.incarnation
    # Nothing more is heard of one that had nothing more to say.
    at = min((at for at, one in heard if one == number and at >= promoted.at), default=promoted.at)
    return Recovery(
        struck.number, actor, number, _span(failed, gone), 0, _span(gone, promoted.at), _span(promoted.at, at)
    )


def _heard(history: History, slice_id: str) -> Iterator[tuple[int, int]]:
    """When an output of a slice was taken or delivered, and whose copy."""
    for stamped in history.of(Taken, Delivered):
        record = stamped.record
        if isinstance(record, Taken) and record.upstream == slice_id:
            yield stamped.at, record.upstream_incarnation
        elif isinstance(record, Delivered) and record.channel.partition(">")[0] == slice_id:
            yield stamped.at, record.incarnation


def _heard_anew(reexecution: Reexecution, slice_id: str) -> Iterator[tuple[int, int]]:
    """The same of outputs that nobody had heard of any copy: one that lags behind repeats what others have said."""
    said = [one for to in reexecution.topology.downstream(slice_id) for one in said_to(reexecution, slice_id, to)]
    known: set[Derivation | None] = {None}
    for at, number, derivations in sorted(said, key=lambda one: one[0]):
        if not known.issuperset(derivations):
            known.update(derivations)
            yield at, number


def _gone(timeline: Sequence[TimelineEntry], struck: FaultStruck) -> int | None:
    """When the loss of the node was detected. It can have been taken for lost before it was, as one that was paused."""
    place = _place(timeline, struck)
    later = (e for e in timeline[place + 1 :] if isinstance(e, NodeGone) and e.node == struck.bite.node)
    detected = next(later, None)
    if detected is not None:
        return detected.stamp.at
    before = (e for e in timeline[place::-1] if isinstance(e, NodeGone | NodeUp) and e.node == struck.bite.node)
    return struck.stamp.at if isinstance(next(before, None), NodeGone) else None


def _successor(timeline: Sequence[TimelineEntry], struck: FaultStruck, actor: str, gone: int) -> Placed | None:
    """Who was placed because the node was lost. What was placed before that was known was on its way when the node
    died, and went with it."""
    hit = _hit(timeline, struck, actor)
    later = [
        e for e in timeline if isinstance(e, Placed) and e.actor == actor and e.incarnation > hit and e.stamp.at >= gone
    ]
    later.sort(key=lambda placed: (placed.stamp.at, placed.incarnation))
    for one, following in pairwise(later):
        # Where the clock does not tell, it went with the node if it was replaced and nothing else explains why.
        if one.stamp.at > gone or _explained(timeline, one, following, gone):
            return one
    return later[-1] if later else None


def _hit(timeline: Sequence[TimelineEntry], struck: FaultStruck, actor: str) -> int:
    """The incarnation that the fault took: of those placed by then the last on this node. The driver takes all slices,
    wherever they are."""
    by_then = [
        (e.node == struck.bite.node, e.incarnation)
        for e in timeline
        if isinstance(e, Placed) and e.actor == actor and e.stamp.at <= struck.stamp.at
    ]
    return max(by_then, default=(False, 0))[1]


def _explained(timeline: Sequence[TimelineEntry], one: Placed, following: Placed, gone: int) -> bool:
    """Whether something that came after `gone` made it necessary to replace an incarnation."""
    return any(
        gone < e.stamp.at <= following.stamp.at
        and (
            (isinstance(e, NodeGone) and e.node == one.node)
            or (isinstance(e, FaultStruck) and bool(e.bite.gone) and one.actor in e.bite.actors)
        )
        for e in timeline
    )


def _recovery(
    history: History,
    timeline: Sequence[TimelineEntry],
    struck: FaultStruck,
    actor: str,
    reexecution: Reexecution | None,
) -> Recovery:
    failed = struck.stamp.at
    gone = _gone(timeline, struck)
    placed = None if gone is None else _successor(timeline, struck, actor, gone)
    incarnation = 0 if placed is None else placed.incarnation
    started = next(
        (
            stamped.at
            for stamped in history.of(Started)
            if isinstance(stamped.record, Started)
            and stamped.record.slice == slice_of(actor)
            and stamped.record.incarnation == incarnation
        ),
        None,
    )
    reached = None if started is None else when_caught_up(history, slice_of(actor), incarnation)
    if reached is not None and reexecution is not None:
        again = _when_made_good(reexecution, slice_of(actor), incarnation, reached)
        reached = None if again is None else max(reached, again)
    placed_at = None if placed is None else placed.stamp.at
    return Recovery(
        struck.number,
        actor,
        incarnation,
        _span(failed, gone),
        _span(gone, placed_at),
        _span(placed_at, started),
        _span(started, reached),
    )


def _place(timeline: Sequence[TimelineEntry], struck: FaultStruck) -> int:
    """By what it hit: an entry with the same stamp can have come before the fault."""
    return next(
        place
        for place, entry in enumerate(timeline)
        if isinstance(entry, FaultStruck)
        and (entry.number, entry.bite.target, entry.bite.node) == (struck.number, struck.bite.target, struck.bite.node)
    )


def _span(start: int | None, end: int | None) -> int | None:
    return None if start is None or end is None else max(0, end - start)


def when_caught_up(history: History, slice_id: str, incarnation: int) -> int | None:
    """When the new incarnation had seen of every upstream slice as much as any before it, what its checkpoint had seen
    included, or wanted nothing but what comes after that: what a slice that starts blank has lost, it waits for no
    more."""
    before: dict[str, int] = {}
    marks: dict[int, dict[str, int]] = {}
    in_checkpoint: dict[tuple[int, int], dict[str, int]] = {}
    kinds = (Taken, Started, Restored, CheckpointTaken, Opened)
    mine = [
        (stamped.at, record, number)
        for stamped in history.of(*kinds)
        if isinstance(record := stamped.record, kinds) and (number := _number_of(record, slice_id)) is not None
    ]
    # What a dead node has said can be read after what its successor says.
    for at, record, number in sorted(mine, key=lambda one: one[2]):
        mark = marks.setdefault(number, {})
        if isinstance(record, Started):
            restored = {} if record.restored is None else in_checkpoint.get(record.restored, {})
            marks[number] = dict(restored)
        elif isinstance(record, Restored):
            marks[number] = dict(in_checkpoint.get(record.checkpoint, {}))
        elif isinstance(record, CheckpointTaken):
            in_checkpoint[number, record.number] = dict(mark)
        elif isinstance(record, Taken):
            mark[record.upstream] = max(mark.get(record.upstream, 0), record.last)
        elif number == incarnation:
            mark[record.slice] = max(mark.get(record.slice, 0), record.after)
        if number < incarnation:
            for upstream, seq in marks[number].items():
                before[upstream] = max(before.get(upstream, 0), seq)
        elif number == incarnation:
            now = marks[incarnation]
            if all(now.get(upstream, 0) >= seq for upstream, seq in before.items()):
                return at
    return None


def _number_of(record: Taken | Started | Restored | CheckpointTaken | Opened, slice_id: str) -> int | None:
    """Of the incarnation of a slice that a record is of, by itself or by whom it took from; None: of none."""
    if isinstance(record, Opened):
        return record.downstream_incarnation if record.downstream == slice_id else None
    return record.incarnation if record.slice == slice_id else None


def _when_made_good(reexecution: Reexecution, slice_id: str, incarnation: int, since: int) -> int | None:
    """When the new incarnation held, by what they were made of, the furthest inputs that those before it had taken: of
    upstream incarnations that it did not hear, whose numbers say nothing beside those of their successors."""
    reruns = reexecution.reruns.get(slice_id, {})
    mine = reruns.get(incarnation)
    if mine is None or slice_id in reexecution.doubtful or reexecution.topology.has_feedback:
        return since
    heard = set(reexecution.taken_of(mine))
    furthest: dict[tuple[str, str], Derivation] = {}
    for number, rerun in reruns.items():
        for (up, sender), spans in reexecution.taken_of(rerun).items() if number < incarnation else ():
            if (up, sender) not in heard and up not in reexecution.sources:
                for derivation in (rerun.took[place] for begin, end in spans for place in range(begin, end)):
                    of = up, derivation[0]
                    furthest[of] = max(furthest.get(of, derivation), derivation)
    own = set(mine.took)
    restored = {derivation for derivation in mine.lineage() if derivation not in own} if furthest else set()
    missing = {of: derivation for of, derivation in furthest.items() if derivation not in restored}
    at, begin = since, 0
    for (time, record), (end, _) in zip(reexecution.timed(mine, Taken), mine.batches, strict=False):
        if not missing:
            break
        for derivation in mine.took[begin:end]:
            due = missing.get((record.upstream, derivation[0]))
            if due is not None and derivation >= due:
                del missing[record.upstream, derivation[0]]
                at = time
        begin = end
    return None if missing else at
