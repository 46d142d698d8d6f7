"""Python crash: the Python workers of a node die, and its executor lives."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Machines, Part, Reach
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault, not_on_workers


def python_crash(*targets: str) -> Fault:
    """Kill the Python workers of the nodes that run these slices, or of the nodes of these names, all at once.

    Say when with `.at(moment)` or `.after(amount)`. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.crash_part(fault.targets, Part.PYTHON)


def _draw(random: Random, aims: Aims) -> Fault:
    return python_crash(random.choice(aims.actors))


KIND = FaultKind(
    name="python-crash",
    breaks="the Python workers of a node, with what the user's code keeps in memory",
    heals="Spark runs their tasks again, in new workers",
    proof="the Python workers were alive, and were seen to be gone, with input still to be processed",
    carriers={
        ("embedded", Reach.NODES): "SIGKILL to the Python workers",
        ("docker", Reach.NODES): "SIGKILL to the Python workers, inside the container",
    },
    inflict=_inflict,
    cannot=not_on_workers,
    draw=_draw,
)
