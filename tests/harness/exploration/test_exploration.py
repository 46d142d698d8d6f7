"""The search in the simulator: what it tries, finds, shrinks, keeps and runs again."""

import json
import multiprocessing
import os
import re
import subprocess
import sys
import threading
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest
from pyspark import cloudpickle

import remembering
from golden_draws import counterexample as shrunk_counterexample
from remembering import Filter
from sampling import long_but_for
from simulation import EVERY, scenario_of
from streamproof import assert_survives, delay, loss, partition, pause
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scaling import scaled
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import Address, Moment, Point, Side
from streamproof.harness.core.errors import (
    InvalidCounterexample,
    InvalidOperator,
    InvalidScenario,
    ProcessDied,
    ScenarioChanged,
    UnknownCounterexampleVersion,
    UnknownName,
    Unsupported,
)
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import exactly_once_output, recovers_within
from streamproof.harness.core.quantities import Duration, events, ms, seconds
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.topology import Role, Stage, Topology
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.core.workload import Workload
from streamproof.harness.exploration.bench import Bench, Trial, ViolationKind, untimed_crash
from streamproof.harness.exploration.census import Reached
from streamproof.harness.exploration.classes import distinct
from streamproof.harness.exploration.counterexample import (
    Counterexample,
    counterexample,
    load_counterexample,
    replay_counterexample,
    save,
)
from streamproof.harness.exploration.exploring import explore
from streamproof.harness.exploration.pieces import LostPiece, Piece, PieceProgress, work_through
from streamproof.harness.exploration.plans import (
    IN_A_WORLD,
    EverySingle,
    Given,
    RandomSchedules,
    SearchPlan,
    Successive,
)
from streamproof.harness.exploration.search import SearchBudget, SearchFindings, Violation, search
from streamproof.harness.exploration.shrinking import STEADY, Shrunk, shows_violation, shrink
from streamproof.harness.exploration.sizes import brought_down
from streamproof.harness.exploration.spark_protocol import Done, PieceBatch, from_worker
from streamproof.harness.exploration.spark_worker import Task, try_parts
from streamproof.harness.exploration.telling import view_of_search
from streamproof.harness.protocol.channels import InputChannel
from streamproof.harness.protocol.effects import Start
from streamproof.harness.protocol.machine import Machine
from streamproof.harness.protocol.mechanism import AtWork, Mechanism
from streamproof.harness.protocol.messages import Checkpoint, Tie
from streamproof.harness.protocol.spec import Setup
from streamproof.harness.recording.claims_and_faults import SavedFault
from streamproof.harness.recording.folder import read_description
from streamproof.harness.recording.history import Placed
from streamproof.harness.recording.records import Offered
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.harness.worlds.simulated.options import LIKE_EMBEDDED, SimulationOptions
from streamproof.reference_impls.mechanisms.acknowledging import AcknowledgeEvery
from streamproof.reference_impls.mechanisms.duplicate_filter import DuplicateFilter
from streamproof.reference_impls.mechanisms.sink_delivery import DeliverAtOnce
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.trace import Trace, trace
from streamproof.scenarios.workloads import numbered

REGISTRY = Registry()
BROKEN = "mutant:passive-replication-without-vector@trace.passive-replication"
SOUND = "trace.passive-replication"
EVENTS, BATCH = 40, 4
EFFORT = 20_000


def named(origin: str, amount: int = EVENTS) -> Named:
    found = REGISTRY.scenario(origin)
    workload = replace(found.scenario.workload, events=amount, batch=BATCH)
    return replace(found, scenario=replace(found.scenario, workload=workload, faults=()))


@cache
def bench_of(origin: str, amount: int = EVENTS) -> Bench:
    return Bench(named(origin, amount).scenario, REGISTRY, seed=7)


def plans() -> list[SearchPlan]:
    return [EverySingle(), RandomSchedules(7)]


def told(findings: SearchFindings) -> dict[str, Any]:
    """What a search found, without how long it took and on how many cores."""
    return {
        name: value for name, value in vars(findings).items() if name not in ("seconds", "jobs", "addresses", "course")
    }


@cache
def shrunk() -> tuple[Violation, Shrunk]:
    bench = bench_of(BROKEN)
    found = search(bench, plans(), SearchBudget(400), until=lambda v: v.kind.anomaly == Anomaly.DUPLICATE_EFFECT)
    violation = found.violations[-1]
    return violation, shrink(bench, violation.trial, violation.kind, effort=EFFORT)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    violation, small = shrunk()
    path = tmp_path / "counterexample.json"
    save(path, counterexample(named(BROKEN), violation, small, named(BROKEN).scenario))
    return path


def altered(file: Path, **fields: Any) -> Path:
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, **fields}))
    return file


# Plans


def reached(step: int, point: Point, side: Side = Side.AFTER, key: str = "", actor: str = "a-0") -> Reached:
    return Reached(Address(actor, 1, point, key, side), step, ())


def test_addresses_between_which_nothing_leaves_a_node_are_one() -> None:
    passed = [
        reached(1, Point.RECEIVED, Side.BEFORE),
        reached(1, Point.RECEIVED),
        reached(1, Point.SEND_ISSUED, Side.BEFORE, "first"),
        reached(1, Point.SEND_HANDED_OVER, key="first"),
        reached(1, Point.SEND_ISSUED, Side.BEFORE, "second"),
        reached(1, Point.SEND_HANDED_OVER, key="second"),
        reached(1, Point.CHECKPOINT_ISSUED, Side.BEFORE, "1"),
        reached(2, Point.CHECKPOINT_DURABLE, Side.BEFORE, "1"),
        reached(2, Point.RECEIVED, actor="b-0"),
        reached(2, Point.CHECKPOINT_DURABLE, key="1"),
        reached(2, Point.CHECKPOINT_TOLD, key="1"),
    ]
    assert distinct(passed) == [passed[place] for place in (0, 3, 5, 7, 8, 9)]


