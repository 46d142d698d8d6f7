"""Bandwidth: a link carries little at a time."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, FaultParameter, Hits, Link, Machines, Reach
from ..harness.core.carriers import PACKET_SHAPER, TOXIPROXY
from ..harness.core.places import Places
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault

_LEAST = 1000
"""Bytes/s, of links of slices: toxiproxy counts in thousands."""


def bandwidth(first: str, second: str, *, rate: int) -> Fault:
    """Let the link between two slices, or two nodes, carry at most `rate` bytes/s, each way.

    Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by default until the end of
    the run. Raises InvalidScenario without a rate.
    """
    return made_fault(KIND, first, second, rate=rate)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.narrow(Link.of(fault), fault.amount("rate", int))


def _cannot(fault: Fault, places: Places) -> str:
    rate = fault.amount("rate", int)
    if rate >= _LEAST or places.among(fault.targets):
        return ""
    return f"links of slices are narrowed in thousands of bytes/s: {rate} is less than one of them"


def _draw(random: Random, aims: Aims) -> Fault:
    return bandwidth(*random.choice(aims.links), rate=int(10 ** random.uniform(3, 6))).lasting(aims.duration(random))


KIND = FaultKind(
    name="bandwidth",
    breaks="the link between two slices, or two nodes: little passes at a time, and senders are held back",
    heals="the link carries what it did",
    proof="something was sent, and held back for what was before it; between nodes, more than what idle ones say "
    "to each other, with input still to be processed",
    carriers={
        ("embedded", Reach.SLICES): TOXIPROXY,
        ("docker", Reach.SLICES): TOXIPROXY,
        ("docker", Reach.NODES): PACKET_SHAPER,
    },
    inflict=_inflict,
    cannot=_cannot,
    hits=Hits.LINK,
    lasts=True,
    takes=(FaultParameter("rate", int, "how much passes, in bytes/s"),),
    draw=_draw,
)
