"""Delay: a link gets slower."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, FaultParameter, Hits, Link, Machines, Reach
from ..harness.core.addresses import Point
from ..harness.core.carriers import PACKET_QUEUE, TOXIPROXY
from ..harness.core.quantities import Duration
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def delay(first: str, second: str, *, by: Duration, jitter: Duration | None = None) -> Fault:
    """Let everything that is sent between two slices, or two nodes, either way, take so much longer, give or take up to
    `jitter`; the order stays.

    The ends are as of `partition`. Say when with `.at(moment)` or `.after(amount)`, and how long with
    `.lasting(duration)`; by default until the end of the run. Raises InvalidScenario for `by` without a unit, and
    for jitter that could undo all of it.
    """
    return made_fault(KIND, first, second, by=by, jitter=jitter)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    by, jitter = fault.amount("by", Duration), fault.amount_if_given("jitter", Duration)
    return machines.slow_link(Link.of(fault), by, jitter)


def _draw(random: Random, aims: Aims) -> Fault:
    drawn = delay(*random.choice(aims.links), by=aims.duration(random, 0.3))
    return drawn.lasting(aims.duration(random))


KIND = FaultKind(
    name="delay",
    breaks="the link between two slices, or two nodes: what is sent takes longer",
    heals="what is sent after the duration takes its usual time, and overtakes nothing",
    proof="at least one message, or packet, was sent and delayed, with input still to be processed",
    carriers={
        ("simulated", Reach.SLICES): "the simulated network",
        ("embedded", Reach.SLICES): TOXIPROXY,
        ("docker", Reach.SLICES): TOXIPROXY,
        ("docker", Reach.NODES): PACKET_QUEUE,
    },
    takes=(
        FaultParameter("by", Duration, "how much longer it takes"),
        FaultParameter(
            "jitter",
            Duration,
            "give or take up to how much",
            required=False,
            less_than="by",
            clusters=frozenset({"embedded", "docker"}),
        ),
    ),
    inflict=_inflict,
    hits=Hits.LINK,
    lasts=True,
    draw=_draw,
    bites_at=frozenset({Point.SEND_ISSUED}),
)
