"""How close failures come to a bound: a search that goes on from the schedules that came closest.

A claim that states an amount, and whose oracle measures that (`Verdict.measured`), can hold by far. So schedules are
drawn, and those varied that came closest to one of the bounds: when a fault strikes and whom, one more, one less. What
counts is the oracle's own ratio of what was measured to what the claim allows, of verdicts that hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from random import Random
from typing import Final

from ..contracts.injection import FaultKind
from ..core.addresses import Moment, Point, Side
from ..core.errors import UsersCodeFailed
from ..core.guarantees import Guarantee
from ..core.quantities import Duration
from ..core.schedule import AtTime, Fault, Schedule
from ..core.verdicts import Measured, Status, Verdict
from ..recording.history import History
from .bench import Bench, Outcome, Trial, under
from .census import Reached
from .plans import RandomSchedules
from .shrinking import smallest

SCHEDULES: Final = 300
"""That are tried unless told otherwise."""
MOST_FAULTS: Final = 6
"""In one schedule."""
_FIRST: Final = 0.3
"""The share of the schedules that come first, and vary none."""
_DRAWN: Final = 0.1
"""The share of those that follow."""
_TOGETHER: Final = 0.4
"""Of those that vary others, the share that puts two together."""
_KEPT: Final = 6
"""Schedules that are varied, of each amount."""
_EFFORT: Final = 30_000
"""Of making the schedule of the largest error small, as `shrink` counts it."""
_BEFORE_LOSS: Final = frozenset({(Point.CHECKPOINT_ISSUED, Side.BEFORE), (Point.SEND_ISSUED, Side.BEFORE)})
"""Where most is not durable yet, or not sent."""

Bounded = tuple[str, str, str]
"""Which guarantee, what is measured, and where."""


@dataclass(frozen=True)
class CloseCall:
    """One amount of a run, and the schedule that led to it."""

    guarantee: Guarantee
    measured: Measured
    trial: Trial

    @property
    def bounded(self) -> Bounded:
        return str(self.guarantee), self.measured.what, self.measured.where


@dataclass(frozen=True, repr=False)
class LargestErrors:
    """What came closest to the bounds. Printed, it tells the story."""

    bench: Bench
    """For the input that the schedule of the largest needs."""
    tried: int
    calls: tuple[CloseCall, ...]
    """The largest of each amount, the largest of all first; that one made small."""
    violations: tuple[tuple[Trial, Outcome], ...] = ()
    """What broke a claim on the way."""
    interrupted: bool = False
    """By Ctrl-C: then nothing was made small."""
    failed: UsersCodeFailed | None = None
    """How the user's code failed under a schedule, so that no more were tried, and nothing was made small."""

    @property
    def largest(self) -> CloseCall | None:
        """None: nothing could be measured."""
        return self.calls[0] if self.calls else None

    @property
    def ratio(self) -> float:
        """Of the largest error to its bound; more than 1 where a claim was broken by it. NaN, which is neither above
        nor below anything, where nothing was measured."""
        return self.calls[0].measured.ratio if self.calls else nan

    @property
    def schedule(self) -> Schedule:
        """That of the largest."""
        return self.calls[0].trial.schedule if self.calls else ()

    def __repr__(self) -> str:
        lines = [f"largest error / bound: {largest_said(self)}, by"]
        lines += [f"  {fault}" for fault in self.schedule]
        lines += [f"  {call.measured.ratio:.2f}: {call.measured}" for call in self.calls[1:]]
        return "\n".join(lines)


def largest_said(found: LargestErrors) -> str:
    """The largest error, in words."""
    call = found.largest
    if call is None:
        return f"nothing was measured under {found.tried:,} schedules"
    failures = "1 failure" if call.measured.failures == 1 else f"{call.measured.failures:,} failures"
    return f"{call.measured.ratio:.2f} ({call.measured}, after {failures})"


def measures(bench: Bench) -> bool:
    """Whether a claim states an amount that is measured."""
    return any(verdict.measured for verdict in bench.judge(bench.run((), bench.seed)))


def largest_errors(
    bench: Bench,
    schedules: int,
    *,
    kinds: tuple[str, ...] = ("crash",),
    until: Callable[[int, float], bool] = lambda tried, ratio: False,
) -> LargestErrors:
    """Try so many schedules, or `until` that says that it is enough, of how many were tried and how close the closest
    came. Same bench and number, same result. Ctrl-C ends it, and so does the user's code where it fails.
    """
    seeker = _Seeker(bench, kinds)
    try:
        for number in range(schedules):
            seeker.try_one(number, schedules)
            if until(number + 1, seeker.ratio):
                break
        return seeker.found()
    except KeyboardInterrupt:
        return replace(seeker.so_far(), interrupted=True)
    except UsersCodeFailed as error:
        return replace(seeker.so_far(), failed=error)


