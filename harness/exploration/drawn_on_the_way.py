"""Faults that are drawn while the run goes on: each strikes at one of the addresses that are passed once those before
have struck, so many of them ahead. What comes of it is a schedule like any other, with exact addresses, under which a
run from the beginning is the same; and it took no run but its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ..contracts.cluster import Run
from ..core.addresses import Address, Moment, Point
from ..core.errors import UsersCodeFailed
from ..core.schedule import Fault, Schedule
from ..protocol.controller import Controller, Strike
from ..recording.history import History
from ..recording.recorder import MemoryRecorder
from ..worlds.simulated.cluster import SimulatedCluster
from ..worlds.simulated.deployment import SimulatedDeployment
from .failing import failed_under


@dataclass(frozen=True)
class FaultAhead:
    """A fault of which it is drawn how far ahead it strikes, and not yet where that is."""

    fault: Fault
    """Without a trigger."""
    passed: int
    """How many addresses that would do are passed before."""
    would_do: Callable[[Address], bool]
    spared: bool
    """Only as long as every slice keeps a replica in sync."""
    biting: bool = False
    """Only where it ends each of its targets, while input is still to be processed."""


@dataclass(frozen=True)
class DrawnRun:
    """A run, and the schedule that it was drawn under. What was never come to is no part of it."""

    schedule: Schedule
    history: History


class DrawingController(Controller):
    """Lets faults strike so far ahead, one after the other, once all that have a trigger have struck."""

    def __init__(
        self,
        schedule: Schedule,
        ahead: Sequence[FaultAhead],
        actors: Collection[str],
        can_be_spared: Callable[[], bool],
        would_bite: Callable[[int, Fault], bool],
        passed_before: Callable[[Address], bool] = lambda address: False,
    ) -> None:
        """`passed_before` says which addresses were passed before it was in control."""
        super().__init__(schedule)
        self.schedule = schedule
        self._actors = actors
        self._can_be_spared = can_be_spared
        self._would_bite = would_bite
        self._ahead = list(ahead)
        self._left = ahead[0].passed if ahead else 0
        self._passed_before = passed_before
        self._known: set[Address] = set()

    def watched(self, actor: str) -> frozenset[Point]:
        return _EVERY if self._ahead and actor in self._actors else super().watched(actor)

    def watches(self, point: Point) -> bool:
        return bool(self._ahead) or super().watches(point)

    def arrived(self, address: Address, taken: int = 0) -> list[Strike]:
        strikes = super().arrived(address, taken) if self._moments else []
        ahead = self._ahead
        if not ahead or address.name not in self._actors:
            return strikes
        # Who comes to an address again would have been struck there the first time.
        known = self._known
        before = len(known)
        known.add(address)
        if len(known) == before or strikes or self._moments or self._times or self._passed_before(address):
            return strikes
        one = ahead[0]
        if not one.would_do(address):
            return []
        if self._left > 0:
            self._left -= 1
            return []
        if one.spared and not self._can_be_spared():
            return []
        if one.biting and not self._would_bite(len(self.schedule), one.fault):
            return []
        del self._ahead[0]
        self._left = self._ahead[0].passed if self._ahead else 0
        number, fault = len(self.schedule), one.fault.at(Moment.exactly(address))
        self.schedule = (*self.schedule, fault)
        return [Strike(number, fault, address)]


_EVERY = frozenset(Point)


def draw_on_the_way(
    cluster: SimulatedCluster,
    run: Run,
    ahead: Sequence[FaultAhead],
    actors: Collection[str],
    can_be_spared: Callable[[History], bool],
) -> DrawnRun:
    """Run under the faults of a scenario and those that are drawn on the way; `run` has a recorder in memory.

    Raises UsersCodeFailed, with the schedule as far as it was drawn, when the user's code does.
    """
    recorder = run.recorder
    assert isinstance(recorder, MemoryRecorder)
    known = tuple(run.scenario.faults)
    worlds: list[SimulatedDeployment] = []
    controller = DrawingController(
        known,
        ahead,
        actors,
        lambda: can_be_spared(recorder.history()),
        lambda number, fault: worlds[0].would_bite(number, fault),
    )
    try:
        with cluster.simulate(run, controller) as deployment:
            worlds.append(deployment)
            deployment.prepare()
            deployment.start()
            deployment.drained(run.scenario.deadline)
            deployment.stop()
    except UsersCodeFailed as error:
        raise failed_under(controller.schedule, run.seed, error) from error
    return DrawnRun(controller.schedule, recorder.history())
