"""Failed write: the disk refuses a node's checkpoints."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Machines, Reach
from ..harness.core.addresses import Point
from ..harness.core.carriers import STORE_FOLDER
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def failed_write(*targets: str) -> Fault:
    """Refuse the checkpoint writes of the nodes of these slices, or of the nodes of these names.

    A host whose write was refused keeps the checkpoint and writes it again, until the disk takes it: nothing becomes
    durable meanwhile, so nothing is acknowledged on the strength of it, and a slice that must wait for its checkpoint
    takes no more input. Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by
    default until the end of the run. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.fail_writes(fault.targets)


def _draw(random: Random, aims: Aims) -> Fault:
    return failed_write(random.choice(aims.actors)).lasting(aims.duration(random))


KIND = FaultKind(
    name="failed-write",
    breaks="the disk under a node's checkpoints: it takes nothing",
    heals="the disk takes writes again after the duration, and the host writes what was refused",
    proof="at least one write was refused, or of a query, a batch was written or failed while nothing could be, with "
    "input still to be processed",
    carriers={
        ("simulated", Reach.NODES): "the simulated disks",
        ("docker", Reach.NODES): STORE_FOLDER,
    },
    inflict=_inflict,
    lasts=True,
    draw=_draw,
    bites_at=frozenset({Point.CHECKPOINT_ISSUED}),
)
