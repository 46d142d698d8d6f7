"""The embedded cluster behind the contract of all clusters: a real Spark cluster made of processes on this machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from ...contracts.cluster import Cluster, Run, check_pace, check_room
from ...contracts.query import Query
from ...contracts.scenario import Scenario
from ...contracts.subject import Deployment, SchemeSubject
from ...core.addresses import Point
from ...core.carriers import FILE_LAYER, TOXIPROXY
from ...core.errors import Unsupported, UserMistake
from ...core.places import numbered_workers
from ...crash_points.files.mounting import MountedFolder, check_mounts
from ...crash_points.inside_spark.versions import supported
from ...install.machine import Spark, find_java, find_toxiproxy
from ...install.packages import with_jars
from ...install.settings import profile_settings
from ...install.spark_choice import NUMBER, check_packages, chosen_spark
from ..spark.control.nodes import OTHER_NODES, Nodes
from ..spark.queries.deployment import deploy_query
from ..spark.queries.driver_incarnations import executors_needed
from ..spark.queries.points import FILES, aimed_at, check_points
from ..spark.schemes.deployment import deploy_scheme
from .options import EmbeddedOptions
from .processes import SparkProcesses

USUAL: Final = EmbeddedOptions(restart_worker_after=2.0, restart_master_after=2.0)
_SCHEMES: Final = "slices"
"""The profile of settings that schemes run with, whatever queries do."""


class EmbeddedCluster:
    """One master, some workers with one executor each, and drivers, on loopback."""

    name = "embedded"
    virtual_time = False

    def __init__(self, options: EmbeddedOptions | None = None) -> None:
        self.options = options or USUAL
        if self.options.workers < 1:
            raise UserMistake(f"a cluster needs at least one worker, not {self.options.workers}")
        self.places = numbered_workers(self.options.workers, OTHER_NODES)

    def check(self, scenario: Scenario) -> None:
        java, spark = find_java(), spark_of(scenario)
        if isinstance(scenario.subject, Query):
            check_packages(scenario.subject.packages, spark, named=bool(scenario.subject.spark))
        check_subject(scenario, self.options.workers)
        if isinstance(scenario.subject, Query):
            # Here and not by a driver, whose start is waited for, and which may be dead when they come.
            with_jars(scenario.subject.configuration, spark, java)
        if Point.FILE in aimed_at(scenario):
            check_mounts()

    def require(self, carriers: Collection[str]) -> None:
        if TOXIPROXY in carriers:
            find_toxiproxy()
        if FILE_LAYER in carriers:
            check_mounts()

    def describe(self, scenario: Scenario) -> Mapping[str, object]:
        options = self._options(scenario)
        settings = profile_settings(options.profile, options.worker_memory_mb)
        return {"cluster": self.name, **asdict(options), "settings": settings}

    @contextmanager
    def deploy(self, run: Run) -> Iterator[Deployment]:
        assert run.folder is not None
        options = self._options(run.scenario)
        processes = SparkProcesses(run.id, run.folder, options, spark_of(run.scenario))
        with processes, _file_layer(run, processes) as files, deploy_subject(run, processes, files) as deployment:
            yield deployment

    def kept_warm(self, folder: Path | None = None) -> AbstractContextManager[Cluster]:
        return nullcontext(self)

    def _options(self, scenario: Scenario) -> EmbeddedOptions:
        profile = settings_profile(scenario, self.options.profile)
        return replace(self.options, profile=profile, executors=max(self.options.executors, executors_needed(scenario)))


def spark_of(scenario: Scenario) -> Spark:
    """The one that its subject runs on. Raises MissingTool, Unsupported."""
    wanted = scenario.subject.spark if isinstance(scenario.subject, Query) else ""
    if NUMBER.fullmatch(wanted):
        # Nobody is told to add what would be refused then.
        supported(wanted)
    return chosen_spark(wanted)


def check_subject(scenario: Scenario, workers: int) -> None:
    """Refuse what no Spark cluster of so many workers can run."""
    subject = scenario.subject
    if not isinstance(subject, SchemeSubject | Query):
        raise Unsupported(f"{subject.name} is a {subject.kind}, which Spark cannot run")
    if isinstance(subject, SchemeSubject):
        check_room(subject, workers)
        check_pace(scenario, None if scenario.workload.rate is None else scenario.workload.interval)
    if isinstance(subject, Query):
        check_points(scenario)
    if isinstance(subject, Query) and scenario.workload.rate is not None:
        raise Unsupported(f"{subject.name} takes its batches as fast as it can: leave out the workload's rate")


def settings_profile(scenario: Scenario, for_queries: str) -> str:
    """The profile of settings that its subject runs with."""
    return for_queries if isinstance(scenario.subject, Query) else _SCHEMES


def deploy_subject(run: Run, nodes: Nodes, files: MountedFolder | None = None) -> AbstractContextManager[Deployment]:
    """Serve one run on a cluster that is up; the folders of a query lie in `files`, where there is such."""
    return deploy_query(run, nodes, files) if isinstance(run.scenario.subject, Query) else deploy_scheme(run, nodes)


def _file_layer(run: Run, processes: SparkProcesses) -> AbstractContextManager[MountedFolder | None]:
    """Where a fault waits for operations on files, or refuses them. Each of them costs a query time."""
    if FILE_LAYER not in run.carriers and Point.FILE not in aimed_at(run.scenario):
        return nullcontext()
    environment = processes.environment_of(FILES, FILES)
    return MountedFolder(processes.scratch / FILES, run.id, environment, processes.logs_folder / "files.log")