def test_addresses_between_which_an_output_is_delivered_are_two() -> None:
    """This sink acknowledges what it has delivered, in the same step, and its successor knows of neither: it delivers
    again what was delivered and not acknowledged."""
    base = passive_replication(trace(), checkpoint_every=events(4), sink_filter=True)
    sink = Setup((DuplicateFilter(), AcknowledgeEvery(events(1)), DeliverAtOnce()))
    subject = replace(base, setups={**base.setups, Role.SINK: sink}, claims=())
    bench = Bench(Scenario(subject, numbered(events=8, batch=4), claims=[exactly_once_output()]), REGISTRY, seed=7)
    found = search(bench, [EverySingle()], SearchBudget())
    assert found.kinds == {ViolationKind("exactly-once-output", "duplicate-output"): found.statuses[Status.VIOLATED]}
    struck = {point for violation in found.violations for point in map(_point_of, violation.trial.schedule)}
    assert struck == {Point.SEND_ISSUED}


def _point_of(fault: Fault) -> Point:
    assert isinstance(fault.trigger, Moment)
    return fault.trigger.point


@pytest.mark.parametrize("origin", [SOUND, BROKEN])
def test_addresses_taken_for_one_come_to_the_same(origin: str) -> None:
    """Of each run of addresses that `distinct` takes for one, the first and the last end in the same verdict."""
    bench = bench_of(origin, 24)
    kept = {one.address for one in distinct(bench.calm)}
    first: dict[str, Reached] = {}
    for one in bench.calm:
        if one.address in kept:
            first[one.address.actor] = one
            continue
        outcomes = [
            bench.attempt(Trial((untimed_crash([place.address.actor]).at(Moment.exactly(place.address)),), 7))
            for place in (first[one.address.actor], one)
        ]
        assert outcomes[0].kind == outcomes[1].kind, str(one.address)
    assert 0 < len(kept) < len(bench.calm)


def test_every_single_crash_strikes_every_address_or_one_that_leaves_the_same_world_behind() -> None:
    bench = bench_of(SOUND, 12)
    found = search(bench, [EverySingle()], SearchBudget())
    assert found.exhausted
    assert found.covered == len(found.addresses) == len(bench.calm)
    stood_for = [address for others in found.alike.values() for address in others]
    assert found.tried + len(stood_for) == len({*found.alike, *stood_for} | found.struck) == len(bench.calm)
    assert found.tried < len(bench.calm)
    assert found.statuses[Status.VIOLATED] == 0


def test_every_pair_strikes_twice_and_the_second_after_the_first() -> None:
    bench = bench_of(SOUND, 4)
    found = list(Successive(2).trials(bench, 3))
    assert {len(trial.schedule) for trial in found} == {2}
    assert len({trial.schedule for trial in found}) == len(found) > 10
    for trial in found[:10]:
        assert len(bench.attempt(trial).struck) == 2


def test_pairs_are_for_short_inputs_only() -> None:
    with pytest.raises(InvalidScenario, match=r"at most 30 events, not 40; .*--events 30"):
        search(bench_of(SOUND), [Successive(2)], SearchBudget(10))


def test_random_schedules_are_lazy_and_drawn_from_their_seed() -> None:
    bench = bench_of(SOUND)

    def drawn(seed: int, count: int | None = None) -> Iterator[Trial]:
        plan = RandomSchedules(seed, count)
        return (trial for piece in plan.pieces(bench) for trial in plan.trials(bench, piece))

    first = list(islice(drawn(1), 40))
    assert first == list(drawn(1, 40))
    assert first != list(islice(drawn(2), 40))
    assert [len(list(same)) for _, same in groupby(trial.seed for trial in first)] == [IN_A_WORLD, 40 - IN_A_WORLD]
    assert {len(trial.schedule) for trial in first} == {1, 2, 3}
    assert {len(fault.targets) for trial in first for fault in trial.schedule} == {1, 2, 3}
    triggers = [fault.trigger for trial in first for fault in trial.schedule]
    assert {type(trigger).__name__ for trigger in triggers} == {"Moment", "AtTime"}
    assert any(isinstance(trigger, Moment) and (trigger.incarnation or 0) > 1 for trigger in triggers)


# Searching


@pytest.mark.parametrize("origin", long_but_for([BROKEN], [SOUND, BROKEN]))
def test_what_is_found_does_not_depend_on_the_number_of_jobs(origin: str) -> None:
    bench = bench_of(origin)
    alone = search(bench, plans(), SearchBudget(150), jobs=1)
    # Without an origin the scenario is sent as it is, and with one by its name.
    together = search(bench, plans(), SearchBudget(150), jobs=2, origin=origin if origin == SOUND else None)
    assert told(alone) == told(together)
    assert alone.tried == 150
    assert bool(alone.violations) is (origin == BROKEN)


_TWO_WAYS = """
from threading import Event, Thread
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.on_cores import can_fork
from streamproof.harness.exploration.plans import EverySingle, RandomSchedules
from streamproof.harness.exploration.search import SearchBudget, search

if __name__ == "__main__":
    def found():
        searched = search(bench, [EverySingle(), RandomSchedules(7)], SearchBudget(150), jobs=2)
        return searched.tried, searched.statuses, searched.struck, searched.violations

    origin = "mutant:passive-replication-without-vector@trace.passive-replication"
    bench = Bench(Registry().scenario(origin).scenario, Registry(), seed=7).with_input(40, 4)
    assert can_fork()
    forked = found()
    assert can_fork()
    over = Event()
    Thread(target=over.wait).start()
    assert not can_fork()
    assert found() == forked
    over.set()
    print(forked[0], len(forked[-1]))
"""


def test_what_is_found_does_not_depend_on_how_processes_begin(tmp_path: Path) -> None:
    """Forked where the search's own process has one thread; by themselves where it has more."""
    script = tmp_path / "two_ways.py"
    script.write_text(_TWO_WAYS)
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    tried, violations = map(int, ended.stdout.split())
    assert (tried, violations > 0) == (150, True)


