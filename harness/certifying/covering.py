"""Covers crashes by their crash states: each is put back and recovered from, in every recovery worker at once."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from statistics import fmean

import msgspec

from ..core.addresses import Point, Side
from ..core.verdicts import Status
from ..recording.records import Stamped
from .alike import Alike
from .attempts import Attempt, Passed
from .campaign_state import RECOVERY, CampaignState, violates
from .conclusion import NotReached, Planned
from .crash_states import Looks
from .plan import Crash, CrashTrial, How, Victim
from .planning import (
    MOST_HALF_DONE,
    almost_done,
    crash_at,
    deed,
    half_done,
    points_of_the_driver,
    repairs,
    steady_batch,
    worst_to_recover_from,
)
from .profile import AFTER_RESTART, Profile, batch_of, profile_of
from .recovering import Crashed, crashed_again, crashed_in_profile, mate_of, offered, recover, write_run
from .recovery_worker import RecoveryWorker
from .request import CampaignRequest
from .threads import results_of
from .waiting import AttemptStates, Group, Waiting, by_worth

NOT_EACH_TIME = "its batch passes it more than once, and no time was left to recover from each"
NO_TIME = "no time was left for crashes while it recovers from a crash"
NO_RECOVERY = "the recovery in which crashes were to strike did not come to its end"
NEVER_RECOVERING = "More than one crash in a run, as one while it recovers from another."
ONE_RECOVERY = (
    "More than one crash in a run, but for a second one while it recovers from the first: of these, one first crash is "
    "tried, and the points at which its batch is done again; one just before the last effect of its sink, after which "
    f"it dies there again; and after that one, and up to {MOST_HALF_DONE} before it that leave files of other names in "
    "the sink, or other rows in a SQLite database there, a second one in code that only a crash leads to, as to a "
    "repair."
)
NOT_TWICE = "no time was left for a second crash in a batch, after a first one in the middle of what its sink writes"
NOT_REPAIRED = (
    "no time was left for a second crash in code that only a crash leads to, as to a repair, after a first one in the "
    "middle of what its sink writes"
)
TAKEN_BACK = (
    "What is seen of a SQLite database in the middle of a transaction by who keeps SQLite from taking it back (as "
    "`immutable` does), opens it as SQLite does (O_NOFOLLOW), or asks no more than how large it and its journal or log "
    "are: of states that SQLite takes back to the same content, one is recovered from, where nobody else has opened "
    "either."
)
LAST_RECOVERIES = 20
"""By so many it is told how many there will be."""
DOUBTS = 3
"""How often a violation that crash states show is tried for real, of each claim, where no kill shows it."""


class Covering:
    """The part of a campaign that recovers from crash states."""

    def __init__(
        self,
        state: CampaignState,
        request: CampaignRequest,
        workers: Sequence[RecoveryWorker],
        attempts: Sequence[Attempt],
        references: Sequence[Stamped],
        how: How = How.CRASH_STATE,
    ) -> None:
        """`attempts` are the watched ones of the recovery workers, one each; of losses of power, with what those leave
        as their states."""
        self._how = how
        self._state = state
        self._request = request
        self._workers = workers
        self._states = [AttemptStates(attempt) for attempt in attempts]
        self._before = [*offered(request.query.batches(request.workload)), *references]
        self._lock = threading.Lock()
        """Of what waits."""
        self._waiting: list[Group] = []
        """The most worth trying is the last."""
        self._later: list[Group] = []
        """The same, of those for which others stand (`alike`), once these have passed."""
        self._first_workers: list[Group] = []
        """States of the first recovery worker's only, which has its folders."""
        self._recovery: Crashed | None = None
        """The crash from which it is to recover once more, watched: crashes while it does are planned then."""
        self._second: tuple[Crashed, AttemptStates] | None = None
        """That recovery, once it was watched."""
        self._waiting_again: list[Group] = []
        self._twice: Crashed | None = None
        """The crash just before the last effect of a batch, after which it is to die there once more."""
        self._half_done: list[Crashed] = []
        """That one and crashes before it in its batch, of which what the code does then is to be seen; the first is the
        most worth trying."""
        self._profile: Profile | None = None
        self._repairing: list[tuple[Crashed, AttemptStates, list[Group]]] = []
        """The recoveries from these crashes, once they were watched, with crashes in them, where it does what no
        attempt without a failure does; the most worth trying is the last."""
        self._repaired: set[tuple[Point, Side, str]] = set()
        """What it does so."""
        self._doubted: Counter[str] = Counter()
        """Claims of which crash states show a violation that nothing else shows, and how often that was tried."""
        self._share = 0.0
        """Of the campaign's time, by when it has to come to an end."""
        self._stood_for: deque[int] = deque(maxlen=LAST_RECOVERIES)
        """For how many groups of states the last recoveries did."""
        self._recoveries = 0
        self._seconds = 0.0

    def plan(self, profile: Profile, planned: Sequence[Planned], recovering: bool) -> None:
        """To be recovered from: every crash of the driver that was planned, one for each point of the profile, and
        crashes during one of the recoveries."""
        self._profile = profile
        points = points_of_the_driver(profile, every_batch=True)
        self.plan_states(points, planned)
        worst = worst_to_recover_from(profile)
        self._state.not_covered.append(NEVER_RECOVERING if worst is None or not recovering else ONE_RECOVERY)
        last = almost_done(points, steady_batch(profile)) if recovering else None
        if last is not None:
            half = half_done(points, steady_batch(profile), profile.home)
            self._half_done = [
                crashed_in_profile(self._states[0].attempt, one, crash_at(profile, one, Victim.DRIVER))
                for one in (last, *half)
            ]
            self._twice = self._half_done[0]
        # Where its state is not known, why it is not leaves the claim open already.
        if not recovering or worst is None or worst.state is None:
            return
        (line,) = self._state.add([Planned(crash_at(profile, worst, Victim.DRIVER))])
        if not self._has_recovered_again(line.crash):
            self._recovery = crashed_in_profile(self._states[0].attempt, worst, line.crash)

    def plan_states(self, points: Sequence[Passed], planned: Sequence[Planned]) -> None:
        """To be recovered from: what the first attempt has left at these points, as the plan has each."""
        waiting = []
        times = Counter(line.crash for line in planned)
        for passed, line in zip(points, planned, strict=True):
            if self._state.has_recovered(self._how, (line.crash,), times[line.crash]):
                continue
            if passed.state is None:
                self._state.not_reached.append(NotReached(line, passed.why_not))
            else:
                waiting.append(Waiting(line.crash, passed))
        alike = Alike(planned)
        groups = by_worth(self._states[0].groups(waiting), self._request.seed)[::-1]
        later = [all(alike.comes_later(Planned(one.crash)) for one in group) for group in groups]
        self._waiting = [group for group, is_later in zip(groups, later, strict=True) if not is_later]
        self._later = [group for group, is_later in zip(groups, later, strict=True) if is_later]

    def _has_recovered_again(self, first: Crash) -> bool:
        """Whether an earlier part of the campaign has tried all crashes during a recovery after this one. Which of them
        are of another first crash, the plan does not say."""
        planned = {line for line in self._state.plan if line.crash.recovering}
        states = (trial for trial in self._state.trials if trial.how is How.CRASH_STATE)
        tried = {Planned(trial.crashes[-1]) for trial in states if trial.crashes[0] == first}
        missed = set() if self._state.earlier is None else self._state.earlier.open
        return bool(planned) and planned <= tried and not planned & missed

    def plan_losses(self, waiting: Sequence[Waiting], order: Callable[[Group], object]) -> None:
        """To be recovered from: losses of power, the most worth trying first, by `order`."""
        times = Counter(one.crash for one in waiting)
        left = [one for one in waiting if not self._state.has_recovered(self._how, (one.crash,), times[one.crash])]
        self._waiting = sorted(self._states[0].groups(left), key=order, reverse=True)  # type: ignore[arg-type]

    @property
    def remains(self) -> bool:
        """Whether something waits to be recovered from."""
        return self.needed or bool(self._later)

    @property
    def needed(self) -> bool:
        """Whether some of it is what nothing stands for."""
        return bool(
            self._waiting
            or self._first_workers
            or self._waiting_again
            or self._recovery
            or self._half_done
            or any(groups for _, _, groups in self._repairing)
        )

    def recoveries_left(self, later: bool = True) -> int:
        """So many at most."""
        groups = len(self._waiting) + len(self._first_workers) + len(self._waiting_again)
        again = 0
        if self._recovery is not None:
            batch = self._recovery.crashes[-1].batch
            again = len({one.digest for one in self._states[0].of_batch(batch)})
        again += sum(len(left) for _, _, left in self._repairing) + len(self._half_done)
        again += int(self._twice in self._half_done)
        return groups + again + (len(self._later) if later else 0)

    def likely_left(self, later: bool = True) -> int:
        """The same, where a recovery goes on to stand for as many states as the last ones did."""
        groups = len(self._waiting) + len(self._first_workers) + (len(self._later) if later else 0)
        others = self.recoveries_left(later) - groups
        return others + math.ceil(groups / max(1.0, fmean(self._stood_for or (1,))))

    def doubt(self, claims: Iterable[str]) -> None:
        """Of these, a violation was not confirmed. After some times, do not come to a halt over them any more."""
        self._doubted.update(claims)

    def cover(self, share: float, share_while_recovering: float, share_later: float | None = None) -> list[CrashTrial]:
        """Recover from what waits, until that share of the campaign's time is spent: of single crashes, then of
        crashes while it recovers, and then of those for which others stand. Of two crashes, those come first between
        which an effect of the sink is missing: what recovers from less may have nothing to do. It comes to a halt where
        a state shows a violation that is new, and returns the trials that do."""
        before, known = time.monotonic(), len(self._state.trials)
        self._share = share_while_recovering
        self._cover_each(share, known)
        while self._half_done and not self._new(known) and self._state.within_budget(share_while_recovering):
            self._plan_repairs(self._half_done.pop(0))
            self._cover_repairs(share_while_recovering, known)
        if not self._new(known):
            self._cover_repairs(share_while_recovering, known)
        if not self._new(known):
            self._cover_recovery(share_while_recovering, known)
        if not self._new(known) and not self.needed and self._later:
            self._waiting, self._later = self._later, []
            self._cover_each(share_while_recovering if share_later is None else share_later, known)
            self._waiting, self._later = [], self._waiting
        recoveries, seconds = len({trial.folder for trial in self._state.trials[known:]}), time.monotonic() - before
        self._recoveries += recoveries
        self._seconds += seconds
        self._state.took(RECOVERY, recoveries, seconds)
        name = "crash states a minute" if self._how is How.CRASH_STATE else "losses of power a minute"
        self._state.figures[name] = round(60 * self._recoveries / self._seconds, 1)
        return self._new(known)

    def leave(self) -> None:
        """Note what was left for want of time, where nothing else would tell."""
        state = self._state
        if self._shown():
            return
        if self.remains and not state.exhausted:
            runs = state.budget.runs
            time_is_up = runs is None or state.spent >= 60 * state.budget.minutes * self._share
            budget = f"minutes: {state.budget.minutes:g}" if time_is_up else f"runs: {runs:,}"
            state.exhausted = f"{budget}, {self._share:.0%} of them for crash states"
        if self._recovery is not None and state.trials:
            crash = msgspec.structs.replace(self._recovery.crashes[-1], recovering=True)
            state.not_reached.append(NotReached(Planned(crash), NO_TIME))
        for first_crash in self._half_done if state.trials else ():
            crash = msgspec.structs.replace(first_crash.crashes[-1], recovering=True)
            state.not_reached.append(NotReached(Planned(crash), NOT_TWICE))
        repairs_left = (Planned(one.crash) for _, _, groups in self._repairing for group in groups for one in group)
        state.not_reached += [NotReached(line, NOT_REPAIRED) for line in repairs_left]
        # Of a point that a batch passes more than once, a recovery from one time says nothing of the others.
        tried = {trial.crashes for trial in state.trials if trial.how is self._how}
        single = [(one.crash,) for group in (*self._waiting, *self._first_workers, *self._later) for one in group]
        first = () if self._second is None else self._second[0].crashes
        again = [(*first, one.crash) for group in self._waiting_again for one in group]
        left = dict.fromkeys(crashes for crashes in (*single, *again) if crashes in tried)
        state.not_reached += [NotReached(Planned(crashes[-1]), NOT_EACH_TIME) for crashes in left]

    def _new(self, known: int) -> list[CrashTrial]:
        """Of the trials since then, those that violate a claim of which nobody knows that yet, and that somebody else
        can try for real."""
        if self._how is How.POWER_LOSS:
            return []
        open_claims = {name for name in map(str, self._state.claims) if not self._state.is_confirmed(name)} - {
            claim for claim, times in self._doubted.items() if times >= DOUBTS
        }
        return [
            trial
            for trial in self._state.trials[known:]
            if any(trial.verdicts.get(claim) is Status.VIOLATED for claim in open_claims)
        ]

    def _cover_each(self, share: float, known: int) -> None:
        if not self._waiting and not self._first_workers:
            return
        phase = "crash states" if self._how is How.CRASH_STATE else "losses of power"
        self._state.begin(phase, sum(map(len, self._waiting)))

        def work(place: int) -> None:
            try:
                while not self._new(known) and not self._shown():
                    taken = self._take(place)
                    if taken is None:
                        return
                    first, mates = taken
                    run = self._state.begin_run(self._kind, share)
                    if run is None:
                        with self._lock:
                            self._waiting.append(mates)
                        return
                    self._recover_in(place, first, mates, run)
            except BaseException:
                self._waiting.clear()
                raise

        with ThreadPoolExecutor(len(self._workers)) as pool:
            try:
                results_of([pool.submit(work, place) for place in range(len(self._workers))])
            except BaseException:
                # Whoever interrupts this waits for the attempts that are under way, and for no other.
                self._waiting.clear()
                raise
        # What another recovery worker has left when the first one had no more to do.
        work(0)

    def _take(self, place: int) -> tuple[Waiting, Group] | None:
        """The next that can be recovered from in that recovery worker, with those that are the same there."""
        states = self._states[place]
        with self._lock:
            while self._waiting or (place == 0 and self._first_workers):
                group = (self._waiting or self._first_workers).pop()
                here = states.passed(group[0])
                if here is None:
                    self._first_workers.insert(0, group)
                    continue
                # What is the same in the first recovery worker need not be in another one: its files have names of
                # their own.
                mates, others = _split(group, lambda one, here=here: states.same(here, one), states)  # type: ignore[misc]
                if others:
                    self._waiting.append(others)
                return group[0], mates
            return None

    def _recover_in(self, place: int, first: Waiting, mates: Group, run: str) -> None:
        states, worker = self._states[place], self._workers[place]
        here = states.passed(first)
        assert here is not None
        crashed = crashed_in_profile(states.attempt, here, first.crash)
        attempt = recover(worker, crashed)
        mates = [*mates, *self._alike(states, here, attempt, (self._waiting, self._first_workers, self._later))]
        self._stood_for.append(len(states.groups(mates)))
        trials = self._enter(worker, crashed, mates, states, attempt, run)
        if self._how is How.POWER_LOSS and any(map(violates, trials)):
            # It cannot be tried for real: what shows again is shown.
            again = self._state.new_run(self._kind)
            self._enter(worker, crashed, [first], states, recover(worker, crashed), again)

    @property
    def _kind(self) -> str:
        """How its run folders are called."""
        return "state" if self._how is How.CRASH_STATE else "power"

    def _shown(self) -> bool:
        """Whether losses of power violate every claim that is made of them; what else they do is of no interest."""
        if self._how is not How.POWER_LOSS or self._state.budget.goes_on:
            return False
        claims = [str(claim) for claim in self._state.claims if claim.power is not None]
        return all(map(self._state.is_confirmed, claims))

    def _alike(self, states: AttemptStates, here: Passed, attempt: Attempt, waiting: Sequence[list[Group]]) -> Group:
        """Take what waits and what this recovery could not have told from what it began with."""
        with self._lock:
            found = [one for groups in waiting for one in take_alike(states, here, attempt, groups)]
            if TAKEN_BACK not in self._state.not_covered and _by_sqlite_alone(states, here, attempt, found):
                self._state.not_covered.append(TAKEN_BACK)
            return found

    def _enter(
        self, worker: RecoveryWorker, crashed: Crashed, mates: Group, states: AttemptStates, attempt: Attempt, run: str
    ) -> list[CrashTrial]:
        request = self._request
        there = [(one.crash, states.passed(one)) for one in mates]
        group = [mate_of(crashed, crash, passed) for crash, passed in there if passed is not None]
        write_run(self._state.folder / run, request.named, worker, crashed, group, attempt, self._before, request.seed)
        tried = list(dict.fromkeys(one.crashes for one in group))
        return self._state.enter(run, tried, self._how, steps=len(group))

    def _cover_recovery(self, share: float, known: int) -> None:
        if self._recovery is not None and self._state.within_budget(share):
            self._plan_recovery(self._recovery)
            self._recovery = None
        if self._waiting_again and self._second is not None:
            self._cover_again(self._second, self._waiting_again, share, known)

    def _plan_repairs(self, first: Crashed) -> None:
        """It has died between effects of a batch. What it does then that is new is to be cut; and just before the last
        effect it dies again while it recovers: what counts its attempts, and gives up after the second, has lost
        something."""
        second = self._watch_recovery(first)
        if second.failure is not None:
            self._not_recovered(first, second)
            return
        batch = first.crashes[-1].batch
        again = replace(profile_of(second), kinds={batch: (AFTER_RESTART,)})
        assert self._profile is not None
        new = repairs(self._profile, again, batch)
        crashes = [crash_at(again, one, Victim.DRIVER, recovering=True) for one in new]
        found = [(one, crash) for one, crash in zip(new, crashes, strict=True) if deed(crash) not in self._repaired]
        self._repaired.update(deed(crash) for _, crash in found)
        lines = self._state.add([Planned(crash) for _, crash in found])
        states = AttemptStates(second)
        waiting = self._not_recovered_from(first, zip((one for one, _ in found), lines, strict=True))
        groups = by_worth(states.groups(waiting), self._request.seed)[::-1]
        last = almost_done(second.passed, batch) if first is self._twice else None
        if last is not None:
            lines = self._state.add([Planned(crash_at(again, last, Victim.DRIVER, recovering=True))])
            groups += [[one] for one in self._not_recovered_from(first, zip([last], lines, strict=True))]
        self._repairing.append((first, states, groups))

    def _not_recovered_from(self, first: Crashed, lines: Iterable[tuple[Passed, Planned]]) -> list[Waiting]:
        """Of crashes in the recovery from another one, as they stand in the plan, those that wait. Of the others that
        nobody has tried, it is said why."""
        lines = list(lines)
        times = Counter(line for _, line in lines)
        waiting = []
        for passed, line in lines:
            if self._state.has_recovered(self._how, (*first.crashes, line.crash), times[line]):
                continue
            if passed.state is None:
                self._state.not_reached.append(NotReached(line, passed.why_not))
            else:
                waiting.append(Waiting(line.crash, passed))
        return waiting

    def _cover_repairs(self, share: float, known: int) -> None:
        for first, states, groups in self._repairing:
            if groups and not self._new(known):
                self._cover_again((first, states), groups, share, known)

    def _cover_again(
        self,
        recovery: tuple[Crashed, AttemptStates],
        waiting: list[Group],
        share: float,
        known: int,
    ) -> None:
        """Crashes in a recovery."""
        self._state.begin("crashes while recovering", sum(map(len, waiting)))
        first, states = recovery
        while waiting and not self._new(known):
            run = self._state.begin_run(self._kind, share)
            if run is None:
                return
            group = waiting.pop()
            here = states.passed(group[0])
            assert here is not None
            crashed = crashed_again(first, states.attempt, here, group[0].crash)
            attempt = recover(self._workers[0], crashed)
            group += self._alike(states, here, attempt, (waiting,))
            self._enter(self._workers[0], crashed, group, states, attempt, run)

    def _watch_recovery(self, first: Crashed) -> Attempt:
        """In which each line and each effect is noted, as without a failure."""
        second = recover(self._workers[0], first, watched=True)
        self._state.watched.append(second)
        return second

    def _not_recovered(self, first: Crashed, second: Attempt) -> None:
        """No crash in that recovery can be planned. The trial of that crash may be of another time, in which it did
        recover."""
        crash = msgspec.structs.replace(first.crashes[-1], recovering=True)
        self._state.not_reached.append(NotReached(Planned(crash), f"{NO_RECOVERY}: {second.failure}"))

    def _plan_recovery(self, first: Crashed) -> None:
        """Recover from a crash, and see what that passes."""
        second = self._watch_recovery(first)
        if second.failure is not None:
            self._not_recovered(first, second)
            return
        batch = first.crashes[-1].batch
        again = replace(profile_of(second), kinds={batch: (AFTER_RESTART,)})
        passed = [one for one in points_of_the_driver(again, every_batch=True) if batch_of(one.address) == batch]
        lines = [Planned(crash_at(again, one, Victim.DRIVER, recovering=True)) for one in passed]
        waiting = self._not_recovered_from(first, zip(passed, self._state.add(lines), strict=True))
        states = AttemptStates(second)
        self._second = first, states
        self._waiting_again = by_worth(states.groups(waiting), self._request.seed)[::-1]


