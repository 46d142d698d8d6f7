"""Which scenarios of the library a cluster can run."""

from __future__ import annotations

from streamproof.harness.contracts.cluster import Cluster
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import check_carriers
from streamproof.harness.core.carriers import TOXIPROXY
from streamproof.harness.core.errors import Unsupported


def library_on(cluster: Cluster) -> list[str]:
    """Those whose faults it can carry out."""
    registry = Registry()
    return [name for name in sorted(registry.scenarios) if _carriers(cluster, name, registry) is not None]


def needs_toxiproxy(cluster: Cluster, name: str) -> bool:
    return TOXIPROXY in (_carriers(cluster, name, Registry()) or ())


def _carriers(cluster: Cluster, name: str, registry: Registry) -> tuple[str, ...] | None:
    try:
        return check_carriers(registry.scenario(name).scenario, cluster.name, cluster.places, registry.faults)
    except Unsupported:
        return None
