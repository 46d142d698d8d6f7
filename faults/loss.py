"""Loss: a connection breaks, what is on its way on it is lost, and it is made anew."""

from __future__ import annotations

from random import Random

from ..harness.contracts.injection import Aims, FaultKind, Hits, Link, Machines, Reach
from ..harness.core.addresses import Point
from ..harness.core.carriers import RELAY
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def loss(first: str, second: str) -> Fault:
    """Break the connections between two slices that feed one another. A stream that promises order and loses nothing
    can lose messages in this way only: with its connection.

    The ends are as of `partition`. Both notice; the receiver connects again, and opens its channel anew. Until the
    sender hears that, what it sends is lost as well. Say when with `.at(moment)` or `.after(amount)`.
    """
    return made_fault(KIND, first, second)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.break_link(Link.of(fault))


def _draw(random: Random, aims: Aims) -> Fault:
    return loss(*random.choice(aims.links))


KIND = FaultKind(
    name="loss",
    breaks="the connections between two slices, with every message that is on its way on them",
    heals="by itself: the receiver connects again, and asks for what comes after the last that it has",
    proof="at least one message, or a part of one, was on its way, or sent before the channel was open again, and was "
    "taken from the network, with input still to be processed",
    carriers={
        ("simulated", Reach.SLICES): "the simulated network",
        ("embedded", Reach.SLICES): RELAY,
        ("docker", Reach.SLICES): RELAY,
    },
    inflict=_inflict,
    hits=Hits.LINK,
    draw=_draw,
    bites_at=frozenset({Point.SEND_HANDED_OVER}),
)
