"""Tries schedules within a budget, on as many cores as wanted, and keeps counts and the schedules that violate a claim.

Pieces of plans are tried in one order, whoever tries them, and counted in that order: what is found within a number of
schedules does not depend on the number of processes.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidScenario, ProcessDied
from ..judging.verdicts import Status
from ..registry import Registry
from ..scenario import Scenario
from ..simulated.world import SimulationOptions
from .bench import Bench, Kind, Outcome, Trial, resized
from .plans import Plan

if TYPE_CHECKING:
    from concurrent.futures import Future
    from multiprocessing.synchronize import Event as Flag

CONFIDENCE: Final = 0.95
KEPT: Final = 10
"""Violating schedules that are kept of each kind; the others are counted."""
_PIECES: Final = 8
"""Pieces in a chunk of work."""
_COLLECT_AFTER: Final = 20_000
"""Events fed until what the runs have left in memory is collected."""


@dataclass(frozen=True)
class Budget:
    """When a search ends: after so many schedules, or seconds, or when its plans are through."""

    schedules: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name, amount in (("schedules", self.schedules), ("seconds", self.seconds)):
            if amount is not None and amount <= 0:
                raise InvalidScenario(f"a search needs a positive number of {name}, not {amount}")


@dataclass(frozen=True)
class Violation:
    """A schedule that breaks a claim."""

    number: int
    """Its place among the schedules that were tried, from 1."""
    trial: Trial
    kind: Kind


@dataclass
class Findings:
    """What a search has come to."""

    addresses: frozenset[str]
    """Those of the run without failures."""
    jobs: int
    tried: int = 0
    statuses: Counter[Status] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Why schedules are UNKNOWN."""
    essential: int = 0
    """How many are UNKNOWN although their faults bit, or for another reason than their faults."""
    kinds: Counter[Kind] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    struck: set[str] = field(default_factory=set)
    random_held: int = 0
    random_violated: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    exhausted: bool = False
    """Whether the plans were tried to their end."""

    @property
    def covered(self) -> int:
        """Addresses of the run without failures at which a fault struck."""
        return len(self.struck & self.addresses)

    @property
    def beyond(self) -> int:
        """Addresses at which a fault struck and which that run does not pass: those of recoveries, mostly."""
        return len(self.struck - self.addresses)

    @property
    def bound(self) -> float | None:
        """The chance that a random schedule whose faults bite violates a claim is at most this, with 95 % confidence.

        None where one was seen to, or none was tried.
        """
        if self.random_violated or not self.random_held:
            return None
        return float(1 - (1 - CONFIDENCE) ** (1 / self.random_held))

    def first_of_each_kind(self) -> list[Violation]:
        found: dict[Kind, Violation] = {}
        for violation in self.violations:
            found.setdefault(violation.kind, violation)
        return list(found.values())

    def add(self, trial: Trial, outcome: Outcome) -> None:
        self.tried += 1
        self.statuses[outcome.status] += 1
        self.struck.update(outcome.struck)
        match outcome.status:
            case Status.HOLDS:
                self.random_held += trial.random
            case Status.UNKNOWN:
                self.reasons[outcome.reason] += 1
                self.essential += outcome.essential
            case Status.VIOLATED:
                assert outcome.kind is not None
                self.random_violated += trial.random
                self.kinds[outcome.kind] += 1
                if self.kinds[outcome.kind] <= KEPT:
                    self.violations.append(Violation(self.tried, trial, outcome.kind))


@dataclass(frozen=True)
class Source:
    """Where a process gets the scenario from: by the name that the registry knows, or else from its pickle."""

    origin: str | None
    body: bytes | None
    events: int
    batch: int

    @classmethod
    def of(cls, scenario: Scenario, origin: str | None) -> Source:
        workload = scenario.workload
        return cls(origin, None if origin is not None else _pickled(scenario), workload.events, workload.batch)

    def scenario(self, registry: Registry) -> Scenario:
        if self.origin is not None:
            found = registry.scenario(self.origin).scenario
        else:
            from pyspark import cloudpickle

            assert self.body is not None
            found = cloudpickle.loads(self.body)
        return resized(found, self.events, self.batch)


def _pickled(scenario: Scenario) -> bytes:
    from pyspark import cloudpickle

    body: bytes = cloudpickle.dumps(scenario)  # type: ignore[no-untyped-call]
    return body


