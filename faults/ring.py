"""Ring: each node reaches its two neighbours only."""

from __future__ import annotations

from itertools import combinations
from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Link, Machines, Reach
from ..harness.core.carriers import PACKET_RULES
from ..harness.core.errors import InvalidScenario
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault, not_different_nodes


def ring(*nodes: str) -> Fault:
    """Cut everything between these nodes but what passes between neighbours, where the last is the first's neighbour.

    It takes four nodes at least: of three, each is everybody's neighbour. Say when with `.at(moment)` or
    `.after(amount)`, and how long with `.lasting(duration)`; by default until the end of the run. Raises
    InvalidScenario for fewer.
    """
    if len(nodes) < 4:
        raise InvalidScenario(f"a ring of {', '.join(nodes) or 'nothing'}: it takes four nodes at least")
    return made_fault(KIND, *nodes)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.cut(_chords(fault.targets))


def _chords(nodes: tuple[str, ...]) -> list[Link]:
    """Every two that are not neighbours."""
    last = len(nodes) - 1
    places = combinations(range(len(nodes)), 2)
    return [Link(nodes[one], nodes[other]) for one, other in places if other - one not in (1, last)]


def _draw(random: Random, aims: Aims) -> Fault:
    return ring(*aims.nodes).lasting(aims.duration(random))


KIND = FaultKind(
    name="ring",
    breaks="every link between nodes that are not neighbours",
    heals="the links carry again",
    proof="at least one packet between nodes that are not neighbours was dropped, with input still to be processed",
    carriers={
        ("docker", Reach.NODES): PACKET_RULES,
    },
    inflict=_inflict,
    cannot=not_different_nodes,
    lasts=True,
    draw=_draw,
)