@dataclass
class _Seeker:
    bench: Bench
    kinds: tuple[str, ...]
    tried: int = 0
    best: dict[Bounded, list[CloseCall]] = field(default_factory=dict)
    """Of each amount, those that came closest, the closest first."""
    violations: list[tuple[Trial, Outcome]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(f"{self.bench.seed}/largest errors")
        self._plan = RandomSchedules(self.bench.seed, kinds=self.kinds)
        self._known: dict[tuple[Schedule, int], tuple[Reached, ...]] = {}
        self._seen: set[tuple[Schedule, int]] = set()

    @property
    def ratio(self) -> float:
        return max((calls[0].measured.ratio for calls in self.best.values()), default=0.0)

    def try_one(self, number: int, of: int) -> None:
        first = number < of * _FIRST
        if first and number % 3:
            trial = self._at_worst(number % 3 == 1, number / (of * _FIRST))
        elif first or not self.best or self._random.random() < _DRAWN:
            trial = next(self._plan.trials(self.bench, number))
        else:
            trial = self._varied(self._chosen())
        key = (trial.schedule, trial.seed)
        if key in self._seen or not trial.schedule:
            return
        self._seen.add(key)
        self.tried += 1
        with under(trial):
            history = self.bench.run(trial.schedule, trial.seed)
        verdicts = self.bench.judge(history)
        if any(verdict.status is Status.VIOLATED for verdict in verdicts):
            self.violations.append((trial, self.bench.outcome(history)))
        for call in closest(verdicts, trial):
            calls = self.best.setdefault(call.bounded, [])
            calls.append(call)
            calls.sort(key=lambda one: -one.measured.ratio)
            del calls[_KEPT:]

    def so_far(self) -> LargestErrors:
        return LargestErrors(self.bench, self.tried, self._calls(), tuple(self.violations))

    def found(self) -> LargestErrors:
        """With the schedule of the largest made small."""
        bench, calls = self.bench, self._calls()
        if calls and calls[0].measured.ratio > 0:
            bench, first = _made_small(bench, calls[0])
            calls = (first, *calls[1:])
        return LargestErrors(bench, self.tried, calls, tuple(self.violations))

    def _calls(self) -> tuple[CloseCall, ...]:
        return tuple(sorted((calls[0] for calls in self.best.values()), key=lambda one: -one.measured.ratio))

    # Schedules

    def _chosen(self) -> CloseCall:
        """Of one amount: the closer to its bound, the likelier."""
        amounts = list(self.best)
        weights = [self.best[amount][0].measured.ratio ** 2 + 0.01 for amount in amounts]
        (amount,) = self._random.choices(amounts, weights)
        return self._random.choice(self.best[amount][: self._random.randint(1, _KEPT)])

    def _at_worst(self, all_at_once: bool, so_far: float) -> Trial:
        """A slice crashes where it has much to lose, so far into the run; or all do with it."""
        actor = self._random.choice(self.bench.actors)
        passed = [one for one in self.bench.calm if one.address.name == actor] or self.bench.calm
        where = passed[self._nearest_loss(passed, int(so_far * len(passed)))]
        targets = self.bench.actors if all_at_once else (where.address.name,)
        fault = replace(self._against(targets, self._kind()), trigger=Moment.exactly(where.address))
        return Trial((fault,), self.bench.seed)

    def _kind(self) -> FaultKind:
        return self.bench.registry.faults[self._random.choice(self.kinds)]

    def _against(self, targets: tuple[str, ...], kind: FaultKind) -> Fault:
        """A fault that hits these, if its kind hits nodes, and has no trigger yet. What else it needs is drawn."""
        if not kind.lasts and not kind.takes and kind.hits_any_nodes:
            return Fault(kind.name, targets)
        return self._at_others(kind.drawn_fault(self._random, self.bench.aims), targets)

    def _at_others(self, fault: Fault, targets: tuple[str, ...]) -> Fault:
        """Where that many can be hit. The ends of a link stay what they are: it may be that nothing passes between
        others."""
        kind = self.bench.registry.faults[fault.kind]
        return replace(fault, targets=targets) if kind.hits_any_nodes else fault

    def _varied(self, call: CloseCall) -> Trial:
        """Somewhat changed, or together with what came close elsewhere: slices that fail at one time each have lost
        the more when each does at its own."""
        schedule, seed = call.trial.schedule, call.trial.seed
        if self._random.random() < _TOGETHER:
            other = self._chosen().trial.schedule
            schedule = tuple(dict.fromkeys((*schedule, *other)))[:MOST_FAULTS]
            if schedule != call.trial.schedule:
                return Trial(schedule, seed)
        for _ in range(self._random.choice((1, 1, 1, 2))):
            schedule = self._changed(schedule, seed)
        return Trial(schedule, seed)

    def _changed(self, schedule: Schedule, seed: int) -> Schedule:
        ways = ["when", "when", "when", "whom"]
        ways += ["more", "more"] if len(schedule) < MOST_FAULTS else []
        ways += ["less"] if len(schedule) > 1 else []
        place = self._random.randrange(len(schedule)) if schedule else 0
        before, after = schedule[:place], schedule[place + 1 :]
        match self._random.choice(ways) if schedule else "more":
            case "more":
                return (*schedule, self._at_others(self._struck_at(schedule, seed), self._some()))
            case "less":
                return (*before, *after)
            case "whom":
                return (*before, self._at_others(schedule[place], self._others(schedule[place].targets)), *after)
            case _:
                return (*before, self._moved(before, schedule[place], seed), *after)

    def _some(self) -> tuple[str, ...]:
        """All, or as a crash is drawn."""
        actors = self.bench.actors
        return actors if self._random.random() < 0.4 else self.bench.aims.some(self._random)

    def _others(self, targets: Sequence[str]) -> tuple[str, ...]:
        """One more, or one less."""
        actor = self._random.choice(self.bench.actors)
        if actor not in targets:
            return (*targets, actor)
        return tuple(one for one in targets if one != actor) or (actor,)

    def _struck_at(self, before: Schedule, seed: int) -> Fault:
        """A fault that hits an actor at an address that is passed after these, mostly where much would be lost."""
        kind = self._kind()
        later = self._later(before, seed)
        if not later:
            when = Duration(self._random.randrange(1, self.bench.aims.span.micros))
            return replace(self._against((self._random.choice(self.bench.actors),), kind), trigger=AtTime(when))
        worst = [one for one in later if (one.address.point, one.address.side) in _BEFORE_LOSS]
        where = self._random.choice(worst if worst and self._random.random() < 0.7 else later)
        return replace(self._against((where.address.name,), kind), trigger=Moment.exactly(where.address))

    def _moved(self, before: Schedule, fault: Fault, seed: int) -> Fault:
        """Somewhat earlier or later."""
        trigger = fault.trigger
        if isinstance(trigger, AtTime):
            by = self._random.choice((-1, 1)) * self.bench.aims.duration(self._random, 0.2).micros
            return replace(fault, trigger=AtTime(Duration(max(1, trigger.after.micros + by))))
        later = self._later(before, seed)
        if not later:
            return fault
        moments = [Moment.exactly(one.address) for one in later]
        at = moments.index(trigger) if trigger in moments else self._random.randrange(len(moments))
        by = round(self._random.choice((-1, 1)) * 2 ** self._random.uniform(0, 8))
        moved = max(0, min(len(moments) - 1, at + by))
        if self._random.random() < 0.5:
            moved = self._nearest_loss(later, moved)
        return replace(fault, trigger=moments[moved])

    @staticmethod
    def _nearest_loss(later: Sequence[Reached], place: int) -> int:
        worst = (n for n, one in enumerate(later) if (one.address.point, one.address.side) in _BEFORE_LOSS)
        return min(worst, key=lambda n: abs(n - place), default=place)

    def _later(self, before: Schedule, seed: int) -> tuple[Reached, ...]:
        """What is passed once these faults have struck."""
        key = (before, seed)
        if key not in self._known:
            if len(self._known) > 200:
                self._known.clear()
            passed = self.bench.reached(before, seed)
            self._known[key] = tuple(one for one in passed if len(one.after) == len(before))
        return self._known[key]


def closest(verdicts: Sequence[Verdict], trial: Trial) -> Iterator[CloseCall]:
    """Every amount of what holds, the largest of each."""
    for verdict in verdicts:
        if verdict.status is not Status.HOLDS:
            continue
        largest: dict[tuple[str, str], Measured] = {}
        for one in verdict.measured:
            key = one.what, one.where
            if key not in largest or one.ratio > largest[key].ratio:
                largest[key] = one
        yield from (CloseCall(verdict.guarantee, one, trial) for one in largest.values())


def _made_small(bench: Bench, call: CloseCall) -> tuple[Bench, CloseCall]:
    """With fewer faults, targets and events, as long as it comes as close."""

    def again(small: Bench, history: History) -> CloseCall | None:
        calls = closest(small.judge(history), call.trial)
        return next((one for one in calls if one.bounded == call.bounded), None)

    def as_close(small: Bench, history: History) -> bool:
        found = again(small, history)
        return found is not None and found.measured.ratio >= call.measured.ratio

    bench, trial, _ = smallest(bench, call.trial, as_close, _EFFORT)
    found = again(bench, bench.run(trial.schedule, trial.seed))
    return bench, call if found is None else replace(found, trial=trial)
