"""The faults of a run as bands on its axis of time, and the way back from each as one bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ...core.schedule import AtTime, Fault
from ...core.slice_names import slice_of
from ...judging.recovery import Recovery
from ...recording.history import History
from ...recording.records import Offered
from .lanes import ReplayOverChannel


class BandKind(StrEnum):
    PLANNED = "planned"
    """By the clock: when it was to strike."""
    BITTEN = "bitten"
    NO_BITE = "no bite"
    RECOVERING = "recovering"
    """From the strike until what it took was caught up, and it was heard again."""


@dataclass(frozen=True)
class FaultBand:
    """When a fault was in force, or what it broke was not there."""

    kind: BandKind
    number: int
    begins: int
    ends: int
    said: str


def bands(history: History, schedule: Sequence[Fault], recovered: Sequence[Recovery], ends: int) -> list[FaultBand]:
    """A line where a fault has no length, and a band as long as it lasted, or as it took to recover from it."""
    return [*_planned(history, schedule), *_struck(history, recovered, ends)]


def _planned(history: History, schedule: Sequence[Fault]) -> Iterator[FaultBand]:
    begun = next((stamped.at for stamped in history.of(Offered)), None)
    for number, fault in enumerate(schedule, start=1):
        if begun is None or not isinstance(fault.trigger, AtTime):
            continue
        at = begun + fault.trigger.after.micros
        ends = at if fault.duration is None else at + fault.duration.micros
        yield FaultBand(BandKind.PLANNED, number, at, ends, f"planned: {fault}")


def _struck(history: History, recovered: Sequence[Recovery], ends: int) -> Iterator[FaultBand]:
    healed = history.healed()
    for struck in history.struck():
        at, number = struck.stamp.at, struck.number + 1
        kind = BandKind.BITTEN if struck.bite.bit else BandKind.NO_BITE
        until = healed.get((struck.number, struck.bite.target))
        said = struck.fault if struck.bite.bit else f"{struck.fault}: {struck.bite.why_not}"
        yield FaultBand(kind, number, at, at if until is None else until, said)
        if struck.bite.gone:
            totals = [r.total for r in recovered if r.fault == struck.number and r.actor in struck.bite.actors]
            whole = [total for total in totals if total is not None]
            if totals:
                over = ends if len(whole) < len(totals) else at + max(whole)
                yield FaultBand(BandKind.RECOVERING, number, at, over, f"recovering from {struck.fault}")


@dataclass(frozen=True)
class RecoveryPart:
    name: str
    micros: int


@dataclass(frozen=True)
class RecoveryBar:
    """The way back of one actor from one fault."""

    actor: str
    incarnation: int
    fault: int
    at: int
    parts: tuple[RecoveryPart, ...]
    whole: bool
    """Whether it came to its end."""
    watched: int
    """How long after the fault the run went on."""

    @property
    def total(self) -> int:
        return sum(part.micros for part in self.parts)

    @property
    def missed(self) -> str:
        """What an actor did not come to that did not come to its end."""
        reached = {part.name for part in self.parts}
        # Of a replica that was promoted, a part can be missing in the middle.
        if {"detected", "redeployed", "restored", "caught up"} <= reached:
            return "not heard again"
        return "not where it was" if "restored" in reached else "not back"


def recovery_bars(
    history: History, recovered: Sequence[Recovery], replayed: Sequence[ReplayOverChannel]
) -> list[RecoveryBar]:
    """In the order of the faults. Of the time until it had caught up, the first part is called replayed: until it had
    taken the last of what had been made before it was there."""
    found = []
    over = max([entry.stamp.at for entry in history.timeline] + [stamped.at for stamped in history.records[-1:]])
    for one in recovered:
        at = next(s.stamp.at for s in history.struck() if s.number == one.fault and one.actor in s.bite.actors)
        begun = at + sum(part or 0 for part in (one.detected, one.redeployed, one.restored))
        ends = [
            r.ends for r in replayed if (r.receiver, r.receiver_incarnation) == (slice_of(one.actor), one.incarnation)
        ]
        replay = None if one.caught_up is None or not ends else min(max(0, max(ends) - begun), one.caught_up)
        parts = {
            "detected": one.detected,
            "redeployed": one.redeployed,
            "restored": one.restored,
            "replayed": replay,
            "caught up": one.caught_up if replay is None or one.caught_up is None else one.caught_up - replay,
            "heard again": one.heard or None,
        }
        bar = tuple(RecoveryPart(name, part) for name, part in parts.items() if part is not None)
        found.append(RecoveryBar(one.actor, one.incarnation, one.fault + 1, at, bar, one.total is not None, over - at))
    return found
