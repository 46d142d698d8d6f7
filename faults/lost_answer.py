"""Lost answer: a store outside does what it is asked, and who asked hears of a broken connection instead."""

from __future__ import annotations

from ..harness.contracts.injection import FaultKind, Machines, Reach
from ..harness.core.addresses import Side
from ..harness.core.carriers import RELAY_OF_STORES
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault, only_at_messages


def lost_answer(*targets: str) -> Fault:
    """Lose the answer to a request of these actors, and break its connection; they live, and may ask again.

    Say which with `.at(moment)`, the moment after a message. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.lose_answer(fault.targets)


KIND = FaultKind(
    name="lost-answer",
    breaks="the connection to a store outside, once the store has done what it was asked, and before it is known",
    heals="at once: who asked can connect again",
    proof="at least one byte of an answer was lost, with input still to be processed",
    carriers={("embedded", Reach.NODES): RELAY_OF_STORES, ("docker", Reach.NODES): RELAY_OF_STORES},
    inflict=_inflict,
    cannot=only_at_messages(Side.AFTER, "an answer is lost after a message, and at no other moment"),
)