def search(
    bench: Bench,
    plans: Sequence[Plan],
    budget: Budget,
    *,
    jobs: int = 1,
    origin: str | None = None,
    until: Callable[[Violation], bool] = lambda violation: False,
    show: Callable[[Findings], None] = lambda findings: None,
) -> Findings:
    """Try the plans, a piece of each in turn, until the budget is spent, they are through, or `until` has what it
    wants.

    `origin` is the scenario's name in the registry, where it has one. Ctrl-C ends the search; what was found until then
    is returned. Raises InvalidOperator when the user's code fails under a schedule.
    """
    findings = Findings(frozenset(str(reached.address) for reached in bench.calm), jobs)
    began = time.monotonic()
    deadline = None if budget.seconds is None else began + budget.seconds
    pieces = _in_turn([plan.pieces(bench) for plan in plans])
    results: Iterator[tuple[Trial, Outcome]]
    if jobs == 1:
        results = _alone(bench, plans, pieces, deadline)
    else:
        results = _together(bench, plans, pieces, jobs, Source.of(bench.scenario, origin), deadline)
    try:
        with _left_alone_by_the_collector():
            for trial, outcome in results:
                known = len(findings.violations)
                findings.add(trial, outcome)
                findings.seconds = time.monotonic() - began
                show(findings)
                if any(until(violation) for violation in findings.violations[known:]):
                    break
                if findings.tried == budget.schedules:
                    break
            else:
                findings.exhausted = not _is_past(deadline)
    except KeyboardInterrupt:
        findings.interrupted = True
    finally:
        results.close()  # type: ignore[attr-defined]
    findings.seconds = time.monotonic() - began
    return findings


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


_Piece = tuple[int, int]
"""Which plan, and which of its pieces."""


def _in_turn(plans: Sequence[Iterator[int]]) -> Iterator[_Piece]:
    waiting = deque(enumerate(plans))
    while waiting:
        number, plan = waiting.popleft()
        piece = next(plan, None)
        if piece is not None:
            yield number, piece
            waiting.append((number, plan))


def _alone(
    bench: Bench, plans: Sequence[Plan], pieces: Iterator[_Piece], deadline: float | None
) -> Iterator[tuple[Trial, Outcome]]:
    for plan, piece in pieces:
        for trial, outcome in _tried(bench, plans[plan], piece):
            yield trial, outcome
            if _is_past(deadline):
                return


def _tried(bench: Bench, plan: Plan, piece: int) -> Iterator[tuple[Trial, Outcome]]:
    """The trials of one piece, with the memory kept small."""
    for trial in plan.trials(bench, piece):
        yield trial, bench.attempt(trial)
        if bench.fed > _COLLECT_AFTER:
            bench.fed = 0
            gc.collect()


@contextmanager
def _left_alone_by_the_collector() -> Iterator[None]:
    """A run makes many objects and few cycles, so that collecting between runs is enough."""
    was = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if was:
            gc.enable()


# On several cores


def _together(
    bench: Bench,
    plans: Sequence[Plan],
    pieces: Iterator[_Piece],
    jobs: int,
    source: Source,
    deadline: float | None,
) -> Iterator[tuple[Trial, Outcome]]:
    # Not above: a search on one core, or a replay, has no need of it.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    given = (source, tuple(plans), bench.seed, bench.cluster.options, stop, deadline)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=given)
    try:
        running: deque[Future[list[tuple[Trial, Outcome]]]] = deque()
        while True:
            while len(running) < 3 * jobs and not _is_past(deadline) and (chunk := tuple(islice(pieces, _PIECES))):
                with _interrupts_held():
                    running.append(pool.submit(_work, chunk))
            if not running:
                return
            yield from running.popleft().result()
    except BrokenProcessPool as error:
        raise ProcessDied(f"a process of the search ended by itself: {error}") from error
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes that are started in here never hear of Ctrl-C, which is for the one that started them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass
class _Worker:
    bench: Bench
    plans: tuple[Plan, ...]
    stop: Flag
    deadline: float | None

    @property
    def stopped(self) -> bool:
        return self.stop.is_set() or _is_past(self.deadline)


_worker: _Worker | None = None
"""That of this process, where it is one."""


def _begin(
    source: Source, plans: tuple[Plan, ...], seed: int, options: SimulationOptions, stop: Flag, deadline: float | None
) -> None:
    global _worker
    threading.Thread(target=_end_with_parent, daemon=True).start()
    registry = Registry()
    bench = Bench(source.scenario(registry), registry, seed=seed, options=options)
    _worker = _Worker(bench, plans, stop, deadline)
    gc.disable()
    gc.collect()
    gc.freeze()


def _end_with_parent() -> None:
    """A search that was killed leaves nobody behind."""
    from multiprocessing import parent_process

    parent: Any = parent_process()
    parent.join()
    os._exit(1)


def _work(chunk: tuple[_Piece, ...]) -> list[tuple[Trial, Outcome]]:
    worker = _worker
    assert worker is not None
    done: list[tuple[Trial, Outcome]] = []
    if worker.stopped:
        return done
    for plan, piece in chunk:
        for tried in _tried(worker.bench, worker.plans[plan], piece):
            done.append(tried)
            if worker.stopped:
                return done
    return done
