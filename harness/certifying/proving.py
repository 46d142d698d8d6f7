"""Proves by real kills: confirms what crash states show, tries what only a kill can show, makes small what violates."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..core.addresses import Point
from ..core.errors import StreamproofError
from ..core.guarantees import Guarantee
from ..core.result_bounds import measured_among
from ..core.verdicts import Status
from ..recording.claims_and_faults import SavedClaim
from ..recording.records import Stamped
from ..worlds.embedded.cluster import EmbeddedCluster
from .campaign_state import COMPARED, RUN, CampaignState, violates
from .certificate import WITHOUT_FAILURES, QueryCounterexample
from .conclusion import NotReached, Planned
from .killing import RunUnderCrashes, streams
from .messages import foremost
from .plan import Crash, CrashTrial, How
from .recovery_worker_kills import is_replayed_here
from .rejudging import first_wrong
from .request import CampaignRequest
from .saved import COUNTEREXAMPLE, KIND, SavedSchedule, write_saved
from .saved import VERSION as SAVED_VERSION
from .shrinking import CrashPlace, Reproduction, shrink_kills

KILLS_A_RUN = 6
"""At most. Where a claim bounds what a crash leaves, it is one: of several nobody could say which has left it."""
ELSEWHERE = "without any failure, the query gives something else on the cluster than with one task at a time"
NO_END = "without any failure, the query does not come to the end of its input on the cluster"
REPEATS = 3
"""How often a schedule that violates is run, the first time included."""


@dataclass(frozen=True)
class Kills:
    """What is planned to be tried by kills."""

    of_nodes: Sequence[Planned]
    splits: Sequence[Planned]
    keys: Mapping[CrashPlace, Crash]
    """The points that the batches of a run pass."""
    in_recovery_workers: Sequence[Planned] = ()

    @property
    def lines(self) -> tuple[Planned, ...]:
        return (*self.in_recovery_workers, *self.of_nodes, *self.splits)

    @property
    def here_first(self) -> list[Planned]:
        """Of those in recovery workers, what is tried before a cluster comes up. Where tasks send messages, that is
        messages alone: those of tasks show more than all the rest, and are next."""
        by_tasks = any(one.crash.point is Point.MESSAGE for one in self.of_nodes)
        return [one for one in self.in_recovery_workers if not by_tasks or one.crash.point is Point.MESSAGE]


class Proving:
    """The part of a campaign that kills."""

    def __init__(
        self,
        state: CampaignState,
        request: CampaignRequest,
        kill: RunUnderCrashes,
        cluster: str,
        references: Sequence[Stamped],
        kills: Kills,
    ) -> None:
        """`cluster` is the name of that on which a counterexample is to be replayed."""
        earlier = state.earlier
        self._part = "" if earlier is None else f"-{len(earlier.parts) + 1}"
        self._state = state
        self._request = request
        self._carry_out = kill
        self._cluster = cluster
        self._references = references
        self._kills = kills
        self._killed = 0
        self._seconds = 0.0

    def compare(self) -> str:
        """Run the query on the cluster without any fault, where tasks run at once and not one after the other as in a
        recovery worker. Returns why its kills could not be judged by the reference runs; empty where they can."""
        if not self._state.within_budget():
            return ""
        self._state.begin("a run without failures on the cluster", 1)
        # It tries nothing, and counts as no run.
        run = f"{WITHOUT_FAILURES}{self._part}"
        before = time.monotonic()
        self._kill(run, self._request, (), self._references)
        self._state.took(COMPARED, 1, time.monotonic() - before)
        judged = self._state.judge(run, ())
        for verdict in judged.verdicts:
            if verdict.status is Status.VIOLATED:
                first = first_wrong(verdict)
                shown = "" if first is None else f": {first[1].what}"
                return f"{ELSEWHERE}{shown}"
        return f"{NO_END}: {judged.collation.incomplete}" if judged.collation.incomplete else ""

    def confirm(self, suspicious: Sequence[CrashTrial]) -> None:
        """What crash states have shown, of each claim, until the budget is spent."""
        self._timed(lambda: self._confirm_any(suspicious))

    def take_up(self, shown: Sequence[CrashTrial]) -> None:
        """What real trials of an earlier part of the campaign have shown, and nobody has repeated or made small."""
        schedules = dict.fromkeys(
            (trial.crashes, trial.how) for trial in sorted(shown, key=lambda one: len(one.crashes))
        )

        def repeat() -> None:
            for crashes, how in schedules:
                planned = tuple(Planned(crash, how is How.SPLIT_BRAIN) for crash in crashes)
                if self._state.within_budget() and self._isolate(planned):
                    return

        self._timed(repeat)

    def prove_foremost(self) -> None:
        """What shows soonest that a sink is wrong to which tasks send messages."""
        if first := self._state.untried(foremost(self._kills.of_nodes, self._request.query)):
            self._timed(lambda: self._try_all({"messages": first}, False))

    def prove(self) -> None:
        """Until a violation is confirmed, what is planned is done, or the budget is spent."""
        left = self._state.untried(self._kills.of_nodes)
        self._timed(lambda: self._try_all({"kills": left, "split brains": self._kills.splits}, False))

    def try_here(self, phase: str, planned: Sequence[Planned], share: float = 1.0) -> None:
        """In a recovery worker, until a violation is confirmed, these are done, or that share of the budget is
        spent."""
        # How long they take says nothing of what runs on a cluster take.
        self._try_all({phase: planned}, False, share)

    def sample(self, drawn: Sequence[Planned], share: float) -> None:
        """Until a violation is confirmed, the sample is done, or that share of the budget is spent."""
        self._timed(lambda: self._try_all({"the sample": drawn}, True, share))

    def tell(self, claim: str, shown: Sequence[CrashTrial]) -> None:
        """Of losses of power that violate a claim, the first, as it is: nothing is made smaller."""
        first = shown[0]
        same = sum(one.crashes == first.crashes for one in shown)
        planned = tuple(map(Planned, first.crashes))
        whole = _whole(self._request, planned)
        self._state.found(self._story(whole, first, claim, (same, same), whole))
        write_saved(self._state.folder / COUNTEREXAMPLE, self._saved(whole))

    def _timed(self, work: Callable[[], object]) -> None:
        before, known = time.monotonic(), len(self._state.trials)
        work()
        spent = time.monotonic() - before
        self._seconds += spent
        self._state.took(RUN, len({trial.folder for trial in self._state.trials[known:]}), spent)
        self._killed += sum({trial.folder: len(trial.crashes) for trial in self._state.trials[known:]}.values())
        if self._killed:
            self._state.figures["real kills a minute"] = round(60 * self._killed / self._seconds, 1)

    def _confirm_any(self, suspicious: Sequence[CrashTrial]) -> None:
        """One of what crash states showed, of each claim, since one says nothing of another."""
        for claim in map(str, self._state.claims):
            showing = [trial for trial in suspicious if trial.verdicts.get(claim) is Status.VIOLATED]
            for planned in _one_a_point(showing):
                if not self._state.within_budget() or self._state.is_confirmed(claim):
                    break
                self._confirm(planned)

    def _try_all(self, phases: Mapping[str, Sequence[Planned]], sampled: bool, share: float = 1.0) -> None:
        for phase, plan in phases.items():
            first = () if sampled else foremost(plan, self._request.query)
            runs = list(streams(plan, kills_a_run(self._state.claims), first))
            self._state.begin(phase, len(runs))
            for planned in runs:
                if not self._state.within_budget(share):
                    return
                trials = self._try(planned, sampled)
                if any(map(violates, trials)):
                    found = self._isolate(planned)
                else:
                    # Those that were drawn are what they are; what else is planned stays open without them.
                    short = any(trial.missed for trial in trials) if sampled else any(map(self._fell_short, trials))
                    found = short and self._try_apart(planned, sampled)
                if found:
                    return

    def _try(
        self, planned: Sequence[Planned], sampled: bool = False, other: CampaignRequest | None = None
    ) -> list[CrashTrial]:
        """One run with these kills. With another query or input than the campaign's, it has reference runs of its
        own."""
        run = self._state.new_run("kill")
        references = self._references if other is None else ()
        try:
            self._kill(run, other or self._request, planned, references)
        except StreamproofError as error:
            # What did not come about says nothing of the query, and what was found before still stands.
            lines = (one for one in planned if one in self._state.plan)
            self._state.not_reached += [NotReached(one, str(error)) for one in lines]
            return []
        crashes = tuple(one.crash for one in planned)
        how = How.SPLIT_BRAIN if planned[0].split_brain else How.KILL
        # Drawn one by one, several of them can share a run: each is a trial with the verdict of the run.
        return self._state.enter(run, [(crash,) for crash in crashes] if sampled else [crashes], how, sampled)

    def _kill(
        self, run: str, request: CampaignRequest, planned: Sequence[Planned], references: Sequence[Stamped]
    ) -> None:
        """Raises what whoever carries it out raises."""
        self._carry_out(self._state.folder / run, request, planned, references)

    def _isolate(self, planned: Sequence[Planned]) -> bool:
        """Which of the kills of a run it takes."""
        alone = ((one,) for one in planned if len(planned) > 1)
        return any(self._state.within_budget() and self._confirm(one) for one in (*alone, planned))

    def _fell_short(self, trial: CrashTrial) -> bool:
        """Whether a kill missed, or the run came to no end: one is enough for that, and says nothing of the others."""
        if Status.UNKNOWN not in trial.verdicts.values():
            return False
        collation = self._state.judge(trial.folder, trial.crashes).collation
        return bool(collation.unproven or collation.incomplete)

    def _try_apart(self, planned: Sequence[Planned], sampled: bool) -> bool:
        """Each of them alone, and out of the sample. Whether a violation is confirmed."""
        for one in planned if sampled or len(planned) > 1 else ():
            if not self._state.within_budget():
                return False
            if any(map(violates, self._try((one,)))) and self._confirm((one,)):
                return True
        return False

    def _confirm(self, planned: Sequence[Planned]) -> bool:
        """Whether repeats of a schedule show a violation; then it is made smaller."""
        self._state.begin("confirming", REPEATS)
        shown: list[CrashTrial] = []
        repeats = 0
        while repeats < REPEATS and (not repeats or self._state.within_budget()):
            found = [trial for trial in self._try(planned) if violates(trial)]
            repeats += 1
            if not found and not shown:
                return False
            shown += found
        claim = next(name for name, status in shown[-1].verdicts.items() if status is Status.VIOLATED)
        whole = _whole(self._request, tuple(planned))
        if self._state.counterexample is not None:
            # Of the first claim that is violated there is one.
            return True
        smallest, trial = self._shrink(whole, claim, shown[-1])
        self._state.found(self._story(smallest, trial, claim, (len(shown), repeats), whole))
        write_saved(self._state.folder / COUNTEREXAMPLE, self._saved(smallest))
        return True

    def _shrink(self, whole: Reproduction, claim: str, last: CrashTrial) -> tuple[Reproduction, CrashTrial]:
        self._state.begin("shrinking", 0)
        trial = last

        def shows(smaller: Reproduction) -> bool:
            nonlocal trial
            if not self._state.within_budget():
                return False
            query = replace(self._request.query, batch_events=smaller.batch_events)
            workload = replace(self._request.workload, events=smaller.events)
            tried = self._try(smaller.planned, other=replace(self._request, query=query, workload=workload))
            if not tried or tried[0].verdicts.get(claim) is not Status.VIOLATED:
                return False
            trial = tried[0]
            return True

        return shrink_kills(whole, self._kills.keys, shows), trial

    def _story(
        self, smallest: Reproduction, trial: CrashTrial, claim: str, shown: tuple[int, int], whole: Reproduction
    ) -> QueryCounterexample:
        """`shown` is how many repeats of the whole showed it, and of how many."""
        judged = self._state.judge(trial.folder, trial.crashes)
        first = first_wrong(next(one for one in judged.verdicts if str(one.guarantee) == claim))
        anomaly, wrong = ("", "") if first is None else (str(first[0].anomaly), first[1].what)
        batch = trial.crashes[0].batch
        begin = batch * smallest.batch_events + 1
        end = min(begin + smallest.batch_events - 1, smallest.events_fed)
        # What was made smaller has been run once.
        (violated, repeats), before = (shown, (0, 0)) if smallest == whole else ((1, 1), shown)
        return QueryCounterexample(
            claim=claim,
            crashes=trial.crashes,
            how=trial.how,
            events=smallest.events_fed,
            batch_events=smallest.batch_events,
            anomaly=anomaly,
            wrong=wrong,
            input=f"events {begin:,} to {end:,} of the source" if begin <= end else "",
            batch=batch,
            folder=trial.folder,
            violated=violated,
            repeats=repeats,
            command=self._command(smallest),
            crashes_before=len(whole.planned),
            events_before=whole.events_fed,
            violated_before=before[0],
            repeats_before=before[1],
        )

    def _command(self, found: Reproduction) -> str:
        """A query that was handed over in a program can be found by nobody else."""
        file = self._state.folder / COUNTEREXAMPLE
        if not self._request.origin:
            return f'# in a test: streamproof.survives("{file}", query)'
        here = is_replayed_here(self._request.query, found.planned)
        cluster = EmbeddedCluster.name if here else self._cluster
        return f"streamproof replay {shlex.quote(str(file))} --cluster {cluster}"

    def _saved(self, found: Reproduction) -> SavedSchedule:
        request = self._request
        return SavedSchedule(
            kind=KIND,
            version=SAVED_VERSION,
            origin=request.origin,
            subject=request.query.describe(),
            workload=request.workload.name,
            fed_from=request.fed_from,
            seed=request.seed,
            workload_seed=request.workload.seed,
            events=found.events,
            batch_events=found.batch_events,
            claims=tuple(SavedClaim.of(claim) for claim in request.claims),
            planned=found.planned,
        )


def _whole(request: CampaignRequest, planned: tuple[Planned, ...]) -> Reproduction:
    """On all of its input."""
    query = request.query
    return Reproduction(planned, request.workload.events, query.batch_events, query.source is not None)


def kills_a_run(claims: Sequence[Guarantee]) -> int:
    """At most."""
    return 1 if measured_among(claims) else KILLS_A_RUN


def _one_a_point(trials: Sequence[CrashTrial]) -> Iterator[tuple[Planned, ...]]:
    """Of the schedules that violate, one for each kind of point where the last crash strikes, in each order of tasks,
    the shortest first; and of those that a recovery stands for, one at a line of the user's code, which says most."""
    seen = set()

    def order(trial: CrashTrial) -> tuple[int, int, bool]:
        last = trial.crashes[-1]
        return len(trial.crashes), last.batch, last.point is not Point.LINE

    for trial in sorted(trials, key=order):
        crash = trial.crashes[-1]
        if (at := (crash.point, crash.side, crash.name, crash.last_first)) not in seen:
            seen.add(at)
            yield tuple(map(Planned, trial.crashes))
