"""The embedded cluster behind the contract of all clusters: a real Spark cluster made of processes on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace

from ..cluster import Run
from ..errors import Unsupported
from ..scenario import Scenario
from ..subject import Deployment, SchemeSubject
from .machine import find_java, find_spark
from .processes import EmbeddedOptions, SparkProcesses
from .scheme import deploy_scheme
from .settings import profile_settings


class EmbeddedCluster:
    """One master, some workers with one executor each, and drivers, on loopback."""

    name = "embedded"
    virtual_time = False

    def __init__(self, options: EmbeddedOptions | None = None) -> None:
        self.options = options or EmbeddedOptions(restart_worker_after=2.0)
        self.nodes = tuple(f"node-{i}" for i in range(self.options.workers))

    def check(self, scenario: Scenario) -> None:
        find_java()
        find_spark()
        if not isinstance(scenario.subject, SchemeSubject):
            raise Unsupported(f"{scenario.subject.name} is a {scenario.subject.kind}, which embedded Spark cannot run")

    def describe(self) -> Mapping[str, object]:
        options = self._options_for_slices()
        settings = profile_settings(options.profile, options.worker_memory_mb)
        return {"cluster": self.name, **asdict(options), "settings": settings}

    @contextmanager
    def deploy(self, run: Run) -> Iterator[Deployment]:
        assert run.folder is not None
        with (
            SparkProcesses(run.id, run.folder, self._options_for_slices()) as processes,
            deploy_scheme(run, processes) as deployment,
        ):
            yield deployment

    def _options_for_slices(self) -> EmbeddedOptions:
        return replace(self.options, profile="slices")
