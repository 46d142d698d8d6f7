"""How long each recovery took, in parts: detected, redeployed, restored, caught up, heard again.

It is over when the slice has come to where it was before, and is heard again: what it makes from there on has been
taken downstream, or delivered. How long it waits for inputs of which to make anything is not part of it, and where
nothing is made, nothing was due.

Where a slice has another replica in sync, nothing has to be redeployed or restored: its recovery is over when its
outputs go on. They never stop where the other is active already; then what is measured is how long nobody heard of it,
which is an upper bound. Where it is promoted, that it is active stands for restored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from ..core.slice_names import channel_name, slice_of
from ..recording.history import FaultStruck, History, NodeGone, NodeUp, Placed, TimelineEntry
from ..recording.records import CheckpointTaken, Decided, Delivered, InSync, Promoted, Restored, Started, Taken
from .incarnations import in_time, losses
from .reruns import BY_TIMER

if TYPE_CHECKING:
    from .oracle import Case
    from .reexecution import Reexecution
    from .reruns import Derivation, Rerun


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

    @property
    def total(self) -> int | None:
        whole = self.until_caught_up
        return None if whole is None or self.heard is None else whole + self.heard

    @property
    def until_caught_up(self) -> int | None:
        parts = self._parts
        return None if any(part is None for part in parts) else self.at_least - (self.heard or 0)

    @property
    def at_least(self) -> int:
        """How long it took, or longer, where a part was not reached."""
        return sum(part or 0 for part in (*self._parts, self.heard))

    @property
    def _parts(self) -> tuple[int | None, ...]:
        return self.detected, self.redeployed, self.restored, self.caught_up


def recoveries_of(case: Case) -> list[Recovery]:
    """An analysis."""
    return recoveries(case.history, case.collation.reexecution)


def recoveries(history: History, reexecution: Reexecution | None = None) -> list[Recovery]:
    """Every recovery of a slice that a fault made necessary, in the order of the faults. What the loss of a coordinator
    costs shows in the slices that it leads. Where a subject was executed again, it is known what the numbers of another
    incarnation upstream stand for, which may begin above all that were before."""
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
    lost = losses(history)
    at = {(one.number, actor): one.stamp.at for one in history.struck() for actor in one.bite.actors}
    return [
        one
        for one in recoveries(history)
        if one.caught_up is None
        or not (
            _peers(history, at[one.fault, one.actor], slice_of(one.actor), lost)
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
    said = [one for to in reexecution.topology.downstream(slice_id) for one in _said_to(reexecution, slice_id, to)]
    known: set[Derivation | None] = {None}
    for at, number, derivations in sorted(said, key=lambda one: one[0]):
        if not known.issuperset(derivations):
            known.update(derivations)
            yield at, number


def _said_to(
    reexecution: Reexecution, slice_id: str, to: str
) -> Iterator[tuple[int, int, Sequence[Derivation | None]]]:
    """When outputs on one channel were taken or delivered, whose copies, and which."""
    for one in reexecution.deliveries.get(channel_name(slice_id, to), ()):
        yield one.at, one.record.incarnation, one.derivations
    for number, rerun in reexecution.reruns.get(to, {}).items():
        begin = 0
        for (record, at), (end, _) in zip(_takings(reexecution, to, number), rerun.batches, strict=False):
            if record.upstream == slice_id:
                yield at, record.upstream_incarnation, rerun.took[begin:end]
            begin = end


def _takings(reexecution: Reexecution, slice_id: str, incarnation: int) -> Iterator[tuple[Taken, int]]:
    """What an incarnation took, and when."""
    for record, at in zip(reexecution.books[slice_id], reexecution.times[slice_id], strict=True):
        if isinstance(record, Taken) and record.incarnation == incarnation:
            yield record, at


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
    heard: int | None = 0
    if reached is not None and reexecution is not None:
        lost = losses(history).get((slice_of(actor), incarnation))
        heard = _until_heard(reexecution, slice_of(actor), incarnation, failed, reached, lost)
    placed_at = None if placed is None else placed.stamp.at
    return Recovery(
        struck.number,
        actor,
        incarnation,
        _span(failed, gone),
        _span(gone, placed_at),
        _span(placed_at, started),
        _span(started, reached),
        heard,
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
    included."""
    before: dict[str, int] = {}
    marks: dict[int, dict[str, int]] = {}
    in_checkpoint: dict[tuple[int, int], dict[str, int]] = {}
    mine = [
        (stamped.at, stamped.record)
        for stamped in history.of(Taken, Started, Restored, CheckpointTaken)
        if isinstance(stamped.record, Taken | Started | Restored | CheckpointTaken) and stamped.record.slice == slice_id
    ]
    # What a dead node has said can be read after what its successor says.
    for at, record in sorted(mine, key=lambda one: one[1].incarnation):
        if isinstance(record, Started):
            restored = {} if record.restored is None else in_checkpoint.get(record.restored, {})
            marks[record.incarnation] = dict(restored)
        elif isinstance(record, Restored):
            marks[record.incarnation] = dict(in_checkpoint.get(record.checkpoint, {}))
        elif isinstance(record, CheckpointTaken):
            in_checkpoint[record.incarnation, record.number] = dict(marks.get(record.incarnation, {}))
        else:
            mark = marks.setdefault(record.incarnation, {})
            mark[record.upstream] = max(mark.get(record.upstream, 0), record.last)
        if record.incarnation < incarnation:
            for upstream, seq in marks.get(record.incarnation, {}).items():
                before[upstream] = max(before.get(upstream, 0), seq)
        elif record.incarnation == incarnation:
            now = marks[incarnation]
            if all(now.get(upstream, 0) >= seq for upstream, seq in before.items()):
                return at
    return None


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
    for (record, time), (end, _) in zip(_takings(reexecution, slice_id, incarnation), mine.batches, strict=False):
        if not missing:
            break
        for derivation in mine.took[begin:end]:
            due = missing.get((record.upstream, derivation[0]))
            if due is not None and derivation >= due:
                del missing[record.upstream, derivation[0]]
                at = time
        begin = end
    return None if missing else at


