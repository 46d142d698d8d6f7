"""The clusters by name. Each is imported only when it is asked for: not every machine can run them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..cluster import Cluster
from ..errors import MissingTool, UnknownName, Unsupported


def _simulated() -> Cluster:
    from ..simulated.cluster import SimulatedCluster

    return SimulatedCluster()


def _embedded() -> Cluster:
    try:
        from ..embedded.cluster import EmbeddedCluster
    except ImportError as error:
        raise Unsupported(f"this installation cannot run embedded Spark: {error}") from error
    return EmbeddedCluster()


def _docker() -> Cluster:
    try:
        from ..containers.cluster import DockerCluster
    except ImportError as error:
        raise Unsupported(f"this installation cannot run Spark in containers: {error}") from error
    return DockerCluster()


CLUSTERS: Final[dict[str, Callable[[], Cluster]]] = {
    "embedded": _embedded,
    "simulated": _simulated,
    "docker": _docker,
}
"""Name -> how to make one with its default sizes."""

SIMULATOR_INSTEAD: Final = (
    "`streamproof doctor` shows what is missing; without it, run in the simulator: --cluster simulated"
)


def make_cluster(name: str | None) -> Cluster:
    """The cluster of that name; without one, embedded Spark where this machine can run it.

    Raises UnknownName, Unsupported, and, where embedded Spark is wanted and cannot run, MissingTool.
    """
    if name is not None and name not in CLUSTERS:
        raise UnknownName("cluster", name, sorted(CLUSTERS))
    if name in (None, "embedded"):
        _require_embedded()
    return CLUSTERS[name or "embedded"]()


def _require_embedded() -> None:
    from ..embedded.machine import find_java, find_spark

    try:
        find_java()
        find_spark()
    except MissingTool as error:
        raise MissingTool(f"{error}.\n{SIMULATOR_INSTEAD}") from error
