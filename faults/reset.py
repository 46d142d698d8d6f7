"""Reset: connections break, and no new one comes about."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Hits, Link, Machines, Reach
from ..harness.core.carriers import PACKET_RULES
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def reset(first: str, second: str) -> Fault:
    """Reset every connection between two nodes, and every attempt at one.

    Of slices, `loss` breaks connections. Say when with `.at(moment)` or `.after(amount)`, and how long with
    `.lasting(duration)`; by default until the end of the run.
    """
    return made_fault(KIND, first, second)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.reset(Link.of(fault))


def _draw(random: Random, aims: Aims) -> Fault:
    return reset(*random.sample(aims.nodes, 2)).lasting(aims.duration(random))


KIND = FaultKind(
    name="reset",
    breaks="the connections between two nodes: both ends are told that they are gone, and new ones are refused",
    heals="new connections come about; who lost one dials again",
    proof="at least one packet was answered with a reset, with input still to be processed",
    carriers={
        ("docker", Reach.NODES): PACKET_RULES,
    },
    inflict=_inflict,
    hits=Hits.LINK,
    lasts=True,
    draw=_draw,
)
