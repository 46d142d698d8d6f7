"""The drivers of a query's run: the references', and one for each incarnation of the judged query.

An incarnation can stand by: its session is up, and has run the query's first batch from a checkpoint that is thrown
away, before it is needed. Then a process that knows nothing of that waits to be told to begin, and looks at the
checkpoint only then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from ....contracts.cluster import Run
from ....contracts.query import Query, RunFolders, label_of
from ....contracts.scenario import Scenario
from ....core.addresses import DRIVER, Moment
from ....core.errors import StorageFailed
from ....core.events import Event
from ....core.schedule import Fault
from ....crash_points.files.mounting import MountedFolder
from ....crash_points.inside_spark.versions import supported
from ....crash_points.outside.relay import StoreRelay
from ....install.private_files import write_private
from ....install.settings import DAEMON_MODULE, MOST_CORES
from ....install.spark_choice import chosen_spark, chosen_version
from ....judging.references import REFERENCES, SINK
from ..control.nodes import Driver, Nodes
from ..control.run_server import RunServer
from .attaching import WAREHOUSE
from .driver_plan import QueryPlan, QueryRun, write_query_plan
from .points import PointWatch
from .source import SourcePlan, spans, with_source, write_input

REFERENCE_DRIVER: Final = "reference"
SPLIT_BRAIN: Final = "split-brain"
CHECKPOINT, SINK_FOLDER = "checkpoint", "sink"
"""How the folders of the judged query are called in the file layer."""
STANDBYS: Final = 2
"""At most: a driver that comes up keeps one core busy."""
MOST_EXECUTORS: Final = 2
"""That a worker must have room for, whatever the scenario is."""
_SUCCEEDED: Final = frozenset({"crash", "stop", SPLIT_BRAIN})
"""The kinds of fault after which another driver takes the place of the one that was hit."""
_SETTINGS: Final = {
    # Partitions of the state; each costs every batch a task.
    "spark.sql.shuffle.partitions": "2",
    "spark.python.daemon.module": DAEMON_MODULE,
}


def successions(faults: Iterable[Fault]) -> int:
    """How often one driver of a query will have to be followed by another, as far as that is sure."""
    hit = [fault for fault in faults if DRIVER in fault.targets]
    # Of the others, some must find each successor on the same node.
    return len(hit) if all(fault.kind in _SUCCEEDED for fault in hit) else 0


def _hits_drivers_alone(scenario: Scenario) -> bool:
    return bool(scenario.faults) and all(fault.targets == (DRIVER,) for fault in scenario.faults)


def standbys(scenario: Scenario, workers: int) -> int:
    """How many drivers can stand by at once: all that are up have executors, whoever came first."""
    room = workers * MOST_EXECUTORS if _hits_drivers_alone(scenario) else MOST_EXECUTORS
    return min(STANDBYS, room - 1)


def _executors(scenario: Scenario, workers: int) -> dict[str, str]:
    """One on every worker, so that every one can be hit; where drivers alone are, one that has a core for each task."""
    if _hits_drivers_alone(scenario):
        return {"spark.executor.cores": str(MOST_CORES), "spark.cores.max": str(MOST_CORES)}
    return {"spark.cores.max": str(workers)}


def executors_needed(scenario: Scenario) -> int:
    """For how many a worker must have room: that of the driver that runs, and of the next."""
    return MOST_EXECUTORS if isinstance(scenario.subject, Query) and successions(scenario.faults) else 1


@dataclass(eq=False)
class DriverIncarnation:
    """One incarnation of the judged driver, or the driver of the references."""

    incarnation: int
    node: str
    launched: int
    """On the machine's monotonic clock, ns."""
    process: Driver | None = None
    """None until it was started: a driver can be heard before whoever starts it has come back."""
    ready: bool = False
    """It has a session, and waits to be told to begin."""
    go: asyncio.Event = field(default_factory=asyncio.Event)
    failed: str = ""
    """Why it cannot stand by."""
    conversations: int = 0
    """Connections of its that have not been heard to their end."""

    @property
    def started_process(self) -> Driver:
        assert self.process is not None, f"incarnation {self.incarnation} was not started"
        return self.process

    @property
    def runs(self) -> bool:
        return self.process is None or self.process.poll() is None

    @property
    def pid(self) -> int | None:
        """Of its Python process; None where that is in a container."""
        return getattr(self.process, "pid", None)

    @property
    def over(self) -> bool:
        """Its driver has ended, and all that it said was heard."""
        return not self.runs and not self.conversations


