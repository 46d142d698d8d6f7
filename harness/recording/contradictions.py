"""What no run can have left: records and a timeline that contradict one another, or what `scenario.json` says was
planned.

Whoever alters a folder can seal it anew; then what was altered has to fit all the rest. What is looked for here is true
of every run, on every cluster, though several writers were heard in any order: what happened first is asked of their
one clock. In the simulator, where there is one writer, time never goes back, and who is dead does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import Any, Final, get_args

from ..core.addresses import Address, Moment
from ..core.errors import InvalidScenario
from ..core.schedule import AtTime, Fault
from ..core.slice_names import operator_of, slice_of
from .claims_and_faults import SavedFault
from .history import (
    Drained,
    FaultHealed,
    FaultMissed,
    FaultStruck,
    History,
    IncarnationFailed,
    NodeGone,
    Placed,
    TimelineEntry,
)
from .records import (
    CheckpointDurable,
    CheckpointTaken,
    Delivered,
    Ended,
    InSync,
    Kept,
    Offered,
    Record,
    Stamped,
    Started,
)

_STEPS: Final = tuple(kind for kind in get_args(Record) if kind not in (Offered, Delivered))
"""All but the many: those are gone through only where they are at hand."""
_OWN: Final = tuple(kind for kind in _STEPS if kind is not InSync)
"""What somebody does, and nobody says of another: that a replica is in sync is the manager's word."""
_CAUSES: Final = (FaultStruck, NodeGone, IncarnationFailed)
_SIMULATED: Final = "simulated"
_WITHOUT_STEPS: Final = ("embedded", "docker")
"""Clusters on a real clock. One of a user's may have steps."""


def why_contradictory(schedule: Sequence[SavedFault], subject: dict[str, Any], history: History, cluster: str) -> str:
    """In words; empty where nothing contradicts anything else. `subject` is what it says of itself, `cluster` the name
    of that on which it ran. Raises InvalidScenario for a schedule that is none."""
    faults = [saved.fault() for saved in schedule]
    found = (
        *_before_the_run(history.timeline),
        *_struck_otherwise(history.timeline, faults),
        *_never_struck(history.timeline),
        *_struck_at_the_end(history.timeline),
        *_begun_without_cause(history.timeline),
        *_never_placed(history, subject),
        *_offered_otherwise(history),
    )
    if not found and cluster == _SIMULATED:
        found = (*_struck_elsewhere(history.timeline, faults), *_back_in_time(history))
        found = (*found, *_gone_by_themselves(history.timeline), *_of_the_dead(history))
        found = (*found, *_unfounded(history), *_counted_otherwise(history))
    elif not found and cluster in _WITHOUT_STEPS:
        found = tuple(_with_steps(history.timeline))
    return next(iter(found), "")


def _before_the_run(timeline: Sequence[TimelineEntry]) -> Iterator[str]:
    for entry in timeline:
        if entry.stamp.at < 0:
            yield f"{_said(entry)} stands before the beginning of the run ({entry.stamp.at:,} µs)"


def _struck_otherwise(timeline: Sequence[TimelineEntry], faults: Sequence[Fault]) -> Iterator[str]:
    """Faults that nobody has planned, or that came when their trigger had not."""
    for entry in timeline:
        if not isinstance(entry, FaultStruck | FaultHealed | FaultMissed):
            continue
        if not 0 <= entry.number < len(faults):
            yield f"{_said(entry)}, and {len(faults):,} were planned"
            continue
        trigger = faults[entry.number].trigger
        early = isinstance(trigger, AtTime) and entry.stamp.at < trigger.after.micros
        if early and isinstance(entry, FaultStruck):
            yield f"{_said(entry)} after {entry.stamp.at / 1e6:g} s, and was planned for {trigger}"