def test_a_sound_scheme_gives_a_bound_and_no_violation() -> None:
    found = search(bench_of(SOUND), [RandomSchedules(3, 60)], SearchBudget())
    assert (found.exhausted, found.tried) == (True, 60)
    assert found.random_held == found.statuses[Status.HOLDS] > 20
    assert found.bound == pytest.approx(1 - 0.05 ** (1 / found.random_held))
    assert sum(found.reasons.values()) == found.statuses[Status.UNKNOWN]
    assert found.essential == 0


def test_a_stall_is_unknown_for_a_reason_of_its_own() -> None:
    for_good = SimulationOptions(nodes=1, restart_node_after=None)
    found = search(Bench(named(SOUND).scenario, REGISTRY, seed=7, options=for_good), [EverySingle()], SearchBudget(10))
    assert found.essential == found.statuses[Status.UNKNOWN] == 10
    assert all(reason.startswith("stall") for reason in found.reasons)


def test_what_needs_two_crashes_keeps_two() -> None:
    """A relay that has forgotten its log has nothing to replay to a tracer that crashes with it; alone, neither shows
    it."""
    bench = bench_of("mutant:passive-replication-without-checkpointed-log@trace.passive-replication")
    found = search(bench, [EverySingle()], SearchBudget(100))
    assert found.violations == []
    found = search(bench, [RandomSchedules(7)], SearchBudget(300), until=lambda violation: True)
    violation = found.violations[-1]
    small = shrink(bench, violation.trial, violation.kind, effort=EFFORT)
    assert sum(len(fault.targets) for fault in small.trial.schedule) == 2


def test_enumerated_schedules_give_no_bound() -> None:
    assert search(bench_of(SOUND), [EverySingle()], SearchBudget(20)).bound is None


def test_a_budget_of_seconds_ends_the_search() -> None:
    found = search(bench_of(SOUND), plans(), SearchBudget(seconds=0.2))
    assert found.tried > 0
    assert found.seconds < 5
    assert not found.exhausted


@pytest.mark.parametrize("budget", [{"schedules": 0}, {"seconds": 0.0}, {"seconds": -1.0}])
def test_a_budget_is_positive(budget: dict[str, Any]) -> None:
    with pytest.raises(InvalidScenario, match="positive number"):
        SearchBudget(**budget)


def test_an_interrupted_search_keeps_what_it_found() -> None:
    def show(findings: SearchFindings) -> None:
        if findings.tried == 90:
            raise KeyboardInterrupt

    for jobs in (1, 2):
        found = search(bench_of(BROKEN), plans(), SearchBudget(1_000), jobs=jobs, origin=None, show=show)
        assert (found.interrupted, found.tried) == (True, 90)
        assert found.violations


def test_a_search_that_loses_a_process_keeps_what_is_violated() -> None:
    def show(findings: SearchFindings) -> None:
        if findings.tried == 90:
            for process in multiprocessing.active_children():
                process.kill()

    found = search(bench_of(BROKEN), plans(), SearchBudget(100_000), jobs=2, origin=None, show=show)
    assert found.violations
    assert not found.exhausted
    assert found.cut_short.startswith("a process of the search ended by itself")
    with pytest.raises(ProcessDied, match="a process of the search ended by itself"):
        search(bench_of(SOUND), plans(), SearchBudget(100_000), jobs=2, origin=None, show=show)


def test_random_schedules_that_are_lost_count_in_the_bound_and_are_not_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def drawn(plan: RandomSchedules, bench: Bench, piece: int) -> None:
        raise AssertionError("who draws it runs it, and dies")

    def all_lost_but_one(
        bench: Bench, plans: Sequence[SearchPlan], pieces: Iterator[Piece], deadline: float | None
    ) -> Iterator[PieceProgress]:
        yield from work_through(bench, plans, next(pieces))
        monkeypatch.setattr(RandomSchedules, "drawn", drawn)
        for piece in pieces:
            yield LostPiece(piece, "by hand")

    monkeypatch.setattr(f"{search.__module__}.alone", all_lost_but_one)
    found = search(bench_of(SOUND), [RandomSchedules(1, count=20)], SearchBudget())
    assert (found.tried, found.lost, found.random_unknown) == (1, 19, 19)
    assert found.bound is None or found.bound > 0.9


def test_given_schedules_are_tried_in_their_order() -> None:
    bench = bench_of(SOUND)
    faults = [untimed_crash(["relay-0"]).after(seconds(0.01)), untimed_crash(["relay-0"]).after(seconds(1_000))]
    found = search(bench, [Given(tuple(Trial((fault,), 3) for fault in faults))], SearchBudget())
    assert found.statuses == {Status.HOLDS: 1, Status.UNKNOWN: 1}


class Fragile(Trace):
    """Fails once it has taken an input twice in a row, which no run without failures gives it; from one on."""

    def __init__(self, since: int = 1) -> None:
        super().__init__()
        self._since = since

    def process(self, event: Event, state: dict[str, list[list[object]]]) -> tuple[Output]:
        if event.seq >= self._since and event.value in state.get(event.key, ()):
            raise ValueError("seen before")
        return super().process(event, state)


def traced_by(operator: Trace) -> Bench:
    """The broken filter before an operator of one's own."""
    broken = bench_of(BROKEN).scenario
    subject: Any = broken.subject
    stages = {
        name: replace(stage, operator=operator) if name == "trace" else stage
        for name, stage in subject.topology.stages.items()
    }
    scenario = replace(broken, subject=replace(subject, topology=replace(subject.topology, stages=stages)))
    return Bench(scenario, REGISTRY, seed=7)


UNDER_ITS_SCHEDULE = r"(?s)seen before.*This was under seed 7 and the schedule: crash"


def test_code_that_fails_under_a_schedule_is_reported_with_it() -> None:
    with pytest.raises(InvalidOperator, match=UNDER_ITS_SCHEDULE):
        search(traced_by(Fragile()), [EverySingle()], SearchBudget())


def test_code_that_fails_under_a_crash_before_the_search_is_reported_with_it() -> None:
    with pytest.raises(InvalidOperator, match=UNDER_ITS_SCHEDULE):
        traced_by(Fragile()).require_forgetting()


