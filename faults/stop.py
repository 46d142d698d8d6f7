"""Stop: a node is asked to end, and may put its things in order first."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Machines, Reach
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def stop(*targets: str) -> Fault:
    """Send SIGTERM to the nodes that run these slices or drivers, or to the nodes of these names, all at once.

    Say when with `.at(moment)` or `.after(amount)`. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.terminate(fault.targets)


def _draw(random: Random, aims: Aims) -> Fault:
    return stop(random.choice(aims.actors))


KIND = FaultKind(
    name="stop",
    breaks="a node, which is asked to end: what it does on its way out, it still does",
    heals="as a crash",
    proof="the node was alive, and every process of it was seen to be gone after the signal, with input still to be "
    "processed",
    carriers={
        ("embedded", Reach.NODES): "SIGTERM to every process of the node",
        ("docker", Reach.NODES): "SIGTERM to the node's container",
    },
    inflict=_inflict,
    draw=_draw,
)
