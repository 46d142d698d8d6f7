"""How many crashes a run of a query has had to do with, which is not how many its record names."""

from __future__ import annotations

from ..core.addresses import DRIVER, Address
from ..core.errors import InvalidScenario
from ..recording.history import FaultStruck, History


def crashes_of(history: History) -> int:
    """How many faults that end a process struck one after the other.

    A recovery from what was durable stands for a crash at each of several points, between which nothing happened that
    outlives one: the record has them all, and only one can have been. So can a driver die only once in a life.
    """
    # What lasts and heals, as a slow disk or a pause, ends nobody.
    struck = [one for one in history.struck() if one.bite.bit and not one.bite.lasting]
    return len({_which(place, one) for place, one in enumerate(struck)})


def _which(place: int, struck: FaultStruck) -> tuple[str, int]:
    if struck.address is not None and DRIVER in struck.bite.actors:
        try:
            return DRIVER, Address.parse(struck.address).incarnation
        except InvalidScenario:
            pass
    return "", place
