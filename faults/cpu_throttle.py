"""CPU throttle: a node gets little of the processors' time, and is slow in everything."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, FaultParameter, Machines, Reach
from ..harness.core.carriers import CPU_QUOTA
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def cpu_throttle(*targets: str, cores: float) -> Fault:
    """Let the nodes that run these slices or drivers, or the nodes of these names, have at most so many cores' time.

    Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by default until the end of
    the run. Raises InvalidScenario without a target or cores.
    """
    return made_fault(KIND, *targets, cores=cores)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.throttle_cpu(fault.targets, fault.amount("cores", float))


def _draw(random: Random, aims: Aims) -> Fault:
    return cpu_throttle(random.choice(aims.actors), cores=random.uniform(0.05, 0.5)).lasting(aims.duration(random))


KIND = FaultKind(
    name="cpu-throttle",
    breaks="a node's share of the processors: it lives, and is slow",
    heals="the share is what it was",
    proof="the kernel counts at least one time that the node was held back, with input still to be processed",
    carriers={
        ("docker", Reach.NODES): CPU_QUOTA,
    },
    inflict=_inflict,
    lasts=True,
    takes=(FaultParameter("cores", float, "how many cores are left"),),
    draw=_draw,
)
