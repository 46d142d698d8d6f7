"""The cluster of containers behind the contract of all clusters: a real Spark cluster on a network of its own."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from ...contracts.cluster import Cluster, Run
from ...contracts.query import Query
from ...contracts.scenario import Scenario
from ...contracts.subject import Deployment
from ...core.addresses import Point
from ...core.carriers import CPU_QUOTA, DISK_THROTTLE, MEMORY_LIMIT, OF_PACKETS, STORE_FOLDER, STORE_VOLUME
from ...core.errors import MissingTool, Unsupported
from ...core.places import numbered_workers
from ...install.machine import find_java
from ...install.packages import with_jars
from ...install.settings import profile_settings
from ...install.spark_choice import check_packages
from ..embedded.cluster import check_subject, deploy_subject, settings_profile, spark_of
from ..spark.control.nodes import OTHER_NODES
from ..spark.control.warm import WarmCluster
from ..spark.queries.driver_incarnations import MOST_EXECUTORS, STANDBYS, executors_needed
from ..spark.queries.points import aimed_at
from . import image
from .code import code_under_test
from .engine import connect
from .options import ContainerOptions
from .spark import SparkContainers

_USED_MB = {"master": 300, "worker": 800, "driver": 600}
"""What a container comes to use, by role. Measured, rounded up."""
_EXECUTOR_MB = 600
"""Of a worker's that has one more executor."""


class DockerCluster:
    """One master, some workers with one executor each, and drivers: a container each, on the engine of this machine."""

    name = "docker"
    virtual_time = False

    def __init__(self, options: ContainerOptions | None = None) -> None:
        self.options = options or ContainerOptions()
        self.places = numbered_workers(self.options.workers, OTHER_NODES)

    def check(self, scenario: Scenario) -> None:
        check_subject(scenario, self.options.workers)
        if Point.FILE in aimed_at(scenario):
            raise Unsupported("containers say nothing of operations on files: try it on the embedded cluster")
        subject, spark = scenario.subject, spark_of(scenario)
        if isinstance(subject, Query):
            check_packages(subject.packages, spark, named=bool(subject.spark))
        with closing(connect()) as engine:
            image.require(engine, self.options.image, spark.python)
        self._check_memory(self._executors(scenario))
        if isinstance(subject, Query):
            # Before anything starts, and by no driver: the containers' network has no way out.
            with_jars(subject.configuration, spark, find_java())

    def _check_memory(self, executors: int) -> None:
        memory = memory_for(self.options.workers, executors)
        if not memory.enough:
            raise MissingTool(f"too little memory is free: {memory}")

    def require(self, carriers: Collection[str]) -> None:
        """Tools are in the image; what the kernel lacks is seen when the cluster comes up."""

    def describe(self, scenario: Scenario) -> Mapping[str, object]:
        options = self._options(scenario)
        settings = profile_settings(options.profile, options.worker_memory_mb)
        name = options.image or image.tag(spark_of(scenario).python)
        return {"cluster": self.name, **asdict(options), "image": name, "settings": settings}

    @contextmanager
    def deploy(self, run: Run) -> Iterator[Deployment]:
        assert run.folder is not None
        options, spark = self._options(run.scenario), spark_of(run.scenario)
        with (
            SparkContainers(run.id, run.folder, options, run.carriers, spark=spark) as containers,
            deploy_subject(run, containers) as deployment,
        ):
            yield deployment

    @contextmanager
    def kept_warm(self, folder: Path | None = None) -> Iterator[Cluster]:
        with WarmCluster[SparkContainers](folder or Path("runs")) as warm:
            yield _WarmDockerCluster(self.options, warm)

    def _options(self, scenario: Scenario) -> ContainerOptions:
        profile = settings_profile(scenario, self.options.profile)
        return replace(self.options, profile=profile, executors=max(self.options.executors, self._executors(scenario)))

    def _executors(self, scenario: Scenario) -> int:
        """For how many a worker must have room."""
        return executors_needed(scenario)


_OF_THE_STORE = frozenset({STORE_VOLUME, STORE_FOLDER, DISK_THROTTLE})
"""What carries out faults of the checkpoint store, which is mounted when nodes are made."""
_OF_NODES = OF_PACKETS | {CPU_QUOTA, MEMORY_LIMIT}
"""What is made ready when nodes are. Any other carrier is at hand on every cluster."""


class _WarmDockerCluster(DockerCluster):
    """Runs whose checkpoint store is to be disturbed have a cluster of their own."""

    def __init__(self, options: ContainerOptions, warm: WarmCluster[SparkContainers]) -> None:
        super().__init__(options)
        self._warm = warm

    def _check_memory(self, executors: int) -> None:
        """A cluster that is kept has what it needs, or makes room for the next."""
        if not self._warm.keeps_one:
            super()._check_memory(executors)

    def _executors(self, scenario: Scenario) -> int:
        """For any query alike: those of one subject follow each other, and some have a driver stand by."""
        return MOST_EXECUTORS if isinstance(scenario.subject, Query) else super()._executors(scenario)

    @contextmanager
    def deploy(self, run: Run) -> Iterator[Deployment]:
        if not run.carriers.isdisjoint(_OF_THE_STORE):
            if not memory_for(self.options.workers, executors_needed(run.scenario)).enough:
                self._warm.give_up("a run on a cluster of its own needed the memory")
            with super().deploy(run) as deployment:
                yield deployment
            return
        options = self._options(run.scenario)
        carriers, spark = run.carriers & _OF_NODES, spark_of(run.scenario)

        def make(label: str, folder: Path) -> SparkContainers:
            return SparkContainers(label, folder, options, carriers, folder, spark)

        with (
            # What its nodes can import is settled when they are started, and what carries faults out.
            self._warm.serve(run, make, needs=(options, carriers, spark, code_under_test(spark.python))) as (
                there,
                containers,
            ),
            deploy_subject(there, containers) as deployment,
        ):
            yield deployment

    @contextmanager
    def kept_warm(self, folder: Path | None = None) -> Iterator[Cluster]:
        yield self


@dataclass(frozen=True)
class Memory:
    """What containers for so many workers come to use, and what is free, in bytes."""

    workers: int
    wanted: int
    free: int

    @property
    def enough(self) -> bool:
        return self.free >= self.wanted

    def __str__(self) -> str:
        return (
            f"{self.workers} workers in containers, with master and driver, want {self.wanted / 2**30:.1f} GiB; "
            f"{self.free / 2**30:.1f} are free"
        )


def memory_for(workers: int, executors: int = 1) -> Memory:
    """Where a worker has room for more than one executor, drivers stand by."""
    more = executors - 1
    worker = _USED_MB["worker"] + more * _EXECUTOR_MB
    drivers = 1 + STANDBYS if more else 1
    wanted = (_USED_MB["master"] + workers * worker + drivers * _USED_MB["driver"]) << 20
    return Memory(workers, wanted, psutil.virtual_memory().available)
