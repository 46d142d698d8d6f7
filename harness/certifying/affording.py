"""What is left to be done in a campaign, how long it takes, and what of it fits into the time."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from ..judging.statistics import KillSample
from .campaign_state import COMPARED, RECOVERY, RUN, START, CampaignState
from .certificate import More
from .conclusion import Planned, lines_of
from .covering import Covering
from .killing import streams
from .proving import Kills, kills_a_run
from .recovery_worker_kills import by_where_it_dies
from .request import CampaignRequest
from .so_far import go_on_command

SAFETY = 1.3
"""By how much what is planned into the time is taken to be longer than it is thought to be."""
KILL, GUESSED_RUN, GUESSED_RECOVERY = 10.0, 60.0, 2.0
"""Seconds: what the kill of a driver makes a run longer; what a run, and a recovery, take before one was seen."""
FEWER_DRAWN = (
    "More random kills: {asked} were asked for, and {size} drawn, as many as fit into the time. A sample is drawn once "
    "for a campaign: no more are drawn where it goes on."
)
NONE_DRAWN = (
    "Random kills: {asked} were asked for, and not one fits into the time, so none was drawn. Where the campaign goes "
    "on, they are drawn then."
)


class Affording:
    """Of one campaign."""

    def __init__(
        self,
        state: CampaignState,
        request: CampaignRequest,
        coverings: Sequence[Covering],
        kills: Kills,
        of_driver: Sequence[Planned],
    ) -> None:
        """`coverings` recover from what they have, `of_driver` is what a sample is drawn from."""
        self._state = state
        self._request = request
        self._coverings = coverings
        self._kills = kills
        self._of_driver = of_driver

    def draw(self) -> None:
        """The sample, once for a campaign, of which its time is known now: as large as was asked for, or as fits."""
        state, of_driver = self._state, self._of_driver
        asked = state.budget.kills
        if state.draw is not None and state.draw.size < asked:
            # In an earlier part of the campaign.
            state.not_covered.insert(0, FEWER_DRAWN.format(asked=asked, size=state.draw.size))
        if state.draw is not None or not of_driver or not asked:
            return
        those = set(of_driver)
        places = [place for place, line in enumerate(state.plan) if line in those]
        population = f"all {len(places):,} planned crashes of the driver, up to {self._a_run} along one stream"

        def fits(size: int) -> bool:
            drawn = [state.plan[place] for place in KillSample.of(population, places, size, self._request.seed).drawn]
            runs = state.runs_left
            if runs is not None and self._runs_of(drawn) > runs:
                return False
            return SAFETY * self.seconds_of(drawn) <= self._time_for_sample()

        size = bisect_left(range(1, asked + 1), True, key=lambda size: not fits(size))
        if size < asked:
            said = FEWER_DRAWN if size else NONE_DRAWN
            state.not_covered.insert(0, said.format(asked=asked, size=size))
        if size:
            state.fix(KillSample.of(population, places, size, self._request.seed))

    def _time_for_sample(self) -> float:
        """Seconds: what is left without what no claim holds without. Where that has no time either, a third."""
        left = self._state.left
        recovery = self._state.pace(RECOVERY) or 0.0
        needed = recovery * sum(one.recoveries_left(False) for one in self._coverings)
        return left - needed if needed <= 2 * left / 3 else left / 3

    def sample(self) -> list[Planned]:
        """What was drawn and not tried."""
        state = self._state
        if state.draw is None:
            return []
        tried = Counter(trial.crashes[0] for trial in state.trials if trial.sampled)
        left = []
        for line in (state.plan[place] for place in state.draw.drawn):
            if tried[line.crash]:
                tried[line.crash] -= 1
            else:
                left.append(line)
        return left

    @property
    def _a_run(self) -> int:
        return kills_a_run(self._state.claims)

    def _runs_of(self, kills: Sequence[Planned]) -> int:
        here, there = by_where_it_dies(self._request.query, kills)
        return sum(1 for some in (here, there) for _ in streams(some, self._a_run))

    def seconds_of(self, kills: Sequence[Planned]) -> float:
        """About what they take."""
        state = self._state
        # The first one has waited for its cluster, and others were longer by their kills.
        known = [pace for pace in (state.pace(RUN), state.pace(COMPARED)) if pace is not None]
        run = min(known, default=GUESSED_RUN)
        return self._runs_of(kills) * run + KILL * len(kills)

    def more(self) -> More | None:
        """What more time would buy; None where nothing is left that it would."""
        state = self._state
        tried = {line for trial in state.trials if not trial.missed for line in lines_of(trial)}
        missed = {one.planned for one in state.not_reached}
        untried = [line for line in state.plan if line not in tried and line not in missed]
        recoveries = sum(one.recoveries_left() for one in self._coverings)
        of_kills = set(self._kills.lines)
        kills = state.unkilled([line for line in untried if line in of_kills])
        sample = self.sample()
        if not (untried or recoveries or kills or sample):
            return None
        recovery = state.pace(RECOVERY) or GUESSED_RECOVERY
        seconds = recovery * sum(one.likely_left() for one in self._coverings)
        needed = recovery * sum(one.likely_left(False) for one in self._coverings)
        before = (state.pace(START) or 0.0) + self.seconds_of(kills)
        if kills or sample:
            before += state.pace(COMPARED) or GUESSED_RUN
        minutes = _minutes(before + seconds + self.seconds_of(sample))
        for_verdicts = _minutes(before + needed)
        # Where no verdict rests on what is left, there is nothing to tell apart.
        fewer = for_verdicts if (needed or kills) and for_verdicts < minutes else 0
        command = f"{go_on_command(state.folder)} --minutes {fewer or minutes}" if self._request.origin else ""
        # What was not reached counts as planned, though it may stand in no plan.
        planned = len({*state.plan, *missed})
        return More(len(untried), planned, len(sample), minutes, command, fewer)


def _minutes(seconds: float) -> int:
    return max(1, math.ceil(SAFETY * seconds / 60))
