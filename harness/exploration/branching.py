"""Schedules that branch off from one run, which is put back for each of them.

Those that begin alike are alike until they differ: so a run is captured now and then (`worlds.simulated.capturing`),
and whoever is to be struck at an address goes on from the last capture before it. What comes of it is, to the digest,
what a whole run under that schedule comes to. All of this is for faults at addresses; what strikes at a time, or after
a number of events, is run as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from ..contracts.cluster import Run
from ..core.quantities import Duration
from ..core.schedule import Fault, Schedule
from ..recording.history import History
from ..recording.recorder import MemoryRecorder
from ..worlds.simulated.deployment import SimulatedDeployment
from ..worlds.simulated.options import SimulationOptions
from ..worlds.simulated.world import Captured
from .census import CensusController, Reached, at_no_time

_APART: Final = 16
"""Steps between two captures of a run: these take about as long as one capture."""


@dataclass(frozen=True)
class Waypoint:
    """Where a world can be put back to."""

    steps: int
    """That it had taken."""
    captured: Captured


@dataclass(frozen=True)
class TracedRun:
    """A run that was watched to its end, with captures of it on the way."""

    schedule: Schedule
    stops: Sequence[Waypoint]
    """The first of them is before the last of its faults struck, or at the beginning."""
    reached: tuple[Reached, ...]
    """Addresses at which an actor can be struck, once all its faults have struck."""
    history: History


class Trunk:
    """One world of one seed in which many schedules are tried. Close it."""

    def __init__(self, run: Run, options: SimulationOptions, actors: Collection[str]) -> None:
        """`run` is without faults, and has a recorder of its own, in memory. Raises NotCapturable, InvalidOperator."""
        assert isinstance(run.recorder, MemoryRecorder)
        self._recorder = run.recorder
        self._deadline: Duration = run.scenario.deadline
        self._controller = CensusController((), actors)
        self._world = SimulatedDeployment(run, options, self._controller)
        self._controller.now = self._world.now
        try:
            self._world.prepare()
            self._world.start()
            self.calm = self._to_the_end(())
            """The run without failures."""
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._world.release()
        self._controller.now = at_no_time

    def under(self, before: TracedRun, fault: Fault, where: Reached) -> TracedRun:
        """The run under one more fault at an address that is passed, watched to its end.

        Raises UsersCodeFailed when the user's code does.
        """
        self._go_to(before, fault, where)
        return self._to_the_end((*before.schedule, fault))

    def end_under(self, before: TracedRun, fault: Fault, where: Reached) -> History:
        """What the run leaves behind under one more fault at an address that is passed.

        Raises UsersCodeFailed when the user's code does.
        """
        self._go_to(before, fault, where)
        self._controller.watching = False
        self._world.watch_anew()
        return self._ended()

    def _go_to(self, before: TracedRun, fault: Fault, where: Reached) -> None:
        """Right before the step in which the address is passed."""
        place = bisect_right(before.stops, where.step - 1, key=_steps) - 1
        self._world.restore(before.stops[place].captured)
        self._world.run_to(where.step - 1)
        self._controller.arm(len(before.schedule), fault)

    def _to_the_end(self, schedule: Schedule) -> TracedRun:
        world = self._world
        stops = [Waypoint(world.steps, world.capture())]
        while world.run_to(world.steps + _APART):
            stops.append(Waypoint(world.steps, world.capture()))
        history = self._ended()
        return TracedRun(schedule, stops, self._controller.since(len(schedule)), history)

    def _ended(self) -> History:
        self._world.drained(self._deadline)
        self._world.stop()
        history = self._recorder.history()
        return History(tuple(history.records), tuple(history.timeline))


def _steps(stop: Waypoint) -> int:
    return stop.steps
