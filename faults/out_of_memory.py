"""Out of memory: the kernel ends what takes too much."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Machines, Reach
from ..harness.core.carriers import MEMORY_LIMIT
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def out_of_memory(*targets: str) -> Fault:
    """Take memory from the nodes that run these slices or drivers, or from the nodes of these names, until the kernel
    ends something there: a process, or all of the node.

    Say when with `.at(moment)` or `.after(amount)`. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.exhaust_memory(fault.targets)


def _draw(random: Random, aims: Aims) -> Fault:
    return out_of_memory(random.choice(aims.actors)).lasting(aims.duration(random))


KIND = FaultKind(
    name="out-of-memory",
    breaks="a node's memory: the kernel ends one of its processes, or more",
    heals="the limit is what it was as soon as something was ended; what was lost is started again as after a crash",
    proof="the kernel counts at least one process that it ended there for want of memory, with input still to be "
    "processed",
    carriers={
        ("docker", Reach.NODES): MEMORY_LIMIT,
    },
    inflict=_inflict,
    lasts=True,
    draw=_draw,
)
