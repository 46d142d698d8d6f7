"""Makes a schedule that breaks a claim as small as it will go: fewer faults, fewer targets, less input, smaller
batches, earlier addresses, shorter durations. At the end it leaves some input to come after the last strike (see
`_leave_slack`).

Each step is run in the simulator, and kept only if the claim is violated in the same way: the same guarantee, and the
same anomaly first. Runs branch off from one another (see `trial_runs`); what is kept was run from its beginning.
Deterministic, and bounded by the events that are fed in all the runs together.

What is to be replayed on a real cluster must not rest on who was faster, for which addresses have no words: ask that it
shows under `STEADY` seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from ..core.addresses import Address, Moment, Point
from ..core.errors import InvalidScenario, UsersCodeFailed
from ..core.quantities import Duration
from ..core.schedule import Fault, Schedule
from ..recording.history import History
from ..recording.records import Offered
from .bench import Bench, Trial, ViolationKind
from .census import Reached
from .classes import distinct
from .trial_runs import TrialRuns

EFFORT: Final = 200_000
"""Events fed in all runs together, each run counted as `_A_RUN` events more than it feeds."""
STEADY: Final = 20
"""Under so many seeds in a row shows what does not rest on who was faster."""
_A_RUN: Final = 20
_TRIES: Final = 400
"""Runs that are spent on one place: an amount of input, or one fault's address."""
_ROUNDS: Final = 20
_SLACK_TRIES: Final = 40
"""Amounts of input that are tried so that some is left after the last strike; these runs are beside the effort."""


@dataclass(frozen=True)
class Shrunk:
    """A smallest case that was found."""

    bench: Bench
    """For the input that is left."""
    trial: Trial
    kind: ViolationKind
    runs: int
    """How many it took."""

    @property
    def events(self) -> int:
        return self.bench.scenario.workload.events


def shrink(bench: Bench, trial: Trial, kind: ViolationKind, *, effort: int = EFFORT, seeds: int = 1) -> Shrunk:
    """Shrink a trial that violates a claim of the bench's scenario in the way of `kind`, under each of `seeds` seeds of
    the world: its own and those that follow it."""
    with closing(_Shrinker(bench, trial, lambda one, came: one.violates(came, kind), effort, seeds)) as shrinker:
        shrinker.shrink()
        shrinker.leave_slack()
        return Shrunk(shrinker.bench, Trial(shrinker.schedule, trial.seed), kind, shrinker.runs)


def smallest(
    bench: Bench, trial: Trial, shows: Callable[[Bench, History], bool], effort: int = EFFORT
) -> tuple[Bench, Trial, int]:
    """The least input and the smallest trial whose run still shows something, and how many runs it took to find out."""
    with closing(_Shrinker(bench, trial, shows, effort)) as shrinker:
        shrinker.shrink()
        return shrinker.bench, Trial(shrinker.schedule, trial.seed), shrinker.runs


def shows_violation(bench: Bench, trial: Trial, kind: ViolationKind, seeds: int = 1) -> bool:
    """Whether a trial violates in the way of `kind`, under each of `seeds` seeds of the world. Where the user's code
    fails under one of them, it does not."""
    try:
        seen = (bench.run(trial.schedule, seed) for seed in range(trial.seed, trial.seed + seeds))
        return all(bench.violates(history, kind) for history in seen)
    except UsersCodeFailed:
        return False


