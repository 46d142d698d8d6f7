"""Lost request: what a store outside is asked never comes to it, and who asked hears of a broken connection."""

from __future__ import annotations

from ..harness.contracts.injection import FaultKind, Machines, Reach
from ..harness.core.addresses import Side
from ..harness.core.carriers import RELAY_OF_STORES
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault, only_at_messages


def lost_request(*targets: str) -> Fault:
    """Lose a request of these actors, and break its connection; they live, and may ask again.

    Say which with `.at(moment)`, the moment before a message. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.lose_request(fault.targets)


KIND = FaultKind(
    name="lost-request",
    breaks="the connection to a store outside, before the store has what it is asked",
    heals="at once: who asked can connect again",
    proof="a request did not go on, with input still to be processed",
    carriers={("embedded", Reach.NODES): RELAY_OF_STORES, ("docker", Reach.NODES): RELAY_OF_STORES},
    inflict=_inflict,
    cannot=only_at_messages(Side.BEFORE, "a request is lost before a message, and at no other moment"),
)