def test_what_was_violated_before_code_fails_is_kept_whoever_tries_it() -> None:
    by_one, by_two = (
        search(traced_by(Fragile(since=30)), plans(), SearchBudget(400), jobs=jobs, origin=None) for jobs in (1, 2)
    )
    assert by_one.violations
    assert re.search(UNDER_ITS_SCHEDULE, by_one.cut_short)
    assert not by_one.exhausted
    assert told(by_one) == told(by_two)


def test_a_worker_of_spark_tells_what_it_has_tried_before_code_fails() -> None:
    bench, given = traced_by(Fragile()), [EverySingle()]
    pieces = tuple((0, number) for number in EverySingle().pieces(bench))
    task = SimpleNamespace(value=cloudpickle.dumps(Task(bench.scenario, tuple(given), 7, bench.cluster.options)))
    (body,) = try_parts(task, [PieceBatch(1, pieces, None)])
    done = from_worker.decode(body)
    assert isinstance(done, Done)
    *tried, last = done.worked
    assert tried
    assert all(one.through and one.failed is None for one in tried)
    assert not last.through
    assert last.failed is not None
    assert re.search(UNDER_ITS_SCHEDULE, last.failed.message)


@dataclass(frozen=True)
class ClassWide(Mechanism):
    """A filter whose memory is a variable of its class, by mistake: no crash in the simulator takes it."""

    def attach(self, machine: Machine) -> AtWork:
        return _ClassWide(machine)


class _ClassWide(AtWork):
    seen: ClassVar[dict[int, int]] = {}

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        passed = [event for event in events if event.seq > self.seen.get(channel.place, 0)]
        self.seen[channel.place] = max(event.seq for event in events)
        return passed


def test_what_remembers_one_run_in_the_next_is_refused() -> None:
    sound = bench_of(SOUND).scenario
    bench_of(SOUND).require_forgetting()
    subject: Any = sound.subject
    sink = subject.setups[Role.SINK]
    setups = {**subject.setups, Role.SINK: replace(sink, mechanisms=(ClassWide(), *sink.mechanisms))}
    scenario = replace(sound, subject=replace(subject, setups=setups))
    found = Named("class-wide", "nowhere", "", scenario)
    with pytest.raises(InvalidScenario, match=r"something remembers one run.*\(_ClassWide.seen changed\)"):
        explore(found, REGISTRY, SearchBudget(schedules=10), seed=7, jobs=1)


@dataclass(frozen=True)
class KeptForARecovery(Mechanism):
    """A filter whose memory is a checkpoint's part in name only: what is restored is a variable of its class, which a
    crash takes on a cluster. No run without failures reads it."""

    where: str

    def attach(self, machine: Machine) -> AtWork:
        return _WORK[self.where](machine)


class _OfItsClass(Filter):
    latest: ClassVar[dict[str, dict[int, int]]] = {}

    def kept(self) -> dict[int, int]:
        return self.latest.get(self.machine.spec.slice_id, {})

    def keep(self) -> None:
        self.latest[self.machine.spec.slice_id] = dict(self.seen)


class _OfItsClassReplaced(_OfItsClass):
    def keep(self) -> None:
        type(self).latest = {**self.latest, self.machine.spec.slice_id: dict(self.seen)}


_module: dict[str, dict[int, int]] = {}


class _OfItsModule(Filter):
    def kept(self) -> dict[int, int]:
        return _module.get(self.machine.spec.slice_id, {})

    def keep(self) -> None:
        _module[self.machine.spec.slice_id] = dict(self.seen)


class _OfADefaultArgument(Filter):
    def kept(self, kept: dict[str, dict[int, int]] = {}) -> dict[int, int]:  # noqa: B006
        return kept.setdefault(self.machine.spec.slice_id, {})

    def keep(self) -> None:
        self.kept().update(self.seen)


@cache
def _cached(slice_id: str) -> dict[int, int]:
    return {}


class _OfACache(Filter):
    def kept(self) -> dict[int, int]:
        return _cached(self.machine.spec.slice_id)

    def keep(self) -> None:
        self.kept().update(self.seen)


_marks = array("q", [0] * 64)
_here = threading.local()
_context: ContextVar[dict[str, dict[int, int]]] = ContextVar("_context")


class _OfABuffer(Filter):
    @property
    def _at(self) -> int:
        return zlib.crc32(self.machine.spec.slice_id.encode()) % 16

    def kept(self) -> dict[int, int]:
        return {place: _marks[4 * self._at + place] for place in range(2)}

    def keep(self) -> None:
        for place, seq in self.seen.items():
            _marks[4 * self._at + place] = seq


class _OfTheThread(Filter):
    def kept(self) -> dict[int, int]:
        return vars(_here).setdefault(self.machine.spec.slice_id, {})  # type: ignore[no-any-return]

    def keep(self) -> None:
        self.kept().update(self.seen)


class _OfTheContext(Filter):
    def kept(self) -> dict[int, int]:
        return (_context.get(None) or {}).get(self.machine.spec.slice_id, {})

    def keep(self) -> None:
        _context.set({**(_context.get(None) or {}), self.machine.spec.slice_id: dict(self.seen)})


class _Slotted:
    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: tuple[tuple[str, int, int], ...] = ()


_slotted = _Slotted()


class _OfASlot(Filter):
    def kept(self) -> dict[int, int]:
        return {place: seq for name, place, seq in _slotted.kept if name == self.machine.spec.slice_id}

    def keep(self) -> None:
        mine = self.machine.spec.slice_id
        others = tuple(one for one in _slotted.kept if one[0] != mine)
        _slotted.kept = (*others, *((mine, place, seq) for place, seq in self.seen.items()))


class _OfTheEnvironment(Filter):
    def kept(self) -> dict[int, int]:
        return {int(place): seq for place, seq in json.loads(os.environ.get(self._name, "{}")).items()}

    def keep(self) -> None:
        os.environ[self._name] = json.dumps(self.seen)

    @property
    def _name(self) -> str:
        return f"STREAMPROOF_TEST_{self.machine.spec.slice_id}"


