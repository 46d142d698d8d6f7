"""Lost answer: a store outside does what it is asked, and who asked hears of a broken connection instead."""

from __future__ import annotations

from ..harness.contracts.injection import FaultKind, Machines, Reach
from ..harness.core.addresses import Moment, Point, Side
from ..harness.core.places import Places
from ..harness.core.schedule import Fault
from ..harness.recording.history import Bite
from .targets import made_fault


def lost_answer(*targets: str) -> Fault:
    """Lose the answer to a request of these actors, and break its connection; they live, and may ask again.

    Say which with `.at(moment)`, the moment after a message. Raises InvalidScenario without a target.
    """
    return made_fault(KIND, *targets)


def _inflict(machines: Machines, fault: Fault) -> list[Bite]:
    return machines.lose_answer(fault.targets)


def _cannot(fault: Fault, places: Places) -> str:
    moment = fault.trigger
    if isinstance(moment, Moment) and (moment.point, moment.side) == (Point.MESSAGE, Side.AFTER):
        return ""
    return "an answer is lost after a message, and at no other moment"


_RELAY = "the relay between a run and its stores outside"

KIND = FaultKind(
    name="lost-answer",
    breaks="the connection to a store outside, once the store has done what it was asked, and before it is known",
    heals="at once: who asked can connect again",
    proof="at least one byte of an answer was lost, with input still to be processed",
    carriers={("embedded", Reach.NODES): _RELAY, ("docker", Reach.NODES): _RELAY},
    inflict=_inflict,
    cannot=_cannot,
)
