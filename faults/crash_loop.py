"""Crash loop: a node crashes, and so does each successor as soon as it is up."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Machines, Reach
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def crash_loop(*targets: str) -> Fault:
    """Crash the nodes that run these slices or drivers, or the nodes of these names, and whatever takes their place as
    soon as it has come up.

    Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by default until the end of
    the run. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.crash_again(fault.targets)


def _draw(random: Random, aims: Aims) -> Fault:
    return crash_loop(random.choice(aims.actors)).lasting(aims.duration(random))


KIND = FaultKind(
    name="crash-loop",
    breaks="a node and its successors, one after the other",
    heals="the next successor lives",
    proof="the node was killed at least twice, each time alive, with input still to be processed",
    carriers={
        ("embedded", Reach.NODES): "SIGKILL to every process of the node, again and again",
        ("docker", Reach.NODES): "kills of the node's containers, again and again",
    },
    inflict=_inflict,
    lasts=True,
    draw=_draw,
)