_WORK: dict[str, type[Filter]] = {
    "class": _OfItsClass,
    "class, replaced": _OfItsClassReplaced,
    "module": _OfItsModule,
    "default": _OfADefaultArgument,
    "cache": _OfACache,
    "environment": _OfTheEnvironment,
    "buffer": _OfABuffer,
    "thread": _OfTheThread,
    "context": _OfTheContext,
    "slot": _OfASlot,
}


def with_mechanism(mechanism: Mechanism) -> Named:
    sound = bench_of(SOUND).scenario
    subject: Any = sound.subject
    own = subject.setups[Role.OPERATOR]
    setups = {**subject.setups, Role.OPERATOR: replace(own, mechanisms=(mechanism, *own.mechanisms))}
    return Named("remembering", "nowhere", "", replace(sound, subject=replace(subject, setups=setups)))


@pytest.mark.parametrize("where", long_but_for([*_WORK][::3], _WORK))
def test_what_only_a_restored_incarnation_reads_is_refused(where: str) -> None:
    try:
        with pytest.raises(InvalidScenario, match="something remembers one run, or one incarnation, in the next"):
            explore(with_mechanism(KeptForARecovery(where)), REGISTRY, SearchBudget(schedules=10), seed=7, jobs=1)
    finally:
        for name in [name for name in os.environ if name.startswith("STREAMPROOF_TEST_")]:
            del os.environ[name]


@pytest.mark.parametrize("where", long_but_for([*remembering.PLACES][::3], remembering.PLACES))
def test_what_no_look_at_python_shows_is_refused(where: str) -> None:
    bench = Bench(with_mechanism(remembering.Remembering(where)).scenario, REGISTRY, seed=7)
    try:
        with pytest.raises(InvalidScenario, match="something remembers one run, or one incarnation, in the next"):
            bench.require_forgetting()
    finally:
        remembering.forget()


@dataclass(frozen=True)
class RecoversByMemory(Mechanism):
    """Loses its state in a recovery where nobody has kept in a module that it was there before: of one slice alone, or
    of none before its second recovery."""

    slices: tuple[str, ...]
    recovery: int

    def attach(self, machine: Machine) -> AtWork:
        return _RecoversByMemory(machine, self)


class _RecoversByMemory(AtWork):
    def __init__(self, machine: Machine, settings: RecoversByMemory) -> None:
        super().__init__(machine)
        self._settings = settings

    def started(self, given: Start) -> None:
        machine: Any = self.machine
        me, known = machine.spec.slice_id, json.__dict__.setdefault("_known", set())
        if given.incarnation == 1:
            known.discard(me)
        late = given.incarnation > self._settings.recovery and me in self._settings.slices
        if late and me not in known and machine.state:
            machine.state.clear()
        known.add(me)


@pytest.mark.parametrize(
    ("slices", "recovery"), [(("trace-0",), 1), (("trace-1",), 1), (("trace-0", "trace-1"), 2)], ids=str
)
def test_what_one_slice_remembers_or_a_second_recovery_alone_asks_for_is_refused(
    slices: tuple[str, ...], recovery: int
) -> None:
    small = scaled(with_mechanism(RecoversByMemory(slices, recovery)).scenario)
    try:
        with pytest.raises(InvalidScenario, match="something remembers one run, or one incarnation, in the next"):
            Bench(small, REGISTRY, seed=7).require_forgetting()
    finally:
        json.__dict__.pop("_known", None)


def test_what_is_seen_before_a_search_is_no_memory_of_what_was_there_at_first() -> None:
    _known.clear()
    small = brought_down(f"{__name__}:memoizing", REGISTRY, None)
    assert small.scenario.workload.events
    assert not _known


def test_what_is_written_and_never_read_is_said_and_searched(tmp_path: Path) -> None:
    bench = Bench(with_mechanism(remembering.Noting(str(tmp_path / "notes"))).scenario, REGISTRY, seed=7)
    bench.require_forgetting()
    assert (
        bench.not_looked_at == f"what becomes of the files that it writes, which no crash takes: {tmp_path / 'notes'}"
    )


def test_what_cannot_go_on_in_another_process_is_said_and_searched() -> None:
    bench = Bench(with_mechanism(remembering.Noting(holding=True)).scenario, REGISTRY, seed=7)
    bench.require_forgetting()
    assert "its worlds cannot go on in another process (TypeError: cannot pickle 'generator'" in bench.not_looked_at


def test_a_twisted_slice_can_go_on_in_another_process() -> None:
    origin = "mutant:passive-standby-hot-letting-input-pass@trace.passive-replication"
    bench = Bench(REGISTRY.scenario(origin).scenario, REGISTRY, seed=7)
    bench.require_forgetting()
    assert not bench.not_looked_at


@dataclass(frozen=True)
class SavesWhatItGoesOnChanging(Mechanism):
    def attach(self, machine: Machine) -> AtWork:
        return _Saving(machine)


class _Saving(Filter):
    """What it saves is what it has become until it is restored, where nobody writes it down."""

    part = "saving"

    def save(self) -> dict[int, int]:
        return self.seen

    def restore(self, checkpoint: Checkpoint) -> None:
        saved: dict[Any, int] = checkpoint.parts.get(self.part) or {}
        self.seen = {int(place): seq for place, seq in saved.items()}


def test_a_part_of_a_checkpoint_that_goes_on_changing_is_refused() -> None:
    with pytest.raises(InvalidScenario, match=r"let save\(\) return what does not go on changing"):
        explore(with_mechanism(SavesWhatItGoesOnChanging()), REGISTRY, SearchBudget(schedules=10), seed=7, jobs=1)


_known: dict[int, str] = {}


@dataclass(frozen=True)
class Memoizing(Mechanism):
    def attach(self, machine: Machine) -> AtWork:
        return _Memoizing(machine)


class _Memoizing(AtWork):
    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        for event in events:
            _known.setdefault(event.seq, str(event.seq))
        return events


def memoizing() -> Scenario:
    return with_mechanism(Memoizing()).scenario


def test_what_is_remembered_and_makes_no_difference_is_searched() -> None:
    _known.clear()
    found = explore(with_mechanism(Memoizing()), REGISTRY, SearchBudget(schedules=10), seed=7, jobs=1)
    assert found.findings.statuses[Status.HOLDS]
    assert not _known, "whoever runs next finds it as it was"