class Launcher:
    """Starts the drivers of one run."""

    def __init__(
        self,
        run: Run,
        nodes: Nodes,
        batches: Sequence[Sequence[Event]],
        server: RunServer,
        watch: PointWatch,
        relay: StoreRelay,
        files: MountedFolder | None,
    ) -> None:
        assert isinstance(run.scenario.subject, Query)
        assert run.folder is not None
        self._run = run
        self._query = run.scenario.subject
        self._nodes = nodes
        self._batches = batches
        self._server = server
        self._watch = watch
        self._relay = relay
        self._source_in_java = supported(chosen_version(self._query.spark)).source_in_java
        self._stored = (run.folder / "checkpoints").resolve()
        """On the storage that outlives the nodes."""
        self._files = files
        self._splits = any(fault.kind == SPLIT_BRAIN for fault in run.scenario.faults)

    def write_input(self) -> None:
        """What the drivers find when they start. Raises StorageFailed."""
        self._aside = self._server.call(self._relay.open_aside())
        self._input = self._nodes.scratch / "input"
        try:
            write_input(self._input, self._batches, self._source_in_java)
        except OSError as error:
            raise StorageFailed(f"cannot write {self._input}: {error.strerror or error}") from error

    def start_references(self, driver: DriverIncarnation) -> None:
        runs = tuple(self._run_of(driver.node, actor, actor, driver.incarnation) for actor in REFERENCES)
        driver.process = self._start(self._plan(driver.node, driver.incarnation, runs), watched=False)

    def start_incarnation(self, driver: DriverIncarnation, stands_by: bool) -> None:
        """Start the judged driver's next incarnation, which waits to be told to begin."""
        node, incarnation = driver.node, driver.incarnation
        armed = None if self._run.passed is not None else self._server.armed
        run = self._run_of(node, DRIVER, SINK, incarnation, armed)
        # Each incarnation has a way to the stores of its own, by which it is known.
        stores = self._server.call(self._relay.open(incarnation, run.folders.label))
        run = replace(run, folders=replace(run.folders, stores=stores))
        plan = self._plan(node, incarnation, (replace(run, waits=True, asks_to_read=self._splits),))
        if stands_by:
            plan = replace(plan, stands_by=True, warm_up=self._warm_up(node, incarnation))
        driver.process = self._start(plan, watched=True)

    def _warm_up(self, node: str, incarnation: int) -> QueryRun | None:
        """None where it would leave something outside of its folders."""
        if not self._query.copyable:
            return None
        label = f"{self._run.id}-{node}-warm-up"
        folder = (self._nodes.scratch / label).resolve()
        run = self._run_of(node, label, "", incarnation, batches=1)
        return replace(run, folders=RunFolders(label_of(label), folder / "sink", folder / "checkpoint"))

    def plan_of(self, driver: DriverIncarnation) -> Path:
        return self._nodes.scratch / f"{driver.node}.{driver.incarnation}.pickle"

    def folders(self, actor: str) -> RunFolders:
        label = label_of(f"{self._run.id}-{actor}")
        if self._files is not None and actor == DRIVER:
            # As a recovery worker has them, so that operations are called alike.
            here = self._files.mount.resolve()
            return RunFolders(label, here / SINK_FOLDER, here / CHECKPOINT)
        return RunFolders(label, self._stored / f"{actor}.sink", self._stored / actor)

    def _run_of(
        self,
        node: str,
        actor: str,
        sink: str,
        incarnation: int,
        armed: tuple[Moment, ...] | None = (),
        batches: int | None = None,
    ) -> QueryRun:
        source = SourcePlan(
            str(self._input.resolve()),
            len(self._batches) if batches is None else batches,
            node,
            actor,
            incarnation,
            self._server.token,
            self._server.place,
            armed,
        )
        path = write_private(self._nodes.scratch / f"{actor}.{incarnation}.json", msgspec.json.encode(source))
        # Nobody listens to the references, nor to what is no part of the query.
        folders = replace(self.folders(actor), stores=self._aside)
        return QueryRun(actor, sink, folders, path.resolve(), armed, stores_aside=self._aside)

    def _plan(self, node: str, incarnation: int, runs: tuple[QueryRun, ...]) -> QueryPlan:
        server = self._server
        return QueryPlan(server.token, server.place, node, incarnation, self._query, spans(self._batches), runs)

    def _start(self, plan: QueryPlan, watched: bool) -> Driver:
        path = self._nodes.scratch / f"{plan.node}.{plan.incarnation}.pickle"
        write_query_plan(path, plan)
        executors = _executors(self._run.scenario, self._nodes.workers)
        # What is warmed up leaves nothing where the run itself begins.
        folders = (plan.warm_up or plan.runs[0]).folders
        settings = {**_SETTINGS, **executors, WAREHOUSE: str(folders.warehouse), **self._query.configuration}
        if self._source_in_java:
            settings = with_source(settings, chosen_spark(self._query.spark))
        environment = {}
        if watched:
            settings |= self._watch.settings(plan.node, plan.incarnation, settings)
            environment = self._watch.environment(plan.node, plan.incarnation)
        module = "streamproof.harness.worlds.spark.queries.driver"
        return self._nodes.start_driver(plan.node, module, [str(path.resolve())], environment, settings)


def committed(checkpoint: Path) -> int:
    """The last batch in Spark's commit log; -1: none."""
    return _last(checkpoint / "commits")


def last_planned_batch(checkpoint: Path) -> int:
    """The last batch in Spark's offset log; -1: none."""
    return _last(checkpoint / "offsets")


def _last(log: Path) -> int:
    try:
        return max((int(file.name) for file in log.iterdir() if file.name.isdigit()), default=-1)
    except FileNotFoundError:
        return -1
