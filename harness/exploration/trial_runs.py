"""The runs of many schedules, one after the other, in one world, as whoever makes a schedule small tries them.

Most differ in one fault, and in when it strikes. So once there have been some, they branch off from the run without
failures, or from the run under all faults but the last ones: from where the first of the others strikes. What goes
beyond the claims from there on shows nothing, and is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from ..core.addresses import Moment
from ..core.errors import UsersCodeFailed
from ..core.schedule import Schedule
from ..recording.history import History
from .bench import Bench
from .branching import TracedRun, Trunk
from .census import Reached

_BUILT_AT: Final = 6
"""A run with captures costs about as much as is saved by so many that branch off."""


class TrialRun(NamedTuple):
    """What came of a schedule."""

    history: History | None
    """None: it goes beyond the claims from where a fault struck, and shows nothing before."""
    branched: bool
    """Whether it was not run from its beginning."""


class TrialRuns:
    """In the world of one seed. Close it."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self._seed = seed
        self._asked = 0
        self._grown: Trunk | None = None
        self._before: TracedRun | None = None
        """The run that was asked for last."""
        self._may_be_left: dict[Schedule, bool] = {}

    def close(self) -> None:
        if self._grown is not None:
            self._grown.close()
        self._grown = self._before = None

    def run(self, schedule: Schedule) -> TrialRun:
        """Raises UsersCodeFailed when the user's code does."""
        trunk = self._trunk()
        if trunk is not None:
            for before in (self._before, trunk.calm):
                if before is not None and before.schedule == schedule[: len(before.schedule)]:
                    found = trunk.end_of(schedule, before, self._may_be_left_after(before))
                    if found is not None:
                        return TrialRun(found.history, branched=True)
        return TrialRun(self.bench.run(schedule, self._seed), branched=False)

    def reached_after(self, schedule: Schedule) -> tuple[Reached, ...]:
        """The addresses at which an actor can be struck once all faults of a schedule have struck, in order. Raises
        UsersCodeFailed when the user's code does."""
        bench = self.bench
        if not schedule and self._seed == bench.seed:
            return bench.calm
        before = self._traced(schedule)
        if before is not None:
            return before.reached
        reached = bench.reached(schedule, self._seed)
        return tuple([one for one in reached if len(one.after) == len(schedule)])

    def only_whole_runs(self, why: str) -> None:
        """From now on no run branches off from another."""
        self.close()
        self.bench.only_whole_runs(why)

    def _may_be_left_after(self, before: TracedRun) -> Callable[[History], bool] | None:
        """Whether a run that goes on from one may be left where it is beyond the claims; None: never."""
        if not self.bench.is_limited:
            return None
        if before.schedule not in self._may_be_left:
            self._may_be_left[before.schedule] = self.bench.may_be_left_after(before.history)
        return self._is_beyond if self._may_be_left[before.schedule] else None

    def _is_beyond(self, so_far: History) -> bool:
        return self.bench.outcome_beyond(so_far) is not None

    def _trunk(self) -> Trunk | None:
        self._asked += 1
        if self._asked == _BUILT_AT:
            try:
                self._grown = self.bench.grown(self._seed)
            except UsersCodeFailed:
                # Any schedule under which it fails as well says so.
                return None
        return self._grown

    def _traced(self, schedule: Schedule) -> TracedRun | None:
        """The run under a schedule, to branch off from, if others can."""
        trunk = self._grown
        if trunk is None:
            return None
        if not schedule:
            return trunk.calm
        kinds = self.bench.registry.faults
        if any(not isinstance(fault.trigger, Moment) or kinds[fault.kind].lasts for fault in schedule):
            # What a frozen node puts off is counted, and a run that is watched has more of it.
            return None
        if self._before is None or self._before.schedule != schedule:
            self._before = trunk.traced(schedule)
        return self._before
