"""Disk bandwidth: what must be durable is written slowly."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, FaultParameter, Machines, Reach
from ..harness.core.carriers import DISK_THROTTLE
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def disk_bandwidth(*targets: str, rate: int) -> Fault:
    """Let the nodes of these slices or drivers, or the nodes of these names, make at most `rate` bytes/s durable.

    It bites on writes that are waited for (fsync, or past the page cache), not on those that the kernel buffers: the
    checkpoints of slices are waited for, Spark's own files are not. Where nothing of the node waits for it, it has not
    bitten. Say when with `.at(moment)` or `.after(amount)`,
    and how long with `.lasting(duration)`; by default until the end of the run. Raises InvalidScenario without a target
    or a rate.
    """
    return made_fault(KIND, *targets, rate=rate)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.narrow_disk(fault.targets, fault.amount("rate", int))


def _draw(random: Random, aims: Aims) -> Fault:
    return disk_bandwidth(random.choice(aims.actors), rate=int(10 ** random.uniform(3, 4.7))).lasting(
        aims.duration(random)
    )


KIND = FaultKind(
    name="disk-bandwidth",
    breaks="the disk of a node: what must be durable takes long",
    heals="the disk is as fast as before",
    proof="the node's own processes waited for at least one write to be durable, where a probe's was measured to take "
    "longer than before, with input still to be processed",
    carriers={
        ("docker", Reach.NODES): DISK_THROTTLE,
    },
    inflict=_inflict,
    lasts=True,
    takes=(FaultParameter("rate", int, "how much it writes, in bytes/s"),),
    draw=_draw,
)
