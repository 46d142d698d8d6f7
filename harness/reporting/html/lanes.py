"""What each node and each incarnation was doing when, as far as the record tells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ...core.slice_names import slice_of
from ...core.wording import counted
from ...judging.incarnations import in_time, losses
from ...judging.recovery import Recovery, may_take_longer, when_caught_up
from ...recording.history import FaultStruck, History, IncarnationFailed, NodeGone, NodeUp, Placed
from ...recording.records import (
    Adopted,
    Changed,
    CheckpointDurable,
    CheckpointTaken,
    Decided,
    Delivered,
    InSync,
    Offered,
    Opened,
    Promoted,
    Restored,
    Started,
    Taken,
)
from .document import said_at

MARKS: Final = 240
"""Checkpoints that are drawn of a lane; of more, evenly few."""


class Doing(StrEnum):
    """What an incarnation or a node is at."""

    UP = "up"
    DEAD = "dead"
    """It is gone, and nobody has noticed."""
    GONE = "gone"
    RESTORING = "restoring"
    STARTING = "starting"
    CATCHING_UP = "catching up"
    AT_WORK = "at work"
    REPLAYING = "replaying"
    HELD = "held"
    """By a fault that does not end it."""


class Sign(StrEnum):
    """What happened at one moment."""

    TAKEN = "checkpoint taken"
    DURABLE = "checkpoint durable"
    CRASH = "crash"
    FAILED = "failed"
    PROMOTED = "promoted"
    IN_SYNC = "in sync"
    RESTORED = "restored"
    DECIDED = "decided"
    BATCH = "batch"
    """The sink is given one."""


@dataclass(frozen=True)
class LaneStretch:
    """What one of them was doing for a while."""

    doing: Doing
    begins: int
    ends: int
    said: str


@dataclass(frozen=True)
class LaneSign:
    """Something at one moment."""

    sign: Sign
    at: int
    said: str


@dataclass(frozen=True)
class ActorLane:
    """One line of the picture."""

    name: str
    of_node: bool
    stretches: tuple[LaneStretch, ...]
    signs: tuple[LaneSign, ...]
    note: str = ""
    """What is not drawn of it."""


@dataclass(frozen=True)
class ReplayOverChannel:
    """What was made before a channel was opened, and went over it then."""

    sender: str
    incarnation: int
    receiver: str
    receiver_incarnation: int
    begins: int
    ends: int
    outputs: int


def lanes_of(history: History, ends: int, recoveries: Iterable[Recovery] = ()) -> list[ActorLane]:
    """Nodes first, then slices, each in the order of its name. The `recoveries` are those that the run was judged by:
    when one was over, they know better than the records alone."""
    struck = history.hits()
    placed = {(one.actor, one.incarnation): one.stamp.at for one in history.timeline if isinstance(one, Placed)}
    known = {
        (one.actor, one.incarnation): at + one.until_caught_up
        for one in recoveries
        for hit in [struck.get((one.fault, one.actor))]
        for at in [0 if hit is None else hit.stamp.at]
        # A replica that takes over was there before.
        if one.until_caught_up is not None and placed.get((one.actor, one.incarnation), -1) >= at
    }
    return [*_nodes(history, ends), *_actors(history, ends, known)]


def _nodes(history: History, ends: int) -> Iterator[ActorLane]:
    timeline = in_time(history)
    since: dict[str, int] = {}
    doing: dict[str, Doing] = {}
    stretches: dict[str, list[LaneStretch]] = defaultdict(list)
    signs: dict[str, list[LaneSign]] = defaultdict(list)

    def becomes(node: str, what: Doing, at: int) -> None:
        begun = since.get(node, 0 if what in (Doing.DEAD, Doing.GONE) else at)
        if begun < at:
            stretches[node].append(_of_node(node, doing.get(node, Doing.UP), begun, at))
        since[node], doing[node] = at, what

    for entry in timeline:
        at = entry.stamp.at
        if isinstance(entry, NodeUp | Placed):
            if doing.get(entry.node) is not Doing.UP:
                becomes(entry.node, Doing.UP, at)
        elif isinstance(entry, NodeGone):
            becomes(entry.node, Doing.GONE, at)
        elif isinstance(entry, FaultStruck) and entry.bite.gone and entry.bite.node is not None:
            signs[entry.bite.node].append(LaneSign(Sign.CRASH, at, f"{entry.fault}: {entry.bite.node} dies"))
            becomes(entry.bite.node, Doing.DEAD, at)
    for node in since:
        if since[node] < ends:
            stretches[node].append(_of_node(node, doing[node], since[node], ends))
    for node in sorted(since):
        yield ActorLane(node, True, tuple(stretches[node]), tuple(signs[node]))


def _of_node(node: str, doing: Doing, begins: int, ends: int) -> LaneStretch:
    said = {Doing.UP: "is up", Doing.DEAD: "is gone, which is not noticed yet", Doing.GONE: "is gone"}[doing]
    return LaneStretch(doing, begins, ends, f"{node} {said}")


@dataclass
class _Book:
    """What the records say of one incarnation."""

    started: int | None = None
    restored: tuple[int, int] | None = None
    signs: list[LaneSign] = field(default_factory=list)
    checkpoints: list[LaneSign] = field(default_factory=list)


def _actors(history: History, ends: int, known: Mapping[tuple[str, int], int]) -> Iterator[ActorLane]:
    books, lost = _books(history), losses(history)
    replayed: dict[tuple[str, int], list[ReplayOverChannel]] = defaultdict(list)
    for one in replays(history):
        replayed[one.sender, one.incarnation].append(one)
    placed: dict[str, list[Placed]] = defaultdict(list)
    held: dict[str, list[LaneStretch]] = defaultdict(list)
    failed: dict[str, list[LaneSign]] = defaultdict(list)
    healed = history.healed()
    for entry in in_time(history):
        if isinstance(entry, Placed):
            placed[entry.actor].append(entry)
        elif isinstance(entry, IncarnationFailed):
            said = f"{entry.actor}#{entry.incarnation} failed: {entry.why}"
            failed[entry.actor].append(LaneSign(Sign.FAILED, entry.stamp.at, said))
        elif isinstance(entry, FaultStruck) and not entry.bite.gone and entry.bite.bit:
            upto = healed.get((entry.number, entry.bite.target))
            if upto is not None:
                for actor in entry.bite.actors:
                    held[actor].append(LaneStretch(Doing.HELD, entry.stamp.at, upto, entry.fault))
    for actor in sorted(placed):
        stretches: list[LaneStretch] = []
        signs = list(failed[actor])
        checkpoints: list[LaneSign] = []
        first_loss = min((at for (slice_id, _), at in lost.items() if slice_id == slice_of(actor)), default=None)
        for entry in placed[actor]:
            whose = (slice_of(actor), entry.incarnation)
            book = books.get(whose, _Book())
            over = lost.get(whose, ends)
            again = first_loss is not None and entry.stamp.at >= first_loss
            stretches += _stretches(history, entry, book, over, again, known)
            if whose in lost:
                signs.append(LaneSign(Sign.CRASH, over, f"{actor}#{entry.incarnation} on {entry.node} is lost"))
            signs += book.signs
            checkpoints += book.checkpoints
            stretches += [
                LaneStretch(
                    Doing.REPLAYING,
                    one.begins,
                    one.ends,
                    f"{actor}#{one.incarnation} replays {counted(one.outputs, 'output')} to "
                    f"{one.receiver}#{one.receiver_incarnation}",
                )
                for one in replayed[whose]
            ]
        drawn = thinned(checkpoints)
        note = "" if len(drawn) == len(checkpoints) else f"{len(drawn):,} of {len(checkpoints):,} checkpoints are drawn"
        yield ActorLane(actor, False, (*stretches, *held[actor]), tuple(sorted((*signs, *drawn), key=_at)), note)
    for sender in sorted({sender for sender, _ in replayed} - {slice_of(actor) for actor in placed}):
        # Sources, which nobody places.
        yield ActorLane(
            sender,
            False,
            tuple(
                LaneStretch(
                    Doing.REPLAYING,
                    one.begins,
                    one.ends,
                    f"{sender} sends {counted(one.outputs, 'event')} again to "
                    f"{one.receiver}#{one.receiver_incarnation}",
                )
                for one in replayed[sender, 1]
            ),
            (),
        )


def _stretches(
    history: History, placed: Placed, book: _Book, over: int, again: bool, known: Mapping[tuple[str, int], int]
) -> Iterator[LaneStretch]:
    """From when a node began to start it until it was lost."""
    name, where = f"{placed.actor}#{placed.incarnation}", f"on {placed.node}"
    begun = placed.stamp.at if book.started is None else max(book.started, placed.stamp.at)
    if book.restored is not None:
        of, number = book.restored
        said = f"{name} {where} restores checkpoint {number} of #{of}"
        yield LaneStretch(Doing.RESTORING, placed.stamp.at, begun, said)
    elif begun > placed.stamp.at:
        yield LaneStretch(Doing.STARTING, placed.stamp.at, begun, f"{name} {where} starts blank")
    caught_up = begun
    if again and book.started is not None:
        slice_id, judged = slice_of(placed.actor), known.get((placed.actor, placed.incarnation))
        reached = when_caught_up(history, slice_id, placed.incarnation) if judged is None else judged
        caught_up = over if reached is None else min(max(reached, begun), over)
        if caught_up > begun:
            unsure = judged is None and may_take_longer(history, slice_id, placed.incarnation)
            until = "" if reached is None else f" until {said_at(reached)}{' or later' if unsure else ''}"
            yield LaneStretch(Doing.CATCHING_UP, begun, caught_up, f"{name} {where} catches up{until}")
    if over > caught_up:
        yield LaneStretch(Doing.AT_WORK, caught_up, over, f"{name} {where} at work")


def _books(history: History) -> Mapping[tuple[str, int], _Book]:
    books: dict[tuple[str, int], _Book] = defaultdict(_Book)
    for stamped in history.of(*_TOLD):
        at, record = stamped.at, stamped.record
        if isinstance(record, Started):
            book = books[record.slice, record.incarnation]
            book.started, book.restored = at, record.restored
        elif isinstance(record, CheckpointTaken):
            said = f"{record.slice}#{record.incarnation} takes checkpoint {record.number}"
            books[record.slice, record.incarnation].checkpoints.append(LaneSign(Sign.TAKEN, at, said))
        elif isinstance(record, CheckpointDurable):
            said = f"checkpoint {record.number} of {record.slice}#{record.incarnation} is durable"
            books[record.slice, record.incarnation].checkpoints.append(LaneSign(Sign.DURABLE, at, said))
        elif isinstance(record, Promoted):
            said = f"{record.slice}#{record.incarnation} is active from now on"
            books[record.slice, record.incarnation].signs.append(LaneSign(Sign.PROMOTED, at, said))
        elif isinstance(record, InSync):
            said = f"{record.slice}#{record.incarnation} is known to be in sync"
            books[record.slice, record.incarnation].signs.append(LaneSign(Sign.IN_SYNC, at, said))
        elif isinstance(record, Restored):
            of, number = record.checkpoint
            said = f"{record.slice}#{record.incarnation} takes over checkpoint {number} of #{of}"
            books[record.slice, record.incarnation].signs.append(LaneSign(Sign.RESTORED, at, said))
        elif isinstance(record, Decided):
            said = f"{record.actor}#{record.incarnation} decides: {record.what}"
            books[record.actor, record.incarnation].checkpoints.append(LaneSign(Sign.DECIDED, at, said))
        elif isinstance(record, Changed):
            settings = ", ".join(f"{name}={value}" for name, value in record.settings.items()) or "what was declared"
            said = f"{record.actor} changes {record.member} to {settings}, after {record.since:,} inputs"
            books[record.actor, record.incarnation].checkpoints.append(LaneSign(Sign.DECIDED, at, said))
        elif isinstance(record, Adopted):
            said = (
                f"{record.slice}#{record.incarnation} goes by change {record.number} after {record.position:,} inputs"
            )
            books[record.slice, record.incarnation].signs.append(LaneSign(Sign.DECIDED, at, said))
    return books


_TOLD = (Started, CheckpointTaken, CheckpointDurable, Promoted, InSync, Restored, Decided, Changed, Adopted)


def thinned(signs: Sequence[LaneSign]) -> Sequence[LaneSign]:
    if len(signs) <= MARKS:
        return signs
    return [signs[place * len(signs) // MARKS] for place in range(MARKS)]


def _at(sign: LaneSign) -> int:
    return sign.at


def replays(history: History) -> list[ReplayOverChannel]:
    """Of every channel that was opened when its sender had already made outputs that the receiver took then, from the
    opening until the last of these was taken. What has waited since the beginning is none."""
    offered: dict[str, int] = {}
    opened: dict[tuple[str, int, str, int], tuple[int, int]] = {}
    """Sender, its incarnation, receiver, its incarnation -> when, and the last that had been made."""
    for stamped in history.of(Opened, Offered):
        record = stamped.record
        if isinstance(record, Offered):
            offered[record.source] = record.events[-1].seq
        elif isinstance(record, Opened):
            made = offered.get(record.slice, record.next_seq - 1)
            if made > record.after and (record.incarnation > 1 or record.downstream_incarnation > 1):
                link = (record.slice, record.incarnation, record.downstream, record.downstream_incarnation)
                opened[link] = (stamped.at, made)
    if not opened:
        return []
    ended: dict[tuple[str, int, str, int], tuple[int, int]] = {}
    takers: set[str] = set()
    """Those of which it is on record what they take; of a sink that cannot be lost, only what it delivers is."""
    for stamped in history.of(Taken, Delivered):
        record = stamped.record
        if isinstance(record, Taken):
            takers.add(record.slice)
            link = (record.upstream, record.upstream_incarnation, record.slice, record.incarnation)
            first, count = record.first, record.count
        elif isinstance(record, Delivered) and record.rows and record.sink not in takers:
            link = (record.channel.partition(">")[0], record.incarnation, record.sink, 1)
            first, count = min(event.seq for event in record.rows), len(record.rows)
        else:
            continue
        begun = opened.get(link)
        if begun is not None and first <= begun[1] and stamped.at >= begun[0]:
            ended[link] = (stamped.at, ended.get(link, (0, 0))[1] + count)
    return [ReplayOverChannel(*link, opened[link][0], at, count) for link, (at, count) in ended.items()]
