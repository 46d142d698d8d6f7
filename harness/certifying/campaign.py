"""A campaign: certifies a query within a budget.

1. Two runs without failures, in warm sessions, are the reference. In them every crash point is held once, and what was
   durable there is copied.
2. A plan is made of what they passed.
3. Every crash state is recovered from. What one shows is tried again as a real kill, and is reported only then.
4. Real kills: of executors, Python workers and nodes at the points of tasks, of a sample of the driver's crashes that
   was drawn before, and split brains.
5. A violation that a kill has shown is repeated, and made smaller. The certificate is written.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import TypeVar

from ..addresses import Address
from ..cluster import Cluster
from ..embedded.machine import find_java
from ..embedded.processes import EmbeddedOptions, SparkProcesses
from ..errors import (
    DeadlinePassed,
    InvalidOperator,
    InvalidScenario,
    MissingTool,
    RunFolderInUse,
    StreamproofError,
    UnknownName,
)
from ..inside_spark.agent import fetch_agent
from ..inside_spark.versions import supported
from ..judging.guarantees import Guarantee
from ..judging.references import REFERENCES, collate_references
from ..judging.verdicts import Status
from ..query import Query
from ..recording.history import History
from ..registry import Named, Registry
from ..running import new_run_id
from ..scenario import Scenario
from ..workload import Workload
from .certificate import Certificate, Claimed, Counterexample, with_conclusion, write_certificate
from .conclusion import NotReached, Planned
from .killing import kill, spread, streams
from .lane import Lane, Life, Passed
from .plan import Crash, How, Trial, Victim
from .planning import (
    CrashPlan,
    crash_at,
    every_crash_point,
    of_nodes,
    of_split_brains,
    of_the_driver,
    worst_to_recover_from,
)
from .profile import AFTER_RESTART, NO_DATA, Profile, batch_of, profile_of
from .recovering import Crashed, crashed_again, crashed_in_profile, offered, recover, write_run
from .rejudging import first_wrong, judge_run
from .saved import COUNTEREXAMPLE, KIND, SavedSchedule, write_saved
from .saved import VERSION as SAVED_VERSION
from .shrinking import Reproduction, shrink
from .statistics import Draw

T = TypeVar("T")
LIFE_SECONDS = 120.0
"""How long a life in a lane may take."""
KILLS_A_RUN = 5
REPEATS = 3
"""How often a schedule that violates is run, the first time included."""
EMPTY_ON_START = "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"
UNSYNCED = "The loss of files that were written and not synced to disk, as when the power fails."
NO_AGENT = "Crash points inside Spark, since the agent is missing: {why}"
FIRST_ENTRY = (
    "A driver that dies while it names the first entry of the offset log, without a setting of this campaign "
    f"({EMPTY_ON_START}=false): Spark finds the checkpoint not empty then, and refuses to start any query on it."
)
_SETTINGS = {
    # So that a short stream sees a file sink's log compacted.
    "spark.sql.streaming.fileSink.log.compactInterval": "3",
    EMPTY_ON_START: "false",
}


@dataclass(frozen=True)
class Budget:
    """How much may be spent. What does not fit is said to be not covered."""

    runs: int | None = None
    """Recoveries and runs with kills, at most."""
    minutes: float = 5.0
    kills: int = 10
    """The size of the random sample of real kills."""

    def __post_init__(self) -> None:
        if self.runs is not None and (not isinstance(self.runs, int) or isinstance(self.runs, bool) or self.runs < 1):
            raise InvalidScenario(f"a budget of runs={self.runs!r} needs a positive whole number")
        if not isinstance(self.minutes, int | float) or isinstance(self.minutes, bool) or self.minutes <= 0:
            raise InvalidScenario(f"a budget of minutes={self.minutes!r} needs a number above 0")
        if not isinstance(self.kills, int) or isinstance(self.kills, bool) or self.kills < 0:
            raise InvalidScenario(f"a sample of kills={self.kills!r} needs a whole number that is not negative")


@dataclass(frozen=True)
class Certified:
    """What a campaign has come to."""

    folder: Path
    certificate: Certificate


@dataclass(frozen=True)
class Progress:
    """What the live line of a campaign shows."""

    phase: str
    done: int
    planned: int
    seconds_left: float


def certify(
    query: Query,
    claims: Sequence[Guarantee],
    faults: CrashPlan | None = None,
    *,
    workload: Workload,
    cluster: Cluster,
    registry: Registry,
    budget: Budget | None = None,
    seed: int = 7,
    folder: Path | None = None,
    origin: str = "",
    show: Callable[[Progress], None] = lambda progress: None,
) -> Certified:
    """Certify a query. `origin` is where it can be imported from, if it can.

    Raises a UserMistake for what cannot be certified (InvalidOperator for a query that fails without any fault), and
    OwnFailure for what is not the query's fault; then nothing is left in `folder`.
    """
    claims = tuple(claims) or tuple(claim.guarantee for claim in query.claims)
    _check(query, claims, workload, registry)
    name = new_run_id(query.name)
    path = folder or Path("certificates") / name
    if path.exists() and any(path.iterdir()):
        raise RunFolderInUse(f"{path} is not empty: name another folder for the certificate")
    there = path.exists()
    try:
        campaign = _Campaign(
            name=name,
            query=replace(query, settings={**_SETTINGS, **query.settings}),
            claims=claims,
            faults=faults or every_crash_point(),
            workload=workload,
            cluster=cluster,
            registry=registry,
            budget=budget or Budget(),
            seed=seed,
            folder=path,
            origin=origin,
            show=show,
        )
        return campaign.run()
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        if there:
            path.mkdir(parents=True, exist_ok=True)
        raise


def _check(query: Query, claims: Sequence[Guarantee], workload: Workload, registry: Registry) -> None:
    if not isinstance(query, Query):
        raise InvalidScenario(f"{query!r} is no Query: wrap a function of a DataFrame, as in Query(function)")
    if not claims:
        raise InvalidScenario(
            f"query {query.name!r} claims nothing: say what it promises, as in claims=[exactly_once()]"
        )
    for claim in claims:
        if claim.name not in registry.oracles:
            raise UnknownName("guarantee", claim.name, sorted(registry.oracles))
    workload.check(query.sources)
    supported(version("pyspark"))


@dataclass
class _Campaign:
    name: str
    query: Query
    claims: tuple[Guarantee, ...]
    faults: CrashPlan
    workload: Workload
    cluster: Cluster
    registry: Registry
    budget: Budget
    seed: int
    folder: Path
    origin: str
    show: Callable[[Progress], None]
    plan: list[Planned] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    not_reached: list[NotReached] = field(default_factory=list)
    not_covered: list[str] = field(default_factory=lambda: [UNSYNCED, FIRST_ENTRY])
    durations: dict[str, float] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    exhausted: str = ""
    draw: Draw | None = None
    counterexample: Counterexample | None = None
    _runs: int = 0
    _phase: str = ""
    _expected: int = 0

    def run(self) -> Certified:
        self._began = time.monotonic()
        began = datetime.now(UTC).isoformat(timespec="milliseconds")
        (self.folder / "runs").mkdir(parents=True)
        watches_inside = self._fetch_agent()
        self._batches = self.query.batches(self.workload)
        self._named = self._named_query(self.query, self.workload)
        unjudgeable = ""
        kinds: dict[str, int] = {}
        work = self.folder / "work"
        options = EmbeddedOptions(workers=0)
        try:
            with ExitStack() as stack:
                processes = stack.enter_context(SparkProcesses(f"{self.name}-lanes", work.resolve(), options))
                lanes = [
                    stack.enter_context(self._lane(number, processes, work.resolve(), watches_inside))
                    for number in range(_lanes())
                ]
                lives = self._timed("reference runs", lambda: self._run_references(lanes))
                self._references = [stamped for life in lives for stamped in life.records]
                unjudgeable = self._unjudgeable()
                profile = profile_of(lives[0])
                for batch_kinds in profile.kinds.values():
                    for kind in batch_kinds:
                        kinds[kind] = kinds.get(kind, 0) + 1
                if not unjudgeable:
                    self._make_plan(profile)
                    suspicious = self._timed("crash states", lambda: self._recover_all(lanes, lives, profile))
            if not unjudgeable:
                with self.cluster.kept_warm() as cluster:
                    self._timed("kills", lambda: self._kill(cluster, profile, suspicious))
        finally:
            shutil.rmtree(work, ignore_errors=True)
        self.durations["total"] = time.monotonic() - self._began
        return Certified(self.folder, self._write(began, unjudgeable, kinds))

    # Preparations

    def _fetch_agent(self) -> bool:
        try:
            fetch_agent()
        except MissingTool as error:
            self.not_covered.append(NO_AGENT.format(why=error))
            return False
        return True

    def _named_query(self, query: Query, workload: Workload) -> Named:
        return Named(query.name, self.origin or query.name, "", Scenario(query, workload, claims=self.claims))

    def _lane(self, number: int, processes: SparkProcesses, work: Path, watches_inside: bool) -> Lane:
        spark = supported(version("pyspark"))
        return Lane(number, processes, self.query, self._batches, work, spark, LIFE_SECONDS, watches_inside)

    def _run_references(self, lanes: Sequence[Lane]) -> list[Life]:
        """One life in each of two lanes, or two in one. Raises what the query does wrong without any fault."""
        self._say("runs without failures", len(REFERENCES))

        def live(lane: Lane, actor: str) -> Life:
            lane.await_ready()
            lane.store.clear()
            life = lane.live(actor, actor, 1, watched=True)
            if life.failure is not None:
                raise _without_faults(self.query, life.failure)
            return life

        if len(lanes) == 1:
            return [live(lanes[0], actor) for actor in REFERENCES]
        with ThreadPoolExecutor(len(lanes)) as pool:
            return list(pool.map(live, lanes, REFERENCES))

    def _unjudgeable(self) -> str:
        return collate_references(History(self._references, ()), self.query.shape).unjudgeable

    def _make_plan(self, profile: Profile) -> None:
        of_driver = of_the_driver(profile, self.query.copyable) if Victim.DRIVER in self.faults.victims else []
        self._of_driver = of_driver
        batches = [batch for batch, kinds in sorted(profile.kinds.items()) if NO_DATA not in kinds]
        self._keys = {
            (one.address.point, one.address.side, crash.actor, crash.batch): crash
            for one in reversed(profile.passed)
            for crash in [crash_at(profile, one, Victim.DRIVER)]
        }
        self._of_nodes = spread(of_nodes(profile, self.faults.victims), batches, self._keys)
        self._splits = of_split_brains(profile) if self.faults.split_brain and of_driver else []
        self.plan = [*of_driver, *self._of_nodes, *self._splits]
        if of_driver and self.budget.kills:
            words = f"all {len(of_driver):,} planned crashes of the driver"
            self.draw = Draw.of(words, range(len(of_driver)), self.budget.kills, self.seed)

    # Crash states

    def _recover_all(self, lanes: Sequence[Lane], lives: Sequence[Life], profile: Profile) -> list[Trial]:
        """Recover from every crash state. Returns the trials that show a violation."""
        if not self.query.copyable:
            return []
        groups: dict[tuple[str, int, int], list[Crashed]] = {}
        for one, planned in zip(profile.passed, self._of_driver, strict=False):
            if one.state is None:
                self.not_reached.append(NotReached(planned, one.why_not))
                continue
            crashed = crashed_in_profile(lives[0], one, planned.crash)
            groups.setdefault(crashed.same, []).append(crashed)
        self._say("crash states", len(groups))
        waiting = list(groups.values())
        Random(self.seed).shuffle(waiting)
        before = time.monotonic()
        found: list[Trial] = []
        mirrored = [{passed.address: passed for passed in life.passed if passed.state is not None} for life in lives]

        def work(place: int) -> None:
            lane = lanes[place]
            while waiting and self._within_budget(0.6):
                group = waiting.pop()
                here = _in_lane(group[0], mirrored[place], lives[place])
                if here is None and place:
                    waiting.insert(0, group)
                    return
                found.extend(self._recover(lane, here or group[0], group))

        with ThreadPoolExecutor(len(lanes)) as pool:
            list(pool.map(work, range(len(lanes))))
        if self.faults.recovering and self._of_driver:
            self._recover_again(lanes[0], lives[0], profile, found)
        spent = time.monotonic() - before
        states = sum(trial.how is How.CRASH_STATE for trial in self.trials)
        self.figures["crash states a minute"] = round(60 * len({t.folder for t in self.trials}) / spent, 1)
        self.figures["crash points covered by crash states"] = states
        return [trial for trial in found if Status.VIOLATED in trial.verdicts.values()]

    def _recover(self, lane: Lane, crashed: Crashed, group: Sequence[Crashed], watched: bool = False) -> list[Trial]:
        life = recover(lane, crashed, watched)
        return self._note_recovery(lane, crashed, life, group)

    def _note_recovery(self, lane: Lane, crashed: Crashed, life: Life, group: Sequence[Crashed]) -> list[Trial]:
        folder = self._next_folder("state")
        before = [*offered(self._batches), *self._references]
        write_run(self.folder / folder, self._named, lane, crashed, group, life, before, self.seed)
        judged = judge_run(self.folder / folder, crashed.crashes, self.claims, self.registry.oracles)
        # Between the points of a group nothing happened that outlives a crash: one recovery is that of all.
        trials = [
            Trial(one.crashes, How.CRASH_STATE, folder, judged.statuses, judged.reason, digest=judged.digest)
            for one in group
        ]
        self.trials += trials
        self._tell()
        return trials

    def _recover_again(self, lane: Lane, life: Life, profile: Profile, found: list[Trial]) -> None:
        """Crashes during the recovery from a crash."""
        worst = worst_to_recover_from(profile)
        if worst is None or worst.state is None:
            return
        first = crashed_in_profile(life, worst, crash_at(profile, worst, Victim.DRIVER))
        second = recover(lane, first, watched=True)
        if second.failure is not None:
            found.extend(self._note_recovery(lane, first, second, [first]))
            return
        again = replace(profile_of(second), kinds={batch_of(worst.address): (AFTER_RESTART,)})
        groups: dict[tuple[str, int, int], list[Crashed]] = {}
        for passed in again.passed:
            if batch_of(passed.address) == batch_of(worst.address) and passed.state is not None:
                crash = crash_at(again, passed, Victim.DRIVER, recovering=True)
                crashed = crashed_again(first, second, passed, crash)
                groups.setdefault(crashed.same, []).append(crashed)
                self.plan.append(Planned(crash))
        self._say("crashes while recovering", len(groups))
        for group in groups.values():
            if not self._within_budget(0.7):
                return
            found.extend(self._recover(lane, group[0], group))

    # Kills

    def _kill(self, cluster: Cluster, profile: Profile, suspicious: Sequence[Trial]) -> None:
        for crash in _one_a_point(suspicious):
            if not self._within_budget(1.0):
                return
            if self._confirm(cluster, (Planned(crash),)):
                return
        drawn = [] if self.draw is None else [self._of_driver[place] for place in self.draw.drawn]
        for plan, sampled in ((self._of_nodes, False), (drawn, True), (self._splits, False)):
            runs = list(streams(plan, KILLS_A_RUN))
            self._say("kills of the sample" if sampled else "kills", len(runs))
            for planned in runs:
                if not self._within_budget(1.0):
                    return
                trials = self._try(cluster, planned, sampled)
                violated = any(Status.VIOLATED in trial.verdicts.values() for trial in trials)
                if violated and self._isolate(cluster, planned):
                    return

    def _try(
        self, cluster: Cluster, planned: Sequence[Planned], sampled: bool = False, named: Named | None = None
    ) -> list[Trial]:
        """One run with these kills. Of another query than the campaign's, it has reference runs of its own."""
        folder = self._next_folder("kill")
        crashes = tuple(one.crash for one in planned)
        how = How.SPLIT_BRAIN if planned[0].split_brain else How.KILL
        references = self._references if named is None else ()
        kill(self.folder / folder, named or self._named, planned, cluster, self.registry, references, self.seed)
        # Drawn one by one, several of them can share a run: each is a trial with the verdict of the run.
        tried = [(crash,) for crash in crashes] if sampled else [crashes]
        trials = []
        for one in tried:
            judged = judge_run(self.folder / folder, one, self.claims, self.registry.oracles)
            trials.append(Trial(one, how, folder, judged.statuses, judged.reason, sampled, judged.digest))
        self.trials += trials
        self._tell()
        return trials

    def _isolate(self, cluster: Cluster, planned: Sequence[Planned]) -> bool:
        """Which of the kills of a run it takes."""
        if len(planned) == 1:
            return self._confirm(cluster, planned)
        return any(self._confirm(cluster, (one,)) for one in planned) or self._confirm(cluster, planned)

    def _confirm(self, cluster: Cluster, planned: Sequence[Planned]) -> bool:
        """Whether repeats of a schedule show a violation; then it is made smaller."""
        self._say("confirming", REPEATS)
        shown: list[Trial] = []
        for _ in range(REPEATS):
            (trial,) = self._try(cluster, planned)
            if Status.VIOLATED in trial.verdicts.values():
                shown.append(trial)
            elif not shown:
                return False
        claim = next(name for name, status in shown[-1].verdicts.items() if status is Status.VIOLATED)
        whole = Reproduction(tuple(planned), self.workload.events, self.query.batch_events)
        smallest, trial = self._shrink(cluster, whole, claim, shown[-1])
        self.counterexample = self._story(smallest, trial, claim, len(shown), whole)
        write_saved(self.folder / COUNTEREXAMPLE, self._saved(smallest))
        return True

    def _shrink(self, cluster: Cluster, whole: Reproduction, claim: str, last: Trial) -> tuple[Reproduction, Trial]:
        self._say("shrinking", 0)
        trial = last

        def shows(smaller: Reproduction) -> bool:
            nonlocal trial
            if not self._within_budget(1.0):
                return False
            query = replace(self.query, batch_events=smaller.batch_events)
            named = self._named_query(query, replace(self.workload, events=smaller.events))
            try:
                (tried,) = self._try(cluster, smaller.planned, named=named)
            except StreamproofError:
                # A smaller input may be none that the query can do, or none that fits what is shared of a run.
                return False
            if tried.verdicts.get(claim) is not Status.VIOLATED:
                return False
            trial = tried
            return True

        return shrink(whole, self._keys, shows), trial

    def _story(
        self, smallest: Reproduction, trial: Trial, claim: str, shown: int, whole: Reproduction
    ) -> Counterexample:
        judged = judge_run(self.folder / trial.folder, trial.crashes, self.claims, self.registry.oracles)
        first = first_wrong(next(one for one in judged.verdicts if str(one.guarantee) == claim))
        anomaly, wrong = ("", "") if first is None else (str(first[0].anomaly), first[1].what)
        batch = trial.crashes[0].batch
        begin = batch * smallest.batch_events + 1
        end = min(begin + smallest.batch_events - 1, smallest.events)
        return Counterexample(
            claim=claim,
            crashes=trial.crashes,
            how=trial.how,
            events=smallest.events,
            batch_events=smallest.batch_events,
            anomaly=anomaly,
            wrong=wrong,
            input=f"events {begin:,} to {end:,} of the source" if begin <= end else "",
            batch=batch,
            folder=trial.folder,
            violated=shown,
            repeats=REPEATS,
            command=f"streamproof replay {self.folder / COUNTEREXAMPLE} --cluster {self.cluster.name}",
            crashes_before=len(whole.planned),
            events_before=whole.events,
        )

    def _saved(self, found: Reproduction) -> SavedSchedule:
        return SavedSchedule(
            kind=KIND,
            version=SAVED_VERSION,
            origin=self.origin,
            subject=self.query.describe(),
            workload=self.workload.name,
            seed=self.seed,
            workload_seed=self.workload.seed,
            events=found.events,
            batch_events=found.batch_events,
            claims=tuple(Claimed.of(claim) for claim in self.claims),
            planned=found.planned,
        )

    # Accounts

    def _next_folder(self, kind: str) -> str:
        self._runs += 1
        number = sum(1 for _ in (self.folder / "runs").iterdir()) + 1
        folder = f"runs/{kind}-{number:04d}"
        (self.folder / folder).mkdir()
        return folder

    def _within_budget(self, share: float) -> bool:
        if self.budget.runs is not None and self._runs >= self.budget.runs:
            self.exhausted = f"runs: {self.budget.runs:,}"
            return False
        if time.monotonic() - self._began >= 60 * self.budget.minutes * share:
            self.exhausted = f"minutes: {self.budget.minutes:g}"
            return False
        return True

    def _timed(self, part: str, work: Callable[[], T]) -> T:
        before = time.monotonic()
        try:
            return work()
        finally:
            self.durations[part] = time.monotonic() - before

    def _say(self, phase: str, expected: int) -> None:
        self._phase, self._expected, self._done = phase, expected, 0
        self._tell(0)

    def _tell(self, more: int = 1) -> None:
        self._done += more
        left = max(0.0, 60 * self.budget.minutes - (time.monotonic() - self._began))
        self.show(Progress(self._phase, self._done, self._expected, left))

    def _write(self, began: str, unjudgeable: str, kinds: Mapping[str, int]) -> Certificate:
        scenario = self._named.scenario
        workload = {"name": self.workload.name, "events": self.workload.events, "seed": self.workload.seed}
        certificate = Certificate(
            version=1,
            seal="",
            name=self.name,
            began=began,
            subject=self.query.describe(),
            workload=workload,
            claims=tuple(Claimed.of(claim) for claim in self.claims),
            seed=self.seed,
            cluster=dict(self.cluster.describe(scenario)),
            settings=dict(self.query.settings),
            versions={
                "streamproof": version("streamproof"),
                "pyspark": version("pyspark"),
                "python": platform.python_version(),
                "java": str(find_java().version),
            },
            machine={"system": platform.platform(), "cores": os.cpu_count() or 0, "byteorder": sys.byteorder},
            budget={"runs": self.budget.runs, "minutes": self.budget.minutes, "kills": self.budget.kills},
            exhausted=self.exhausted,
            not_covered=tuple(self.not_covered),
            batches=dict(kinds),
            plan=tuple(self.plan),
            not_reached=tuple(self.not_reached),
            trials=tuple(self.trials),
            unjudgeable=unjudgeable,
            draw=self.draw,
            verdicts=(),
            coverage=(),
            bounds=(),
            counterexample=self.counterexample,
            durations={part: round(spent, 2) for part, spent in self.durations.items()},
            figures=self.figures,
            files={},
        )
        return write_certificate(self.folder, with_conclusion(certificate))


def _lanes() -> int:
    """Two, where there are cores for it: each reference run has its own."""
    return min(2, os.cpu_count() or 1)


def _without_faults(query: Query, error: StreamproofError) -> StreamproofError:
    if isinstance(error, DeadlinePassed):
        return InvalidOperator(
            f"query {query.name!r} does not come to the end of its input without any fault: waited "
            f"{error.seconds:g} s; {error.seen}"
        )
    return error


def _in_lane(crashed: Crashed, passed: Mapping[Address, Passed], life: Life) -> Crashed | None:
    """The same crash, in the reference run of a lane."""
    ((where,), (crash,)) = crashed.passed, crashed.crashes
    here = passed.get(where.address)
    return None if here is None else crashed_in_profile(life, here, crash)


def _one_a_point(trials: Sequence[Trial]) -> Iterator[Crash]:
    """Of the crashes that violate, one of each kind of point."""
    seen = set()
    for trial in sorted(trials, key=lambda trial: (len(trial.crashes), trial.crashes[-1].batch)):
        crash = trial.crashes[-1]
        if (at := (crash.point, crash.side)) not in seen and len(trial.crashes) == 1:
            seen.add(at)
            yield crash
