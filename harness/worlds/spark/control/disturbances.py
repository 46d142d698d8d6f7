"""What a cluster can be asked to do to its own machines, as data: the names of nodes are resolved by then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ....core.quantities import Duration
from ....recording.history import Proof

NodePairs = tuple[tuple[str, str], ...]
"""(sending node, receiving node): each is one way."""


@dataclass(frozen=True)
class CutPackets:
    """Nothing passes."""

    pairs: NodePairs
    isolated: tuple[str, ...] = ()
    """Nodes that are cut off, both ways, from those that the cluster comes to have meanwhile too."""


@dataclass(frozen=True)
class ResetPackets:
    """What is sent is answered with a reset of its connection."""

    pairs: NodePairs


@dataclass(frozen=True)
class DropPackets:
    """A share of the packets is lost, each by chance."""

    pairs: NodePairs
    share: float


@dataclass(frozen=True)
class DelayPackets:
    """Packets arrive later, in order."""

    pairs: NodePairs
    by: Duration
    jitter: Duration | None
    """Give or take up to so much, drawn from the seed."""
    seed: int


@dataclass(frozen=True)
class NarrowPackets:
    """At most `rate` bytes/s pass."""

    pairs: NodePairs
    rate: int


@dataclass(frozen=True)
class ThrottleCpu:
    node: str
    cores: float


@dataclass(frozen=True)
class LimitMemory:
    node: str
    size: int
    """In bytes."""


@dataclass(frozen=True)
class ExhaustMemory:
    node: str
    over: Callable[[], None] = field(default=lambda: None, compare=False, repr=False)
    """Called, in some thread, when the kernel has ended something, or nothing can be exhausted: it is over then."""


@dataclass(frozen=True)
class SlowDisk:
    node: str
    by: Duration
    """How much longer it takes about to make a checkpoint durable."""


@dataclass(frozen=True)
class NarrowDisk:
    node: str
    rate: int
    """Bytes/s that can be made durable."""


@dataclass(frozen=True)
class FailStore:
    """The store of the checkpoints takes no writes of this node."""

    node: str


@dataclass(frozen=True)
class FillStore:
    """The store of the checkpoints has no room, for anybody."""


@dataclass(frozen=True)
class LoseStore:
    """The checkpoints of these actors are removed."""

    actors: tuple[str, ...]


Disturbance = (
    CutPackets
    | ResetPackets
    | DropPackets
    | DelayPackets
    | NarrowPackets
    | ThrottleCpu
    | LimitMemory
    | ExhaustMemory
    | SlowDisk
    | NarrowDisk
    | FailStore
    | FillStore
    | LoseStore
)


class InForce(Protocol):
    """A disturbance that has begun."""

    def heal(self) -> Proof:
        """End it, see that it has ended, and say how often it got in the way of something. Raises OwnFailure where it
        has not ended."""
