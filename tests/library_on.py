"""Which scenarios of the library a cluster can run."""

from __future__ import annotations

from streamproof.harness.cluster import Cluster
from streamproof.harness.errors import Unsupported
from streamproof.harness.registry import Registry
from streamproof.harness.scenario import check_carriers


def library_on(cluster: Cluster) -> list[str]:
    """Those whose faults it can carry out."""
    registry = Registry()
    return [name for name in sorted(registry.scenarios) if _can(cluster, registry, name)]


def _can(cluster: Cluster, registry: Registry, name: str) -> bool:
    scenario = registry.scenario(name).scenario
    try:
        check_carriers(scenario, cluster.name, cluster.places, registry.faults)
    except Unsupported:
        return False
    return True