def take_alike(states: AttemptStates, here: Passed, attempt: Attempt, groups: list[Group]) -> Group:
    """Take from what waits what this attempt, which went on from `here`, could not have told from what it began
    with."""
    looks = _all_looks(attempt)
    if looks is None:
        return []
    found: Group = []
    left: list[Group] = []
    for group in groups:
        alike, others = _split(group, lambda one: states.alike(here, one, looks), states)
        found += alike
        left += [others] if others else []
    groups[:] = left
    return found


def _by_sqlite_alone(states: AttemptStates, here: Passed, attempt: Attempt, found: Group) -> bool:
    """Whether some of these are alike only by what SQLite takes back."""
    looks = _all_looks(attempt)
    passed = (states.passed(one) for one in found)
    return looks is not None and any(
        one is not None and not states.alike(here, one, looks.without_sqlite) for one in passed
    )


def _split(group: Group, fits: Callable[[Passed], bool], states: AttemptStates) -> tuple[Group, Group]:
    """Those of a group that fit, and the others; what an attempt has no state of is of the others."""
    chosen: Group = []
    others: Group = []
    for one in group:
        passed = states.passed(one)
        (chosen if passed is not None and fits(passed) else others).append(one)
    return chosen, others


def _all_looks(attempt: Attempt) -> Looks | None:
    """Of a recovery, with the attempts that failed before; None where it is not known of each, or might have become
    more."""
    attempts = [*attempt.before, attempt]
    found = [one.looks for one in attempts if one.looks is not None and not one.ended_by_others]
    if len(found) < len(attempts):
        return None
    return Looks(
        frozenset().union(*(one.opened for one in found)),
        frozenset().union(*(one.asked for one in found)),
        frozenset().union(*(one.listed for one in found)),
        frozenset().union(*(one.skimmed for one in found)),
        frozenset().union(*(one.opened_by_sqlite for one in found)),
    )
