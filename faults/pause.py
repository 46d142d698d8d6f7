"""Pause: a node is frozen, keeps everything that it has, and goes on later as if nothing had been."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Machines, Reach
from ..harness.core.addresses import Point
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def pause(*targets: str) -> Fault:
    """Freeze the nodes that run these slices, or the nodes of these names, all at once.

    Nothing on them takes input, fires timers, finishes writes or sends. A pause that outlasts the detection of failures
    makes a zombie: its slices run elsewhere by the time that it goes on, and it works off what it had before it learns
    that. Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by default until the
    end of the run. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.pause(fault.targets)


def _draw(random: Random, aims: Aims) -> Fault:
    return Fault("pause", aims.some(random)).lasting(aims.duration(random))


KIND = FaultKind(
    name="pause",
    breaks="a node, for a while: what runs there does nothing, and what arrives there waits; if it takes longer than "
    "the detection of failures, its slices are restored elsewhere, and it is a zombie when it goes on",
    heals="the node goes on after the duration, with what it had put off first; one that was given up for lost hears "
    "of it then, forgets everything and joins again",
    proof="the node was alive, with input still to be processed, and had to put something off, or was given up for "
    "lost; of a node made of processes, all of them were seen to be stopped",
    carriers={
        ("simulated", Reach.NODES): "the simulated world",
        ("embedded", Reach.NODES): "SIGSTOP to every process of the node",
        ("docker", Reach.NODES): "a pause of the node's container",
    },
    inflict=_inflict,
    lasts=True,
    draw=_draw,
    bites_at=frozenset({Point.RECEIVED, Point.CHECKPOINT_ISSUED}),
)
