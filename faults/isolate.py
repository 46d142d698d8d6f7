"""Isolate: nodes that no other node can reach."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Machines, Reach
from ..harness.core.carriers import PACKET_RULES
from ..harness.core.places import Places
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def isolate(*targets: str) -> Fault:
    """Cut everything between these nodes, taken together, and all other nodes, both ways. A slice stands for the node
    that runs it. What they say to the recorder passes.

    Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by default until the end of
    the run. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.isolate(fault.targets)


def _cannot(fault: Fault, places: Places) -> str:
    named = {node for target in fault.targets for node in places.racks.get(target, (target,))}
    return "these are all nodes, and there is nobody to cut them off from" if named >= set(places.nodes) else ""


def _draw(random: Random, aims: Aims) -> Fault:
    return isolate(random.choice(aims.actors)).lasting(aims.duration(random))


KIND = FaultKind(
    name="isolate",
    breaks="every link of a node, or of several that still reach one another, to the rest",
    heals="the links carry again; a node that was given up for lost hears of it then, and joins again",
    proof="at least one packet from or to them was dropped, with input still to be processed",
    carriers={
        ("docker", Reach.NODES): PACKET_RULES,
    },
    inflict=_inflict,
    cannot=_cannot,
    lasts=True,
    draw=_draw,
)
