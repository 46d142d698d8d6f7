"""Delay: a link gets slower."""

from __future__ import annotations

from random import Random

from ..harness.addresses import Point
from ..harness.injection import Aims, FaultKind, Hits, Machines
from ..harness.quantities import Duration
from ..harness.recording.history import Bite
from ..harness.schedule import Fault
from .targets import longer


def delay(first: str, second: str, *, by: Duration) -> Fault:
    """Let everything that is sent between two slices, either way, take so much longer; the order stays.

    The ends are as of `partition`. Say when with `.at(moment)` or `.after(amount)`, and how long with
    `.lasting(duration)`; by default until the end of the run. Raises InvalidScenario for `by` without a unit.
    """
    return Fault("delay", (first, second), by=longer("delay", by))


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    assert fault.by is not None
    first, second = fault.targets
    return machines.slow_link(first, second, fault.by)


def _draw(random: Random, aims: Aims) -> Fault:
    drawn = delay(*random.choice(aims.links), by=aims.duration(random, 0.3))
    return drawn.lasting(aims.duration(random))


KIND = FaultKind(
    name="delay",
    breaks="the link between two slices: what is sent takes longer",
    heals="what is sent after the duration takes its usual time, and overtakes nothing",
    proof="at least one message was sent and delayed, with input still to be processed",
    clusters=frozenset({"simulated"}),
    inflict=_inflict,
    hits=Hits.LINK,
    lasts=True,
    slows=True,
    draw=_draw,
    bites_at=frozenset({Point.SEND_ISSUED}),
)
