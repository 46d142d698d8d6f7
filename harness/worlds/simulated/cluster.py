"""The simulated cluster behind the contract of all clusters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path

from ...contracts.cluster import Cluster, Run, check_pace, check_room
from ...contracts.scenario import Scenario
from ...contracts.subject import Deployment, SchemeSubject
from ...core.errors import Unsupported
from ...core.kept_files import listening
from ...core.places import numbered_workers
from ...protocol.controller import Controller
from ...recording.history import Bite, FaultStruck, NodeGone, NodeUp, Remembered, Stamp, TimelineEntry
from ...recording.recorder import Recorder
from ...recording.records import Record
from .carried_over import OtherProcess
from .deployment import SimulatedDeployment
from .memory_outside import OutsideMemory
from .options import SimulationOptions
from .remembering import find_remembered
from .written import WrittenNetwork, WrittenStore


class SimulatedCluster:
    """Runs schemes in virtual time. Deterministic: the seed and the schedule are everything."""

    name = "simulated"
    virtual_time = True

    def __init__(self, options: SimulationOptions | None = None, *, thorough: bool = False) -> None:
        """`thorough`: whoever comes in the place of another finds what the subject's code keeps outside of the world
        (`memory_outside`) as it was at first; disks and links pass on what was written and sent, whatever became of it
        (`written`); and of code that is not streamproof's own it is found out, after a run in which a node was lost,
        whether it remembers more than that takes (`remembering`)."""
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
        if not self._thorough:
            with self.simulate(run, Controller(run.scenario.faults)) as deployment:
                yield deployment
            return
        assert isinstance(run.scenario.subject, SchemeSubject)
        outside = OutsideMemory(run.scenario.subject)
        forgetting = _Forgetting(run.recorder, outside)
        # As the subject is now: what no other process imports is there what it is here, and the run may change it.
        other = OtherProcess(run.scenario.subject) if run.scenario.faults and outside.has_code_of_others else None
        try:
            with listening(run.folder) as listener, self._forgetful(run, forgetting) as deployment:
                yield deployment
            if not forgetting.losses or other is None:
                return
            outside.put_back()
            what, not_looked_at = find_remembered(
                run,
                lambda again: self._forgetful(again, _Forgetting(again.recorder, outside)),
                forgetting.losses,
                other,
                listener.heard,
            )
            if what or not_looked_at:
                run.recorder.log(Remembered(run.recorder.latest, what, not_looked_at))
        finally:
            outside.put_back()

    def kept_warm(self, folder: Path | None = None) -> AbstractContextManager[Cluster]:
        return nullcontext(self)

    @contextmanager
    def simulate(self, run: Run, controller: Controller) -> Iterator[SimulatedDeployment]:
        """As `deploy`, under a controller of the caller's; not thorough."""
        self.check(run.scenario)
        deployment = SimulatedDeployment(run, self.options, controller)
        try:
            yield deployment
        finally:
            deployment.release()

    @contextmanager
    def simulate_thoroughly(self, outside: OutsideMemory, run: Run) -> Iterator[SimulatedDeployment]:
        """As `simulate`, where disks and links pass on what was written and sent, and each loss of a node puts back
        what is `outside` of the world."""
        with self._forgetful(run, _Forgetting(run.recorder, outside)) as deployment:
            yield deployment

    @contextmanager
    def _forgetful(self, run: Run, forgetting: _Forgetting) -> Iterator[SimulatedDeployment]:
        self.check(run.scenario)
        run = replace(run, recorder=forgetting)
        controller = Controller(run.scenario.faults)
        deployment = SimulatedDeployment(run, self.options, controller, WrittenStore(), WrittenNetwork)
        try:
            yield deployment
        finally:
            deployment.release()


class _Forgetting:
    """A recorder that sees to it that nobody remembers what another did in whose place he is. Elsewhere, where there is
    nothing to remember, it is the recorder that it passes on to."""

    def __init__(self, recorder: Recorder, outside: OutsideMemory) -> None:
        self._recorder = recorder
        self._outside = outside
        self.losses: list[int] = []
        """The steps in which a node was lost."""
        self._down: set[str | None] = set()
        """Nodes that have crashed, and are not back."""
        self.note: Callable[[int, Record], None] = recorder.note
        self.deployed: Callable[[Mapping[str, object]], None] = recorder.deployed

    def log(self, entry: TimelineEntry) -> None:
        self._recorder.log(entry)
        if self._is_loss(entry):
            self.losses.append(entry.stamp.step or 0)
            self._outside.put_back()

    def _is_loss(self, entry: TimelineEntry) -> bool:
        """Whether a node has crashed, or is given up for lost that has not: whoever comes in the place of what is
        frozen there is in another process. What is frozen finds the same, should it wake."""
        match entry:
            case FaultStruck(bite=Bite(gone=True, node=node)):
                self._down.add(node)
                return True
            case NodeGone(node=node):
                return node not in self._down
            case NodeUp(node=node):
                self._down.discard(node)
        return False

    @property
    def latest(self) -> Stamp:
        return self._recorder.latest

    def __reduce__(self) -> tuple[Callable[[Recorder], Recorder], tuple[Recorder]]:
        return _itself, (self._recorder,)


def _itself(recorder: Recorder) -> Recorder:
    return recorder
