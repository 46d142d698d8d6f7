"""Store loss: the checkpoints are gone."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Machines, Reach
from ..harness.core.carriers import STORE_FOLDER
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def store_loss(*targets: str) -> Fault:
    """Remove the checkpoints of these slices or drivers, or of what runs on the nodes of these names, for good.

    Say when with `.at(moment)` or `.after(amount)`. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.lose_store(fault.targets)


def _draw(random: Random, aims: Aims) -> Fault:
    return store_loss(random.choice(aims.actors))


KIND = FaultKind(
    name="store-loss",
    breaks="the store of the checkpoints: those of the targets are gone",
    heals="by itself, as new checkpoints are written",
    proof="at least one file of a checkpoint was there and was removed, with input still to be processed",
    carriers={
        ("docker", Reach.NODES): STORE_FOLDER,
    },
    inflict=_inflict,
    draw=_draw,
)
