"""How long nobody heard anything new of a slice once it had come to where it was before.

It is heard on a channel when an output that nobody had heard before the failure is taken downstream, or delivered: the
last that it had made by then, or else the first that it made later. Counted from when it had taken what that was made
of: what it waits for inputs is not its own. Where it matters, it is asked what else is not: what is usual on the
channel, as where outputs are held back until a transaction ends, and what could have held its receiver up, as another
fault or a channel with which it merges this one in an order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..core.schedule import is_link
from ..core.slice_names import channel_name, slice_of
from ..core.topology import Role, all_before
from ..protocol.merging import Order
from ..recording.history import History
from ..recording.records import Taken
from .reruns import BY_TIMER
from .waiting_inputs import ChannelPassages

if TYPE_CHECKING:
    from .oracle import Case
    from .reexecution import Reexecution
    from .reruns import Derivation, Rerun

_LATER = 1_000
"""So many outputs that an incarnation made after it had caught up are looked for."""


@dataclass(frozen=True)
class HeardBy:
    """How long one receiver heard nothing new."""

    to: str
    since: int
    """When the slice had caught up, or taken later what the output is made of."""
    at: int


@dataclass(frozen=True)
class Unheard:
    """How long a slice was not heard, in microseconds."""

    micros: int | None
    """None: it was not heard, or nobody can tell."""
    by: tuple[HeardBy, ...] = ()
    """On each channel on which anything was due."""
    why: str = ""
    """Why nobody can tell."""


@dataclass(frozen=True)
class Excused:
    """How long a slice was not heard beyond what is usual, in microseconds."""

    micros: int
    usual: int
    """What is usual on the channel on which it was longest."""
    unsure: int
    """So much of it others may have brought about."""
    why: str
    """Who."""


@dataclass(frozen=True)
class CaughtUp:
    """An incarnation that has come to where those before it were."""

    slice_id: str
    incarnation: int
    failed: int
    """When it was made necessary."""
    at: int
    lost: int | None
    """When it was lost again."""


@dataclass(frozen=True)
class FeltFault:
    """How long a fault was felt that hit some slices."""

    fault: int
    said: str
    hit: frozenset[str]
    begins: int
    ends: int | None
    """None: to the end."""
    link: bool = False
    deadly: bool = False
    """Whether it ended the one slice that it hit; then until that had come to where it was."""


def lasting_faults(history: History) -> Iterator[FeltFault]:
    """Those that ended no slice, as a pause or a cut link."""
    healed = history.healed()
    for one in history.struck():
        if one.bite.lasting:
            target, hit = one.bite.target, frozenset(map(slice_of, one.bite.actors))
            ends = healed.get((one.number, target))
            yield FeltFault(one.number, one.fault, hit, one.stamp.at, ends, link=is_link(target))


@dataclass(frozen=True)
class _Due:
    """What is listened for on one channel."""

    owed: Sequence[Derivation]
    """The last that was made of inputs by when it had caught up; none where none was."""
    later: Mapping[Derivation, int]
    """What was made of inputs after that -> when these were taken."""


def until_heard(run: Reexecution, caught_up: Sequence[CaughtUp]) -> list[Unheard]:
    """Of each of these, whatever it was due to."""
    due = [_due(run, one) for one in caught_up]
    wanted: dict[tuple[str, str], set[Derivation]] = defaultdict(set)
    for one, channels in zip(caught_up, due, strict=True):
        for to, what in ({} if isinstance(channels, str) else channels).items():
            wanted[one.slice_id, to].update(what.owed, what.later)
    copies = {channel: _copies(run, *channel, derivations) for channel, derivations in wanted.items()}
    return [
        Unheard(None, why=channels) if isinstance(channels, str) else _unheard(one, channels, copies)
        for one, channels in zip(caught_up, due, strict=True)
    ]


def _due(run: Reexecution, one: CaughtUp) -> dict[str, _Due] | str:
    """What is listened for on each channel, or why nobody can tell."""
    mine = run.reruns.get(one.slice_id, {}).get(one.incarnation)
    if mine is None or one.slice_id in run.doubtful:
        return f"nobody can tell what {one.slice_id} has made since"
    begins = mine.stretch.begins
    batches = [(at, *batch) for (at, _), batch in zip(run.timed(mine, Taken), mine.batches, strict=True)]
    if begins > max((end for at, end, _ in batches if at <= one.at), default=0):
        return f"{one.slice_id} began anew with the state of another meanwhile"
    batches = [batch for batch in batches if batch[1] > begins]
    before = sum(at <= one.at for at, _, _ in batches)
    found = {}
    for place, (to, emissions) in enumerate(mine.emitted.items()):
        made = [lengths[place] for _, _, lengths in batches]
        upto = made[before - 1] if before else 0
        last = [d for d in emissions.derivations[max(0, upto - _LATER) : upto] if _at_once(mine, d)][-1:]
        later: dict[Derivation, int] = {}
        batch = before
        for number, derivation in enumerate(emissions.derivations[upto : upto + _LATER], start=upto):
            while batch < len(made) and made[batch] <= number:
                batch += 1
            if batch < len(made) and _at_once(mine, derivation):
                later[derivation] = batches[batch][0]
        found[to] = _Due(last, later)
    return found


def _at_once(rerun: Rerun, derivation: Derivation) -> bool:
    """Whether an output was made of an input when that was taken, and by no timer and at no end of an epoch."""
    return bool(derivation[0] != rerun.slice_id and derivation[-1] - rerun.hop < BY_TIMER)


def _unheard(
    one: CaughtUp,
    due: Mapping[str, _Due],
    copies: Mapping[tuple[str, str], Mapping[Derivation, Sequence[tuple[int, int]]]],
) -> Unheard:
    found = []
    for to, what in due.items():
        first = {
            derivation: min(at for at, _ in known)
            for derivation, heard in copies[one.slice_id, to].items()
            # What those said who came after it, when it had been lost, is not its own.
            if (known := [c for c in heard if c[1] <= one.incarnation or one.lost is None or c[0] <= one.lost])
        }
        owed = [at for derivation in what.owed if (at := first.get(derivation)) is not None]
        later = [(first[d], max(taken, one.at)) for d, taken in what.later.items() if d in first]
        if owed and owed[0] >= one.failed:
            found.append(HeardBy(to, one.at, owed[0]))
        elif later:
            at, since = later[0]
            found.append(HeardBy(to, since, at))
        elif what.later or (what.owed and not owed):
            return Unheard(None)
    return Unheard(max((max(0, by.at - by.since) for by in found), default=0), tuple(found))


def excused(case: Case, run: Reexecution, slice_id: str, by: Sequence[HeardBy], faults: Sequence[FeltFault]) -> Excused:
    """How long that was, less what is usual, and how much of it others may have brought about."""
    found = [_excused(case, run, slice_id, one, faults) for one in by]
    longest = max(found, key=lambda one: (one.micros, one.usual), default=Excused(0, 0, 0, ""))
    sure = max((one.micros - one.unsure for one in found), default=0)
    return replace(longest, unsure=longest.micros - sure)


def _excused(case: Case, run: Reexecution, slice_id: str, by: HeardBy, faults: Sequence[FeltFault]) -> Excused:
    to, since, at = by.to, by.since, by.at
    usual = case.analysis(ChannelPassages).usual(slice_id, to)
    beyond = max(0, at - since - (usual or 0))
    if usual is None:
        channel = channel_name(slice_id, to)
        return Excused(beyond, 0, beyond, f"what is usual on {channel} is not known: nothing passed before the faults")
    until, why = since, ""
    others = _before_a_merge(run, slice_id, to)
    if others:
        firsts = [case.analysis(ChannelPassages).first_after(up, to, at - 1) for up in others]
        until = at if None in firsts else max(since, *(first.made for first in firsts if first is not None))
        why = f"{to} takes its channels in an order, and may have waited for another" if until > since else ""
    for fault in faults:
        # Its own crashes are recoveries of their own, and with the next one this is over.
        if fault.deadly and slice_id in fault.hit:
            continue
        ends = at if fault.ends is None else fault.ends
        if fault.begins < at and ends > since and _holds_up(run, fault, slice_id, to, others):
            # What came for a receiver meanwhile, it has to take first.
            over = ends if fault.hit == {slice_id} else max(ends, _last_taken(run, to, at))
            if over > until:
                until, why = over, f"fault {fault.fault + 1} was felt meanwhile: {fault.said}"
    return Excused(beyond, usual, beyond - min(beyond, max(0, at - until - usual)), why)


def _before_a_merge(run: Reexecution, slice_id: str, to: str) -> list[str]:
    """The others whose outputs a receiver merges with those of a slice in an order."""
    ups = run.topology.upstream(to)
    if run.topology.role(to) is not Role.OPERATOR or len(ups) < 2 or run.order(to) is Order.FREE:
        return []
    return [up for up in ups if up != slice_id]


def _holds_up(run: Reexecution, fault: FeltFault, slice_id: str, to: str, others: Sequence[str]) -> bool:
    """Whether a fault can keep a receiver from taking what a slice has made: it hit one of the two, one after them, or
    where channels are merged, one that these come from. Of a link, both ends are such."""
    topology = run.topology
    concerned = {slice_id, to, *all_before(to, topology.downstream)}
    for up in others:
        concerned |= {up, *all_before(up, topology.upstream)}
    return fault.hit <= concerned if fault.link else not fault.hit.isdisjoint(concerned)


def _last_taken(run: Reexecution, slice_id: str, before: int) -> int:
    """When a slice took anything last before a time."""
    entries = zip(run.books.get(slice_id, ()), run.times.get(slice_id, ()), strict=True)
    return max((at for record, at in entries if isinstance(record, Taken) and at < before), default=0)


def _copies(
    run: Reexecution, slice_id: str, to: str, wanted: set[Derivation]
) -> dict[Derivation, list[tuple[int, int]]]:
    """When each copy of these outputs was heard on one channel, and whose it was; those that nobody heard are not
    there."""
    found: dict[Derivation, list[tuple[int, int]]] = {}
    for at, number, derivations in said_to(run, slice_id, to) if wanted else ():
        for derivation in derivations:
            if derivation in wanted:
                found.setdefault(derivation, []).append((at, number))
    return found


def said_to(run: Reexecution, slice_id: str, to: str) -> Iterator[tuple[int, int, Sequence[Derivation | None]]]:
    """When outputs on one channel were taken or delivered, whose copies, and which."""
    if (deliveries := run.deliveries.get(channel_name(slice_id, to))) is not None:
        heads, _, derivations = deliveries.columns()
        end = 0
        for at, incarnation, _, count in heads:
            begin, end = end, end + count
            yield at, incarnation, derivations[begin:end]
    for rerun in run.reruns.get(to, {}).values():
        begin = 0
        # Of a slice that is doubtful, not all that it took need have been executed again.
        for (at, record), (end, _) in zip(run.timed(rerun, Taken), rerun.batches, strict=False):
            if record.upstream == slice_id:
                yield at, record.upstream_incarnation, rerun.took[begin:end]
            begin = end
