"""The simulated cluster behind the contract of all clusters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path

from ...contracts.cluster import Cluster, Live, Run, check_pace, check_room
from ...contracts.scenario import Scenario
from ...contracts.subject import Deployment, SchemeSubject
from ...core.errors import Unsupported
from ...core.model import Role
from ...core.places import numbered_workers
from ...core.quantities import Duration
from ...core.schedule import Fault
from ...protocol.controller import Controller
from ...protocol.stores import CheckpointStore, MemoryStore
from ...recording.history import FaultStruck, Stamp, TimelineEntry
from ...recording.recorder import Recorder
from ...recording.records import Record
from .memory_outside import OutsideMemory
from .world import Captured, SimulatedWorld, SimulationOptions
from .written import WrittenStore


class SimulatedCluster:
    """Runs schemes in virtual time. Deterministic: the seed and the schedule are everything."""

    name = "simulated"
    virtual_time = True

    def __init__(self, options: SimulationOptions | None = None, *, thorough: bool = False) -> None:
        """`thorough`: a crash takes also what the subject's code keeps outside of the world (`outside`), and disks keep
        what was written, whatever became of it (`written`)."""
        self.options = options or SimulationOptions()
        self._thorough = thorough
        self.places = numbered_workers(self.options.nodes)

    def check(self, scenario: Scenario) -> None:
        if not isinstance(scenario.subject, SchemeSubject):
            raise Unsupported(
                f"{scenario.subject.name} is a {scenario.subject.kind}; the simulator runs schemes on topologies only. "
                "A query runs on Spark: `run` with --cluster embedded; `certify` searches it for what breaks its claims"
            )
        check_room(scenario.subject, self.options.nodes)
        check_pace(scenario, self.options.interval(scenario.workload))

    def require(self, carriers: Collection[str]) -> None:
        """All of it is simulated."""

    def describe(self, scenario: Scenario) -> Mapping[str, object]:
        costs = {} if scenario.costs is None else {"costs": scenario.costs.describe()}
        return {"cluster": self.name, **asdict(self.options), **costs}

    @contextmanager
    def deploy(self, run: Run) -> Iterator[Deployment]:
        with self.simulate(run, Controller(run.scenario.faults)) as deployment:
            yield deployment

    def kept_warm(self, folder: Path | None = None) -> AbstractContextManager[Cluster]:
        return nullcontext(self)

    @contextmanager
    def simulate(self, run: Run, controller: Controller) -> Iterator[SimulatedDeployment]:
        """As `deploy`, under a controller of the caller's."""
        self.check(run.scenario)
        store = MemoryStore()
        if self._thorough:
            assert isinstance(run.scenario.subject, SchemeSubject)
            run = replace(run, recorder=_Forgetting(run.recorder, OutsideMemory(run.scenario.subject)))
            store = WrittenStore()
        deployment = SimulatedDeployment(run, self.options, controller, store)
        try:
            yield deployment
        finally:
            deployment.release()


class _Forgetting:
    """A recorder that sees to it that who was crashed remembers nothing."""

    def __init__(self, recorder: Recorder, outside: OutsideMemory) -> None:
        self._recorder = recorder
        self._outside = outside
        self.note: Callable[[int, Record], None] = recorder.note
        self.deployed: Callable[[Mapping[str, object]], None] = recorder.deployed

    def log(self, entry: TimelineEntry) -> None:
        self._recorder.log(entry)
        if isinstance(entry, FaultStruck) and entry.bite.gone:
            self._outside.put_back()

    @property
    def latest(self) -> Stamp:
        return self._recorder.latest


class SimulatedDeployment:
    """One run in the simulator."""

    def __init__(
        self, run: Run, options: SimulationOptions, controller: Controller, store: CheckpointStore | None = None
    ) -> None:
        assert isinstance(run.scenario.subject, SchemeSubject)
        subject = run.scenario.subject
        specs = subject.specs
        batches = {s.slice_id: run.scenario.workload.batches(s.slice_id) for s in specs if s.role is Role.SOURCE}
        self._world = SimulatedWorld(
            specs,
            subject.replicas,
            subject.speaking,
            subject.wrap_store(store or MemoryStore()),
            batches,
            run.scenario.workload.stretch,
            options.interval(run.scenario.workload),
            controller,
            run.kinds,
            run.recorder,
            options,
            run.seed,
            run.scenario.costs,
            subject.coordinators,
            subject.placed,
            subject.restarts_by,
        )
        self._show = run.show
        self.now: Callable[[], Stamp] = self._world.stamp
        """The time of the world, and its step."""

    @property
    def steps(self) -> int:
        """How many steps the world has taken."""
        return self._world.steps

    def prepare(self) -> None:
        self._world.prepare()

    def start(self) -> None:
        self._world.start()

    def drained(self, deadline: Duration) -> bool:
        """Virtual time needs no deadline: the world runs until nothing more is due."""
        drained = self._world.rest()
        self._show(Live(self._world.progress.offered, self._world.progress.delivered, ""))
        return drained

    @property
    def stalled(self) -> bool:
        return self._world.at_rest

    def waiting_for(self) -> str:
        return self._world.waiting_for()

    def would_bite(self, number: int, fault: Fault) -> bool:
        """Whether a crash, as the fault of that number, would bite all of its targets now. Raises Unsupported for what
        shows only when it heals."""
        return self._world.would_bite(number, fault)

    # Being put back; see `capturing`

    def run_to(self, step: int) -> bool:
        """Run until so many steps have been taken. Returns whether more is due."""
        return self._world.run_to(step)

    def watch_anew(self) -> None:
        """The controller waits for something else from now on."""
        self._world.watch_anew()

    def capture(self) -> Captured:
        """Everything as it is now, between two steps. Raises NotCapturable."""
        return self._world.capture()

    def restore(self, captured: Captured) -> None:
        """Go on from there."""
        self._world.restore(captured)

    def silent(self) -> None:
        """Its time is virtual: who waits for nothing there is at rest."""

    def stop(self) -> None:
        self._world.inspect()

    def release(self) -> None:
        """Nothing more can be asked of it than its steps."""
        self._world.release()
