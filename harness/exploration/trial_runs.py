"""The runs of many schedules, one after the other, in one world, as whoever makes a schedule small tries them.

Most differ in one fault, and in when it strikes. So once there have been some, they branch off from the run without
failures, or from the run under all faults but the last ones: from where the first of the others strikes.
"""

from __future__ import annotations

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

    history: History
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
                    history = trunk.end_of(schedule, before)
                    if history is not None:
                        return TrialRun(history, branched=True)
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
