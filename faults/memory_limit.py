"""Memory limit: a node has less memory than it is used to."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, FaultParameter, Machines, Reach
from ..harness.core.carriers import MEMORY_LIMIT
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def memory_limit(*targets: str, size: int) -> Fault:
    """Let the nodes that run these slices or drivers, or the nodes of these names, have at most `size` bytes of memory.

    The kernel takes back what it can. A node that uses more than `size` at that moment keeps what it uses: it gets the
    least limit that the kernel can set, and the proof says which. For processes to end by it there is `out_of_memory`.
    Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by default until the end of
    the run. Raises InvalidScenario without a target or a size.
    """
    return made_fault(KIND, *targets, size=size)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.limit_memory(fault.targets, fault.amount("size", int))


def _draw(random: Random, aims: Aims) -> Fault:
    return memory_limit(random.choice(aims.actors), size=random.randrange(300, 900) << 20).lasting(
        aims.duration(random)
    )


KIND = FaultKind(
    name="memory-limit",
    breaks="a node's memory: there is less of it, and the kernel takes back what it can",
    heals="the limit is what it was",
    proof="the kernel counts at least one time that the limit was reached, with input still to be processed",
    carriers={
        ("docker", Reach.NODES): MEMORY_LIMIT,
    },
    inflict=_inflict,
    lasts=True,
    takes=(FaultParameter("size", int, "how much is left, in bytes"),),
    draw=_draw,
)