class _Passing(AtWork):
    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        self.machine.reach("passing", "by")


@dataclass(frozen=True)
class Passing(Mechanism):
    """Has a crash point that it passes again and again, by one name."""

    def attach(self, machine: Machine) -> AtWork:
        return _Passing(machine)


def test_addresses_that_come_more_than_once_are_said_to_be_tried_the_first_time() -> None:
    found = explore(with_mechanism(Passing()), REGISTRY, SearchBudget(schedules=2), seed=7, jobs=1)
    assert {one.address.key for one in found.bench.passed_again} == {"passing by"}
    (said,) = (fact.text for fact in view_of_search(found).facts if fact.label == "passed again")
    assert re.match(
        r"3 of these addresses come more than once, as \S+ before mechanism passing by does \d+ times", said
    )


def test_claims_on_time_are_left_out_and_said() -> None:
    scenario = replace(named(SOUND).scenario, claims=[*named(SOUND).scenario.claimed, recovers_within(seconds(1))])
    bench = Bench(scenario, REGISTRY, seed=1)
    assert [str(guarantee) for guarantee in bench.not_judged] == ["recovers-within (1 s)"]
    assert [str(guarantee) for guarantee in bench.claims] == ["precise-recovery"]
    with pytest.raises(InvalidScenario, match="nothing that the simulator can judge"):
        Bench(replace(scenario, claims=[recovers_within(seconds(1))]), REGISTRY, seed=1)


def test_a_query_cannot_be_explored() -> None:
    with pytest.raises(Unsupported, match="the simulator runs schemes"):
        Bench(REGISTRY.scenario("query.word-count").scenario, REGISTRY, seed=1)


def test_mutants_are_scenarios_by_name() -> None:
    found = named(BROKEN)
    assert found.scenario.subject.kind == "passive-replication-without-vector"
    assert found.origin == BROKEN
    with pytest.raises(UnknownName, match="no mutant 'nonsense'"):
        REGISTRY.scenario(f"mutant:nonsense@{SOUND}")
    with pytest.raises(UnknownName, match="no scenario ''"):
        REGISTRY.scenario("mutant:gap-restoring-nothing")
    with pytest.raises(InvalidScenario, match="its subject is no scheme"):
        REGISTRY.scenario("mutant:gap-restoring-nothing@query.word-count")


# Shrinking


def test_a_violation_is_shrunk_to_one_fault_and_the_input_of_one_checkpoint() -> None:
    violation, small = shrunk()
    (fault,) = small.trial.schedule
    assert small.kind == violation.kind == ViolationKind("rollback-recovery-repeating", "duplicate-effect")
    assert len(fault.targets) == 1
    assert 20 < small.events <= 32, "as many as its first checkpoint takes, and some to come once it is durable"
    assert small.bench.attempt(small.trial).kind == small.kind


@pytest.mark.long
def test_input_is_left_to_come_after_a_strike_beside_the_way_of_the_data() -> None:
    """When the checkpoint is durable, on a real cluster, all that it needed may have been processed long before."""
    _, small = shrunk()
    (fault,) = small.trial.schedule
    assert isinstance(fault.trigger, Moment)
    assert fault.trigger.point in (Point.CHECKPOINT_DURABLE, Point.CHECKPOINT_TOLD)
    history = small.bench.run(small.trial.schedule, small.trial.seed)
    (struck,) = history.struck()
    later = [s.record for s in history.records if s.at > struck.stamp.at and isinstance(s.record, Offered)]
    assert len(later) == 1
    # None can be left where there is no more.
    short = bench_of(BROKEN, 20)
    kind = ViolationKind("rollback-recovery-repeating", "duplicate-effect")
    violating = next(
        trial
        for piece in EverySingle().pieces(short)
        for trial in EverySingle().trials(short, piece)
        if short.attempt(trial).kind == kind
    )
    assert shrink(short, violating, kind).events == 20


def test_what_rests_on_who_was_faster_is_not_shrunk_to() -> None:
    """A replica that joins blank is found out by a race between two replays, or by what nobody has any more."""
    bench = Bench(
        named("mutant:active-replication-joining-blank@trace.passive-replication", 80).scenario,
        REGISTRY,
        seed=7,
        options=LIKE_EMBEDDED,
    )
    found = search(bench, [EverySingle()], SearchBudget(100))
    shown = [shows_violation(bench, violation.trial, violation.kind, STEADY) for violation in found.violations]
    assert set(shown) == {True, False}
    steady = found.violations[shown.index(True)]
    small = shrink(bench, steady.trial, steady.kind, effort=3_000, seeds=STEADY)
    assert small.events < 80
    assert shows_violation(small.bench, small.trial, small.kind, STEADY)


@pytest.mark.long
def test_shrinking_gives_the_same_each_time() -> None:
    violation, small = shrunk()
    again = shrink(Bench(named(BROKEN).scenario, REGISTRY, seed=7), violation.trial, violation.kind, effort=EFFORT)
    assert (again.trial, again.events, again.runs) == (small.trial, small.events, small.runs)


def test_faults_targets_and_times_that_do_not_matter_go() -> None:
    bench = bench_of("mutant:passive-replication-without-source-log@trace.passive-replication")
    schedule = (
        untimed_crash(["trace-0"]).after(Duration(2_000)),
        untimed_crash(["relay-0", "trace-1"]).after(Duration(8_000)),
        untimed_crash(["trace-1"]).after(events(20)),
    )
    kind = bench.attempt(Trial(schedule, 5)).kind
    assert kind is not None
    small = shrink(bench, Trial(schedule, 5), kind)
    (fault,) = small.trial.schedule
    assert fault.targets == ("relay-0",)
    assert isinstance(fault.trigger, Moment)
    assert fault.trigger.incarnation == 1
    assert small.events == 1


def test_shrinking_is_bounded() -> None:
    violation, _ = shrunk()
    bench = bench_of(BROKEN)
    small = shrink(bench, violation.trial, violation.kind, effort=400)
    assert small.runs <= 20
    assert small.bench.attempt(small.trial).kind == violation.kind


