"""Schedules that branch off from one run, which is put back for each of them.

Those that begin alike are alike until they differ: so a run is captured now and then (`worlds.simulated.capturing`),
and whoever is to be struck at an address goes on from the last capture before it. What comes of it is, to the digest,
what a whole run under that schedule comes to.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ..contracts.cluster import Run
from ..core.addresses import Address, Moment
from ..core.errors import UsersCodeFailed
from ..core.quantities import Duration
from ..core.schedule import AtTime, Fault, Schedule
from ..recording.history import History
from ..recording.recorder import MemoryRecorder
from ..worlds.simulated.deployment import SimulatedDeployment
from ..worlds.simulated.options import SimulationOptions
from ..worlds.simulated.world import Captured
from .census import CensusController, Reached
from .drawn_on_the_way import DrawingController, DrawnRun, FaultAhead
from .failing import failed_under

_APART: Final = 16
"""Steps between two captures of a run: these take about as long as one capture."""
_STOPS: Final = 64
"""Captures of a run, if it is long: each holds all that was recorded until then."""


@dataclass(frozen=True)
class Waypoint:
    """Where a world can be put back to."""

    steps: int
    """That it had taken."""
    at: int
    """Microseconds of virtual time."""
    captured: Captured


@dataclass(frozen=True)
class TracedRun:
    """A run that was watched to its end, with captures of it on the way."""

    schedule: Schedule
    stops: Sequence[Waypoint]
    """The first of them is before the last of its faults struck, or at the beginning."""
    reached: tuple[Reached, ...]
    """Addresses at which an actor can be struck, once all its faults have struck."""
    passed: tuple[Reached, ...]
    """All of them, each as often as it was, from the beginning."""
    history: History


@dataclass(frozen=True)
class BranchedRun:
    """What came of a run that branched off."""

    history: History | None
    """None: it was left on the way."""


class Trunk:
    """One world of one seed in which many schedules are tried. Close it."""

    def __init__(self, run: Run, options: SimulationOptions, actors: Collection[str], steps: int) -> None:
        """`run` is without faults, takes about so many steps, and has a recorder of its own, in memory. Raises
        NotCapturable, InvalidOperator."""
        assert isinstance(run.recorder, MemoryRecorder)
        self._apart = max(_APART, steps // _STOPS)
        self._seed = run.seed
        self._actors = frozenset(actors)
        self._recorder = run.recorder
        self._deadline: Duration = run.scenario.deadline
        self._controller = CensusController((), actors)
        self._world = SimulatedDeployment(run, options, self._controller)
        self._controller.look_at(self._world)
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
        self._controller.look_at(None)

    def under(self, before: TracedRun, fault: Fault, where: Reached) -> TracedRun:
        """The run under one more fault at an address that is passed, watched to its end.

        Raises UsersCodeFailed when the user's code does.
        """
        self._go_to(before, fault, where)
        return self._to_the_end((*before.schedule, fault))

    def traced(self, schedule: Schedule) -> TracedRun | None:
        """The run under a schedule, watched to its end. None where it is not known when its faults strike. Raises
        UsersCodeFailed when the user's code does."""
        return self._to_the_end(schedule) if self._begin_under(schedule, self.calm, watching=True) else None

    def end_of(
        self, schedule: Schedule, before: TracedRun, may_be_left: Callable[[History], bool] | None = None
    ) -> BranchedRun | None:
        """The run under a schedule that begins with that of a run before. It is left where the first of the other
        faults has struck, if it may be: who says so is given what is left behind by then. None where the others may
        have struck before that run was captured, or nobody knows. Raises UsersCodeFailed when the user's code does."""
        if not self._begin_under(schedule, before, watching=False):
            return None
        triggers = [fault.trigger for fault in schedule[len(before.schedule) :]]
        moments = [trigger for trigger in triggers if isinstance(trigger, Moment)]
        if may_be_left is not None and moments and len(moments) == len(triggers):
            self._world.run_to(min(_step_of(before, moment) for moment in moments))
            if may_be_left(self._recorder.history()):
                return BranchedRun(None)
        return BranchedRun(self._ended())

    def _begin_under(self, schedule: Schedule, before: TracedRun, *, watching: bool) -> bool:
        """Go to where all that came is what comes under a schedule, too, and wait for its faults; unless there is no
        such place."""
        known = len(before.schedule)
        stop = self._last_before(before, schedule[known:])
        if stop is None:
            return False
        self._world.restore(stop.captured)
        for number in range(known, len(schedule)):
            self._controller.arm(number, schedule[number])
        self._controller.watching = watching
        self._world.control(self._controller)
        return True

    def end_under(self, before: TracedRun, fault: Fault, where: Reached) -> History:
        """What the run leaves behind under one more fault at an address that is passed.

        Raises UsersCodeFailed when the user's code does.
        """
        self.struck_under(before, fault, where)
        return self.run_on()

    def struck_under(self, before: TracedRun, fault: Fault, where: Reached) -> History:
        """What the run has left behind so far where one more fault has just struck it.

        Raises UsersCodeFailed when the user's code does.
        """
        self._go_to(before, fault, where)
        self._controller.watching = False
        self._world.control(self._controller)
        self._world.run_to(where.step)
        return self._recorder.history()

    def run_on(self) -> History:
        """What the run leaves behind that `struck_under` has come so far with. Raises UsersCodeFailed."""
        return self._ended()

    def drawn(
        self, known: Schedule, ahead: Sequence[FaultAhead], can_be_spared: Callable[[History], bool]
    ) -> DrawnRun | None:
        """What `draw_on_the_way` gives in this world. None where it cannot be told how long the run is that without
        failures.

        Raises UsersCodeFailed, with the schedule as far as it was drawn, when the user's code does.
        """
        stop = self._last_before(self.calm, known)
        if stop is None:
            return None
        self._world.restore(stop.captured)
        controller = DrawingController(
            known,
            ahead,
            self._actors,
            lambda: can_be_spared(self._recorder.history()),
            self._world.would_bite,
            lambda address: self._first_passed.get(address, stop.steps + 1) <= stop.steps,
        )
        self._world.control(controller)
        try:
            history = self._ended()
        except UsersCodeFailed as error:
            raise failed_under(controller.schedule, self._seed, error) from error
        return DrawnRun(controller.schedule, history)

    @cached_property
    def _first_passed(self) -> Mapping[Address, int]:
        """Address of the run without failures -> the step in which it is first passed."""
        return {one.address: one.step for one in self.calm.reached}

    def _last_before(self, run: TracedRun, schedule: Schedule) -> Waypoint | None:
        """The last stop of a run before any of these faults, which are none of its own, strikes; without one the first,
        since what is drawn may strike anywhere. None where there is none, or it is not known."""
        stops = run.stops
        place = len(stops) if schedule else 1
        for fault in schedule:
            match fault.trigger:
                case AtTime(after):
                    place = min(place, bisect_left(stops, after.micros, key=_at))
                case Moment() as moment:
                    if moment.actor not in self._actors:
                        # What others pass was not watched.
                        return None
                    place = min(place, bisect_left(stops, _step_of(run, moment), key=_steps))
                case _:
                    return None
        return stops[place - 1] if place else None

    def _go_to(self, before: TracedRun, fault: Fault, where: Reached) -> None:
        """Right before the step in which the address is passed."""
        place = bisect_right(before.stops, where.step - 1, key=_steps) - 1
        self._world.restore(before.stops[place].captured)
        self._world.control(self._controller)
        self._world.run_to(where.step - 1)
        self._controller.arm(len(before.schedule), fault)

    def _to_the_end(self, schedule: Schedule) -> TracedRun:
        world = self._world
        stops = [self._waypoint()]
        while world.run_to(world.steps + self._apart):
            stops.append(self._waypoint())
        history = self._ended()
        return TracedRun(schedule, stops, self._controller.since(len(schedule)), self._controller.passed, history)

    def _waypoint(self) -> Waypoint:
        return Waypoint(self._world.steps, self._world.now().at, self._world.capture())

    def _ended(self) -> History:
        self._world.drained(self._deadline)
        self._world.stop()
        history = self._recorder.history()
        return History(tuple(history.records), tuple(history.timeline))


def _step_of(run: TracedRun, moment: Moment) -> int:
    """In which it comes in a run, if it does."""
    passed = (one.step for one in run.passed if moment.matches(one.address, one.taken))
    return next(passed, run.stops[-1].steps + 1)


def _steps(stop: Waypoint) -> int:
    return stop.steps


def _at(stop: Waypoint) -> int:
    return stop.at
