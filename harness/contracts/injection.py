"""What a kind of fault is: what it breaks, what heals it, how one proves that it bit, how it is drawn, and how a
cluster is told to do it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import cast

from ..core.addresses import Point
from ..core.error_text import somebodys_code
from ..core.errors import InvalidFault, InvalidScenario, Unsupported
from ..core.places import Places
from ..core.quantities import Duration
from ..core.schedule import Fault
from ..recording.history import Bite


@dataclass(frozen=True)
class Link:
    """What passes between two ends: both slices, sources or sinks, or both nodes."""

    first: str
    second: str
    one_way: bool = False
    """Only what the first sends to the second."""

    @classmethod
    def of(cls, fault: Fault) -> Link:
        first, second = fault.targets
        return cls(first, second, fault.one_way)

    def __str__(self) -> str:
        return f"{self.first} {'to' if self.one_way else 'and'} {self.second}"


class Part(StrEnum):
    """What can die of a node while the rest of it lives."""

    EXECUTOR = "executor"
    """The executor's JVM, with the Python workers that it started; the worker that started it lives."""
    PYTHON = "python"
    """The Python workers that run tasks; the executor lives."""


class Machines:
    """What can be done to a cluster, by one fault. Targets are names of the scenario, resolved when it strikes.

    A cluster overrides what it can do. Each method returns the proof, one for each target, or one for all links. What
    can heal is healed by the cluster, when the fault's duration has passed and at the end of the run at the latest.
    """

    def crash(self, targets: Sequence[str], *, lose_handed_over: bool = False) -> list[Bite]:
        """End the nodes that run the targets, all at once and for good; on demand with all that they had handed to the
        network and that has not been delivered."""
        raise _cannot("crash nodes")

    def terminate(self, targets: Sequence[str]) -> list[Bite]:
        """Ask the nodes to end (SIGTERM), all at once."""
        raise _cannot("stop nodes")

    def crash_again(self, targets: Sequence[str]) -> list[Bite]:
        """End the nodes, and each of their successors as soon as it has come up, until it heals."""
        raise _cannot("crash nodes again and again")

    def crash_part(self, targets: Sequence[str], part: Part) -> list[Bite]:
        """End a part of each node at once; the rest lives."""
        raise _cannot(f"crash the {part} alone")

    def pause(self, targets: Sequence[str]) -> list[Bite]:
        """Freeze the nodes that run the targets, until it heals: they keep what they have and do nothing."""
        raise _cannot("pause nodes")

    def exhaust_memory(self, targets: Sequence[str]) -> list[Bite]:
        """Take memory from the nodes until the kernel ends something there."""
        raise _cannot("exhaust memory")

    def limit_memory(self, targets: Sequence[str], size: int) -> list[Bite]:
        """Let the nodes have no more than `size` bytes of memory, until it heals."""
        raise _cannot("limit memory")

    def split_brain(self, targets: Sequence[str]) -> list[Bite]:
        """Freeze drivers, let their successors begin, and let them go on beside those."""
        raise _cannot("let two drivers of one query run at once")

    def lose_answer(self, targets: Sequence[str]) -> list[Bite]:
        """Lose the answer of a store outside that is held, and break its connection; who asked lives."""
        raise _cannot("lose the answers of stores outside")

    def lose_request(self, targets: Sequence[str]) -> list[Bite]:
        """Lose what a store outside is asked, which is held, and break its connection; who asked lives."""
        raise _cannot("lose what stores outside are asked")

    def throttle_cpu(self, targets: Sequence[str], cores: float) -> list[Bite]:
        """Let the nodes have no more than so many cores' time, until it heals."""
        raise _cannot("throttle processors")

    def isolate(self, targets: Sequence[str]) -> list[Bite]:
        """Let nothing pass between the targets' nodes, taken together, and the other nodes, until it heals."""
        raise _cannot("isolate nodes")

    def cut(self, links: Sequence[Link]) -> list[Bite]:
        """Let nothing pass over these links, until it heals. Then what was sent meanwhile arrives, in order."""
        raise _cannot("cut links")

    def flap(self, link: Link, every: Duration) -> list[Bite]:
        """Cut a link for so long, let it carry for so long, and so on, until it heals."""
        raise _cannot("let links flap")

    def slow_link(self, link: Link, by: Duration, jitter: Duration | None) -> list[Bite]:
        """Let all that is sent take so much longer, give or take up to `jitter`, until it heals. The order stays."""
        raise _cannot("slow links")

    def break_link(self, link: Link) -> list[Bite]:
        """Break the connections between two ends, and lose what is on its way on them. It heals by itself: both ends
        notice, and the receiver opens its channel anew."""
        raise _cannot("break connections")

    def reset(self, link: Link) -> list[Bite]:
        """Reset every connection between two ends, and every attempt at one, until it heals."""
        raise _cannot("reset connections")

    def drop(self, link: Link, share: float) -> list[Bite]:
        """Lose this share of the packets, until it heals. Who sent them sends them again."""
        raise _cannot("drop packets")

    def narrow(self, link: Link, rate: int) -> list[Bite]:
        """Let no more than so many bytes/s pass each way, until it heals."""
        raise _cannot("narrow links")

    def close_slowly(self, link: Link, by: Duration) -> list[Bite]:
        """Let each end hear so much later that the other has closed a connection, until it heals."""
        raise _cannot("close connections slowly")

    def slow_disk(self, targets: Sequence[str], by: Duration) -> list[Bite]:
        """Let the checkpoint writes of these nodes take so much longer, until it heals."""
        raise _cannot("slow disks")

    def narrow_disk(self, targets: Sequence[str], rate: int) -> list[Bite]:
        """Let the disks of these nodes take no more than so many bytes/s that must be durable, until it heals."""
        raise _cannot("narrow disks")

    def fail_writes(self, targets: Sequence[str], *, once: bool = False) -> list[Bite]:
        """Refuse the checkpoint writes of these nodes, until it heals. Their hosts write again then. `once`: refuse no
        more than the operation on a file that is held, and that one of them is about to do."""
        raise _cannot("make writes fail")

    def fill_disk(self, targets: Sequence[str]) -> list[Bite]:
        """Leave no room for the checkpoints of these nodes, until it heals. Their hosts write again then."""
        raise _cannot("fill disks")

    def lose_store(self, targets: Sequence[str]) -> list[Bite]:
        """Remove the checkpoints of these nodes, for good."""
        raise _cannot("lose checkpoints")


