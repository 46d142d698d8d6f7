"""The books of a campaign: what is planned, what was tried, what was spent."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.errors import ExitStatus, UsersCodeFailed
from ..core.guarantees import Guarantee
from ..core.verdicts import Status
from ..judging.oracle import Oracle
from ..judging.statistics import KillSample
from ..running.failed_oracles import kept_of
from .attempts import Attempt
from .budget import Budget, CampaignProgress, time_spent
from .certificate import QueryCounterexample
from .conclusion import NotReached, Planned, lines_of, real, showing
from .folders import runs_so_far
from .journal import Journal
from .plan import Crash, CrashTrial, How
from .rejudging import JudgedRun, judge_read, judge_run, read_run

if TYPE_CHECKING:
    from .continuing import Earlier

ALL_VIOLATED = "each claim that was made is violated, which ended the campaign; --go-on tries the rest"
ORACLE_FAILS = "{claim} cannot be certified, since on a run with a crash {why}; mend that oracle, or claim without it"
START, RECOVERY, RUN, COMPARED = "start", "recovery", "run", "compared"
"""What takes time: all until there is a plan, a recovery from a state, a run with kills, a cluster's first run."""
FIRST_CONFIRMED = "first confirmed violation, seconds"
"""The figure that says after what time a real kill has shown a violation for the first time."""


