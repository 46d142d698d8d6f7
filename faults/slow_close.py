"""Slow close: who closes a connection is heard late."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, FaultParameter, Hits, Link, Machines, Reach
from ..harness.core.carriers import TOXIPROXY
from ..harness.core.quantities import Duration
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def slow_close(first: str, second: str, *, by: Duration) -> Fault:
    """Let the two ends of a link between slices hear so much later that the other has closed its connection.

    Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by default until the end of
    the run. Raises InvalidScenario for `by` without a unit.
    """
    return made_fault(KIND, first, second, by=by)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.close_slowly(Link.of(fault), fault.amount("by", Duration))


def _draw(random: Random, aims: Aims) -> Fault:
    return slow_close(*random.choice(aims.links), by=aims.duration(random)).lasting(aims.duration(random))


KIND = FaultKind(
    name="slow-close",
    breaks="the link between two slices: a connection that one end has closed seems open to the other",
    heals="connections close at once again",
    proof="at least one connection was closed and the other end was told late, with input still to be processed",
    carriers={
        ("embedded", Reach.SLICES): TOXIPROXY,
        ("docker", Reach.SLICES): TOXIPROXY,
    },
    inflict=_inflict,
    hits=Hits.LINK,
    lasts=True,
    takes=(FaultParameter("by", Duration, "how much later it is heard"),),
    draw=_draw,
)
