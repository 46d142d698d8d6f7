"""Decides when the faults of a schedule strike. One protocol for all worlds.

The host of a point says "arrived at", and waits for "go" or for death. The controller is pure: it is told of addresses
and of time, and says which faults strike now. Whoever asked carries them out and reports the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.addresses import Address, Moment, Point
from ..core.quantities import Duration
from ..core.schedule import AtTime, Fault


@dataclass(frozen=True)
class Strike:
    """A fault whose trigger came."""

    number: int
    """Its place in the schedule."""
    fault: Fault
    address: Address | None
    """Where the trigger came; None when it was a time."""


class Controller:
    """Each fault strikes at most once."""

    def __init__(self, schedule: Sequence[Fault]) -> None:
        self._moments: list[tuple[int, Fault, Moment]] = []
        self._times: list[tuple[int, Fault, Duration]] = []
        for number, fault in enumerate(schedule):
            if isinstance(fault.trigger, Moment):
                self._moments.append((number, fault, fault.trigger))
            elif isinstance(fault.trigger, AtTime):
                self._times.append((number, fault, fault.trigger.after))

    def watched(self, actor: str) -> frozenset[Point]:
        """The points of an actor at which an arrival could matter; a host need not announce the others."""
        mine = (moment.points for _, _, moment in self._moments if moment.actor in (None, actor))
        return frozenset().union(*mine)

    def watches(self, point: Point) -> bool:
        """Whether an arrival at this kind of point could matter, whoever arrives."""
        return any(point in moment.points for _, _, moment in self._moments)

    @property
    def armed(self) -> tuple[Moment, ...]:
        """The moments still waited for: what a remote host has to announce."""
        return tuple(moment for _, _, moment in self._moments)

    def times(self) -> list[Duration]:
        """When time triggers are due, since the start."""
        return sorted({when for _, _, when in self._times})

    def arrived(self, address: Address, taken: int = 0) -> list[Strike]:
        """A point was reached by an actor that has taken so many events."""
        point = address.point
        # Nearly always there is none.
        struck = [one for one in self._moments if point in one[2].points and one[2].matches(address, taken)]
        if not struck:
            return []
        self._moments = [entry for entry in self._moments if entry not in struck]
        return [Strike(number, fault, address) for number, fault, _ in struck]

    def elapsed(self, since_start: Duration) -> list[Strike]:
        """So much time has passed since the start."""
        due = [entry for entry in self._times if entry[2] <= since_start]
        self._times = [entry for entry in self._times if entry not in due]
        return [Strike(number, fault, None) for number, fault, _ in due]

    def pending(self) -> list[tuple[int, Fault]]:
        """The faults whose trigger has not come, by their place in the schedule."""
        waiting = [(n, fault) for n, fault, _ in self._moments] + [(n, fault) for n, fault, _ in self._times]
        return sorted(waiting, key=lambda entry: entry[0])