_LATER = 1_000
"""So many outputs that an incarnation made after it had caught up are looked for."""


def _until_heard(
    reexecution: Reexecution, slice_id: str, incarnation: int, failed: int, reached: int, lost: int | None
) -> int | None:
    """From when an incarnation had caught up until it was heard on each of its channels, by outputs that nobody had
    heard before the failure: the last that it had made by then, or else the first that it made later, less
    the time until it took what that was made of. None where it made such, and none was heard, or only once it was lost
    again, of who came after it."""
    mine = reexecution.reruns.get(slice_id, {}).get(incarnation)
    if mine is None or slice_id in reexecution.doubtful or len(mine.stretches) > 1:
        return 0
    times = [at for _, at in _takings(reexecution, slice_id, incarnation)][: len(mine.batches)]
    before = sum(at <= reached for at in times)
    waited = 0
    for place, (to, emissions) in enumerate(mine.emitted.items()):
        made = [lengths[place] for _, lengths in mine.batches]
        upto = made[before - 1] if before else 0
        owed = [d for d in emissions.derivations[max(0, upto - _LATER) : upto] if _at_once(mine, d)][-1:]
        later = [d for d in emissions.derivations[upto : upto + _LATER] if _at_once(mine, d)]
        first = _first_heard(_said_to(reexecution, slice_id, to), {*owed, *later}, incarnation, lost)
        at = first.get(owed[0]) if owed else None
        if at is not None and at >= failed:
            waited = max(waited, at - reached)
            continue
        heard = [d for d in later if d in first]
        if heard:
            number = emissions.derivations[upto : upto + _LATER].index(heard[0]) + upto
            taken = next(time for time, length in zip(times, made, strict=False) if length > number)
            waited = max(waited, first[heard[0]] - max(taken, reached))
        elif later or (owed and at is None):
            return None
    return waited


def _at_once(rerun: Rerun, derivation: Derivation) -> bool:
    """Whether an output was made of an input when that was taken, and by no timer and at no end of an epoch."""
    return bool(derivation[0] != rerun.slice_id and derivation[-1] - rerun.hop < BY_TIMER)


def _first_heard(
    said: Iterable[tuple[int, int, Sequence[Derivation | None]]],
    wanted: set[Derivation],
    incarnation: int,
    lost: int | None,
) -> dict[Derivation, int]:
    """When the first copy of each of these outputs was heard, but for those of later incarnations that were heard once
    this one was lost; what nobody heard is not there."""
    found: dict[Derivation, int] = {}
    for at, number, derivations in said if wanted else ():
        if number > incarnation and lost is not None and at > lost:
            continue
        for derivation in derivations:
            if derivation in wanted and at < found.get(derivation, at + 1):
                found[derivation] = at
    return found