@dataclass
class CampaignState:
    """Kept by all parts of a campaign, from the thread that each works in: what is added, is added in one step."""

    folder: Path
    claims: tuple[Guarantee, ...]
    oracles: Mapping[str, Oracle]
    budget: Budget
    show: Callable[[CampaignProgress], None]
    plan: list[Planned] = field(default_factory=list)
    trials: list[CrashTrial] = field(default_factory=list)
    not_reached: list[NotReached] = field(default_factory=list)
    not_covered: list[str] = field(default_factory=list)
    watched: list[Attempt] = field(default_factory=list)
    """Attempts of which each line, and each effect outside of the folders, was noted: those without failures, and
    recoveries."""
    durations: dict[str, float] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    exhausted: str = ""
    """Which part of the budget is spent."""
    draw: KillSample | None = None
    counterexample: QueryCounterexample | None = None
    journal: Journal | None = None
    """Where what comes about is written at once."""
    earlier: Earlier | None = None
    """What there was before, where a campaign goes on."""
    _paces: dict[str, tuple[int, float]] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Of what is counted."""
    _runs: int = 0
    _numbered: int = 0
    """Runs of earlier parts."""
    _phase: str = ""
    _expected: int = 0
    _done: int = 0

    def go_on_from(self, earlier: Earlier) -> None:
        """Take over what an earlier part of the campaign has come to; what it could not reach is tried again."""
        before = earlier.certificate
        self.earlier = earlier
        self.plan = list(before.plan)
        self.trials = list(before.trials)
        self.draw, self.counterexample = before.draw, before.counterexample
        self.durations, self.figures = dict(before.durations), dict(before.figures)
        self._numbered = runs_so_far(self.folder)

    def add(self, lines: Sequence[Planned]) -> list[Planned]:
        """To the plan. Returns them as the plan has them: some may have been planned before."""
        found = list(lines) if self.earlier is None else self.earlier.as_before(lines)
        known = set(self.plan)
        new = tuple(line for line in dict.fromkeys(found) if line not in known)
        self.plan += new
        if self.journal is not None and new:
            self.journal.plan(new)
        return found

    def has_recovered(self, how: How, crashes: tuple[Crash, ...], times: int = 1) -> bool:
        """Whether an earlier part of the campaign has."""
        return self.earlier is not None and self.earlier.has_recovered(how, crashes, times)

    def unkilled(self, lines: Sequence[Planned]) -> list[Planned]:
        """Those that no earlier part of the campaign has tried by a kill."""
        return [line for line in lines if self.earlier is None or not self.earlier.has_killed(line)]

    def untried(self, lines: Sequence[Planned]) -> list[Planned]:
        """Those that no part of the campaign has tried by a kill, or found that it cannot."""
        tried = {line for trial in self.trials if trial.how is How.KILL for line in lines_of(trial)}
        tried |= {one.planned for one in self.not_reached}
        return [line for line in self.unkilled(lines) if line not in tried]

    def fix(self, draw: KillSample) -> None:
        """The random sample, before its first kill."""
        self.draw = draw
        if self.journal is not None:
            self.journal.drawn(draw)

    def found(self, counterexample: QueryCounterexample) -> None:
        self.counterexample = counterexample
        if self.journal is not None:
            self.journal.found(counterexample)

    def took(self, what: str, times: int, seconds: float) -> None:
        """So many of these took so long."""
        before, spent = self._paces.get(what, (0, 0.0))
        self._paces[what] = before + times, spent + seconds

    def pace(self, what: str) -> float | None:
        """Seconds that one takes; None: nobody knows."""
        times, spent = self._paces.get(what, (0, 0.0))
        return spent / times if times else None

    @property
    def left(self) -> float:
        """Seconds."""
        return max(0.0, 60 * self.budget.minutes - self.spent)

    @property
    def runs_left(self) -> int | None:
        """None: as many as there is time for."""
        return None if self.budget.runs is None else max(0, self.budget.runs - self._runs)

    def new_run(self, kind: str) -> str:
        """The folder of one more run, relative to the certificate's. It is not there yet."""
        with self._lock:
            return self._next_run(kind)

    def begin_run(self, kind: str, share: float) -> str | None:
        """The same, where the budget has one more; None where not. Recovery workers that ask at once do not share
        it.
        """
        with self._lock:
            if not self.within_budget(share):
                return None
            return self._next_run(kind)

    def _next_run(self, kind: str) -> str:
        self._runs += 1
        return f"runs/{kind}-{self._numbered + self._runs:04d}"

    def judge(self, run: str, crashes: Sequence[Crash]) -> JudgedRun:
        judged = judge_run(self.folder / run, crashes, self.claims, self.oracles)
        return replace(judged, verdicts=kept_of(self.folder / run, judged.verdicts))

    def enter(
        self, run: str, tried: Sequence[tuple[Crash, ...]], how: How, sampled: bool = False, steps: int = 1
    ) -> list[CrashTrial]:
        """Judge a run, and note it as a trial of each of these; it is so many steps of the part that it is of.

        Raises UsersCodeFailed where an oracle of a user's fails on it, unless a violation is confirmed, which outranks
        that."""
        trials, failed = [], None
        record = read_run(self.folder / run)
        for crashes in tried:
            judged = judge_read(record, crashes, self.claims, self.oracles)
            failed = failed or next((v for v in judged.verdicts if v.failed is ExitStatus.USER_MISTAKE), None)
            judged = replace(judged, verdicts=kept_of(self.folder / run, judged.verdicts))
            trials.append(
                CrashTrial(
                    crashes,
                    how,
                    run,
                    judged.statuses,
                    judged.reason,
                    sampled,
                    judged.digest,
                    judged.missed,
                    dict(judged.errors),
                    judged.too_small,
                )
            )
        if failed is not None and not any(real(trial) and violates(trial) for trial in (*self.trials, *trials)):
            raise UsersCodeFailed(ORACLE_FAILS.format(claim=failed.guarantee, why=failed.reason))
        self.trials += trials
        if self.journal is not None:
            self.journal.tried(tuple(trials))
        if any(real(trial) and violates(trial) for trial in trials):
            self.figures.setdefault(FIRST_CONFIRMED, round(self.spent, 1))
        self.advance(steps)
        return trials

    def is_confirmed(self, claim: str) -> bool:
        """Whether a real trial has shown that a claim is violated, and was repeated."""
        shown = Counter((trial.how, trial.crashes) for trial in showing(claim, list(self.trials)))
        return any(times > 1 for times in shown.values())

    def within_budget(self, share: float = 1.0) -> bool:
        """Whether less than that share of the time is spent, and of the runs; notes which of them is spent."""
        runs = self.budget.runs
        if runs is not None and self._runs >= math.ceil(runs * min(share, 1.0)):
            if self._runs >= runs:
                self.exhausted = f"runs: {runs:,}"
            return False
        if self.spent >= 60 * self.budget.minutes * share:
            if share >= 1:
                self.exhausted = f"minutes: {self.budget.minutes:g}"
            return False
        return True

    @property
    def spent(self) -> float:
        """Seconds since the campaign began."""
        return time.monotonic() - self._began

    def timed(self, part: str) -> AbstractContextManager[None]:
        return time_spent(self.durations, part)

    def begin(self, phase: str, expected: int) -> None:
        """A part of the campaign, of so many steps."""
        self._phase, self._expected, self._done = phase, expected, 0
        self.advance(0)

    def advance(self, steps: int = 1) -> None:
        with self._lock:
            self._done += steps
        self.show(CampaignProgress(self._phase, self._done, self._expected, self.left))


def violates(trial: CrashTrial) -> bool:
    return Status.VIOLATED in trial.verdicts.values()
