"""Slow disk: the checkpoints of a node take longer to become durable."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, FaultParameter, Machines, Reach
from ..harness.core.addresses import Point
from ..harness.core.carriers import DISK_THROTTLE
from ..harness.core.quantities import Duration, ms
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def slow_disk(*targets: str, by: Duration = ms(50)) -> Fault:
    """Let the checkpoint writes that the nodes of these slices, or the nodes of these names, begin take so much longer.

    On a real disk it is about that, and bites on writes that are waited for (fsync, or past the page cache), not on
    those that the kernel buffers: the checkpoints of slices are waited for, Spark's own files are not. Where nothing of
    the node waits for it, it has not bitten.
    Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by default until the end of
    the run. Raises InvalidScenario without a target, and for `by` without a unit.
    """
    return made_fault(KIND, *targets, by=by)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.slow_disk(fault.targets, fault.amount("by", Duration))


def _draw(random: Random, aims: Aims) -> Fault:
    return slow_disk(random.choice(aims.actors), by=aims.duration(random, 0.5)).lasting(aims.duration(random))


KIND = FaultKind(
    name="slow-disk",
    breaks="the disk under a node's checkpoints: what is written becomes durable later",
    heals="writes that begin after the duration take their usual time",
    proof="at least one write was begun and delayed; of containers, the node's own processes waited for at least one, "
    "where a probe's was measured to take longer, with input still to be processed",
    carriers={("simulated", Reach.NODES): "the simulated disks", ("docker", Reach.NODES): DISK_THROTTLE},
    takes=(FaultParameter("by", Duration, "how much longer a write takes"),),
    inflict=_inflict,
    lasts=True,
    draw=_draw,
    bites_at=frozenset({Point.CHECKPOINT_ISSUED}),
)