class _Shrinker:
    """Close it."""

    def __init__(
        self, bench: Bench, trial: Trial, shows: Callable[[Bench, History], bool], effort: int, seeds: int = 1
    ) -> None:
        self.schedule = trial.schedule
        self._most = bench.scenario.workload.events
        self.runs = 0
        self._seed = trial.seed
        self._here = TrialRuns(bench, trial.seed)
        """With the input that is left."""
        self._shown_by = shows
        self._seeds = seeds
        self._effort = effort
        self._known: dict[tuple[int, int, Schedule], bool] = {}

    @property
    def bench(self) -> Bench:
        return self._here.bench

    def close(self) -> None:
        self._here.close()

    def _go_on_with(self, runs: TrialRuns) -> None:
        self._here.close()
        self._here = runs

    def shrink(self) -> None:
        for _ in range(_ROUNDS):
            before = self._now()
            self._cut_input()
            self._drop_faults()
            self._drop_targets()
            self._strike_earlier()
            self._heal_sooner()
            if before == self._now():
                # This takes the most runs, and fewer the less there is.
                self._find_anew()
                if before == self._now():
                    return

    def leave_slack(self) -> None:
        """Where a fault strikes beside the way of the data, the least input with which a batch is still to be offered
        after the last strike, if that is violated in the same way.

        A checkpoint, or an acknowledgement, is on its way while the rest goes on, and how long it takes there is
        another matter on a real cluster. At the edge of the input, all may have been processed before the address is
        reached, and then the fault proves nothing.
        """
        events, batch = self._size(self.bench)
        for more in range(events, min(self._most, events + _SLACK_TRIES * batch) + 1, batch):
            bench = self.bench if more == events else self._resized(more, batch)
            if bench is None:
                continue
            self.runs += 1
            try:
                history = bench.run(self.schedule, self._seed)
                if _has_slack(history, batch) and self._wanted(bench, self.schedule, history):
                    self._go_on_with(TrialRuns(bench, self._seed))
                    return
            except UsersCodeFailed:
                return

    def _now(self) -> tuple[Schedule, tuple[int, int]]:
        return self.schedule, self._size(self.bench)

    def _shows(self, runs: TrialRuns, schedule: Schedule) -> bool:
        """Whether a schedule still violates in the same way; no, once the effort is spent."""
        key = (*self._size(runs.bench), schedule)
        if key not in self._known:
            if self._effort <= 0:
                return False
            self._spend(runs.bench)
            self.runs += 1
            try:
                self._known[key] = self._tried(runs, schedule)
            except UsersCodeFailed:
                self._known[key] = False
        return self._known[key]

    def _tried(self, runs: TrialRuns, schedule: Schedule) -> bool:
        """What is kept has shown in a whole run."""
        bench = runs.bench
        history, branched = runs.run(schedule)
        if history is None:
            return False
        if not branched:
            return self._wanted(bench, schedule, history)
        if not self._shown_by(bench, history):
            return False
        whole = bench.run(schedule, self._seed)
        if self._wanted(bench, schedule, whole):
            return True
        if whole.digest() != history.digest():
            runs.only_whole_runs("a run that was put back came to something else than a whole one")
        return False

    def _wanted(self, bench: Bench, schedule: Schedule, history: History) -> bool:
        """Whether it shows in a whole run, and under each of the seeds that follow."""
        further = range(self._seed + 1, self._seed + self._seeds)
        return self._shown_by(bench, history) and all(
            self._shown_by(bench, bench.run(schedule, seed)) for seed in further
        )

    def _spend(self, bench: Bench) -> None:
        self._effort -= bench.scenario.workload.events + _A_RUN

    @staticmethod
    def _size(bench: Bench) -> tuple[int, int]:
        return bench.scenario.workload.events, bench.scenario.workload.batch

    def _cut_input(self) -> None:
        """As few events as do, with the batches and addresses as they are."""
        events, batch = self._size(self.bench)
        for fewer in _amounts(events):
            bench = self._resized(fewer, batch)
            if bench is None:
                continue
            smaller = TrialRuns(bench, self._seed)
            if self._shows(smaller, self.schedule):
                self._go_on_with(smaller)
                return
            smaller.close()

    def _drop_faults(self) -> None:
        place = len(self.schedule) - 1
        while place >= 0 and len(self.schedule) > 1:
            without = (*self.schedule[:place], *self.schedule[place + 1 :])
            if self._shows(self._here, without):
                self.schedule = without
            place -= 1

    def _drop_targets(self) -> None:
        for place, fault in enumerate(self.schedule):
            for target in fault.targets if self._hits_nodes(fault) else ():
                left = tuple(t for t in self.schedule[place].targets if t != target)
                if left:
                    self._try(place, replace(self.schedule[place], targets=left))

    def _try(self, place: int, fault: Fault) -> bool:
        changed = (*self.schedule[:place], fault, *self.schedule[place + 1 :])
        if self._shows(self._here, changed):
            self.schedule = changed
            return True
        return False

    def _find_anew(self) -> None:
        """With fewer events, or smaller batches, other addresses are passed: look for as many faults among those."""
        events, batch = self._size(self.bench)
        for fewer in (*_amounts(events), events):
            if batch == 1 and fewer == events:
                return
            bench = self._resized(fewer, 1)
            if bench is None:
                continue
            smaller = TrialRuns(bench, self._seed)
            for schedule in islice(self._anew(smaller, ()), _TRIES):
                if self._shows(smaller, schedule):
                    self._go_on_with(smaller)
                    self.schedule = schedule
                    return
            smaller.close()

    def _resized(self, events: int, batch: int) -> Bench | None:
        """None where the scenario makes no sense with such an input: its workload draws no such number of events; or in
        smaller batches event time passes more slowly, and a window comes to last longer than the time-out of a source.
        """
        try:
            return self.bench.with_input(events, batch)
        except InvalidScenario:
            return None

    def _anew(self, runs: TrialRuns, before: Schedule) -> Iterator[Schedule]:
        place = len(before)
        if place == len(self.schedule):
            yield before
            return
        for fault in self._alternatives(runs, before, self.schedule[place]):
            yield from self._anew(runs, (*before, fault))

    def _alternatives(self, runs: TrialRuns, before: Schedule, fault: Fault) -> list[Fault]:
        """`fault` at every address that is passed after the faults before, at places like its own first."""
        places = self._places(runs, before)
        trigger = fault.trigger
        if isinstance(trigger, Moment):
            kind = (trigger.point, trigger.side, trigger.actor)
            places.sort(key=lambda r: (r.address.point, r.address.side, r.address.name) != kind)
        return [self._moved(fault, reached) for reached in places]

    def _places(self, runs: TrialRuns, before: Schedule) -> list[Reached]:
        if self._effort <= 0:
            return []
        self._spend(runs.bench)
        try:
            return distinct(runs.reached_after(before))
        except UsersCodeFailed:
            return []

    def _strike_earlier(self) -> None:
        for place, fault in enumerate(self.schedule):
            for reached in islice(self._places(self._here, self.schedule[:place]), _TRIES):
                moved = self._moved(fault, reached)
                if moved == fault or self._try(place, moved):
                    break

    def _heal_sooner(self) -> None:
        """Half as long, as often as that does."""
        for place in range(len(self.schedule)):
            while (lasting := self.schedule[place].duration) is not None and lasting.micros > 1:
                if not self._try(place, self.schedule[place].lasting(Duration(lasting.micros // 2))):
                    break

    def _hits_nodes(self, fault: Fault) -> bool:
        return self.bench.registry.faults[fault.kind].hits_any_nodes

    def _moved(self, fault: Fault, reached: Reached) -> Fault:
        """`fault` at another address; a node that is hit at a point of its own is so there too."""
        own = isinstance(fault.trigger, Moment) and fault.targets == (fault.trigger.actor,)
        targets = (reached.address.name,) if own and self._hits_nodes(fault) else fault.targets
        return replace(fault, targets=targets, trigger=Moment.exactly(reached.address))


def _has_slack(history: History, batch: int) -> bool:
    """Whether input is outstanding at every strike, however long anything takes: since the end of the input cannot have
    passed the slice that is held, or since a batch is still to be offered."""
    struck = list(history.struck())
    if all(entry.address is not None and _before_the_end(Address.parse(entry.address)) for entry in struck):
        return True
    last = max(entry.stamp.at for entry in struck)
    offered = ((stamped.at, stamped.record) for stamped in history.of(Offered))
    return sum(len(record.events) for at, record in offered if isinstance(record, Offered) and at > last) >= batch


_DATA: Final = frozenset({"", "replay", "replayed", "open"})
"""Names of the messages that the end of the input cannot overtake."""


def _before_the_end(address: Address) -> bool:
    """Whether a slice comes to an address before it passes on the end of the input, in every run."""
    message = address.key.rpartition(" ")[2].partition("@")[0]
    match address.point:
        case Point.STARTED | Point.REROUTED | Point.CHECKPOINT_ISSUED:
            return True
        case Point.RECEIVED | Point.SEND_ISSUED:
            return message in _DATA or message == "end"
        case Point.SEND_HANDED_OVER:
            return message in _DATA
        case _:
            return False


def _amounts(events: int) -> Iterator[int]:
    """Amounts below `events`, ascending: every small one, then some."""
    amount = 1
    while amount < events:
        yield amount
        amount += max(1, amount // 8)
