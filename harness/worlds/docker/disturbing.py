"""Who carries out which disturbance of the nodes of a cluster in containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ...core.errors import Unsupported
from ..spark.control.disturbances import Disturbance, InForce


class Carrier(Protocol):
    """Carries out disturbances of some types."""

    @property
    def carries(self) -> Sequence[type]: ...

    def disturb(self, disturbance: Any) -> InForce:
        """Returns once it is in force. Raises Unsupported for what cannot be, OwnFailure where that went wrong."""

    def node_started(self, node: str, container: str) -> None:
        """The node has a new container, which runs, but nothing in it yet: what is in force is so for it too."""


class Disturbers:
    """Those of one cluster."""

    def __init__(self, carriers: Sequence[Carrier]) -> None:
        self._carriers = tuple(carriers)

    def __bool__(self) -> bool:
        return bool(self._carriers)

    def disturb(self, disturbance: Disturbance) -> InForce:
        """Raises Unsupported where nobody carries it."""
        for carrier in self._carriers:
            if isinstance(disturbance, tuple(carrier.carries)):
                return carrier.disturb(disturbance)
        raise Unsupported(f"nothing in this run of containers was made ready to carry this out: {disturbance}")

    def node_started(self, node: str, container: str) -> None:
        for carrier in self._carriers:
            carrier.node_started(node, container)
