"""A scenario as it is stated: under its own faults, with its own sizes. A search in a small world tries neither, and
what goes wrong only with much input, as where a log is full, shows in no small one."""

from __future__ import annotations

from dataclasses import dataclass

from ..contracts.registry import Named
from ..core.errors import Unsupported
from ..core.verdicts import Status
from ..core.wording import counted
from ..worlds.simulated.options import SimulationOptions
from .bench import Bench, Outcome, Trial


@dataclass(frozen=True)
class AsStated:
    """What came of it."""

    bench: Bench
    """At its own sizes."""
    trial: Trial
    outcome: Outcome | None = None
    """None: the simulator cannot carry its faults out."""
    why_not: str = ""

    @property
    def violations(self) -> tuple[tuple[Trial, Outcome], ...]:
        """The one, if it is."""
        if self.outcome is None or self.outcome.status is not Status.VIOLATED:
            return ()
        return ((self.trial, self.outcome),)

    def __str__(self) -> str:
        faults, events = len(self.trial.schedule), self.bench.scenario.workload.events
        what = (
            f"under {'its own fault' if faults == 1 else f'its {faults:,} own faults'}, with {counted(events, 'event')}"
        )
        if self.outcome is None:
            return f"not tried {what}: {self.why_not}"
        why = f" ({self.outcome.reason})" if self.outcome.reason else ""
        return f"{what}: {self.outcome.status}{why}"


def try_as_stated(own: Named, bench: Bench, options: SimulationOptions | None) -> AsStated | None:
    """`bench` is that of the search. None: the scenario has no faults of its own. Raises UsersCodeFailed when the
    user's code does."""
    scenario = own.scenario
    if not scenario.faults:
        return None
    at_its_sizes = Bench(scenario, bench.registry, seed=bench.seed, options=options)
    trial = Trial(tuple(scenario.faults), bench.seed)
    try:
        return AsStated(at_its_sizes, trial, at_its_sizes.attempt(trial))
    except Unsupported as error:
        return AsStated(at_its_sizes, trial, why_not=str(error))
