"""A campaign: certifies a query within a budget.

1. Two runs without failures, in warm sessions, are the reference. In them every crash point is noted once,
   with what was durable there.
2. A plan is made of what they passed.
3. A query that brings code of a library, or calls what is in the JVM itself, is killed for real in a recovery worker
   where nothing is to be done again after it, and where a whole batch is, and goes on in a new JVM: what is kept in a
   JVM's memory and a crash forgets no crash state shows. So is one that keeps anything in a store outside, which cannot
   be copied, at its driver's lines, files and messages, some of which are lost as well.
4. Crash states are recovered from (`covering`), the most telling first, as far as their share of the time goes. As soon
   as one shows a violation, it is tried again as a real kill in a recovery worker, repeated and made smaller, and is
   reported only then. Once each claim that somebody has made is violated, the campaign is over, unless it is asked to
   go on. Where it is claimed that a query survives losses of power, those are tried next (`losing_power`).
5. Real kills on the cluster (`proving`): of executors, Python workers and nodes at the points of tasks, and split
   brains.
6. The crash states that are left, in what time there is; then a sample of the driver's crashes that was drawn before,
   each as a real kill.
7. The certificate is written.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import msgspec

from ..contracts.cluster import Cluster
from ..contracts.query import Query
from ..contracts.registry import Registry
from ..contracts.scenario import Scenario
from ..core.addresses import TASK
from ..core.errors import (
    InvalidScenario,
    NothingLeft,
    ScenarioChanged,
)
from ..core.guarantees import Guarantee
from ..core.verdicts import Status
from ..core.workload import Workload
from ..crash_points.inside_spark.versions import supported
from ..install.machine import find_java
from ..install.spark_choice import chosen_version
from ..judging.references import collate_references
from ..recording.claims_and_faults import SavedClaim
from ..recording.folder import make_folder
from ..recording.history import History
from ..recording.records import Stamped
from ..running.run import check_scenario, new_run_id
from ..worlds.embedded.cluster import EmbeddedCluster
from .affording import SAFETY, Affording
from .attempts import Attempt
from .blind_spots import (
    note_background,
    note_clock,
    note_code_in_c,
    note_data_sources,
    note_equal_rows,
    note_errors,
    note_loops,
    note_memory,
    note_messages,
    note_numbers,
    note_order,
    note_side_by_side,
    note_tasks,
    note_unpassed_hooks,
    note_unpassed_points,
    note_watched,
    note_whereabouts,
    watches_inside,
)
from .budget import Budget, CampaignProgress
from .campaign_state import ALL_VIOLATED, START, CampaignState
from .certificate import VERSION, Asked, CampaignPart, Certificate, More, with_conclusion, write_certificate
from .coming_back import stated_in, with_recovers, with_stated_time
from .conclusion import NotReached, Planned, lines_of, showing
from .continuing import (
    NOT_PASSED,
    check_code,
    check_same,
    clear_up,
    code_of,
    is_driver_alone,
    nothing_left,
    read_earlier,
    versions_here,
    why_other,
)
from .covering import NEVER_RECOVERING, Covering
from .drawing import write_look
from .errors_left import check_bounds, check_measured, not_measured
from .folders import check_unused
from .journal import Journal, is_under_way
from .killing import on_cluster, spread
from .losing_power import ByLoss, not_lost, plan_losses
from .messages import messages_first
from .never_run import lines_never_run
from .plan import Crash, CrashTrial, How, Victim
from .plan_limits import left_out
from .planning import (
    CrashPlan,
    after_effects_of_tasks,
    crash_at,
    effects_of_tasks_first,
    every_crash_point,
    in_other_order,
    of_answers,
    of_disks,
    of_nodes,
    of_restarts,
    of_split_brains,
    of_the_driver,
    points_of_the_driver,
    replays_first,
)
from .profile import NO_DATA, POINTS, Profile, profile_of, write_points
from .proving import Kills, Proving
from .recovering import offered
from .recovery_worker import RecoveryWorker
from .recovery_worker_kills import RecoveryWorkerKiller, by_where_it_dies, keeps_in_the_jvm
from .reference_runs import open_recovery_workers, run_in_other_order, run_references
from .rejudging import check_trials
from .request import CampaignRequest
from .seen_outside import uncut_of
from .shrinking import CrashPlace, crash_places
from .task_order import AttemptAt, come_last_first, has_order, points_of_other_order
from .waiting import Waiting
from .within_calls import of_calls

SHARES = (0.6, 0.7)
"""Of the time of a campaign, by when crash states of single crashes, and of crashes while recovering, let kills go
first."""
SHARES_WITH_TASKS = (0.4, 0.45)
"""The same, where tasks leave something durable: that a task which is done again leaves it twice, kills alone show, and
they take long."""
HERE_FIRST = 0.5
"""The same, of kills in a recovery worker, where no crash states can be recovered from."""
POWER_SHARE = 0.8
"""The same, of losses of power."""
LATER_SHARE = 0.5
"""The same, of crash states for which others stand."""
LAST_SHARE = 0.95
"""The same, once kills are done, less what the sample takes: what is left then confirms what they show."""
OVERRUN = 1.1
"""Of the time of a campaign, by when a sample that was begun has to end."""
GO_ON = "what was tried counts; go on with: streamproof certify --continue {folder}"
KEPT = "what was tried is in {folder}; to draw how far it came: streamproof report {folder}"
"""Of a query that was made in a program: it has no name by which it could be gone on with."""
EMPTY_ON_START = "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"
UNSYNCED = "The loss of files that were written and not synced to disk, as when the power fails."
NO_FILES = (
    "What lies between two points at which Spark or the user's code says where it is: file operations are no crash "
    "points here, since {why}. Nor do the states have the times of folders, or of files when they were last looked at "
    "or touched without being changed."
)
IN_THE_JVM = (
    "What a library, or code that calls what is in the JVM, keeps in the memory of its JVM and a crash forgets: crash "
    "states are recovered from in a JVM that has run the query before. Real kills forget it too. Nor is all seen that "
    "such code does outside of the run's folders: connections that it keeps are, files whose paths Python hands over, "
    "and programs, threads and connections that Python asks for by their class; a connection that is opened and closed "
    "within a batch is not."
)
BEFORE_A_KILL = (
    "What a library keeps in the memory of its JVM from one run to the next: the driver is killed at operations on "
    "files and at lines in a JVM that may have run the query before. The one in which it goes on is new."
)
WITH_ITS_TASKS = (
    "Tasks that outlive a driver which dies at its own lines and messages, and go on with what it had them do: there, "
    "it dies together with them. It dies alone at Spark's own points, and where tasks send messages."
)
ONE_AFTER_ANOTHER = (
    "What a death of the driver leaves wrong and a later start of the query puts right: several deaths share a run, "
    "each in a batch of its own, and what the table has at its end is compared."
)
ALWAYS_WRONG = "What is wrong without any failure, too: two runs without failures say what is right."
AS_READ = f"{ALWAYS_WRONG} Of the sink, they say what `read` gives: what that leaves out or puts right is not compared."
KEPT_OUTSIDE = (
    "; what the query does outside of the run's folders is still there in the next run, which may be why: {effects}. "
    "Keep it in the folders that the run hands over (folders.sink), or declare it as a Store with a reset"
)
MOST_NAMED = 5
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
class Certified:
    """What a campaign has come to."""

    folder: Path
    certificate: Certificate


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
    fed_from: str = "",
    show: Callable[[CampaignProgress], None] = lambda progress: None,
) -> Certified:
    """Certify a query. `origin` is where it can be imported from, if it can, and `fed_from` where its workload can, if
    that is not what it is fed anyway.

    Raises a UserMistake for what cannot be certified (InvalidOperator for a query that fails without any fault), and
    OwnFailure for what is not the query's fault; then nothing is left in `folder`.
    """
    if not isinstance(query, Query):
        raise InvalidScenario(f"{query!r} is no Query: wrap a function of a DataFrame, as in Query(function)")
    claims = tuple(claims) or tuple(claim.guarantee for claim in query.claims)
    _check(query, claims, workload, cluster, registry)
    named = frozenset(claim.name for claim in claims)
    claims = with_recovers(claims)
    name = new_run_id(query.name)
    path = folder or Path("certificates") / name
    check_unused(path)
    there = path.exists()
    query = replace(query, settings={**_SETTINGS, **query.settings})
    state = CampaignState(path, claims, registry.oracles, budget or Budget(), show, not_covered=_set_aside(query))
    request = CampaignRequest(query, workload, claims, registry, seed, origin, fed_from)
    try:
        return Certified(path, _run(name, request, faults or every_crash_point(), cluster, state, named))
    except BaseException as error:
        if is_under_way(path) and state.trials:
            error.add_note((GO_ON if origin else KEPT).format(folder=shlex.quote(str(path))))
            raise
        shutil.rmtree(path, ignore_errors=True)
        if there:
            path.mkdir(parents=True, exist_ok=True)
        raise


def _set_aside(query: Query) -> list[str]:
    """What does not happen to a query with its settings and those of a campaign."""
    return [] if query.settings[EMPTY_ON_START].lower() == "true" else [FIRST_ENTRY]


def go_on(
    folder: Path,
    query: Query,
    *,
    workload: Workload,
    cluster: Cluster,
    registry: Registry,
    budget: Budget | None = None,
    show: Callable[[CampaignProgress], None] = lambda progress: None,
) -> Certified:
    """Go on with the campaign in a certificate's folder, which may have been interrupted: what it has tried counts,
    what is left is tried, and the certificate is written anew.

    Raises NothingLeft where it came to its end, ScenarioChanged where query, input, Spark or streamproof are others
    than those that it was begun with, AlteredCertificate where its trials are not what their runs come to,
    RunFolderInUse where it is still going on, and what `certify` raises.
    """
    earlier = read_earlier(folder)
    certificate, asked = earlier.certificate, earlier.asked
    claims = certificate.guarantees
    _check(query, claims, workload, cluster, registry)
    query = replace(query, settings={**_SETTINGS, **query.settings})
    check_same(earlier, query, workload, versions_here(find_java().version, query))
    check_code(earlier, query)
    if cluster.name != certificate.cluster.get("cluster"):
        raise ScenarioChanged(f"the campaign was begun on {certificate.cluster.get('cluster')}, not on {cluster.name}")
    budget = budget or Budget()
    if why := nothing_left(earlier, budget.goes_on):
        raise NothingLeft(f"{folder}: nothing is left to do, since {why}")
    check_trials(folder, certificate, registry.oracles)
    state = CampaignState(folder, claims, registry.oracles, budget, show, not_covered=_set_aside(query))
    state.go_on_from(earlier)
    request = CampaignRequest(query, workload, claims, registry, certificate.seed, asked.origin, asked.fed_from)
    faults = CrashPlan(asked.victims, asked.recovering, asked.split_brain)
    try:
        return Certified(folder, _run(new_run_id(query.name), request, faults, cluster, state, frozenset(asked.named)))
    except BaseException as error:
        error.add_note(GO_ON.format(folder=shlex.quote(str(folder))))
        raise


def _run(
    name: str,
    request: CampaignRequest,
    faults: CrashPlan,
    cluster: Cluster,
    state: CampaignState,
    named: frozenset[str],
) -> Certificate:
    make_folder(state.folder / "runs")
    with Journal(state.folder) as journal:
        state.journal = journal
        if state.earlier is not None:
            clear_up(state.folder, state.earlier)
        return _Campaign(name, request, faults, cluster, state, named).run()


def _check(query: Query, claims: Sequence[Guarantee], workload: Workload, cluster: Cluster, registry: Registry) -> None:
    if not claims:
        raise InvalidScenario(
            f"query {query.name!r} claims nothing: say what it promises, as in claims=[exactly_once()]"
        )
    check_scenario(Scenario(query, workload, claims=claims), cluster, registry)
    for claim in claims:
        if registry.oracles[claim.name].sees_progress:
            raise InvalidScenario(
                f"{claim} cannot be certified of query {query.name!r}: it speaks of the time since a failure, and a "
                "crash state is put back when no driver lives. Claim `recovers` with that time, which says that work "
                "goes on"
            )
    check_bounds(query, claims)
    supported(chosen_version(query.spark))


@dataclass
class _Campaign:
    name: str
    request: CampaignRequest
    faults: CrashPlan
    cluster: Cluster
    state: CampaignState
    named: frozenset[str]
    """The guarantees that somebody has claimed; more is judged."""
    began: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    ran: dict[str, str] = field(default_factory=dict)
    """Of the versions: what drivers have said that they run on."""
    planned_now: set[Planned] = field(default_factory=set)
    """What this part of the campaign could try."""

    @cached_property
    def asked(self) -> Asked:
        """The code is read once."""
        request, faults = self.request, self.faults
        named, code = tuple(sorted(self.named)), code_of(request.query)
        return Asked(
            named, faults.victims, faults.recovering, faults.split_brain, request.origin, request.fed_from, code
        )

    def run(self) -> Certificate:
        state = self.state
        watched_inside = watches_inside(state, self.request.query)
        work = (state.folder / "work").resolve()
        try:
            with ExitStack() as stack:
                query, workload = self.request.query, self.request.workload
                workers = open_recovery_workers(stack, self.name, query, workload, work, watched_inside)
                if workers[0].no_journal:
                    state.not_covered.append(NO_FILES.format(why=workers[0].no_journal))
                with state.timed("reference runs"):
                    attempts = run_references(state, query, workers)
                self._note_what_ran(workers)
                self._state_time(workers, attempts)
                references = [stamped for attempt in attempts for stamped in attempt.records]
                unjudgeable = self._why_unjudgeable(references)
                profile = profile_of(attempts[0])
                outside = uncut_of(query, attempts)
                if unjudgeable and outside:
                    # A run with folders of its own finds there what the run before has left.
                    unjudgeable += KEPT_OUTSIDE.format(effects="; ".join(map(str, outside[:MOST_NAMED])))
                if unjudgeable:
                    write_points(state.folder / POINTS, attempts[0])
                    return self._write(unjudgeable, profile)
                check_measured(self.request.claims, History(references, ()), query.shape)
                state.not_covered.append(ALWAYS_WRONG if query.read is None else AS_READ)
                note_equal_rows(state, query, references)
                state.not_covered += not_measured(self.request.claims, query.key)
                note_unpassed_hooks(state, query, attempts[0])
                if watched_inside:
                    note_unpassed_points(state, query, attempts)
                else:
                    note_data_sources(state, query)
                note_background(state, attempts[0])
                note_watched(state, attempts)
                note_loops(state, query)
                note_clock(state, query)
                note_code_in_c(state, query)
                note_numbers(state, query)
                note_whereabouts(state, query)
                note_memory(state, query)
                note_errors(state, query)
                note_side_by_side(state, query)
                note_order(state, query, attempts[0])
                profile = note_messages(state, query, workers, profile)
                of_driver, kills = self._make_plan(profile)
                covering = Covering(state, self.request, workers, attempts[: len(workers)], references)
                if of_driver:
                    self._plan_crash_states(covering, profile, of_driver)
                else:
                    state.not_covered.append(NEVER_RECOVERING)
                turned, of_turned, keys = self._plan_other_order(profile, workers, attempts, references, of_driver)
                kills = replace(kills, keys={**kills.keys, **keys})
                coverings = [covering, *turned]
                losing = self._plan_losses(profile, workers, attempts[: len(workers)], references)
                in_recovery_workers = Proving(
                    state,
                    self.request,
                    # What an earlier attempt has left in a JVM is no doing of the crash.
                    RecoveryWorkerKiller(workers[0], anew=keeps_in_the_jvm(query, profile)),
                    self.cluster.name,
                    references,
                    Kills((), (), kills.keys),
                )
                assert state.journal is not None
                state.journal.begin(self._certificate("", profile))
                write_points(state.folder / POINTS, attempts[0])
                state.took(START, 1, state.spent)
                self._take_up(in_recovery_workers, is_driver_alone)
                self._restart(workers[0], profile, of_driver, references, kills)
                self._kill_here(in_recovery_workers, kills.here_first, HERE_FIRST)
                in_tasks = self.request.query.copyable and after_effects_of_tasks(kills.of_nodes)
                shares = SHARES_WITH_TASKS if in_tasks else SHARES
                self._cover(coverings, in_recovery_workers, shares, min(LATER_SHARE, shares[1]))
                self._lose_power(losing, POWER_SHARE)
                affording = Affording(state, self.request, [*coverings, losing], kills, [*of_driver, *of_turned])
                if not self._is_over():
                    unjudgeable = self._kill(
                        stack, affording, coverings, kills, in_recovery_workers, workers, references, work
                    )
                    self._lose_power(losing, LAST_SHARE)
                if self._is_over():
                    state.exhausted = ALL_VIOLATED
                else:
                    for one in (*coverings, losing):
                        one.leave()
                    self._leave_unpassed(profile)
                self._tell_of_loss(in_recovery_workers)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        more = None if self._is_over() or unjudgeable else affording.more()
        return self._write(unjudgeable, profile, more)

    def _why_unjudgeable(self, references: Sequence[Stamped]) -> str:
        """By the runs without failures; where the campaign goes on, they have to agree with earlier ones."""
        state, query = self.state, self.request.query
        unjudgeable = collate_references(History(references, ()), query.shape).unjudgeable
        if unjudgeable or state.earlier is None:
            return unjudgeable
        given = offered(query.batches(self.request.workload))
        return why_other(state.folder, state.earlier, given, references, query.shape)

    def _take_up(self, proving: Proving, those: Callable[[CrashTrial], bool]) -> None:
        """What an earlier part of the campaign has shown and had no time to confirm."""
        state = self.state
        if state.earlier is None or (self._is_over() and state.counterexample is not None):
            return
        open_claims = [str(claim) for claim in state.claims if not state.is_confirmed(str(claim))]
        if state.counterexample is None:
            open_claims = [str(claim) for claim in state.claims]
        states, real_ones = state.earlier.unconfirmed(open_claims)
        with state.timed("kills"):
            proving.take_up([trial for trial in real_ones if those(trial)])
            if those is is_driver_alone and states:
                proving.confirm(states)

    def _restart(
        self,
        worker: RecoveryWorker,
        profile: Profile,
        of_driver: Sequence[Planned],
        references: Sequence[Stamped],
        kills: Kills,
    ) -> None:
        """In JVMs that are new, as crash states are recovered from in one that lives on. Each run begins in a new one,
        too: the attempt before the crash is to be one of which it was the first."""
        state = self.state
        query = self.request.query
        if not (query.copyable and keeps_in_the_jvm(query, profile)) or self._is_over():
            return
        if restarts := state.unkilled(of_restarts(profile, of_driver)):
            killer = RecoveryWorkerKiller(worker, anew=True)
            proving = Proving(state, self.request, killer, self.cluster.name, references, Kills((), (), kills.keys))
            with state.timed("kills"):
                proving.try_here("restarts", restarts)

    def _kill_here(self, proving: Proving, lines: Sequence[Planned], share: float) -> None:
        """In a recovery worker, where crash states do not stand for it."""
        state = self.state
        left = state.untried(lines)
        if left and not self._is_over():
            with state.timed("kills"):
                proving.try_here("kills", left, share)

    def _kill(
        self,
        stack: ExitStack,
        affording: Affording,
        coverings: Sequence[Covering],
        kills: Kills,
        in_recovery_workers: Proving,
        workers: Sequence[RecoveryWorker],
        references: Sequence[Stamped],
        work: Path,
    ) -> str:
        """What only a cluster can show, and then what is left. Returns why its kills cannot be judged; empty where they
        can."""
        state = self.state
        for worker in workers:
            worker.rest()
        with state.timed("kills"):
            cluster = stack.enter_context(self.cluster.kept_warm(work))
            proving = Proving(state, self.request, on_cluster(cluster), cluster.name, references, kills)
            if unjudgeable := proving.compare():
                return unjudgeable
            proving.prove_foremost()
        self._kill_here(in_recovery_workers, kills.in_recovery_workers, HERE_FIRST)
        if self._is_over():
            return ""
        with state.timed("kills"):
            proving.prove()
        if self._is_over():
            return ""
        self._take_up(proving, lambda trial: not is_driver_alone(trial))
        affording.draw()
        sample = affording.sample()
        reserved = SAFETY * affording.seconds_of(sample) / (60 * state.budget.minutes)
        share = max(0.0, LAST_SHARE - reserved)
        # Once it was begun, it bounds nothing unless it ends.
        until = OVERRUN if reserved * 60 * state.budget.minutes <= state.left else 1.0
        self._kill_here(in_recovery_workers, kills.in_recovery_workers, share)
        # What is left leaves claims open; then the sample; then that for which others stand.
        self._cover(coverings, in_recovery_workers, (share, share), 0.0)
        with state.timed("kills"):
            drawn_apart = by_where_it_dies(self.request.query, sample)
            for prover, drawn in zip((in_recovery_workers, proving), drawn_apart, strict=True):
                if drawn and not self._is_over():
                    prover.sample(drawn, until)
        self._cover(coverings, in_recovery_workers, (LAST_SHARE, LAST_SHARE), LAST_SHARE)
        return ""

    def _leave_unpassed(self, profile: Profile) -> None:
        """Lines of an earlier part of the campaign that could not be tried, since nothing came to them."""
        state = self.state
        if state.earlier is None:
            return
        missing = [line for line in state.earlier.certificate.plan if line not in self.planned_now]
        tried = {line for trial in state.trials if not trial.missed for line in lines_of(trial)}
        state.not_reached += [
            NotReached(line, NOT_PASSED) for line in missing if line not in tried and not line.crash.recovering
        ]

    def _is_over(self) -> bool:
        """Whether every claim that somebody has made is known to be violated, and nobody has asked for more."""
        confirmed = [self.state.is_confirmed(str(claim)) for claim in self.state.claims if claim.name in self.named]
        return bool(confirmed) and all(confirmed) and not self.state.budget.goes_on

    def _note_what_ran(self, workers: Sequence[RecoveryWorker]) -> None:
        """What the certificate names is what has run, of which each recovery worker has made sure that it is what was
        to run.
        """
        for ran in (worker.ran for worker in workers if worker.ran is not None):
            self.ran = {**ran.python, "spark": ran.version}

    def _state_time(self, workers: Sequence[RecoveryWorker], attempts: Sequence[Attempt]) -> None:
        """Say how long a recovery may take, now that it is known how long the query takes."""
        spans = [(attempt.records[-1].at - attempt.records[0].at) / 1e6 for attempt in attempts if attempt.records]
        claims = with_stated_time(self.request.claims, spans)
        self.request = replace(self.request, claims=claims)
        self.state.claims = claims
        for worker in workers:
            worker.patience = stated_in(claims).seconds

    def _make_plan(self, profile: Profile) -> tuple[list[Planned], Kills]:
        """The crashes of the driver, and what else is to be killed."""
        state = self.state
        of_driver = of_the_driver(profile, self.request.query.copyable) if Victim.DRIVER in self.faults.victims else []
        with_data = [batch for batch, kinds in sorted(profile.kinds.items()) if NO_DATA not in kinds]
        keys = crash_places(crash_at(profile, passed, Victim.DRIVER) for passed in profile.passed)
        nodes = of_nodes(profile, self.faults.victims, self.request.query.copyable)
        if self.request.query.copyable:
            nodes = effects_of_tasks_first(nodes)
        nodes = spread(nodes, with_data, keys)
        holds_files = self.cluster.name == EmbeddedCluster.name
        calls = of_calls(profile, self.faults.victims, with_data) if holds_files else []
        answers = spread(of_answers(profile, self.faults.victims), with_data, keys)
        splits = of_split_brains(profile) if self.faults.split_brain and of_driver else []
        # So far apart that one driver of two has mostly gone before the next two meet.
        splits = spread(splits, with_data[1::2], keys)
        disks = of_disks(profile, self.faults.victims)
        state.not_covered += left_out(profile, self.faults.victims, of_driver, nodes, calls, answers, splits)
        of_driver, nodes, calls, answers, disks, splits = map(
            self._add, (of_driver, nodes, calls, answers, disks, splits)
        )
        here: list[Planned] = []
        if not self.request.query.copyable:
            # No crash state stands for them: each is killed, whether it is drawn or not.
            here, there = by_where_it_dies(self.request.query, [*replays_first(of_driver), *answers])
            nodes = [*there, *nodes]
        nodes, here = [*messages_first(nodes), *calls], [*messages_first(here), *disks]
        return of_driver, Kills(state.unkilled(nodes), state.unkilled(splits), keys, state.unkilled(here))

    def _add(self, lines: Sequence[Planned]) -> list[Planned]:
        found = self.state.add(lines)
        self.planned_now.update(found)
        return found

    def _plan_crash_states(self, covering: Covering, profile: Profile, of_driver: Sequence[Planned]) -> None:
        query = self.request.query
        if query.copyable:
            if keeps_in_the_jvm(query, profile):
                self.state.not_covered.append(IN_THE_JVM)
            covering.plan(profile, of_driver, self.faults.recovering)
        else:
            if query.packages or query.jars:
                self.state.not_covered.append(BEFORE_A_KILL)
            self.state.not_covered += [WITH_ITS_TASKS, ONE_AFTER_ANOTHER, NEVER_RECOVERING]

    def _plan_other_order(
        self,
        profile: Profile,
        workers: Sequence[RecoveryWorker],
        attempts: Sequence[Attempt],
        references: Sequence[Stamped],
        of_driver: Sequence[Planned],
    ) -> tuple[list[Covering], list[Planned], Mapping[CrashPlace, Crash]]:
        """Of crashes of the driver where the tasks of a stage come in the other order, what recovers from their states,
        their lines of the plan, and the points that batches pass then; nothing where that leaves nothing else, or
        cannot be tried."""
        state, query = self.state, self.request.query
        if not (of_driver and query.copyable and has_order(attempts[0])):
            note_tasks(state, attempts[0], False)
            return [], [], {}
        with state.timed("reference runs"):
            others, why_not = run_in_other_order(state, query, workers, attempts)
        state.watched += others
        note_tasks(state, attempts[0], not why_not and all(map(all, map(come_last_first, others))))
        if why_not:
            begun = next(one for one in profile.passed if one.address.actor == TASK)
            state.not_reached.append(
                NotReached(Planned(in_other_order(crash_at(profile, begun, Victim.DRIVER))), why_not)
            )
            return [], [], {}
        turned = profile_of(others[0])
        first, twin, other = (
            AttemptAt(attempt, worker.store.since)
            for attempt, worker in (
                (attempts[0], workers[0]),
                (attempts[1], workers[min(1, len(workers) - 1)]),
                (others[0], workers[0]),
            )
        )
        known = points_of_the_driver(profile, every_batch=True)
        points = points_of_other_order(turned, other, first, known, twin, workers[0].names)
        strikes = {id(one): in_other_order(crash_at(turned, one, Victim.DRIVER)) for one in turned.passed}
        lines = self._add([Planned(strikes[id(one)]) for one in points])
        # Where another recovery worker has taken a stage's tasks otherwise, it has other states by the same names.
        alike = [one for one in others if come_last_first(one) == come_last_first(others[0])]
        with_these = workers if len(alike) == len(others) else workers[:1]
        covering = Covering(state, self.request, with_these, others[: len(with_these)], references)
        covering.plan_states(points, lines)
        return [covering], lines, crash_places(strikes.values())

    def _plan_losses(
        self,
        profile: Profile,
        workers: Sequence[RecoveryWorker],
        attempts: Sequence[Attempt],
        references: Sequence[Stamped],
    ) -> Covering:
        """Of power, where somebody claims that the query survives that."""
        state, request = self.state, self.request
        losses = plan_losses(profile, workers, attempts, request.claims, request.query.copyable)
        lines = self._add([Planned(one.crash) for one in losses.waiting])
        waiting = [Waiting(line.crash, one.passed) for line, one in zip(lines, losses.waiting, strict=True)]
        state.not_reached += losses.not_reached
        state.not_covered[:0] = not_lost(request.claims) if losses.waiting else [UNSYNCED]
        losing = Covering(state, request, workers[: len(losses.attempts)], losses.attempts, references, How.POWER_LOSS)
        if losses.waiting:
            losing.plan_losses(waiting, ByLoss(losses))
        return losing

    def _lose_power(self, losing: Covering, share: float) -> None:
        if losing.remains and not self._is_over():
            with self.state.timed("losses of power"):
                losing.cover(share, share)

    def _tell_of_loss(self, in_recovery_workers: Proving) -> None:
        """Of power, where that is all that violates."""
        for claim in map(str, self.state.claims):
            losses = [one for one in showing(claim, self.state.trials) if one.how is How.POWER_LOSS]
            if losses and self.state.counterexample is None:
                in_recovery_workers.tell(claim, losses)

    def _cover(
        self, coverings: Sequence[Covering], in_recovery_workers: Proving, shares: tuple[float, float], later: float
    ) -> None:
        """Recover from crash states, until these shares of the time are spent, `later` of those for which others
        stand; whatever they show is tried for real at once."""
        first, *others = coverings
        if others:
            # What is tried in the other order alone is little, and is not to wait for all that is tried in the first.
            self._cover_one(first, in_recovery_workers, (shares[0] / 2, shares[1] / 2), 0.0)
        for covering in (*others, first):
            self._cover_one(covering, in_recovery_workers, shares, later)

    def _cover_one(
        self, covering: Covering, in_recovery_workers: Proving, shares: tuple[float, float], later: float
    ) -> None:
        while covering.remains and not self._is_over():
            with self.state.timed("crash states"):
                suspicious = covering.cover(*shares, later)
            if not suspicious:
                return
            with self.state.timed("kills"):
                in_recovery_workers.confirm(suspicious)
            covering.doubt(_shown(suspicious))

    def _write(self, unjudgeable: str, profile: Profile, more: More | None = None) -> Certificate:
        state = self.state
        certificate = msgspec.structs.replace(self._certificate(unjudgeable, profile), more=more)
        # What the recovery workers have is no part of it.
        shutil.rmtree(state.folder / "work", ignore_errors=True)
        concluded = with_conclusion(certificate)
        write_look(state.folder, concluded)
        written = write_certificate(state.folder, concluded)
        assert state.journal is not None
        state.journal.end()
        return written

    def _certificate(self, unjudgeable: str, profile: Profile) -> Certificate:
        """What it comes to by now, without a conclusion."""
        state = self.state
        request = self.request
        earlier = state.earlier
        began, asked = self.began, self.asked
        parts: tuple[CampaignPart, ...] = ()
        durations = dict(state.durations)
        durations["total"] = durations.get("total", 0.0) + state.spent
        if earlier is not None:
            began, parts = earlier.certificate.began, earlier.parts
        versions = {**versions_here(find_java().version, request.query), **self.ran}
        machine = {"system": platform.platform(), "cores": os.cpu_count() or 0, "byteorder": sys.byteorder}
        budget = {"runs": state.budget.runs, "minutes": state.budget.minutes, "kills": state.budget.kills}
        known = 0 if earlier is None else len(earlier.certificate.trials)
        return Certificate(
            version=VERSION,
            seal="",
            name=self.name,
            began=began,
            subject=request.query.describe(),
            workload={"name": request.workload.name, "events": request.workload.events, "seed": request.workload.seed},
            claims=tuple(SavedClaim.of(claim) for claim in request.claims),
            seed=request.seed,
            cluster=dict(self.cluster.describe(request.named.scenario)),
            settings=dict(request.query.settings),
            versions=versions,
            machine=machine,
            budget=budget,
            exhausted=state.exhausted,
            not_covered=tuple(state.not_covered),
            batches=dict(Counter(kind for kinds in profile.kinds.values() for kind in kinds)),
            plan=tuple(state.plan),
            not_reached=tuple(state.not_reached),
            trials=tuple(state.trials),
            unjudgeable=unjudgeable,
            draw=state.draw,
            verdicts=(),
            coverage=(),
            bounds=(),
            counterexample=state.counterexample,
            durations={part: round(spent, 2) for part, spent in durations.items()},
            figures=state.figures,
            files={},
            uncut=uncut_of(request.query, state.watched),
            asked=asked,
            parts=(*parts, CampaignPart(self.began, versions, machine, budget, known)),
            never_run=lines_never_run(request.query, state.watched, state.plan),
        )


def _shown(trials: Sequence[CrashTrial]) -> set[str]:
    """The claims that one of these violates."""
    return {claim for trial in trials for claim, status in trial.verdicts.items() if status is Status.VIOLATED}
