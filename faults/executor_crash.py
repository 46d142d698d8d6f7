"""Executor crash: the JVM that runs a node's tasks dies, and the worker that started it lives."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Machines, Part, Reach
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault, not_on_workers


def executor_crash(*targets: str) -> Fault:
    """Kill the executors of the nodes that run these slices, or of the nodes of these names, all at once.

    Say when with `.at(moment)` or `.after(amount)`. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.crash_part(fault.targets, Part.EXECUTOR)


def _draw(random: Random, aims: Aims) -> Fault:
    return executor_crash(random.choice(aims.actors))


KIND = FaultKind(
    name="executor-crash",
    breaks="an executor, with its tasks and their Python workers",
    heals="the worker starts another executor, and Spark runs the tasks again",
    proof="the executor's processes were alive, and were seen to be gone, with input still to be processed",
    carriers={
        ("embedded", Reach.NODES): "SIGKILL to the executor's processes",
        ("docker", Reach.NODES): "SIGKILL to the executor's processes, inside the container",
    },
    inflict=_inflict,
    cannot=not_on_workers,
    draw=_draw,
)
