"""One run in the simulator, as a deployment."""

from __future__ import annotations

from collections.abc import Callable

from ...contracts.cluster import Live, Run
from ...contracts.subject import SchemeSubject
from ...core.quantities import Duration
from ...core.schedule import Fault
from ...core.topology import Role
from ...protocol.controller import Controller
from ...protocol.making import store_within
from ...protocol.stores import CheckpointStore, MemoryStore
from ...recording.history import Stamp
from .network import Network
from .options import SimulationOptions
from .world import Captured, SimulatedWorld


class SimulatedDeployment:
    """One run in the simulator."""

    def __init__(
        self,
        run: Run,
        options: SimulationOptions,
        controller: Controller,
        store: CheckpointStore | None = None,
        network: type[Network] = Network,
    ) -> None:
        assert isinstance(run.scenario.subject, SchemeSubject)
        subject = run.scenario.subject
        specs = subject.specs
        self._workload = run.scenario.workload
        self._sources = [s.slice_id for s in specs if s.role is Role.SOURCE]
        batches = {source: self._workload.batches(source) for source in self._sources}
        self._world = SimulatedWorld(
            specs,
            subject.replicas,
            subject.active_replicas,
            store_within(subject.wrap_store, store or MemoryStore()),
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
            network,
        )
        self._show = run.show
        self.now: Callable[[], Stamp] = self._world.stamp
        """The time of the world, and its step."""
        self.has_left: Callable[[], int] = self._world.has_left
        """How often something has left a node otherwise than by a link or a write."""

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

    def control(self, controller: Controller) -> None:
        """From now on this one decides when faults strike. It waits for no time that has passed."""
        self._world.control(controller)

    def capture(self) -> Captured:
        """Everything as it is now, between two steps. Raises NotCapturable."""
        return self._world.capture()

    def restore(self, captured: Captured) -> None:
        """Go on from there."""
        self._world.restore(captured)

    def silent(self) -> None:
        """Its time is virtual: who waits for nothing there is at rest."""

    def stop(self) -> None:
        """Raises UsersCodeFailed for code that has changed what it was given, and with it the record of what was
        offered, by which it would be judged."""
        self._world.inspect()
        for source in self._sources:
            self._workload.require_unchanged(source)

    def release(self) -> None:
        """Nothing more can be asked of it than its steps."""
        self._world.release()
