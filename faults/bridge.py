"""Bridge: two sides that reach one another over a third only."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Link, Machines, Reach
from ..harness.core.carriers import PACKET_RULES
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault, not_different_nodes


def bridge(one: str, between: str, other: str) -> Fault:
    """Cut everything between two nodes, or racks, both of which go on to reach a third.

    Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by default until the end of
    the run.
    """
    return made_fault(KIND, one, between, other)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.cut([Link(fault.targets[0], fault.targets[2])])


def _draw(random: Random, aims: Aims) -> Fault:
    return bridge(*random.sample(aims.nodes, 3)).lasting(aims.duration(random))


KIND = FaultKind(
    name="bridge",
    breaks="the link between two sides; a third still reaches both",
    heals="the link carries again",
    proof="at least one packet between the two sides was dropped, with input still to be processed",
    carriers={
        ("docker", Reach.NODES): PACKET_RULES,
    },
    inflict=_inflict,
    cannot=not_different_nodes,
    lasts=True,
    ends=3,
    draw=_draw,
)
