"""Loss of what was handed over: a node crashes, and what its slices had given to the network is lost with it.

A crash alone leaves that on its way, so that it arrives though its sender is dead.
"""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Machines, Reach
from ..harness.core.addresses import Point
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def handed_over_loss(*targets: str) -> Fault:
    """Crash the nodes that run these slices, or the nodes of these names, with what they have handed to the network
    and what has not been delivered.

    Say when with `.at(moment)` or `.after(amount)`. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.crash(fault.targets, lose_handed_over=True)


def _draw(random: Random, aims: Aims) -> Fault:
    return handed_over_loss(random.choice(aims.actors))


KIND = FaultKind(
    name="handed-over-loss",
    breaks="a node, as a crash does, and with it every message that it has sent and that has not arrived",
    heals="as a crash",
    proof="as of a crash, and at least one message of the node was on its way and was taken from the network",
    carriers={("simulated", Reach.NODES): "the simulated world and its network"},
    inflict=_inflict,
    draw=_draw,
    bites_at=frozenset({Point.SEND_HANDED_OVER}),
)
