"""What a kind of fault is: what it breaks, what heals it, how one proves that it bit, how it is drawn, and how a
cluster is told to do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from .addresses import Point
from .errors import Unsupported
from .quantities import Duration
from .recording.history import Bite
from .schedule import Fault


class Machines:
    """What can be done to a cluster, by one fault. Targets are names of the scenario, resolved when it strikes.

    A cluster overrides what it can do. Each method returns the proof, one for each target, or one for a link. What can
    heal is healed by the cluster, when the fault's duration has passed and at the end of the run at the latest.
    """

    def crash(self, targets: Sequence[str], *, lose_handed_over: bool = False) -> list[Bite]:
        """End the nodes that run the targets, all at once and for good; on demand with all that they had handed to the
        network and that has not been delivered."""
        raise Unsupported("this cluster cannot crash nodes")

    def pause(self, targets: Sequence[str]) -> list[Bite]:
        """Freeze the nodes that run the targets, until it heals: they keep what they have and do nothing."""
        raise Unsupported("this cluster cannot pause nodes")

    def cut(self, first: str, second: str, *, one_way: bool) -> list[Bite]:
        """Let nothing pass between two ends, or from the first to the second, until it heals. Then what was sent
        meanwhile arrives, in order."""
        raise Unsupported("this cluster cannot cut links")

    def slow_link(self, first: str, second: str, by: Duration) -> list[Bite]:
        """Let all that is sent between two ends take so much longer, until it heals."""
        raise Unsupported("this cluster cannot slow links")

    def break_link(self, first: str, second: str) -> list[Bite]:
        """Break the connections between two ends, and lose what is on its way on them. It heals by itself: both ends
        notice, and the receiver opens its channel anew."""
        raise Unsupported("this cluster cannot break connections")

    def slow_disk(self, targets: Sequence[str], by: Duration) -> list[Bite]:
        """Let the checkpoint writes of these nodes take so much longer, until it heals."""
        raise Unsupported("this cluster cannot slow disks")

    def fail_writes(self, targets: Sequence[str]) -> list[Bite]:
        """Refuse the checkpoint writes of these nodes, until it heals. Their hosts write again then."""
        raise Unsupported("this cluster cannot make writes fail")


class Hits(StrEnum):
    """What the targets of a fault are."""

    NODES = "nodes"
    """One or more: nodes, or actors that stand for the node that runs them."""
    LINK = "link"
    """Two ends that data passes between."""


@dataclass(frozen=True)
class Aims:
    """What a fault can be drawn from."""

    actors: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    """(upstream, downstream), the harness's own ends included."""
    offering: Duration
    """How long the sources offer input."""
    span: Duration
    """About how long a run takes with a failure in it."""

    def duration(self, random: Random, share: float = 1.0) -> Duration:
        """Up to a share of the run; short ones as often as long ones."""
        return Duration(max(1, int(self.span.micros * share * 10 ** random.uniform(-1.5, 0))))

    def some(self, random: Random) -> tuple[str, ...]:
        """One actor, or several, or all."""
        many = random.choice((1, 1, 1, 2, 2, len(self.actors)))
        return tuple(random.sample(self.actors, min(many, len(self.actors))))


Draw = Callable[[Random, Aims], Fault]


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
    hits: Hits = Hits.NODES
    lasts: bool = False
    """Whether it goes on until it heals, so that it can be given a duration."""
    slows: bool = False
    """Whether it must be told by how much."""
    draw: Draw | None = None
    """How it is drawn at random, without a trigger; None: it is not."""
    bites_at: frozenset[Point] = frozenset()
    """The points of its targets at which it is most likely to bite, where not all are alike."""

    def require(self, cluster: str) -> None:
        """Raises Unsupported when that cluster cannot carry it out."""
        if cluster not in self.clusters:
            raise Unsupported(f"no {self.name} on {cluster}; it can be had on: {', '.join(sorted(self.clusters))}")
