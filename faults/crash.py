"""Crash: a node stops at once, with everything that it has in memory, and says nothing more."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Machines, Reach
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def crash(*targets: str) -> Fault:
    """Crash the nodes that run these slices or drivers, or the nodes of these names, all at once.

    Say when with `.at(moment)` or `.after(amount)`. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.crash(fault.targets)


def _draw(random: Random, aims: Aims) -> Fault:
    return Fault("crash", aims.some(random))


KIND = FaultKind(
    name="crash",
    breaks="a node: every slice, driver or task on it, with its memory and whatever is on its way to it",
    heals="the manager restores its slices on another node; the cluster starts the node again where it is told to",
    proof="the node was held at the address, or alive when its time came; then every process of it was seen to be "
    "gone, with input still to be processed",
    carriers={
        ("simulated", Reach.NODES): "the simulated world",
        ("embedded", Reach.NODES): "SIGKILL to every process of the node",
        ("docker", Reach.NODES): "a kill of the node's container",
    },
    inflict=_inflict,
    draw=_draw,
)
