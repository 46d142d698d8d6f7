"""Makes a schedule that violates smaller, by trying smaller ones for real: fewer crashes, fewer batches, fewer rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from ..core.addresses import COMMITS_OF_TASKS, FINE_POINTS, Point, Side
from .conclusion import Planned
from .plan import Crash

CrashPlace = tuple[Point, Side, str, str, int, bool]
"""Where a crash strikes, in whichever batch: point, side, its name in the batch, actor, batch; and whether tasks come
in the other order, in which a batch may pass other points."""
NAMED = FINE_POINTS | COMMITS_OF_TASKS
"""Points that are called alike in each batch. Of stages the number is another in each."""


@dataclass(frozen=True)
class Reproduction:
    """A schedule, and how much input it is run on."""

    planned: tuple[Planned, ...]
    events: int
    """Of the workload, the closing ones not counted."""
    batch_events: int
    own_source: bool = False
    """Its input comes from a source of the user's, and is what it is."""

    @property
    def size(self) -> tuple[int, int, int]:
        return len(self.planned), self.events, sum(one.crash.batch for one in self.planned)

    @property
    def events_fed(self) -> int:
        """How many of the workload's events it is run on; none, where it has a source of its own."""
        return 0 if self.own_source else self.events

    def fed(self, planned: tuple[Planned, ...], events: int, batch_events: int) -> Reproduction:
        """Another schedule, on so much input where that can be said."""
        return replace(self, planned=planned) if self.own_source else Reproduction(planned, events, batch_events)


ShowsViolation = Callable[[Reproduction], bool]


def shrink_kills(found: Reproduction, keys: Mapping[CrashPlace, Crash], shows: ShowsViolation) -> Reproduction:
    """The smallest that was seen to show it. `keys` are the points that the batches of a run pass; `shows` runs one,
    and says no when there is no time left."""
    improved = True
    tried: set[Reproduction] = set()
    while improved:
        improved = False
        for smaller in _smaller(found, keys):
            if smaller in tried or smaller.size >= found.size:
                continue
            tried.add(smaller)
            if shows(smaller):
                found, improved = smaller, True
                break
    return found


def _smaller(found: Reproduction, keys: Mapping[CrashPlace, Crash]) -> Iterator[Reproduction]:
    """The boldest first."""
    for place in range(len(found.planned) if len(found.planned) > 1 else 0):
        yield replace(found, planned=found.planned[:place] + found.planned[place + 1 :])
    if len(found.planned) == 1:
        (only,) = found.planned
        first = moved(only, 0, keys)
        if first is not None:
            # Most of what goes wrong does so in a first batch of one row.
            yield found.fed((first,), 1, 1)
        for batch in range(min(only.crash.batch, 2)):
            there = moved(only, batch, keys)
            if there is not None:
                yield found.fed((there,), (batch + 1) * found.batch_events, found.batch_events)
    if found.own_source:
        return
    last = max(one.crash.batch for one in found.planned)
    yield replace(found, events=min(found.events, (last + 1) * found.batch_events))
    for rows in (1, 2, 5, 10):
        if rows < found.batch_events:
            batches = -(-found.events // found.batch_events)
            yield replace(found, events=batches * rows, batch_events=rows)


def crash_place(crash: Crash, batch: int) -> CrashPlace:
    """Its place, in that batch."""
    name = crash.key.partition("/")[2] if crash.point in NAMED else ""
    return crash.point, crash.side, name, crash.actor, batch, crash.last_first


def crash_places(crashes: Iterable[Crash]) -> dict[CrashPlace, Crash]:
    """The points that the batches of a run pass, by a crash at each, in order: the first time that each is passed."""
    found: dict[CrashPlace, Crash] = {}
    for crash in crashes:
        found.setdefault(crash_place(crash, crash.batch), crash)
    return found


def moved(planned: Planned, batch: int, keys: Mapping[CrashPlace, Crash]) -> Planned | None:
    """The same crash in another batch; None where that does not pass the point."""
    crash = planned.crash
    there = keys.get(crash_place(crash, batch))
    if there is None:
        return None
    found = msgspec.structs.replace(there, victim=crash.victim, batch=batch, recovering=crash.recovering)
    return Planned(found, planned.split_brain)