def single(links: Sequence[Link]) -> Link:
    """For a cluster that cuts one link at a time. Raises Unsupported for several."""
    if len(links) != 1:
        raise _cannot(f"cut {len(links)} links between slices by one call, but one: call cut() for each of them")
    return links[0]


def _cannot(what: str) -> Unsupported:
    return Unsupported(f"this cluster cannot {what}")


class Hits(StrEnum):
    """What the targets of a fault are."""

    NODES = "nodes"
    """One or more: nodes, or actors that stand for the node that runs them."""
    LINK = "link"
    """Two ends that data passes between."""


class Reach(StrEnum):
    """What a fault gets at."""

    NODES = "nodes"
    """Whole nodes, and what passes between them, whatever it is."""
    SLICES = "slices"
    """What passes between slices, on links that the harness routes."""


Cannot = Callable[[Fault, Places], str]
"""Why a fault cannot be meant as it stands; empty where it can."""
Carriers = Mapping[tuple[str, Reach], str]
"""(cluster, reach) -> what carries the fault out there, in words."""


MOST_AMOUNT = 1e18
"""What every number that a fault takes must stay below: there is not that much of anything, and none that is larger, or
infinite, can be written down and read back."""


@dataclass(frozen=True)
class FaultParameter:
    """An amount that a kind of fault takes."""

    name: str
    type: type[Duration] | type[float] | type[int]
    meaning: str
    """With its unit."""
    required: bool = True
    below: float | None = None
    """What a number must stay below; None: what none may reach."""
    less_than: str = ""
    """The parameter whose amount it must stay below."""
    clusters: frozenset[str] | None = None
    """Where it can be had; None: wherever the fault can."""

    def check(self, who: str, amount: object) -> None:
        """Raises InvalidScenario for what it cannot be."""
        if self.type is Duration:
            if not isinstance(amount, Duration) or amount.micros <= 0:
                raise InvalidScenario(f"{who}({self.name}={amount!r}) needs an amount of time, as in ms(50)")
            return
        number = isinstance(amount, int) or (self.type is float and isinstance(amount, float))
        good = number and not isinstance(amount, bool) and cast(float, amount) > 0
        below = MOST_AMOUNT if self.below is None else self.below
        too_much = good and cast(float, amount) >= below
        if not good or too_much:
            bound = "" if self.below is None and not too_much else f" and below {below:g}"
            raise InvalidScenario(f"{who}({self.name}={amount!r}): {self.meaning}, a number above 0{bound}")