# Counterexamples


def test_a_counterexample_is_read_as_it_was_written(file: Path) -> None:
    found = load_counterexample(file)
    assert found.origin == BROKEN
    assert found.kind == shrunk()[1].kind
    assert tuple(fault.fault() for fault in found.faults) == shrunk()[1].trial.schedule
    assert all(fault.address is not None for fault in found.faults)
    assert found.placement == {"node-0": ["relay-0"], "node-1": ["trace-0"], "node-2": ["trace-1"]}
    assert found.evidence


def test_a_counterexample_says_of_secondaries_too_with_which_node_they_die(tmp_path: Path) -> None:
    origin = "mutant:active-replication-never-in-step-again@word-count.active-replication"
    bench = bench_of(origin)
    violation = search(bench, plans(), SearchBudget(400), until=lambda v: True).violations[0]
    path = tmp_path / "counterexample.json"
    small = shrink(bench, violation.trial, violation.kind, effort=EFFORT)
    save(path, counterexample(named(origin), violation, small, named(origin).scenario))
    first: dict[str, str] = {}
    for entry in replay_counterexample(path).history.timeline:
        if isinstance(entry, Placed):
            first.setdefault(entry.actor, entry.node)
    assert "count-1/1" in first
    assert {actor: node for node, actors in load_counterexample(path).placement.items() for actor in actors} == first


@pytest.mark.parametrize(
    "fault",
    [
        partition("relay-0", "trace-0", one_way=True).after(ms(3)).lasting(ms(4)),
        delay("relay-0", "trace-0", by=ms(2)).at(Moment(Point.STARTED, actor="trace-0")),
        pause("relay-0", "node-1").at(Moment.exactly(Address("trace-0", 1, Point.STARTED, "", Side.AFTER, 2))),
        untimed_crash(["relay-0"]).after(events(3)),
    ],
    ids=str,
)
def test_a_saved_fault_is_read_as_it_was(fault: Fault) -> None:
    saved = msgspec.json.decode(msgspec.json.encode(SavedFault.of(fault)), type=SavedFault)
    assert saved.fault() == fault


def test_what_lasts_is_shrunk_to_a_short_while_and_keeps_its_parameters() -> None:
    """The zombie of a mutant that does not know its fence; any pause longer than the detection shows it."""
    bench = bench_of("mutant:passive-replication-without-source-log@trace.passive-replication")
    lasting = pause("relay-0", "trace-0").after(ms(9)).lasting(ms(200))
    kind = bench.attempt(Trial((lasting,), 5)).kind
    assert kind is not None
    small = shrink(bench, Trial((lasting,), 5), kind)
    (fault,) = small.trial.schedule
    assert fault.kind == "pause"
    assert fault.targets == ("relay-0",)
    assert fault.duration is not None
    assert bench.cluster.options.detection <= fault.duration.micros < 2 * bench.cluster.options.detection


def test_a_link_keeps_both_ends_when_it_is_shrunk() -> None:
    bench = bench_of("mutant:passive-replication-without-source-log@trace.passive-replication")
    schedule = (untimed_crash(["trace-1"]).after(ms(4)), loss("source-0", "relay-0").after(ms(9)))
    kind = bench.attempt(Trial(schedule, 5)).kind
    assert kind is not None
    small = shrink(bench, Trial(schedule, 5), kind)
    (fault,) = small.trial.schedule
    assert (fault.kind, fault.targets) == ("loss", ("source-0", "relay-0"))


def test_a_counterexample_replays_to_the_very_history(file: Path) -> None:
    replayed = replay_counterexample(file)
    assert replayed.reproduced
    assert replayed.exact
    assert replayed.judgement.digest == load_counterexample(file).digest


def test_every_kind_of_trigger_is_kept(tmp_path: Path) -> None:
    violation, small = shrunk()
    schedule = (
        *small.trial.schedule,
        untimed_crash(["trace-0"]).after(Duration(5_000)),
        untimed_crash(["trace-1"]).after(events(3)),
    )
    kept = counterexample(
        named(BROKEN), violation, replace(small, trial=Trial(schedule, small.trial.seed)), named(BROKEN).scenario
    )
    save(tmp_path / "it.json", kept)
    assert tuple(fault.fault() for fault in load_counterexample(tmp_path / "it.json").faults) == schedule
    assert replay_counterexample(tmp_path / "it.json").exact


def test_a_violated_claim_fails_a_test_in_one_line(file: Path) -> None:
    with pytest.raises(AssertionError, match=r"VIOLATED under: crash relay-0(.|\n)*duplicate-effect"):
        assert_survives(file)


def test_what_was_repaired_survives(file: Path) -> None:
    assert_survives(altered(file, origin=None), scenario=repaired())


def test_a_repair_that_keeps_something_in_an_operator_is_not_said_to_survive(file: Path) -> None:
    class Numbering(Trace):
        def __init__(self) -> None:
            self.made = 0

        def process(self, event: Event, state: dict[str, list[list[object]]]) -> tuple[Output]:
            self.made += 1
            return ((event.key, self.made),)

    topology = trace()
    numbering = replace(topology, stages={**topology.stages, "trace": Stage(Numbering(), 2)})
    with pytest.raises(InvalidOperator, match=r"Numbering.* does not give the same every time"):
        assert_survives(altered(file, origin=None), scenario=repaired(numbering))


def repaired(topology: Topology | None = None) -> Scenario:
    """What the mutant is without its mutation."""
    subject = passive_replication(topology or trace(), checkpoint_every=events(20))
    return Scenario(subject, numbered(events=500))


