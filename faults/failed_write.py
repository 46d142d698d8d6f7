"""Failed write: the disk refuses what a node writes."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Machines, Reach
from ..harness.core.addresses import Moment, Point, Side
from ..harness.core.carriers import FILE_LAYER, STORE_FOLDER
from ..harness.core.places import Places
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def failed_write(*targets: str) -> Fault:
    """Refuse the checkpoint writes of the nodes of these slices, or of the nodes of these names.

    A host whose write was refused keeps the checkpoint and writes it again, until the disk takes it: nothing becomes
    durable meanwhile, so nothing is acknowledged on the strength of it, and a slice that must wait for its checkpoint
    takes no more input. Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by
    default until the end of the run. Raises InvalidScenario without a target.

    Of a query on embedded Spark, each operation on a file of its folders is refused with an I/O error that changes
    something, and whoever wanted it lives on. Before an operation (`Moment(Point.FILE, Side.BEFORE, ...)`), where
    nothing is said of how long, that one alone is refused: who tries it again at once may do it, but for a write
    through the same open file, which stays refused. With `.lasting(duration)`, that one and all that follow are, as at
    any other moment. Reading, the times of files, and what was stored in a map of memory are never refused.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.fail_writes(fault.targets, once=_is_one(fault))


def _is_one(fault: Fault) -> bool:
    """Whether a single operation on a file is to be refused."""
    return _is_of_files(fault) and fault.duration is None


def _is_of_files(fault: Fault) -> bool:
    return isinstance(fault.trigger, Moment) and fault.trigger.point is Point.FILE


def _cannot(fault: Fault, places: Places) -> str:
    if _is_of_files(fault) and isinstance(fault.trigger, Moment) and fault.trigger.side is not Side.BEFORE:
        return "an operation on a file is refused before it is done: say side=Side.BEFORE"
    return ""


def _draw(random: Random, aims: Aims) -> Fault:
    return failed_write(random.choice(aims.actors)).lasting(aims.duration(random))


KIND = FaultKind(
    name="failed-write",
    breaks="the disk under a node's checkpoints, or a query's folders: it takes nothing, or not one operation",
    heals="the disk takes writes again after the duration, and the host writes what was refused",
    proof="at least one write was refused; of a query in containers, the node's own logs tell of it, with input still "
    "to be processed",
    carriers={
        ("simulated", Reach.NODES): "the simulated disks",
        ("embedded", Reach.NODES): FILE_LAYER,
        ("docker", Reach.NODES): STORE_FOLDER,
    },
    inflict=_inflict,
    lasts=True,
    cannot=_cannot,
    draw=_draw,
    bites_at=frozenset({Point.CHECKPOINT_ISSUED}),
)
