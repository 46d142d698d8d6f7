"""Covers crashes by their crash states: each is put back and recovered from, in every lane at once."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random

import msgspec

from ..addresses import Address
from ..recording.records import Stamped
from .brief import Brief
from .conclusion import NotReached, Planned
from .lane import Lane, Life, Passed
from .ledger import Ledger, violates
from .plan import How, Trial, Victim
from .planning import crash_at, points_of_the_driver, worst_to_recover_from
from .profile import AFTER_RESTART, Profile, batch_of, profile_of
from .recovering import Crashed, crashed_again, crashed_in_profile, offered, recover, write_run

NOT_EACH_TIME = "its batch passes it more than once, and no time was left to recover from each"
NO_TIME = "no time was left for crashes while it recovers from a crash"
NO_RECOVERY = "the recovery in which crashes were to strike did not come to its end"
NEVER_RECOVERING = "Crashes while it recovers from a crash."
Groups = dict[tuple[str, int, int], list[Crashed]]
"""Crashes between whose points nothing happens that outlives them: one recovery is that of all."""


class Covering:
    """The part of a campaign that recovers from crash states."""

    def __init__(
        self,
        ledger: Ledger,
        brief: Brief,
        lanes: Sequence[Lane],
        lives: Sequence[Life],
        references: Sequence[Stamped],
    ) -> None:
        """`lives` are the watched ones of the lanes, one each."""
        self._ledger = ledger
        self._brief = brief
        self._lanes = lanes
        self._lives = lives
        self._before = [*offered(brief.query.batches(brief.workload)), *references]
        self._waiting: list[list[Crashed]] = []
        self._recovery: Crashed | None = None
        """The crash from which it is to recover once more, watched: crashes while it does are planned then."""
        self._waiting_again: list[list[Crashed]] = []
        self._share = 0.0
        """Of the campaign's time, by when it has to come to an end."""
        self._recoveries = 0
        self._seconds = 0.0

    def plan(self, profile: Profile, planned: Sequence[Planned], recovering: bool) -> None:
        """To be recovered from: every crash of the driver that was planned, one for each point of the profile, and
        crashes during one of the recoveries."""
        groups: Groups = {}
        for passed, line in zip(points_of_the_driver(profile, every_batch=True), planned, strict=True):
            if passed.state is None:
                self._ledger.not_reached.append(NotReached(line, passed.why_not))
            else:
                crashed = crashed_in_profile(self._lives[0], passed, line.crash)
                groups.setdefault(crashed.same, []).append(crashed)
        self._waiting = list(groups.values())
        # Whatever time is left for, is then spread over all points and batches.
        Random(self._brief.seed).shuffle(self._waiting)
        worst = worst_to_recover_from(profile)
        if recovering and worst is None:
            self._ledger.not_covered.append(NEVER_RECOVERING)
        # Where its state is not known, why it is not leaves the claim open already.
        elif recovering and worst is not None and worst.state is not None:
            self._recovery = crashed_in_profile(self._lives[0], worst, crash_at(profile, worst, Victim.DRIVER))

    @property
    def remains(self) -> bool:
        """Whether something waits to be recovered from."""
        return bool(self._waiting or self._waiting_again or self._recovery)

    def cover(self, share: float, share_while_recovering: float) -> list[Trial]:
        """Recover from what waits, until that share of the campaign's time is spent: of single crashes, and then of
        crashes while it recovers. Returns the trials that show a violation."""
        before, known = time.monotonic(), len(self._ledger.trials)
        self._share = share_while_recovering
        self._cover_each(share)
        self._cover_recovery(share_while_recovering)
        trials = self._ledger.trials[known:]
        self._recoveries += len({trial.folder for trial in trials})
        self._seconds += time.monotonic() - before
        self._ledger.figures["crash states a minute"] = round(60 * self._recoveries / self._seconds, 1)
        return [trial for trial in trials if violates(trial)]

    def leave(self) -> None:
        """Note what was left for want of time, where nothing else would tell."""
        ledger = self._ledger
        if self.remains and not ledger.exhausted:
            ledger.exhausted = f"minutes: {ledger.budget.minutes:g}, {self._share:.0%} of them for crash states"
        if self._recovery is not None and ledger.trials:
            crash = msgspec.structs.replace(self._recovery.crashes[-1], recovering=True)
            ledger.not_reached.append(NotReached(Planned(crash), NO_TIME))
        # Of a point that a batch passes more than once, a recovery from one time says nothing of the others.
        tried = {trial.crashes for trial in ledger.trials if trial.how is How.CRASH_STATE}
        untried = [one for group in (*self._waiting, *self._waiting_again) for one in group]
        left = dict.fromkeys(one.crashes for one in untried if one.crashes in tried)
        ledger.not_reached += [NotReached(Planned(crashes[-1]), NOT_EACH_TIME) for crashes in left]

    def _cover_each(self, share: float) -> None:
        waiting = self._waiting
        if not waiting:
            return
        self._ledger.begin("crash states", len(waiting))

        def work(place: int) -> None:
            life = self._lives[place]
            passed = {(one.address, one.again): one for one in life.passed if one.state is not None}
            while waiting and self._ledger.within_budget(share):
                try:
                    group = waiting.pop()
                except IndexError:
                    # Another lane may have taken the last since anybody looked.
                    return
                here = _in_lane(group[0], passed, life)
                if here is None:
                    # A state of the first lane's only, which has its folders.
                    waiting.insert(0, group)
                    return
                # What is the same in the first lane need not be in another one: its files have names of their own.
                there = [(one, _in_lane(one, passed, life)) for one in group]
                mates = [mate for _, mate in there if mate is not None and mate.same == here.same]
                others = [one for one, mate in there if mate is None or mate.same != here.same]
                if others:
                    waiting.append(others)
                try:
                    self._recover(self._lanes[place], here, mates)
                except BaseException:
                    waiting.clear()
                    raise

        with ThreadPoolExecutor(len(self._lanes)) as pool:
            try:
                list(pool.map(work, range(len(self._lanes))))
            except BaseException:
                # Whoever interrupts this waits for the lives that are lived, and for no other.
                waiting.clear()
                raise
        # What another lane has left when the first one had no more to do.
        work(0)

    def _cover_recovery(self, share: float) -> None:
        if self._recovery is not None and self._ledger.within_budget(share):
            self._plan_recovery(self._recovery)
            self._recovery = None
        waiting = self._waiting_again
        if not waiting:
            return
        self._ledger.begin("crashes while recovering", len(waiting))
        while waiting and self._ledger.within_budget(share):
            group = waiting.pop(0)
            self._recover(self._lanes[0], group[0], group)

    def _plan_recovery(self, first: Crashed) -> None:
        """Recover from a crash, and see what that passes."""
        second = recover(self._lanes[0], first, watched=True)
        if second.failure is not None:
            # The trial of that crash may be of another time, in which it did recover.
            crash = msgspec.structs.replace(first.crashes[-1], recovering=True)
            self._ledger.not_reached.append(NotReached(Planned(crash), f"{NO_RECOVERY}: {second.failure}"))
            return
        batch = first.crashes[-1].batch
        again = replace(profile_of(second), kinds={batch: (AFTER_RESTART,)})
        groups: Groups = {}
        for passed in points_of_the_driver(again, every_batch=True):
            if batch_of(passed.address) != batch:
                continue
            crash = crash_at(again, passed, Victim.DRIVER, recovering=True)
            self._ledger.plan.append(Planned(crash))
            if passed.state is None:
                self._ledger.not_reached.append(NotReached(Planned(crash), passed.why_not))
            else:
                crashed = crashed_again(first, second, passed, crash)
                groups.setdefault(crashed.same, []).append(crashed)
        self._waiting_again = list(groups.values())

    def _recover(self, lane: Lane, crashed: Crashed, group: Sequence[Crashed]) -> None:
        life = recover(lane, crashed)
        run = self._ledger.new_run("state")
        brief = self._brief
        write_run(self._ledger.folder / run, brief.named, lane, crashed, group, life, self._before, brief.seed)
        self._ledger.enter(run, list(dict.fromkeys(one.crashes for one in group)), How.CRASH_STATE)


def _in_lane(crashed: Crashed, passed: Mapping[tuple[Address, int], Passed], life: Life) -> Crashed | None:
    """The same crash, in the reference run of a lane; None where that has no such state."""
    ((where,), (crash,)) = crashed.passed, crashed.crashes
    here = passed.get((where.address, where.again))
    return None if here is None else crashed_in_profile(life, here, crash)