def test_a_fault_that_does_not_come_fails_the_test_too(file: Path) -> None:
    fault = json.loads(file.read_text())["faults"][0]
    missed = {**fault, "address": fault["address"].replace(" 1", " 999")}
    with pytest.raises(AssertionError, match=r"is UNKNOWN(.|\n)*never came(.|\n)*explore again"):
        assert_survives(altered(file, faults=[missed]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is damaged"),
        ("{", "is damaged"),
        ("[1]", "is not a counterexample"),
        ('{"version": 1}', "is not a counterexample"),
        ('{"version": 4, "faults": []}', "is damaged: Object missing required field"),
    ],
)
def test_what_is_no_counterexample_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(InvalidCounterexample, match=message):
        load_counterexample(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidCounterexample, match=r"none.json cannot be read: No such file"):
        load_counterexample(tmp_path / "none.json")


def test_another_version_is_refused(file: Path) -> None:
    with pytest.raises(UnknownCounterexampleVersion, match="has version 1; this streamproof reads version 4"):
        load_counterexample(altered(file, version=1))


@pytest.mark.parametrize(
    "fields",
    [
        {"faults": [{"kind": "crash", "targets": ["relay-0"], "address": "somewhere"}]},
        {"faults": [{"kind": "crash", "targets": ["relay-0"]}]},
        {"workload": {}},
        {"workload": {"name": "numbered", "seed": 7, "events": 0, "batch": 4}},
        {"found": {"schedule": 1}},
        {"world": {"nodes": "three"}},
        {"world": {"nodes": 10**12}},
        {"world": {"detection": -1}},
        {"world": {"link_delay": [800, 200]}},
    ],
)
def test_a_damaged_counterexample_is_refused(file: Path, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidCounterexample):
        replay_counterexample(altered(file, **fields))


def test_another_scenario_is_refused(file: Path) -> None:
    with pytest.raises(ScenarioChanged, match=r"another scenario: its subject was .*'trace'.* is .*'word-count'"):
        replay_counterexample(file, scenario=scenario_of("passive-replication/word-count-words"))
    other = replace(repaired(), workload=numbered(seed=8))
    with pytest.raises(ScenarioChanged, match="its workload was"):
        replay_counterexample(file, scenario=other)
    with pytest.raises(ScenarioChanged, match=r"not claimed any more; claimed: precise-recovery"):
        replay_counterexample(
            file,
            scenario=replace(
                repaired(), subject=passive_replication(trace(), checkpoint_every=EVERY, sink_filter=True)
            ),
        )


def test_a_scenario_without_a_name_has_to_be_handed_over(file: Path) -> None:
    with pytest.raises(InvalidCounterexample, match="hand over the scenario itself"):
        replay_counterexample(altered(file, origin=None))
    assert replay_counterexample(file, scenario=named(BROKEN).scenario).exact


class Elsewhere(SimulatedCluster):
    """A cluster that is not the simulator, with more nodes."""

    name = "elsewhere"


def test_a_cluster_that_places_slices_otherwise_is_refused(file: Path) -> None:
    with pytest.raises(Unsupported, match=r"elsewhere with 2 nodes places them otherwise"):
        replay_counterexample(file, Elsewhere(SimulationOptions(nodes=2)))


def test_a_real_cluster_gets_the_input_at_the_pace_at_which_it_was_found(file: Path, tmp_path: Path) -> None:
    replayed = replay_counterexample(altered(file, faults=[]), Elsewhere(), folder=tmp_path / "run")
    assert replayed.scenario.workload.interval == SimulationOptions().offer_interval
    assert read_description(tmp_path / "run").workload["rate"] == 1_000 * replayed.scenario.workload.batch


def test_a_counterexample_is_plain_data(file: Path) -> None:
    content = json.loads(file.read_text())
    assert content["version"] == 4
    assert set(content) == set(Counterexample.__struct_fields__)


def in_pairs(count: int, seed: int) -> Iterator[tuple[str, object]]:
    for number in range(count // 2):
        yield f"k{number % 8}", "in"
        yield f"k{number % 8}", "out"


def test_input_that_can_be_drawn_in_some_amounts_only_is_made_small_all_the_same() -> None:
    scenario = named(BROKEN).scenario
    bench = Bench(replace(scenario, workload=Workload("pairs", EVENTS, BATCH, in_pairs)), REGISTRY, seed=7)
    found = search(bench, plans(), SearchBudget(400), until=lambda violation: True)
    small = shrink(bench, found.violations[0].trial, found.violations[0].kind, effort=EFFORT)
    assert small.events < EVENTS
    assert small.events % 2 == 0
    assert small.bench.attempt(small.trial).kind == small.kind


class Choosy(Trace):
    """Of what `marked` draws, it takes ten events or more."""

    def process(self, event: Event, state: dict[str, list[list[object]]]) -> tuple[Output]:
        if event.key.endswith(" of few"):
            raise ValueError("too few")
        return super().process(event, state)


def marked(count: int, seed: int) -> Iterator[tuple[str, object]]:
    for number in range(count):
        yield f"k{number % 8} of {'few' if count < 10 else 'many'}", number


def test_input_with_which_code_fails_is_none_to_shrink_to() -> None:
    scenario = traced_by(Choosy()).scenario
    bench = Bench(replace(scenario, workload=Workload("marked", EVENTS, BATCH, marked)), REGISTRY, seed=7)
    found = search(bench, plans(), SearchBudget(400), until=lambda violation: True)
    small = shrink(bench, found.violations[0].trial, found.violations[0].kind, effort=EFFORT)
    assert 10 <= small.events < EVENTS


def test_what_fails_under_another_seed_does_not_show_whoever_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    violation, _ = shrunk()
    bench, run = bench_of(BROKEN), Bench.run

    def under_one_seed(self: Bench, schedule: Any, seed: int) -> Any:
        if seed != violation.trial.seed:
            raise InvalidOperator("by hand")
        return run(self, schedule, seed)

    monkeypatch.setattr(Bench, "run", under_one_seed)
    assert shows_violation(bench, violation.trial, violation.kind)
    assert not shows_violation(bench, violation.trial, violation.kind, STEADY)


def test_an_input_that_the_scenario_refuses_is_none_to_shrink_to() -> None:
    """In batches of one, the window would last longer than the time-out of its source."""
    sized, planned = shrunk_counterexample("source-replay-telling-of-what-is-in-the-window")
    assert sized.batch > 1
    assert planned.schedule.startswith("crash")