def _struck_elsewhere(timeline: Sequence[TimelineEntry], faults: Sequence[Fault]) -> Iterator[str]:
    """Faults that came at another address than was planned. What is recovering on a real cluster, and which of several
    tasks is meant, no address says."""
    for entry in timeline:
        if not isinstance(entry, FaultStruck) or entry.address is None:
            continue
        trigger = faults[entry.number].trigger
        if isinstance(trigger, Moment) and not _matches(trigger, entry.address):
            yield f"{_said(entry)} at {entry.address}, and was planned for another moment: {trigger}"


def _matches(trigger: Moment, address: str) -> bool:
    try:
        return trigger.matches(Address.parse(address), sys.maxsize)
    except InvalidScenario:
        return False


def _never_struck(timeline: Sequence[TimelineEntry]) -> Iterator[str]:
    """Faults that healed and had not struck, and that were missed and struck."""
    struck: dict[tuple[int, str], int] = {}
    for entry in timeline:
        if isinstance(entry, FaultStruck):
            what = entry.number, entry.bite.target
            struck[what] = min(entry.stamp.at, struck.get(what, entry.stamp.at))
    numbers = {number for number, _ in struck}
    for entry in timeline:
        if isinstance(entry, FaultMissed) and entry.number in numbers:
            yield f"{_said(entry)} never came, and struck"
        if isinstance(entry, FaultHealed):
            since = struck.get((entry.number, entry.target))
            if since is None or since > entry.stamp.at:
                yield f"{_said(entry)} healed before it struck"


def _struck_at_the_end(timeline: Sequence[TimelineEntry]) -> Iterator[str]:
    ended = max((entry.stamp.at for entry in timeline if isinstance(entry, Drained)), default=inf)
    for entry in timeline:
        if isinstance(entry, FaultStruck) and entry.bite.outstanding and entry.stamp.at > ended:
            yield f"{_said(entry)} while input was outstanding, after all of it had passed through"


def _begun_without_cause(timeline: Sequence[TimelineEntry]) -> Iterator[str]:
    """Who was given a successor before anything had happened, and was lost only later."""
    first_cause = min((entry.stamp.at for entry in timeline if isinstance(entry, _CAUSES)), default=None)
    lost = {actor for e in timeline if isinstance(e, FaultStruck) and e.bite.gone for actor in e.bite.actors}
    begun: dict[str, list[Placed]] = {}
    for entry in timeline:
        if isinstance(entry, Placed):
            begun.setdefault(entry.actor, []).append(entry)
    for actor, several in begun.items():
        again = sorted(several, key=lambda one: one.incarnation)[1:]
        if actor in lost and again and first_cause is not None and again[0].stamp.at < first_cause:
            yield f"{actor} began again, as #{again[0].incarnation}, before anything had struck"


def _never_placed(history: History, subject: dict[str, Any]) -> Iterator[str]:
    """Who worked, and was never begun anywhere. Sources and sinks of the harness's own are not placed."""
    operators = subject.get("operators")
    if not isinstance(operators, dict):
        return
    placed = {(slice_of(entry.actor), entry.incarnation) for entry in history.timeline if isinstance(entry, Placed)}
    for stamped in history.of(Started):
        record = stamped.record
        assert isinstance(record, Started)
        who = record.slice, record.incarnation
        if operator_of(record.slice) in operators and who not in placed:
            yield f"{record.slice}#{record.incarnation} was started, and placed nowhere"


def _offered_otherwise(history: History) -> Iterator[str]:
    """A source whose events are not numbered on from 1. What is executed again, and what is compared, goes by these
    numbers."""
    due: dict[str, int] = {}
    for span in history.offered():
        if span.first != due.get(span.source, 1):
            yield f"{span.source} offers event {span.first:,}, where {due.get(span.source, 1):,} was due"
        due[span.source] = span.first + span.length


def _with_steps(timeline: Sequence[TimelineEntry]) -> Iterator[str]:
    for entry in timeline:
        if entry.stamp.step is not None:
            yield f"{_said(entry)} at step {entry.stamp.step:,} of a simulator, and it ran on no simulated cluster"


# In the simulator


