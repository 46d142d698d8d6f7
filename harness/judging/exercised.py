"""What of a scheme was at work in a run: that a guarantee holds says nothing when nothing of what it rests on was ever
needed.

Counted from the records: those of the slice runtime, which is the same for every scheme, and those of the machines.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from ..recording.history import History, in_tables
from ..recording.records import (
    Adopted,
    Changed,
    CheckpointDurable,
    Delivered,
    InSync,
    Offered,
    Opened,
    Promoted,
    Refused,
    Restored,
    Started,
    Taken,
    Worked,
)
from .incarnations import losses


class Activity(StrEnum):
    """A way of making slices survive, as far as records show it at work."""

    RESTART = "slices started again"
    CHECKPOINT = "checkpoints durable"
    RESTORE = "states restored"
    """Of a checkpoint, or of a peer."""
    REPLAY = "replays"
    """A receiver took what had been made before it, or its sender, was there."""
    TAKE_OVER = "take-overs"
    """A replica stayed active, or became so, when another of its slice was lost."""
    FILTER = "duplicates dropped"
    MERGE = "waits of a merge"
    """Something had come in, and was held since another channel could bring what comes before it."""
    TRIM = "log entries trimmed"
    FENCE = "messages of replaced incarnations refused"
    CHANGE = "changes of settings adopted"
    """A slice went by another setting from there on."""
    DELIVERY = "outputs delivered"
    """To a sink. None of them makes a slice survive, and without any there is nothing that could have been lost."""


Exercised = Mapping[Activity, int]
"""Activity -> how often it was at work."""

NEVER: Mapping[Activity, str] = {
    Activity.RESTART: "no slice was started again",
    Activity.CHECKPOINT: "no checkpoint became durable",
    Activity.RESTORE: "no state was restored",
    Activity.REPLAY: "nothing was replayed",
    Activity.TAKE_OVER: "no replica took over from another",
    Activity.FILTER: "no duplicate was dropped",
    Activity.MERGE: "no merge had to wait",
    Activity.TRIM: "no log was trimmed",
    Activity.FENCE: "no message of a replaced incarnation was refused",
    Activity.CHANGE: "no change of a setting was adopted",
    Activity.DELIVERY: "nothing was delivered to a sink",
}


@dataclass(frozen=True)
class SubjectShape:
    """What has to be known of a subject to read its records."""

    replicas: int
    """Of each operator slice."""
    all_active: bool
    """Whether all replicas that are in sync are active."""
    tracking: frozenset[str]
    """The sources that send again what they do not hear of."""
    ends: frozenset[str]
    """Sources and sinks outside of every fault domain, of which there is one incarnation each."""
    alone: frozenset[str]
    """Those, and sinks that can be lost: there are no replicas of them."""

    def initial_ones(self, slice_id: str) -> int:
        """The incarnations that a slice begins with; what has a higher number came after a loss."""
        return 1 if slice_id in self.alone else self.replicas


def exercised(history: History, shape: SubjectShape, *, replays: int | None = None) -> Exercised:
    """How often each mechanism was at work in a run; with `replays`, of those no more than so many are counted."""
    counts = dict.fromkeys(Activity, 0)
    durable: set[tuple[str, int, int]] = set()
    opened: list[Opened] = []
    worked: dict[tuple[str, int], Worked] = {}
    in_sync: dict[tuple[str, int], int] = {}
    promoted: set[tuple[str, int]] = set()
    taken_over: list[tuple[str, int]] = []
    changed: set[tuple[str, int]] = set()
    adopted: list[tuple[str, int]] = []
    for stamped in history.of(*_TELLING):
        record = stamped.record
        if type(record) is CheckpointDurable:
            durable.add((record.slice, record.incarnation, record.number))
        elif type(record) is Opened:
            opened.append(record)
        elif type(record) is Started:
            if record.restored is not None:
                # Who took it may have died before it heard that it was durable.
                durable.add((record.slice, *record.restored))
                counts[Activity.RESTORE] += 1
            counts[Activity.RESTART] += record.incarnation > shape.initial_ones(record.slice)
        elif type(record) is Restored:
            taken_over.append((record.slice, record.incarnation))
        elif type(record) is Promoted:
            promoted.add((record.slice, record.incarnation))
        elif type(record) is InSync:
            in_sync.setdefault((record.slice, record.incarnation), stamped.at)
        elif type(record) is Worked:
            # Each says all that was until then.
            worked[record.slice, record.incarnation] = record
        elif type(record) is Refused:
            counts[Activity.FENCE] += 1
        elif type(record) is Adopted:
            adopted.append((record.slice, record.number))
        elif type(record) is Changed:
            changed.add((record.member, record.number))
    # What no coordinator has changed, nobody goes by.
    counts[Activity.CHANGE] = sum(one in changed for one in adopted)
    counts[Activity.CHECKPOINT] = len(durable)
    # Before the first loss, replicas get in sync with one another.
    counts[Activity.RESTORE] += sum(
        number > shape.initial_ones(slice_id) or (slice_id, number) in promoted for slice_id, number in taken_over
    )
    for one in worked.values():
        counts[Activity.FILTER] += one.dropped
        counts[Activity.MERGE] += one.waited
        counts[Activity.TRIM] += one.trimmed
    counts[Activity.REPLAY] = _replays(history, opened, promoted, shape, replays)
    if replays is None or counts[Activity.REPLAY] < replays:
        counts[Activity.REPLAY] += _sent_again(history, shape)
    counts[Activity.TAKE_OVER] = _went_on(history, in_sync) if shape.all_active else len(promoted)
    counts[Activity.DELIVERY] = _delivered(history)
    return counts


_TELLING = (CheckpointDurable, Opened, Started, Restored, Promoted, InSync, Worked, Refused, Adopted, Changed)
"""The fewest of the records. What was offered, taken and delivered is read where there was something to be replayed."""


_Connection = tuple[str, int, str, int]
"""Sender, its incarnation, receiver, its incarnation."""


def _replays(
    history: History,
    opened: Sequence[Opened],
    promoted: set[tuple[str, int]],
    shape: SubjectShape,
    most: int | None,
) -> int:
    """Connections on which something was taken that had been made before they were opened. That of an initial
    incarnation to an initial one brings what has waited for it since the beginning, which is no replay."""
    made: dict[_Connection, int] = {}
    known: set[_Connection] = set()
    later: list[tuple[int, Opened, _Connection]] = []
    for place, one in enumerate(opened):
        link = (one.slice, one.incarnation, one.downstream, one.downstream_incarnation)
        is_later = (
            one.after > 0
            or link in known
            or one.incarnation > shape.initial_ones(one.slice)
            or one.downstream_incarnation > shape.initial_ones(one.downstream)
            or (one.downstream, one.downstream_incarnation) in promoted
        )
        known.add(link)
        if is_later:
            later.append((place, one, link))
    if not later:
        return 0
    # A source's own counter stands still: its events come numbered.
    due = _next_offered(history) if any(one.slice in shape.ends for _, one, _ in later) else [1] * len(opened)
    for place, one, link in later:
        made[link] = max(one.next_seq, due[place], made.get(link, 0))
    replayed: set[_Connection] = set()
    receivers = {(to, number) for _, _, to, number in made}
    sinks = {to for to, number in receivers if number == 1 and to in shape.ends}
    for link, first in chain(_firsts_taken(history, receivers), _firsts_delivered(history, sinks, made, replayed)):
        if first < made.get(link, 0) and link not in replayed:
            replayed.add(link)
            if len(replayed) == len(made) or len(replayed) == most:
                break
    return len(replayed)


def _firsts_taken(history: History, receivers: Container[tuple[str, int]]) -> Iterator[tuple[_Connection, int]]:
    """The number of the first event of each batch that one of these took."""
    for stamped in history.of(Taken):
        record = stamped.record
        if isinstance(record, Taken) and (record.slice, record.incarnation) in receivers:
            yield (record.upstream, record.upstream_incarnation, record.slice, record.incarnation), record.first


def _firsts_delivered(
    history: History, sinks: Container[str], links: Container[_Connection], done: Container[_Connection]
) -> Iterator[tuple[_Connection, int]]:
    """The same of what was delivered on some links, but those that are done. What another sink takes is on record, and
    by which of its incarnations."""
    if not sinks:
        return
    if (tables := in_tables(history.records)) is not None:
        for block in tables.delivered():
            for sink, channel, number, first in block.firsts():
                if sink in sinks:
                    yield (channel.partition(">")[0], number, sink, 1), first
        return
    for stamped in history.of(Delivered):
        record = stamped.record
        assert isinstance(record, Delivered)
        if record.sink in sinks:
            link = (record.channel.partition(">")[0], record.incarnation, record.sink, 1)
            if link in links and link not in done:
                yield link, min([event.seq for event in record.rows])


def _next_offered(history: History) -> list[int]:
    """For each time that a channel was opened, the number of the next event of the source whose it is, if it is one."""
    offered: dict[str, int] = {}
    found: list[int] = []
    for stamped in history.of(Offered, Opened):
        record = stamped.record
        if type(record) is Offered:
            offered[record.source] = record.events[-1].seq
        elif type(record) is Opened:
            found.append(offered.get(record.slice, 0) + 1)
    return found


def _sent_again(history: History, shape: SubjectShape) -> int:
    """Batches of a source that follows its events which have numbers that were taken before."""
    if not shape.tracking:
        return 0
    highest: dict[tuple[str, str], int] = {}
    again = 0
    for stamped in history.of(Taken):
        record = stamped.record
        if isinstance(record, Taken) and record.upstream in shape.tracking:
            channel = (record.upstream, record.slice)
            again += record.first <= highest.get(channel, 0)
            highest[channel] = max(record.last, highest.get(channel, 0))
    return again


def _delivered(history: History) -> int:
    if (tables := in_tables(history.records)) is not None:
        return sum(len(block.rows.seq) for block in tables.delivered())
    return sum([len(one.rows) for one in history.each(Delivered)])


def _went_on(history: History, in_sync: Mapping[tuple[str, int], int]) -> int:
    """Replicas in sync that were lost while another of their slice was in sync, and stayed."""
    if len({slice_id for slice_id, _ in in_sync}) == len(in_sync):
        # No slice had another.
        return 0
    lost = losses(history)
    return sum(
        any(
            other[0] == one[0] and other != one and since <= at and lost.get(other, at + 1) > at
            for other, since in in_sync.items()
        )
        for one, at in lost.items()
        if in_sync.get(one, at + 1) <= at
    )


def unexercised(rests_on: Iterable[Activity], counts: Exercised) -> tuple[Activity, ...]:
    """Of what a claim rests on, what was never at work."""
    return tuple(mechanism for mechanism in Activity if mechanism in set(rests_on) and not counts.get(mechanism))


def said_never(missing: Iterable[Activity]) -> str:
    """In words: `no checkpoint became durable, and the claim rests on it`."""
    missing = tuple(missing)
    it = "it" if len(missing) == 1 else "them"
    return f"{', '.join(NEVER[one] for one in missing)}, and the claim rests on {it}" if missing else ""


def killed_somebody(history: History) -> bool:
    """Whether a fault ended slices, so that their state had to come from somewhere."""
    return any(entry.bite.gone and entry.bite.actors for entry in history.struck())


def called_for(rests_on: Iterable[Activity], history: History, counts: Exercised) -> tuple[Activity, ...]:
    """Of what a claim rests on, what the faults of one run called for and what was never at work in it.

    A slice that dies before its first checkpoint, or one of whose replicas nobody needs, is a legitimate run: whether
    something is restored, replayed or taken over depends on what was hit. But where slices died and not one checkpoint
    became durable in the whole run, the interval of checkpoints is beyond what the run fed, and none could have been.
    And of outputs there have to be some, whatever was hit.
    """
    standing = [Activity.DELIVERY, *([Activity.CHECKPOINT] if killed_somebody(history) else [])]
    return unexercised([one for one in rests_on if one in standing], counts)
