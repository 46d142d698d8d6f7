"""Flapping: a link that is cut, and carries, and is cut again."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, FaultParameter, Hits, Link, Machines, Reach
from ..harness.core.carriers import PACKET_RULES, RELAY
from ..harness.core.quantities import Duration
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def flapping(first: str, second: str, *, every: Duration) -> Fault:
    """Cut the link between two slices, or two nodes, for `every`, let it carry for as long, and so on.

    Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by default until the end of
    the run. Raises InvalidScenario for `every` without a unit.
    """
    return made_fault(KIND, first, second, every=every)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.flap(Link.of(fault), fault.amount("every", Duration))


def _draw(random: Random, aims: Aims) -> Fault:
    return flapping(*random.choice(aims.links), every=aims.duration(random, 0.1)).lasting(aims.duration(random))


KIND = FaultKind(
    name="flapping",
    breaks="the link between two slices, or two nodes, time and again",
    heals="the link carries, and goes on to",
    proof="the link was cut at least twice, and something was held back or dropped, with input still to be processed",
    carriers={
        ("embedded", Reach.SLICES): RELAY,
        ("docker", Reach.SLICES): RELAY,
        ("docker", Reach.NODES): PACKET_RULES,
    },
    inflict=_inflict,
    hits=Hits.LINK,
    lasts=True,
    takes=(FaultParameter("every", Duration, "how long it is cut, and how long it carries"),),
    draw=_draw,
)
