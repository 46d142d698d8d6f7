"""Partition: nothing passes between two slices, and what is sent waits until the network heals."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Hits, Link, Machines, Reach
from ..harness.core.addresses import Point
from ..harness.core.carriers import PACKET_RULES, RELAY
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def partition(first: str, second: str, *, one_way: bool = False) -> Fault:
    """Cut the link between two slices that feed one another, wherever they run, or everything between two nodes;
    `one_way`: only what the first sends to the second.

    An end is a slice, a replica, a source or a sink; the name of an operator stands for all its slices. What is sent
    meanwhile is sent again and again, as TCP does, and arrives in order once the link has healed; what a node had not
    got through when it dies is lost. Of slices, the manager's own links are not touched, so no node is given up for
    lost. Of nodes, such as "node-0", "driver", "master" or "rack-1", whatever Spark and the manager say to one another
    is cut too.
    Say when with `.at(moment)` or `.after(amount)`, and how long with `.lasting(duration)`; by default until the end of
    the run.
    """
    return made_fault(KIND, first, second, one_way=one_way)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.cut([Link.of(fault)])


def _draw(random: Random, aims: Aims) -> Fault:
    first, second = random.sample(random.choice(aims.links), 2)
    return partition(first, second, one_way=random.random() < 0.4).lasting(aims.duration(random))


KIND = FaultKind(
    name="partition",
    breaks="the link between two slices, or two nodes, both ways or one way: nothing arrives",
    heals="the link carries again after the duration, first what was sent meanwhile, in order",
    proof="at least one message, or a part of one, was on its way or was sent, and was held back; of nodes, at least "
    "one packet was dropped; with input still to be processed",
    carriers={
        ("simulated", Reach.SLICES): "the simulated network",
        ("embedded", Reach.SLICES): RELAY,
        ("docker", Reach.SLICES): RELAY,
        ("docker", Reach.NODES): PACKET_RULES,
    },
    inflict=_inflict,
    hits=Hits.LINK,
    lasts=True,
    draw=_draw,
    bites_at=frozenset({Point.SEND_ISSUED}),
)