@dataclass(frozen=True)
class Aims:
    """What a fault can be drawn from."""

    actors: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    """(upstream, downstream), the harness's own ends included."""
    nodes: tuple[str, ...]
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


DrawFault = Callable[[Random, Aims], Fault]


@dataclass(frozen=True)
class FaultKind:
    """One kind of fault."""

    name: str
    breaks: str
    heals: str
    proof: str
    carriers: Carriers
    inflict: Callable[[Machines, Fault], list[Bite]]
    hits: Hits = Hits.NODES
    lasts: bool = False
    """Whether it goes on until it heals, so that it can be given a duration."""
    takes: tuple[FaultParameter, ...] = ()
    ends: int | None = None
    """How many targets it needs, where that is fixed."""
    cannot: Cannot = lambda fault, places: ""
    """Asked of a fault whose targets exist, and whose amounts are right."""
    draw: DrawFault | None = None
    """How it is drawn at random, without a trigger; None: it is not."""
    of_actors: bool = False
    """Whether it hits what the subject calls by name, and no machines."""
    bites_at: frozenset[Point] = frozenset()
    """The points of its targets at which it is most likely to bite, where not all are alike."""

    @property
    def drawn(self) -> Reach:
        """What a fault gets at that was drawn."""
        return Reach.SLICES if self.hits is Hits.LINK else Reach.NODES

    @property
    def hits_any_nodes(self) -> bool:
        """Whether it hits nodes, however many."""
        return self.hits is Hits.NODES and self.ends is None

    @property
    def clusters(self) -> frozenset[str]:
        """The clusters that can carry it out."""
        return frozenset(cluster for cluster, _ in self.carriers)

    def check_amounts(self, who: str, given: Mapping[str, object]) -> None:
        """Raises InvalidScenario for what cannot be; whether all are there is not asked."""
        for parameter in self.takes:
            if parameter.name not in given:
                continue
            amount = given[parameter.name]
            parameter.check(who, amount)
            bound = given.get(parameter.less_than)
            if isinstance(amount, Duration) and isinstance(bound, Duration) and amount.micros >= bound.micros:
                raise InvalidScenario(
                    f"{who}: with {parameter.name}={amount}, {parameter.less_than}={bound} may be nothing at all; "
                    f"{parameter.name} must be less"
                )

    def require(self, cluster: str, reach: Reach) -> str:
        """What carries it out there. Raises Unsupported where nothing can."""
        carrier = self.carriers.get((cluster, reach))
        if carrier is None:
            where = ", ".join(f"{reach} on {name}" for name, reach in sorted(self.carriers))
            raise Unsupported(f"no {self.name} of {reach} on {cluster}; it can be had of: {where}")
        return carrier

    def drawn_fault(self, random: Random, aims: Aims) -> Fault:
        """One that is drawn at random. Raises InvalidFault where the kind fails to, or draws anything else."""
        assert self.draw is not None
        with somebodys_code(InvalidFault, f"no {self.name} could be drawn"):
            drawn: object = self.draw(random, aims)
        if not isinstance(drawn, Fault) or drawn.kind != self.name:
            raise InvalidFault(f"where a {self.name} was to be drawn, its draw() gave {drawn!r}: let it return one")
        return drawn

    def require_drawn(self, cluster: str) -> None:
        """Raises Unsupported where none can be drawn at random, or be had there."""
        self.require(cluster, self.drawn)
        if self.draw is None:
            raise Unsupported(f"no {self.name} can be drawn at random: its FaultKind does not say how, by draw=...")
