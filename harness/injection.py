"""What a kind of fault is: what it breaks, what heals it, how one proves that it bit, and how a cluster is told to do
it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from .errors import Unsupported
from .recording.history import Bite
from .schedule import Fault


class Machines(Protocol):
    """What an injector can do to a cluster. Targets are names of the scenario, resolved when the fault strikes."""

    def crash(self, targets: Sequence[str]) -> list[Bite]:
        """End the nodes that run the targets, all at once and for good, and return the proof, one for each target."""


@dataclass(frozen=True)
class FaultKind:
    """One kind of fault."""

    name: str
    breaks: str
    heals: str
    proof: str
    clusters: frozenset[str]
    """The clusters that can carry it out."""
    inflict: Callable[[Machines, Fault], list[Bite]]

    def require(self, cluster: str) -> None:
        """Raises Unsupported when that cluster cannot carry it out."""
        if cluster not in self.clusters:
            raise Unsupported(f"no {self.name} on {cluster}; it can be had on: {', '.join(sorted(self.clusters))}")
