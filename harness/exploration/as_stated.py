"""A scenario as it is stated: under its own faults, with its own sizes. A search in a small world tries neither, and
what goes wrong only with much input, as where a log is full, shows in no small one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..contracts.registry import Named
from ..core.errors import ExitStatus, UserMistake, UsersCodeFailed
from ..core.verdicts import Status
from ..core.wording import counted
from ..running.determinism import beginning
from ..running.judgement import examine_operators, judge_history
from ..running.run import check_scenario, making_origin
from ..worlds.simulated.options import SimulationOptions
from .bench import Bench, Outcome, Trial


@dataclass(frozen=True)
class AsStated:
    """What came of it."""

    trial: Trial
    events: int
    """That it is fed."""
    bench: Bench | None = None
    """At its own sizes; None: it cannot be run there."""
    outcome: Outcome | None = None
    """None: it cannot be run, or its code fails."""
    why_not: str = ""
    failed: str = ""
    """How its code fails; empty where it does not."""
    unseen: tuple[str, ...] = ()
    """What was not looked at of its code: whether that gives the same every time, or remembers what no simulated crash
    takes."""
    interrupted: bool = False
    """By Ctrl-C, in it or before it."""

    @property
    def violations(self) -> tuple[tuple[Trial, Outcome], ...]:
        """The one, if it is."""
        if self.outcome is None or self.outcome.status is not Status.VIOLATED:
            return ()
        return ((self.trial, self.outcome),)

    @property
    def failed_oracle(self) -> ExitStatus | None:
        """Whose failure it is, where it is UNKNOWN since an oracle has failed."""
        return None if self.outcome is None else self.outcome.failed

    @property
    def essential(self) -> bool:
        """Whether it is UNKNOWN for another reason than its faults."""
        return self.outcome is not None and self.outcome.essential

    def __str__(self) -> str:
        faults = len(self.trial.schedule)
        own = "its own fault" if faults == 1 else f"its {faults:,} own faults"
        what = f"under {own}, with {counted(self.events, 'event')}"
        if self.failed:
            return f"{what}: its code fails: {self.failed}"
        if self.interrupted:
            return f"interrupted {what}: nothing is known of that"
        if self.outcome is None:
            return f"not tried {what}: {self.why_not}"
        why = f" ({self.outcome.reason})" if self.outcome.reason else ""
        return "; not looked at: ".join((f"{what}: {self.outcome.status}{why}", *self.unseen))


def try_as_stated(
    own: Named, bench: Bench, options: SimulationOptions | None, *, interrupted: bool = False
) -> AsStated | None:
    """`bench` is that of the search, and whether somebody has `interrupted` that, so that this is not tried any more.
    None: the scenario has no faults of its own. What is wrong with these, or at its own sizes, takes nothing away from
    what a search has found that needs neither: it is told. Ctrl-C ends it."""
    scenario = own.scenario
    if not scenario.faults:
        return None
    trial = Trial(tuple(scenario.faults), bench.seed)
    told = AsStated(trial, scenario.workload.events, interrupted=interrupted)
    if interrupted:
        return told
    try:
        return _tried(own, trial, bench, options, told)
    except KeyboardInterrupt:
        return replace(told, interrupted=True)


def _tried(own: Named, trial: Trial, bench: Bench, options: SimulationOptions | None, told: AsStated) -> AsStated:
    """As the command `run` does, and judged as that judges."""
    try:
        whole = Bench(own.scenario, bench.registry, seed=bench.seed, options=options, thorough=True)
        # What is expected to break is left aside, as are claims on time.
        planned = replace(whole.scenario, faults=trial.schedule, claims=whole.claims)
        check_scenario(planned, whole.cluster, whole.registry)
    except UserMistake as error:
        return replace(told, why_not=str(error))
    try:
        history = whole.run(trial.schedule, trial.seed)
        offered = beginning(history, planned.subject.sources)
        determinism = examine_operators(planned, offered, making_origin(own, whole.registry))
        judged = judge_history(planned, history, whole.registry.oracles, whole.cluster.virtual_time, determinism)
    except UsersCodeFailed as error:
        return replace(told, failed=str(error))
    outcome = whole.outcome_of(history, judged.verdicts)
    unseen = tuple(filter(None, (judged.unchecked, judged.not_looked_at)))
    return replace(told, bench=whole, outcome=outcome, unseen=unseen)
