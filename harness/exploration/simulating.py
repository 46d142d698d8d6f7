"""One schedule in the simulator, run and judged: the step of which a search, or a test of one's own, is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from ..contracts.registry import Registry
from ..contracts.scenario import Scenario, check, check_carriers, check_punctuations
from ..core.errors import UnknownName
from ..core.guarantees import Guarantee
from ..core.library import listed_by
from ..core.schedule import Fault, Schedule
from ..core.verdicts import Status, Verdict
from ..recording.history import FaultMissed, History
from ..worlds.simulated.options import SimulationOptions
from .bench import Bench
from .largest_errors import SCHEDULES, LargestErrors, largest_errors

SEED: Final = 7
"""Of the simulated world, where none is named."""
_SHOWN: Final = 3
"""Pieces of evidence of an anomaly that are printed."""


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

    @property
    def status(self) -> Status:
        """Of all the claims together: VIOLATED outranks UNKNOWN, which outranks HOLDS."""
        found = {verdict.status for verdict in self.verdicts}
        return next(s for s in (Status.VIOLATED, Status.UNKNOWN, Status.HOLDS) if s in found)

    @property
    def holds(self) -> bool:
        """Whether all claims hold. Not when a fault did not come or did not bite: then that is UNKNOWN."""
        return self.status is Status.HOLDS

    @property
    def violated(self) -> bool:
        return self.status is Status.VIOLATED

    def __repr__(self) -> str:
        lines = [f"{self.status} under seed {self.seed} and {'; '.join(map(str, self.schedule)) or 'no fault'}"]
        for verdict in self.verdicts:
            lines.append(f"  {verdict.guarantee} {verdict.status}: {verdict.reason or verdict.summary}")
            lines += [
                f"    {tally.anomaly}: {piece.where}: {piece.what}"
                for tally in verdict.anomalies
                for piece in tally.sample[:_SHOWN]
            ]
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

    Raises InvalidScenario, UnknownName or Unsupported for what cannot be run or judged, InvalidOperator when the
    user's code fails.
    """
    registry = installed()
    bench = Bench(scenario, registry, seed=seed, options=options)
    faults: Schedule = tuple(scenario.faults if schedule is None else schedule)
    planned = replace(bench.scenario, faults=faults)
    check(planned, bench.cluster.places, registry.faults, registry.oracles)
    check_punctuations(planned)
    check_carriers(planned, bench.cluster.name, bench.cluster.places, registry.faults)
    history = bench.run(faults, seed)
    return Simulated(faults, seed, bench.judge(history), bench.not_judged, history)


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

    Raises InvalidScenario, UnknownName or Unsupported for what cannot be run or judged, InvalidOperator when the
    user's code fails.
    """
    registry = installed()
    for kind in kinds:
        if kind not in registry.faults:
            raise UnknownName("kind of fault", kind, sorted(registry.faults), listed_by("faults"))
    return largest_errors(Bench(scenario, registry, seed=seed, options=options), schedules, kinds=tuple(kinds))
