"""The names of a cluster's machines that faults can be aimed at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

ANY_WORKER: Final = "any-worker"
"""One of the workers, drawn from the run's seed when the fault strikes."""


@dataclass(frozen=True)
class Places:
    """Nodes, and what stands for some of them: `rack-0` for the first half of the workers, rounded up, `rack-1` for the
    rest, `any-worker` for one of them."""

    workers: tuple[str, ...]
    """The nodes that slices and executors run on."""
    others: tuple[str, ...] = ()
    """The other nodes: the master, and drivers."""

    @property
    def nodes(self) -> tuple[str, ...]:
        return (*self.workers, *self.others)

    @property
    def racks(self) -> dict[str, tuple[str, ...]]:
        half = -(-len(self.workers) // 2)
        racks = (self.workers[:half], self.workers[half:])
        return {f"rack-{number}": rack for number, rack in enumerate(racks) if rack}

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that can be aimed at."""
        return (*self.nodes, *self.racks, ANY_WORKER)

    def among(self, names: Iterable[str]) -> list[str]:
        """Those that are ours; the others are slices, operators, sources or sinks."""
        return [name for name in names if name in self.names]

    def stands_for(self, name: str, random: Random) -> tuple[str, ...]:
        """The nodes that a name means; nothing for a name that is not one of ours."""
        if name == ANY_WORKER:
            return (random.choice(self.workers),)
        if name in self.racks:
            return self.racks[name]
        return (name,) if name in self.nodes else ()


def numbered_workers(count: int, others: Iterable[str] = ()) -> Places:
    """`node-0` and so on."""
    return Places(tuple(f"node-{number}" for number in range(count)), tuple(others))
