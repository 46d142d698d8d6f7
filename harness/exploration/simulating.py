"""One schedule in the simulator, run and judged: the step of which a search, or a test of one's own, is made."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import is_
from typing import Final

from ..contracts.registry import Registry
from ..contracts.scenario import Scenario, check, check_carriers, check_punctuations
from ..contracts.subject import Subject
from ..core.errors import InvalidScenario, UnknownName, UserMistake
from ..core.guarantees import Guarantee
from ..core.library import listed_by
from ..core.proper import positive
from ..core.schedule import Fault, Schedule
from ..core.verdicts import Status, Verdict
from ..core.workload import Workload
from ..judging.exercised import Activity
from ..recording.history import FaultMissed, History
from ..running.judgement import (
    remembered_in,
    require_repeatable,
    require_repeatable_here,
    unless_remembered,
    unless_untried,
)
from ..worlds.simulated.memory_outside import OutsideMemory
from ..worlds.simulated.options import SimulationOptions
from .bench import Bench
from .largest_errors import SCHEDULES, LargestErrors, largest_errors, measures

SEED: Final = 7
"""Of the simulated world, where none is named."""
_SHOWN: Final = 3
"""Pieces of evidence of an anomaly that are printed."""


_REPEATABLE: Final[deque[tuple[Subject, Workload]]] = deque(maxlen=8)
"""Whose operators were examined last, and by which input."""


@cache
def installed() -> Registry:
    """What the installed packages offer, loaded once a process."""
    return Registry()


@dataclass(frozen=True, repr=False)
class Simulated:
    """What came of one schedule. Printed, it tells the story: `assert simulate(...).holds` shows it when it fails."""

    schedule: Schedule
    seed: int
    verdicts: tuple[Verdict, ...]
    """One for each claim, but for those on time."""
    not_judged: tuple[Guarantee, ...]
    """The claims on time, which is not real in the simulator."""
    history: History
    not_looked_at: str = ""
    """Where the subject's code may remember what a simulated crash does not take; empty where nothing was seen."""

    @property
    def status(self) -> Status:
        """Of all the claims together: VIOLATED outranks UNKNOWN, which outranks HOLDS."""
        found = {verdict.status for verdict in self.verdicts}
        return next(s for s in (Status.VIOLATED, Status.UNKNOWN, Status.HOLDS) if s in found)

    @property
    def holds(self) -> bool:
        """Whether all claims hold. Not when a fault did not come or did not bite, nor when nothing was
        delivered: then that is UNKNOWN."""
        return self.status is Status.HOLDS

    @property
    def violated(self) -> bool:
        return self.status is Status.VIOLATED

    def __bool__(self) -> bool:
        """Raises UserMistake: a test that asserts no more than this would pass whatever came of it."""
        raise UserMistake(
            f"what came of a simulation is neither true nor false; ask whether it .holds, or is .violated\n{self!r}"
        )

    def __repr__(self) -> str:
        lines = [f"{self.status} under seed {self.seed} and {'; '.join(map(str, self.schedule)) or 'no fault'}"]
        for verdict in self.verdicts:
            lines.append(f"  {verdict.guarantee} {verdict.status}: {verdict.reason or verdict.summary}")
            lines += [
                f"    {tally.anomaly}: {piece.where}: {piece.what}"
                for tally in verdict.anomalies
                for piece in tally.sample[:_SHOWN]
            ]
        if self.not_looked_at:
            lines.append(f"  not looked at: {self.not_looked_at}")
        return "\n".join(lines)


def all_bit(history: History) -> bool:
    """Whether every fault struck, and harmed somebody."""
    missed = any(isinstance(entry, FaultMissed) for entry in history.timeline)
    return not missed and all(entry.bite.bit for entry in history.struck())


def simulate(
    scenario: Scenario,
    schedule: Sequence[Fault] | None = None,
    *,
    seed: int = SEED,
    options: SimulationOptions | None = None,
) -> Simulated:
    """Run a scenario in the simulator, and judge it against its claims.

    `schedule` takes the place of the scenario's own faults; what those are expected to break is left aside, as are
    claims on time. Same scenario, schedule, seed and options: same result.

    Operators are examined as far as that takes a moment. What the subject's code keeps in variables, of modules,
    classes or functions, is put back where a node crashes or is given up for lost, and in the end; what it writes to
    files, which no crash takes, and can read again leaves the claims UNKNOWN. `explore` and `run` look further.

    Raises InvalidScenario, UnknownName or Unsupported for what cannot be run or judged, InvalidOperator when the
    user's code fails, or does not give the same every time.
    """
    registry = installed()
    bench = Bench(scenario, registry, seed=seed, options=options)
    planned = replace(bench.scenario, faults=scenario.faults if schedule is None else schedule)
    faults: Schedule = tuple(planned.faults)
    check(planned, bench.cluster.places, registry.faults, registry.oracles)
    check_punctuations(planned)
    check_carriers(planned, bench.cluster.name, bench.cluster.places, registry.faults)
    outside = OutsideMemory(bench.subject)
    try:
        _examined(scenario)
        outside.put_back()
        history = bench.run_thoroughly(faults, seed, outside)
        verdicts, entry = bench.judge(history), remembered_in(history)
    finally:
        # Who judges has executed operators again, and the next run is another.
        outside.put_back()
    if Activity.DELIVERY not in bench.subject.at_work(history):
        verdicts = tuple(unless_untried([Activity.DELIVERY], verdict) for verdict in verdicts)
    if entry is None:
        return Simulated(faults, seed, verdicts, bench.not_judged, history)
    verdicts = tuple(unless_remembered(entry, verdict) for verdict in verdicts)
    return Simulated(faults, seed, verdicts, bench.not_judged, history, entry.not_looked_at)


def _examined(scenario: Scenario) -> None:
    """Examine its operators, unless that was done for the schedule before. Raises InvalidOperator."""
    what = scenario.subject, scenario.workload
    if not any(all(map(is_, what, known)) for known in _REPEATABLE):
        require_repeatable_here(scenario)
        _REPEATABLE.append(what)


def largest_error(
    scenario: Scenario,
    schedules: int = SCHEDULES,
    *,
    seed: int = SEED,
    options: SimulationOptions | None = None,
    kinds: Sequence[str] = ("crash",),
) -> LargestErrors:
    """How close failures come to the bounds that a scenario claims, by a search of so many schedules that varies those
    which came closest: `assert largest_error(scenario).ratio > 0.8`. The scenario's own faults are left aside.

    Raises InvalidScenario, UnknownName or Unsupported for what cannot be run or judged, claims no bound that is
    measured, or survives a crash in the simulator alone, InvalidOperator when the user's code fails, or does not give
    the same every time.
    """
    positive(schedules, "how many schedules seek the largest error")
    registry = installed()
    for kind in kinds:
        if kind not in registry.faults:
            raise UnknownName("kind of fault", kind, sorted(registry.faults), listed_by("faults"))
    bench = Bench(scenario, registry, seed=seed, options=options)
    for kind in kinds:
        registry.faults[kind].require_drawn(bench.cluster.name)
    require_repeatable(scenario)
    bench.require_forgetting()
    if not measures(bench):
        raise InvalidScenario(
            f"{bench.subject.name} claims no bound on an error that is measured here, so there is no largest one: "
            "claim one, as bounded_error() does"
        )
    found = largest_errors(bench, schedules, kinds=tuple(kinds))
    if found.failed is not None:
        raise found.failed
    return found
