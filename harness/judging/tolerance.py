"""How many failures a claim holds for, and when a history goes beyond that.

A replica is in sync when it says so and the manager knows it; and when what others say shows it, though it says
nothing: else a subject that never says that it is in sync would never have to keep a claim.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..core.quantities import Duration, ms, seconds
from ..core.topology import Topology
from ..core.verdicts import Anomaly, Evidence, Tally, tally
from ..recording.history import Drained, History
from ..recording.records import CheckpointDurable, CheckpointTaken, InSync, Opened, Restored, Started
from .incarnations import losses


class Tolerance(StrEnum):
    ANY = "for any number of failures"
    ONE_IN_SYNC = "as long as each slice keeps one replica in sync"
    ONE = "for one failure"


PATIENCE = seconds(30)
"""How long the manager may take to learn that a replica is in sync which, as others show, is."""
PATIENCE_SIMULATED = ms(20)
"""The same on virtual time, where a message takes some milliseconds at most."""


@dataclass(frozen=True)
class Beyond:
    """A history goes beyond what a claim tolerates."""

    why: str
    at: int
    """When, in microseconds since the run began. What happens at the same time happens after it."""


def beyond(
    history: History,
    tolerance: Tolerance,
    topology: Topology,
    *,
    peers_keep: Collection[str] = (),
    patience: Duration = PATIENCE_SIMULATED,
    going_on: bool = False,
) -> Beyond | None:
    """When a history goes beyond what a claim tolerates, if it does. What happens at the same time as a loss happens
    after it. `peers_keep`: the slices of which a checkpoint is durable that all their replicas hold. One that is
    `going_on` does so only where nothing that comes later can make it otherwise."""
    match tolerance:
        case Tolerance.ONE_IN_SYNC:
            said = _changes(history, topology.operator_slices)
            if _none_in_sync(history, said, topology, going_on) is None:
                return None
            shown = _shown_in_sync(history, topology, peers_keep, patience)
            return _none_in_sync(history, _changes(history, topology.operator_slices, shown), topology, going_on)
        case Tolerance.ONE:
            # A sink that can be lost is a failure like others.
            return _second(_changes(history, topology.slices))
        case Tolerance.ANY:
            return None


def until(history: History, at: int) -> History:
    """What had happened before a time: a run that ends there, as if its writer had been killed."""
    return History(
        [stamped for stamped in history.records if stamped.at < at],
        [entry for entry in history.timeline if entry.stamp.at < at],
        sealed=False,
    )


def never_in_sync(history: History) -> tuple[Tally, ...]:
    """Replicas that were placed and did not get in sync, though the run had come to rest. A claim that tolerates a
    failure only when there is a replica in sync promises that there will be one again, or it would say nothing of the
    next failure."""
    behind = [one for entry in history.timeline if isinstance(entry, Drained) for one in entry.behind]
    evidence = (Evidence(f"#{incarnation} never got in sync", slice_id) for slice_id, incarnation in behind)
    return (tally(Anomaly.STALL, len(behind), evidence),) if behind else ()


_Shown = tuple[tuple[str, int], int]
"""(slice, incarnation), and since when."""


@dataclass(frozen=True)
class _Change:
    """An incarnation of a slice was lost, or is in sync."""

    at: int
    slice_id: str
    incarnation: int
    lost: bool


def _changes(history: History, slices: Collection[str], shown: Iterable[_Shown] = ()) -> list[_Change]:
    """In the order of time, until the end of the input has passed through: what comes later harms nobody. `shown` is
    known beside what is said; who is in sync by both is so from the earlier on."""
    ended = next((entry.stamp.at for entry in history.timeline if isinstance(entry, Drained)), None)
    stepped = [
        _Change(stamped.at, record.slice, record.incarnation, False)
        for stamped in history.of(InSync)
        if isinstance(record := stamped.record, InSync)
    ]
    stepped += [_Change(at, *who, False) for who, at in shown]
    lost = losses(history)
    changes = [_Change(at, slice_id, incarnation, True) for (slice_id, incarnation), at in lost.items()]
    changes += [s for s in stepped if s.at < lost.get((s.slice_id, s.incarnation), s.at + 1)]
    changes.sort(key=lambda change: (change.at, not change.lost))
    return [c for c in changes if c.slice_id in slices and (ended is None or c.at <= ended)]


_SHOWING = (Started, Restored, Opened, CheckpointTaken, CheckpointDurable)


def _shown_in_sync(
    history: History, topology: Topology, peers_keep: Collection[str], patience: Duration
) -> Iterator[_Shown]:
    """Who must be known to be in sync, by what others say.

    It has taken over a state, and everybody upstream says that it has opened its channel: so it misses nothing. Or it
    was there when a checkpoint was taken that is durable since all peers hold it, as the one says that took it.
    """
    restored: dict[tuple[str, int], int] = {}
    opened: dict[tuple[str, int], dict[str, int]] = {}
    started: dict[tuple[str, int], int] = {}
    taken: dict[tuple[str, int, int], int] = {}
    told = [s for s in history.of(*_SHOWING) if isinstance(s.record, _SHOWING)]
    # They tell of one another, and who was heard first says nothing of who was first.
    for stamped in sorted(told, key=lambda one: one.at):
        record, at = stamped.record, stamped.at
        if isinstance(record, Started):
            started[record.slice, record.incarnation] = at
        elif isinstance(record, Restored):
            restored[record.slice, record.incarnation] = at
        elif isinstance(record, Opened):
            opened.setdefault((record.downstream, record.downstream_incarnation), {}).setdefault(record.slice, at)
        elif isinstance(record, CheckpointTaken):
            taken[record.slice, record.incarnation, record.number] = at
        elif isinstance(record, CheckpointDurable) and record.slice in peers_keep:
            when = taken.get((record.slice, record.incarnation, record.number), -1)
            for (slice_id, number), since in started.items():
                if slice_id == record.slice and number != record.incarnation and since + patience.micros < when:
                    yield (slice_id, number), at + patience.micros
    for who, at in restored.items():
        channels = opened.get(who, {})
        if all(up in channels for up in topology.upstream(who[0])):
            yield who, max([at, *channels.values()]) + patience.micros


def _second(changes: Sequence[_Change]) -> Beyond | None:
    """What is lost at the same time is lost in one failure."""
    lost = [change for change in changes if change.lost]
    second = next((change for change in lost if change.at > lost[0].at), None)
    if second is None:
        return None
    return Beyond(f"{second.slice_id} lost #{second.incarnation} after another failure", second.at)


def _none_in_sync(history: History, changes: Sequence[_Change], topology: Topology, going_on: bool) -> Beyond | None:
    in_sync: dict[str, set[int]] = {}
    for change in changes:
        known = in_sync.setdefault(change.slice_id, set())
        if not change.lost:
            known.add(change.incarnation)
        else:
            known.discard(change.incarnation)
            if not known:
                why = f"{change.slice_id} lost #{change.incarnation} when no other replica of it was in sync"
                return Beyond(why, change.at)
    if going_on:
        # Who never was in sync may get so.
        return None
    never = [slice_id for slice_id in topology.operator_slices if not in_sync.get(slice_id)]
    first = min((struck.stamp.at for struck in history.struck()), default=None)
    if never and first is not None:
        return Beyond(f"{never[0]} was hit before any replica of it was in sync", first)
    return None