def _back_in_time(history: History) -> Iterator[str]:
    at, step = 0, 0
    for entry in history.timeline:
        if entry.stamp.at < at or (entry.stamp.step is not None and entry.stamp.step < step):
            yield f"time goes back in the timeline, at the entry: {_said(entry)}"
        at, step = entry.stamp.at, step if entry.stamp.step is None else entry.stamp.step
    for one, other in pairwise(_records(history)):
        if other.at < one.at:
            yield f"time goes back in the records, from {one.at:,} to {other.at:,} µs"
            return


def _of_the_dead(history: History) -> Iterator[str]:
    """What somebody did who was not placed yet, or was gone."""
    began: dict[tuple[str, int], int] = {}
    ended: dict[tuple[str, int], int] = {}
    running: dict[str, Placed] = {}
    for entry in history.timeline:
        if isinstance(entry, Placed):
            began.setdefault((slice_of(entry.actor), entry.incarnation), entry.stamp.at)
            running[entry.actor] = entry
        elif isinstance(entry, FaultStruck) and entry.bite.gone:
            for actor in entry.bite.actors:
                dead = running.get(actor)
                if dead is None:
                    yield f"{_said(entry)} and ended {actor}, which had not begun"
                elif dead.node == entry.bite.node:
                    ended[slice_of(actor), dead.incarnation] = entry.stamp.at
    for stamped in history.of(*_OWN):
        record = stamped.record
        who = getattr(record, "slice", ""), getattr(record, "incarnation", 0)
        if who not in began:
            continue
        if stamped.at < began[who]:
            yield f"{who[0]}#{who[1]} was at work before it was placed"
        elif stamped.at > ended.get(who, stamped.at):
            yield f"{who[0]}#{who[1]} was at work when it was gone"


def _gone_by_themselves(timeline: Sequence[TimelineEntry]) -> Iterator[str]:
    struck = False
    for entry in timeline:
        struck = struck or isinstance(entry, FaultStruck)
        if isinstance(entry, NodeGone) and not struck:
            yield f"{entry.node} was gone, and nothing had struck"


def _unfounded(history: History) -> Iterator[str]:
    """What follows from something that is not there."""
    taken: set[tuple[str, int, int]] = set()
    ended: set[tuple[str, int]] = set()
    kept: set[tuple[str, int]] = set()
    for stamped in history.of(CheckpointTaken, CheckpointDurable, Ended, Kept):
        match stamped.record:
            case CheckpointTaken(slice=name, incarnation=incarnation, number=number):
                taken.add((name, incarnation, number))
            case CheckpointDurable(slice=name, incarnation=incarnation, number=number):
                if (name, incarnation, number) not in taken:
                    yield f"checkpoint {number} of {name}#{incarnation} became durable, and was not taken"
            case Ended(slice=name, incarnation=incarnation):
                ended.add((name, incarnation))
            case Kept(actor=name, incarnation=incarnation):
                kept.add((name, incarnation))
    if history.drained and not kept & ended and kept:
        yield "all input had passed through, and nobody had come to the end of it"


def _counted_otherwise(history: History) -> Iterator[str]:
    """A channel whose outputs are not counted on from 0."""
    if not isinstance(history.records, list):
        return
    due: dict[tuple[str, str], int] = {}
    for stamped in history.of(Delivered):
        record = stamped.record
        assert isinstance(record, Delivered)
        channel = record.sink, record.channel
        if record.position != due.get(channel, 0):
            yield f"{record.channel} delivers number {record.position:,}, where {due.get(channel, 0):,} was due"
        due[channel] = record.position + len(record.rows)


def _records(history: History) -> Sequence[Stamped]:
    records = history.records
    return records if isinstance(records, list) else list(history.of(*_STEPS))


def _said(entry: TimelineEntry) -> str:
    if isinstance(entry, FaultStruck | FaultHealed | FaultMissed):
        struck = " struck" if isinstance(entry, FaultStruck) else ""
        return f"fault {entry.number + 1}{struck}"
    if isinstance(entry, Placed):
        return f"{entry.actor}#{entry.incarnation} begins"
    return str(type(entry).__struct_config__.tag).replace("-", " ")
