"""Full disk: there is no room for checkpoints."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Machines, Reach
from ..harness.core.carriers import STORE_VOLUME
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def full_disk(*targets: str) -> Fault:
    """Leave no room where the nodes of these slices or drivers, or the nodes of these names, keep their checkpoints.

    A host whose write is refused keeps the checkpoint and writes it again; a query fails, and is started again. Say
    when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by default until the end of the
    run. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.fill_disk(fault.targets)


def _draw(random: Random, aims: Aims) -> Fault:
    return full_disk(random.choice(aims.actors)).lasting(aims.duration(random))


KIND = FaultKind(
    name="full-disk",
    breaks="the disk under the checkpoints: it has no room",
    heals="the room is given back, and what was refused is written again",
    proof="at least one write was refused, of which the nodes' own logs tell where they are a query's; the disk was "
    "seen to say that it is full, and to take nothing; with input still to be processed",
    carriers={
        ("docker", Reach.NODES): STORE_VOLUME,
    },
    inflict=_inflict,
    lasts=True,
    draw=_draw,
)
