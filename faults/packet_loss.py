"""Packet loss: some packets between two nodes get lost."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, FaultParameter, Hits, Link, Machines, Reach
from ..harness.core.carriers import PACKET_RULES
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def packet_loss(first: str, second: str, *, share: float) -> Fault:
    """Drop this share of the packets between two nodes, each by chance. TCP sends them again, later and later.

    Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by default until the end of
    the run. Raises InvalidScenario for a share that is not between 0 and 1.
    """
    return made_fault(KIND, first, second, share=share)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.drop(Link.of(fault), fault.amount("share", float))


def _draw(random: Random, aims: Aims) -> Fault:
    return packet_loss(*random.sample(aims.nodes, 2), share=random.uniform(0.05, 0.6)).lasting(aims.duration(random))


KIND = FaultKind(
    name="packet-loss",
    breaks="the link between two nodes: it is slow, and may seem dead",
    heals="every packet passes again",
    proof="at least one packet was dropped, with input still to be processed",
    carriers={
        ("docker", Reach.NODES): PACKET_RULES,
    },
    inflict=_inflict,
    hits=Hits.LINK,
    lasts=True,
    takes=(FaultParameter("share", float, "which share of the packets is lost", below=1.0),),
    draw=_draw,
)
