"""The books of a campaign: what is planned, what was tried, what was spent."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..judging.failed_oracles import kept_of
from ..judging.guarantees import Guarantee
from ..judging.oracle import Oracle
from ..judging.verdicts import Status
from .budget import Budget, Progress
from .certificate import Counterexample
from .conclusion import NotReached, Planned, Uncut, real, showing
from .plan import Crash, How, Trial
from .rejudging import JudgedRun, judge_read, judge_run, read_run
from .statistics import Draw

FIRST_CONFIRMED = "first confirmed violation, seconds"
"""The figure that says after what time a real kill has shown a violation for the first time."""


@dataclass
class Ledger:
    """Kept by all parts of a campaign, from the thread that each works in: what is added, is added in one step."""

    folder: Path
    claims: tuple[Guarantee, ...]
    oracles: Mapping[str, Oracle]
    budget: Budget
    show: Callable[[Progress], None]
    plan: list[Planned] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    not_reached: list[NotReached] = field(default_factory=list)
    not_covered: list[str] = field(default_factory=list)
    uncut: tuple[Uncut, ...] = ()
    durations: dict[str, float] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    exhausted: str = ""
    """Which part of the budget is spent."""
    draw: Draw | None = None
    counterexample: Counterexample | None = None
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Of what is counted."""
    _runs: int = 0
    _phase: str = ""
    _expected: int = 0
    _done: int = 0

    def new_run(self, kind: str) -> str:
        """The folder of one more run, relative to the certificate's. It is not there yet."""
        with self._lock:
            return self._next_run(kind)

    def begin_run(self, kind: str, share: float) -> str | None:
        """The same, where the budget has one more; None where not. Lanes that ask at once do not share it."""
        with self._lock:
            if not self.within_budget(share):
                return None
            return self._next_run(kind)

    def _next_run(self, kind: str) -> str:
        self._runs += 1
        return f"runs/{kind}-{self._runs:04d}"

    def judge(self, run: str, crashes: Sequence[Crash]) -> JudgedRun:
        judged = judge_run(self.folder / run, crashes, self.claims, self.oracles)
        return replace(judged, verdicts=kept_of(self.folder / run, judged.verdicts))

    def enter(
        self, run: str, tried: Sequence[tuple[Crash, ...]], how: How, sampled: bool = False, steps: int = 1
    ) -> list[Trial]:
        """Judge a run, and note it as a trial of each of these; it is so many steps of the part that it is of."""
        trials = []
        record = read_run(self.folder / run)
        for crashes in tried:
            judged = judge_read(record, crashes, self.claims, self.oracles)
            judged = replace(judged, verdicts=kept_of(self.folder / run, judged.verdicts))
            trials.append(
                Trial(crashes, how, run, judged.statuses, judged.reason, sampled, judged.digest, judged.missed)
            )
        self.trials += trials
        if any(real(trial) and violates(trial) for trial in trials):
            self.figures.setdefault(FIRST_CONFIRMED, round(self.spent, 1))
        self.advance(steps)
        return trials

    def is_confirmed(self, claim: str) -> bool:
        """Whether a real trial has shown that a claim is violated, and was repeated."""
        shown = Counter((trial.how, trial.crashes) for trial in showing(claim, list(self.trials)))
        return any(times > 1 for times in shown.values())

    def within_budget(self, share: float = 1.0) -> bool:
        """Whether less than that share of the time is spent, and not all runs are; notes which of them is spent."""
        if self.budget.runs is not None and self._runs >= self.budget.runs:
            self.exhausted = f"runs: {self.budget.runs:,}"
            return False
        if self.spent >= 60 * self.budget.minutes * share:
            if share == 1:
                self.exhausted = f"minutes: {self.budget.minutes:g}"
            return False
        return True

    @property
    def spent(self) -> float:
        """Seconds since the campaign began."""
        return time.monotonic() - self._began

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        before = time.monotonic()
        try:
            yield
        finally:
            self.durations[part] = self.durations.get(part, 0.0) + time.monotonic() - before

    def begin(self, phase: str, expected: int) -> None:
        """A part of the campaign, of so many steps."""
        self._phase, self._expected, self._done = phase, expected, 0
        self.advance(0)

    def advance(self, steps: int = 1) -> None:
        with self._lock:
            self._done += steps
        left = max(0.0, 60 * self.budget.minutes - self.spent)
        self.show(Progress(self._phase, self._done, self._expected, left))


def violates(trial: Trial) -> bool:
    return Status.VIOLATED in trial.verdicts.values()
