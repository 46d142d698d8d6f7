"""Where schedules are tried: one scenario in one simulated world, judged against its claims and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final, NamedTuple

from ..contracts.cluster import Run
from ..contracts.injection import Aims
from ..contracts.registry import Registry
from ..contracts.scenario import Scenario, check
from ..contracts.subject import Deployment, SchemeSubject
from ..core.addresses import Moment
from ..core.errors import ExitStatus, InvalidScenario, UsersCodeFailed
from ..core.guarantees import Guarantee
from ..core.kept_files import listening
from ..core.proper import proper
from ..core.quantities import Duration
from ..core.reasons import Reason, Why
from ..core.schedule import Fault, Schedule
from ..core.slice_names import operator_of, slice_of
from ..core.verdicts import Status, Verdict
from ..judging.exercised import Activity
from ..judging.oracle import Case
from ..judging.tolerance import Tolerance
from ..protocol.controller import Controller
from ..recording.history import FaultMissed, FaultStruck, History, NodeGone, Remembered
from ..recording.recorder import MemoryRecorder
from ..recording.records import Delivered, Taken
from ..running.determinism import EVENTS
from ..running.judgement import goes_beyond, judge_claims, violation_of
from ..worlds.simulated.capturing import NotCapturable
from ..worlds.simulated.carried_over import OtherProcess, WorldsArrived
from ..worlds.simulated.cluster import SimulatedCluster
from ..worlds.simulated.memory_outside import OutsideMemory
from ..worlds.simulated.options import SimulationOptions
from ..worlds.simulated.remembering import NAMED, left_in, not_looked_at, remembered, reread
from .branching import Trunk
from .census import Reached, watched_run
from .classes import classes
from .drawn_on_the_way import DrawnRun, FaultAhead, draw_on_the_way
from .failing import failed_under
from .sparing import SparedNow, in_sync_twice
from .trunks import Trunks


@dataclass(frozen=True)
class Trial:
    """One schedule, and the seed of the simulated world that it is tried in."""

    schedule: Schedule
    seed: int
    random: bool = False
    """Whether it was drawn at random, so that it counts for the bound on what was not seen."""


class ViolationKind(NamedTuple):
    """In which way a claim is violated. Two violations of one kind are taken for the same one."""

    guarantee: str
    anomaly: str


@dataclass(frozen=True)
class Outcome:
    """What came of one trial: no more than a search has to remember."""

    status: Status
    struck: tuple[str, ...]
    """The addresses at which faults struck."""
    kind: ViolationKind | None = None
    """Of the first claim that is violated."""
    reason: str = ""
    """Why it is UNKNOWN, without the names that differ from one schedule to the next."""
    essential: bool = False
    """Whether it is UNKNOWN for another reason than a fault that did not come or harmed nobody, or one too many."""
    at_work: tuple[Activity, ...] = ()
    """What of the subject was at work."""
    cut: bool = False
    """Whether the run was left when its last fault had struck, since it goes beyond what is claimed from there on."""
    alike: tuple[str, ...] = ()
    """Other addresses than that at which it struck, of which the same would have come."""
    exercised_new: frozenset[int] = frozenset()
    """All that it exercised, where some of that was new to who tried it (see `novelty`)."""
    failed: ExitStatus | None = None
    """Whose failure it is, where it is UNKNOWN since an oracle has failed."""
    bitten: tuple[str, ...] = ()
    """The kinds of its faults that have bitten, where it was judged plainly."""

    @property
    def judged(self) -> bool:
        """Whether it was judged plainly: its faults bit, and were no more than is claimed to be survived."""
        return self.status is not Status.UNKNOWN


BEYOND: Final = "the schedule goes beyond what is claimed"
"""Why it is UNKNOWN whether a subject survives what it does not claim to."""
_CHECKED: Final = 4
"""Branches that are compared with whole runs before any is relied on."""
_SOME: Final = 8
"""Crashes that are tried in two ways."""
_MORE: Final = 24
"""And where something outside of the world has changed by that."""
_SOMEWHERE: Final = (
    "in a variable of a class or a module, of whosever, in an iterator, or in an object that is not written in Python"
)
_OF_THE_FAULTS = frozenset({Why.UNPROVEN, Why.BEYOND})
"""What leaves a schedule UNKNOWN through its own faults, and says nothing of the subject."""


class Bench:
    """Reuse it: what does not depend on the schedule is worked out once. The scenario's own faults are left aside.

    Raises InvalidScenario where nothing is left to judge, Unsupported for what the simulator cannot run.
    """

    def __init__(
        self,
        scenario: Scenario,
        registry: Registry,
        *,
        seed: int,
        options: SimulationOptions | None = None,
        thorough: bool = False,
    ) -> None:
        """`thorough`: each run is made as the command `run` makes it (see `SimulatedCluster`)."""
        proper(scenario, Scenario, "what is simulated", "a Scenario")
        proper(seed, int, "the seed of a simulated world", "a whole number, of which the same comes again")
        self.scenario = replace(scenario, faults=(), breaks=())
        self.registry = registry
        self.seed = seed
        self.cluster = SimulatedCluster(options, thorough=thorough)
        self.cluster.check(scenario)
        self.whole_runs = ""
        """Why every run is a whole one; empty where they can branch off from one another."""
        self.not_looked_at = ""
        """What `require_forgetting` could not look at; empty where it has seen all."""
        self._trunk: Trunk | None = None
        self._trunks = Trunks(self._trunk_of)
        named = [g for g in scenario.claimed if g.name in registry.oracles]
        timed = [g for g in named if scenario.costs is None and registry.oracles[g.name].timed(g)]
        self.not_judged: tuple[Guarantee, ...] = tuple(timed)
        """The claims on time, which is not real in the simulator, where work costs none of it."""
        self.claims: tuple[Guarantee, ...] = tuple(g for g in scenario.claimed if g not in timed)
        if not self.claims:
            aside = "; what it is expected to break is left aside: say in claims=(...) what is to hold"
            raise InvalidScenario(
                f"{scenario.subject.name} claims nothing that the simulator can judge{aside if scenario.breaks else ''}"
            )
        check(self.scenario, self.cluster.places, registry.faults, registry.oracles)

    @cached_property
    def actors(self) -> tuple[str, ...]:
        return tuple(self.scenario.subject.actors)

    @cached_property
    def _can_be_struck(self) -> frozenset[str]:
        return frozenset(self.actors)

    def slices_beside(self, actor: str) -> int:
        """How many slices the operator of an actor has."""
        name = operator_of(slice_of(actor))
        return len({slice_of(other) for other in self.actors if operator_of(slice_of(other)) == name})

    @cached_property
    def aims(self) -> Aims:
        """What faults can be drawn from."""
        workload, options = self.scenario.workload, self.cluster.options
        offering = -(-workload.events // workload.batch) * options.interval(workload)
        costs = self.scenario.costs
        work = 0 if costs is None else workload.events * max(cost.micros for cost in costs.per_event.values())
        span = max(offering, work) + options.detection + options.redeployment
        return Aims(
            self.actors, self.scenario.subject.links, self.cluster.places.nodes, Duration(offering), Duration(span)
        )

    @cached_property
    def calm(self) -> tuple[Reached, ...]:
        """The addresses of the run without failures at which an actor can be struck."""
        return self._calm[0]

    @cached_property
    def passed_again(self) -> tuple[Reached, ...]:
        """Those of these addresses that are passed more than once, since a mechanism does not tell one of its messages,
        timers or places from another: a crash there strikes the first time."""
        return tuple(one for one in self.calm if one.times > 1)

    @property
    def calm_history(self) -> History:
        """Of the run without failures; it was not inspected at the end."""
        return self._calm[1]

    @cached_property
    def idle(self) -> tuple[str, ...]:
        """The operators and sinks to which nothing comes without failures: no schedule tries what these do."""
        topology, history = self.subject.topology, self.calm_history
        fed = {one.slice for one in history.each(Taken)} | {one.sink for one in history.each(Delivered)}
        return tuple(one for one in (*topology.stages, *topology.sinks) if one not in map(operator_of, fed))

    @cached_property
    def _calm(self) -> tuple[tuple[Reached, ...], History]:
        return self._reached((), self.seed)

    def reached(self, schedule: Schedule, seed: int) -> tuple[Reached, ...]:
        """The addresses of the run under a schedule at which an actor can be struck."""
        return self._reached(schedule, seed)[0]

    def _reached(self, schedule: Schedule, seed: int) -> tuple[tuple[Reached, ...], History]:
        kinds, options = self.registry.faults, self.cluster.options
        actors = self._can_be_struck
        return watched_run(self.scenario, kinds, seed=seed, schedule=schedule, options=options, actors=actors)

    @cached_property
    def is_limited(self) -> bool:
        """Whether every claim holds only as long as each slice keeps a replica in sync."""
        claims = self.subject.claims
        return bool(claims) and all(claim.tolerates is Tolerance.ONE_IN_SYNC for claim in claims)

    @property
    def subject(self) -> SchemeSubject:
        assert isinstance(self.scenario.subject, SchemeSubject)
        return self.scenario.subject

    def apart(self, targets: Sequence[str]) -> tuple[str, ...]:
        """As many of these actors, the first ones, as can be lost at once with their nodes, and every slice keeps a
        replica; going by where they are placed before anything has failed."""
        kept: list[str] = []
        lost: set[str] = set()
        for target in targets:
            node = self._placement.get(target)
            beside = [slice_of(name) for name, at in self._placement.items() if at == node]
            if not kept or (len(set(beside)) == len(beside) and lost.isdisjoint(beside)):
                kept.append(target)
                lost.update(beside)
        return tuple(kept)

    @cached_property
    def _placement(self) -> dict[str, str]:
        """Actor -> its node, once all nodes have joined."""
        placement = self.subject.placement(self.cluster.places.workers)
        return {actor: node for node, actors in placement.items() for actor in actors}

    @cached_property
    def calm_and_spared(self) -> tuple[Reached, ...]:
        """Those of the run without failures at which a node can be lost, and every slice keeps a replica in sync."""
        reached, history = self._calm
        spans = in_sync_twice(history, self.subject.topology)
        return tuple(one for one in reached if any(begin <= one.at < end for begin, end in spans))

    def with_input(self, events: int, batch: int) -> Bench:
        """The same bench for another amount of input."""
        scenario = resized(self.scenario, events, batch)
        bench = Bench(scenario, self.registry, seed=self.seed, options=self.cluster.options)
        bench.whole_runs = self.whole_runs
        return bench

    def run(self, schedule: Schedule, seed: int) -> History:
        """Raises UsersCodeFailed when the user's code does."""
        return self._run(schedule, seed, self.cluster.deploy)

    def run_thoroughly(self, schedule: Schedule, seed: int, outside: OutsideMemory) -> History:
        """As `run`, where what was written is what is read, and where whoever comes in the place of another finds what
        the subject's code keeps outside of the world as it was at first; what that does to files, which no crash takes,
        is in the timeline (`Remembered`). For who has not asked `require_forgetting`, and puts back what is `outside`.
        Raises InvalidScenario for what cannot be written or sent, UsersCodeFailed when the user's code does."""
        with listening() as listener:
            history = self._run(schedule, seed, partial(self.cluster.simulate_thoroughly, outside))
        files = listener.heard
        what, left = reread(files), left_in(files)
        lost = any(
            isinstance(entry, NodeGone) or (isinstance(entry, FaultStruck) and entry.bite.gone)
            for entry in history.timeline
        )
        if not lost or not outside.has_code_of_others or not (what or left):
            return history
        entry = Remembered(history.timeline[-1].stamp, what, "" if what else left)
        return History(history.records, [*history.timeline, entry], history.sealed)

    def _run(
        self, schedule: Schedule, seed: int, deploy: Callable[[Run], AbstractContextManager[Deployment]]
    ) -> History:
        recorder = MemoryRecorder()
        scenario = replace(self.scenario, faults=schedule)
        with deploy(Run("explored", scenario, seed, recorder, self.registry.faults, None)) as deployment:
            deployment.prepare()
            deployment.start()
            deployment.drained(scenario.deadline)
            deployment.stop()
        return recorder.history()

    def require_forgetting(self) -> None:
        """Make sure that no run knows of the one before it, and no incarnation of the one before it, but by what the
        world leads to, and by what was written: who remembers otherwise survives crashes here alone.

        Runs without failures have to come to the same; and some with a crash, whether or not it takes what the
        subject's code keeps outside of the world, whether or not what was written is what is read, and also where the
        world is carried into another process at the crash (`carried_over`); and those with one or two more of the same
        slice after it, since a second recovery may rest on what the first has not asked for. More of all these are
        tried where something outside has changed. What cannot be looked at in this way is `not_looked_at`.

        Raises InvalidScenario, and UsersCodeFailed, with the schedule, when the user's code does under one."""
        workload = self.scenario.workload
        small = self if workload.events <= EVENTS else self.with_input(EVENTS, workload.batch)
        outside = OutsideMemory(self.subject)
        with OtherProcess(self.subject) as other, listening() as listener:
            first, again = small._carried((), 0, other), small.run((), self.seed).digest()
            if first != again:
                raise InvalidScenario(
                    self._remembers("it gives another history when the same schedule is run again", outside.changed())
                )
            digests = [first]
            thorough = partial(self.cluster.simulate_thoroughly, outside)
            ever: dict[str, None] = {}
            for most in (_SOME, _MORE):
                singles = small.some_crashes(most)
                for schedule, step in [*singles, *small.crashes_in_a_row(singles)]:
                    with under(Trial(schedule, self.seed)):
                        plain = small._carried(schedule, step, other)
                        digests.append(plain)
                        ever |= dict.fromkeys(outside.changed())
                        outside.put_back()
                        again = small._run(schedule, self.seed, thorough).digest()
                    if again != plain:
                        crashes = "; ".join(map(str, schedule))
                        how = f"it comes to something else where a crash takes all that it should ({crashes})"
                        raise InvalidScenario(self._remembers(how, list(ever)))
                if not ever:
                    break
            self._require_same(other.arrived(listener.heard), digests, list(ever))

    def _carried(self, schedule: Schedule, step: int, other: OtherProcess) -> str:
        """The digest of a run whose world is taken along to another process as it is at a step."""
        recorder = MemoryRecorder()
        scenario = replace(self.scenario, faults=schedule)
        with self.cluster.simulate(
            Run("explored", scenario, self.seed, recorder, self.registry.faults, None), Controller(schedule)
        ) as deployment:
            deployment.prepare()
            deployment.start()
            deployment.run_to(step)
            other.carry(deployment, recorder, scenario.deadline)
            deployment.drained(scenario.deadline)
            deployment.stop()
        return recorder.history().digest()

    def _require_same(self, arrived: WorldsArrived, digests: Sequence[str], ever: Sequence[str]) -> None:
        """That worlds came to the same in another process. Raises InvalidScenario."""
        if how := remembered(arrived, digests):
            raise InvalidScenario(self._remembers(how, arrived.files.kept or ever))
        self.not_looked_at = not_looked_at(arrived)

    def some_crashes(self, most: int) -> list[tuple[Schedule, int]]:
        """Of single crashes at addresses, some from all over the run of each actor, as many of one as of another and in
        turn; and the step in which each strikes."""
        of_each: dict[str, list[Reached]] = {}
        for where, *_ in self.calm_classes:
            of_each.setdefault(where.address.name, []).append(where)
        some = list(of_each.values())[:: -(-len(of_each) // most) or 1]
        rounds = -(-most // max(1, len(some)))
        found: list[tuple[Schedule, int]] = [
            ((untimed_crash([where.address.name]).at(Moment.exactly(where.address)),), where.step)
            for number in range(1, rounds + 1)
            for where in [passed[len(passed) * (2 * number - 1) // (2 * rounds)] for passed in some]
        ]
        return found[:most]

    def crashes_in_a_row(self, singles: Sequence[tuple[Schedule, int]]) -> Iterator[tuple[Schedule, int]]:
        """Each of these crashes with one or, in turn, two more of who came in its place, sooner after the recovery or
        later by its place among them. And the step in which the last one strikes."""
        for place, (schedule, step) in enumerate(singles, start=1):
            (name,) = schedule[0].targets
            for _ in range(1 + place % 2):
                later = [
                    one
                    for one in self.reached(schedule, self.seed)
                    if one.address.name == name and one.step > step and len(one.after) == len(schedule)
                ]
                if not later:
                    break
                where = later[len(later) * place // (len(singles) + 1)]
                schedule += (untimed_crash([name]).at(Moment.exactly(where.address)),)
                step = where.step
            if schedule[1:]:
                yield schedule, step

    def _remembers(self, how: str, changed: Sequence[str]) -> str:
        where = f"{', '.join(changed[:NAMED])} changed" if changed else _SOMEWHERE
        return (
            f"{self.subject.name} under {self.subject.kind}: {how}: something remembers one run, or one incarnation, "
            f"in the next ({where}), and no crash takes that away in the simulator. Keep it in states, or in "
            "attributes of a mechanism's AtWork; and let save() return what does not go on changing"
        )

    def drawn(self, trial: Trial, ahead: Sequence[FaultAhead]) -> DrawnRun:
        """Run a trial under its schedule, and under more faults that are drawn on the way (see `drawn_on_the_way`).

        Raises UsersCodeFailed, with the schedule, when the user's code does.
        """
        spared = SparedNow(self.subject.topology)
        trunk = self.trunk() if trial.seed == self.seed else self._trunks.of(trial.seed)
        branch = None if trunk is None else trunk.drawn(trial.schedule, ahead, spared)
        if branch is not None:
            return branch
        scenario = replace(self.scenario, faults=trial.schedule)
        run = Run("explored", scenario, trial.seed, MemoryRecorder(), self.registry.faults, None)
        return draw_on_the_way(self.cluster, run, ahead, self._can_be_struck, spared)

    def judge(self, history: History) -> tuple[Verdict, ...]:
        """Of the claims. What they rest on need not have been at work in one run of many."""
        return tuple(judge_claims(self.subject, self._case(history), self.claims, self.registry.oracles))

    def violates(self, history: History, kind: ViolationKind) -> bool:
        """Whether a run violates a claim in this way, and none of those before. Nothing else of it is judged."""
        case = self._case(history)
        names = [str(claim) for claim in self.claims]
        place = names.index(kind.guarantee) if kind.guarantee in names else len(names)

        def found(claims: Sequence[Guarantee]) -> ViolationKind | None:
            verdicts = (violation_of(self.subject, case, claim, self.registry.oracles) for claim in claims)
            return kind_of([verdict for verdict in verdicts if verdict is not None])

        # Whether they hold is asked of the others only where that matters.
        return found(self.claims[place : place + 1]) == kind and found(self.claims[:place]) is None

    def _case(self, history: History) -> Case:
        subject = self.subject
        costed = self.scenario.costs is not None
        anew = partial(subject.collate_anew, history)
        collation = subject.collate(history)
        return Case(history, collation, subject.checkpoint_every, virtual_time=True, costed=costed, anew=anew)

    @cached_property
    def rests_on(self) -> frozenset[Activity]:
        """What has to be at work in a search, under some schedule at least, for its claims to have been tried."""
        return frozenset().union(
            *(self.subject.rests_on(guarantee, self.registry.oracles) for guarantee in self.claims)
        )

    def attempt(self, trial: Trial) -> Outcome:
        """Raises UsersCodeFailed, with the schedule, when the user's code does under it."""
        with under(trial):
            history = self.run(trial.schedule, trial.seed)
        return self.outcome(history)

    def outcome(self, history: History) -> Outcome:
        """What a run has come to."""
        return self.outcome_of(history, self.judge(history))

    def outcome_beyond(self, history: History) -> Outcome | None:
        """What a run that was left where it is comes to, if it goes beyond all that is claimed; else None."""
        oracles = self.registry.oracles
        if not goes_beyond(self.subject, history, self.claims, oracles, virtual_time=True):
            return None
        return Outcome(Status.UNKNOWN, _struck(history), reason=BEYOND, cut=True)

    def may_be_left_after(self, before: History) -> bool:
        """Whether a run that goes on from a part of this one, and is beyond the claims by its next crash, has no more
        to show than this. What shows here before that crash shows with it, too; and where this is beyond the claims
        since somebody never got in sync, the other is judged for longer: until the crash that it is beyond them by."""
        outcome = self.outcome(before)
        if outcome.status is Status.VIOLATED or outcome.essential:
            return False
        return outcome.reason != BEYOND or self.outcome_beyond(before) is not None

    @cached_property
    def calm_classes(self) -> tuple[tuple[Reached, ...], ...]:
        """The addresses of the run without failures, those together that leave the same world behind."""
        return classes(self.calm)

    def trunk(self) -> Trunk | None:
        """The run without failures, to branch off from; None where runs are whole ones (see `whole_runs`).

        Raises UsersCodeFailed when the user's code does.
        """
        if self._trunk is None and not self.whole_runs:
            self._trunk = self.grown(self.seed)
            if self._trunk is not None:
                self._check_against_whole_runs(self._trunk)
        return self._trunk

    def _trunk_of(self, seed: int) -> Trunk | None:
        """The run without failures in another world. None where no run is branched off, or it fails by itself."""
        if self.trunk() is None:
            return None
        try:
            return self.grown(seed)
        except UsersCodeFailed:
            # Any schedule under which it fails as well says so.
            return None

    def grown(self, seed: int) -> Trunk | None:
        """The run without failures in a world, for who closes it. None where it cannot be put back, nor any other from
        then on. Raises UsersCodeFailed when the user's code does."""
        if self.whole_runs:
            return None
        run = Run("explored", self.scenario, seed, MemoryRecorder(), self.registry.faults, None)
        steps = self.calm[-1].step if self.calm else 0
        try:
            return Trunk(run, self.cluster.options, self._can_be_struck, steps)
        except NotCapturable as reason:
            self.only_whole_runs(str(reason))
            return None

    def _check_against_whole_runs(self, trunk: Trunk) -> None:
        """What changes outside of the world, against the rule (`capturing`), would be taken along from one branch into
        the next."""
        for where, *_ in self.calm_classes[:: max(1, len(self.calm_classes) // _CHECKED)]:
            fault = untimed_crash([where.address.name]).at(Moment.exactly(where.address))
            if trunk.end_under(trunk.calm, fault, where).digest() != self.run((fault,), self.seed).digest():
                why = "a run that was put back came to something else than a whole one, so something changes outside"
                self.only_whole_runs(why)
                return

    def only_whole_runs(self, why: str) -> None:
        """From now on no run branches off from another."""
        if self._trunk is not None:
            self._trunk.close()
        self._trunks.close()
        self._trunk, self.whole_runs = None, why

    def _bitten(self, history: History) -> tuple[str, ...]:
        """The kinds of fault that have bitten."""
        return tuple({self._kind_of(entry.fault): None for entry in history.struck() if entry.bite.bit})

    def _kind_of(self, fault: str) -> str:
        """What is on record of a fault begins with its kind, whose name may have spaces, and that of another in it."""
        return max((kind for kind in self.registry.faults if fault.startswith(f"{kind} ")), key=len)

    def outcome_of(self, history: History, verdicts: Sequence[Verdict]) -> Outcome:
        """The same, by the verdicts on it."""
        struck, at_work = _struck(history), self.subject.at_work(history)
        kind = kind_of(verdicts)
        if kind is not None:
            return Outcome(Status.VIOLATED, struck, kind, at_work=at_work, bitten=self._bitten(history))
        unclear: list[Reason] = [verdict.unknown for verdict in verdicts if verdict.unknown is not None]
        if not unclear:
            return Outcome(Status.HOLDS, struck, at_work=at_work, bitten=self._bitten(history))
        essential = next((reason for reason in unclear if reason.why not in _OF_THE_FAULTS), None)
        if essential is not None:
            failed = max(filter(None, (verdict.failed for verdict in verdicts)), default=None)
            told = str(essential)
            return Outcome(Status.UNKNOWN, struck, reason=told, essential=True, at_work=at_work, failed=failed)
        if any(reason.why is Why.BEYOND for reason in unclear):
            return Outcome(Status.UNKNOWN, struck, reason=BEYOND, at_work=at_work)
        return Outcome(Status.UNKNOWN, struck, reason=_in_general(history), at_work=at_work)


@contextmanager
def under(trial: Trial) -> Iterator[None]:
    """Where the user's code fails, it is said under which schedule."""
    try:
        yield
    except UsersCodeFailed as error:
        raise failed_under(trial.schedule, trial.seed, error) from error


def _struck(history: History) -> tuple[str, ...]:
    return tuple(entry.address for entry in history.struck() if entry.address is not None)


def kind_of(verdicts: Sequence[Verdict]) -> ViolationKind | None:
    """In which way the first violated claim is violated; None when none is."""
    for verdict in verdicts:
        if verdict.status is Status.VIOLATED:
            return ViolationKind(str(verdict.guarantee), str(verdict.anomalies[0].anomaly))
    return None


def resized(scenario: Scenario, events: int, batch: int) -> Scenario:
    return replace(scenario, workload=replace(scenario.workload, events=events, batch=batch))


def untimed_crash(targets: Sequence[str]) -> Fault:
    """A crash that has no trigger yet."""
    return Fault("crash", tuple(targets))


def _in_general(history: History) -> str:
    """Why the faults of a history prove nothing, without names."""
    if any(isinstance(entry, FaultMissed) for entry in history.timeline):
        return "a trigger never came"
    for entry in history.struck():
        if not entry.bite.bit:
            if entry.bite.node is None:
                return "a target ran nowhere when it was struck"
            if not entry.bite.outstanding:
                return "all input had been processed when a fault struck"
            if entry.bite.proof is not None:
                return f"a fault got in the way of nothing ({entry.bite.proof})"
    return "the faults are not proven"
