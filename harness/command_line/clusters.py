"""The clusters by name. Each is imported only when it is asked for: not every machine can run them all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from ..contracts.cluster import Cluster
from ..contracts.query import Query
from ..contracts.scenario import Scenario
from ..core.errors import MissingTool, UnknownName, Unsupported
from ..running.replaying import options_of

QUERY_PROFILES: Final = ("default", "tuned")
"""Of Spark's settings, for queries."""


def _simulated(profile: str | None) -> Cluster:
    from ..worlds.simulated.cluster import SimulatedCluster

    if profile is not None:
        raise Unsupported("there is no Spark in the simulator: leave out --profile")
    return SimulatedCluster(thorough=True)


def _embedded(profile: str | None) -> Cluster:
    try:
        from ..worlds.embedded.cluster import USUAL, EmbeddedCluster
    except ImportError as error:
        raise Unsupported(f"this installation cannot run embedded Spark: {error}") from error
    return EmbeddedCluster(USUAL if profile is None else replace(USUAL, profile=profile))


def _docker(profile: str | None) -> Cluster:
    try:
        from ..worlds.docker.cluster import DockerCluster
        from ..worlds.docker.options import ContainerOptions
    except ImportError as error:
        raise Unsupported(f"this installation cannot run Spark in containers: {error}") from error
    return DockerCluster(None if profile is None else ContainerOptions(profile=profile))


CLUSTERS: Final[dict[str, Callable[[str | None], Cluster]]] = {
    "embedded": _embedded,
    "simulated": _simulated,
    "docker": _docker,
}
"""Name -> how to make one with its default sizes, and with a profile of Spark's settings or the usual one."""

SIMULATOR_INSTEAD: Final = (
    "`streamproof doctor` shows what is missing; without it, run in the simulator: --cluster simulated"
)


def check_profile(name: str, scenario: Scenario) -> None:
    """Raises UnknownName, and Unsupported where the scenario leaves no choice."""
    if name not in QUERY_PROFILES:
        raise UnknownName("profile", name, list(QUERY_PROFILES))
    if not isinstance(scenario.subject, Query):
        raise Unsupported(
            f"{scenario.subject.name} is no query: its tasks run for as long as it does, and need settings of their "
            "own; leave out --profile"
        )


def make_cluster(name: str | None, profile: str | None = None) -> Cluster:
    """The cluster of that name; without one, embedded Spark where this machine can run it. `profile` is that of Spark's
    settings for queries; None: the usual one.

    Raises UnknownName, Unsupported, and, where embedded Spark is wanted and cannot run, MissingTool.
    """
    if name is not None and name not in CLUSTERS:
        raise UnknownName("cluster", name, sorted(CLUSTERS))
    if name in (None, "embedded"):
        _require_embedded()
    return CLUSTERS[name or "embedded"](profile)


def cluster_again(facts: Mapping[str, Any]) -> Cluster:
    """The cluster that a record tells of, with the sizes that it had.

    Raises UnknownName, Unsupported, MissingTool, and DamagedHistory for sizes that are none.
    """
    name = facts.get("cluster")
    usual = make_cluster(str(name))
    match name:
        case "simulated":
            from ..worlds.simulated.cluster import SimulatedCluster
            from ..worlds.simulated.options import SimulationOptions

            return SimulatedCluster(options_of(SimulationOptions, facts), thorough=True)
        case "embedded":
            from ..worlds.embedded.cluster import EmbeddedCluster
            from ..worlds.embedded.options import EmbeddedOptions

            return EmbeddedCluster(options_of(EmbeddedOptions, facts))
        case "docker":
            from ..worlds.docker import image
            from ..worlds.docker.cluster import DockerCluster
            from ..worlds.docker.options import ContainerOptions

            options = options_of(ContainerOptions, facts)
            # The record names the image also where it is one that goes by what is installed, and may be another by now.
            usual_image = options.image is not None and image.is_built_here(options.image)
            return DockerCluster(replace(options, image=None) if usual_image else options)
    return usual


def make_spark_cluster(name: str) -> Cluster:
    """As `make_cluster`, for what the simulator cannot do in its place: it is refused as Unsupported."""
    if name == "simulated":
        raise Unsupported("there is no Spark in the simulator: a query is certified on embedded or docker")
    try:
        return make_cluster(name)
    except MissingTool as error:
        found = error.__cause__ or error
        raise MissingTool(f"{found}.\n`streamproof doctor` shows what is missing") from error


def reap_all() -> list[Any]:
    """End what killed runs have left on this machine, processes and containers; what there was of it."""
    from ..worlds.embedded.reaping import reap as reap_processes

    reaped: list[Any] = list(reap_processes())
    # An installation without the means to use containers has left none.
    with contextlib.suppress(ImportError):
        from ..worlds.docker.reaping import reap_containers

        reaped += reap_containers()
    return reaped


def _require_embedded() -> None:
    from ..install.machine import find_java, find_spark

    try:
        find_java()
        find_spark()
    except MissingTool as error:
        raise MissingTool(f"{error}.\n{SIMULATOR_INSTEAD}") from error
