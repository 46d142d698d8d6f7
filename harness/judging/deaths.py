"""How many crashes a run of a query has had to do with, which is not how many its record names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import inf

from ..core.addresses import DRIVER, Address
from ..core.errors import InvalidScenario
from ..recording.history import FaultHealed, FaultStruck, History, IncarnationFailed, NodeGone, Placed


def crashes_of(history: History) -> int:
    """How many faults that end a process struck one after the other.

    A fault that ends several nodes at once is one crash. A recovery from what was durable stands for a crash at each
    of several points, between which nothing happened that outlives one: the record has them all, and only one can have
    been. So can an incarnation of a driver die only once. One that was stopped until its successor was there counts as
    dead too, though it went on beside that; so does one that failed of a write that was refused, or of a message that
    was lost.
    """
    struck = list(history.struck())
    # What lasts and heals, as a slow disk or a pause, ends nobody; nor does it by itself have anybody replaced.
    ended = [one for one in struck if one.bite.bit and not one.bite.lasting and _ended(one, history)]
    replaced = [one for one in struck if one.bite.bit and one.bite.lasting and _replaced(one, ended, history)]
    # The record has an entry for each node that a fault hit.
    each = sorted((*ended, *replaced), key=_strike)
    return len({_which(strike, list(hit), history) for strike, hit in groupby(each, key=_strike)})


def spared(history: History) -> bool:
    """Whether a fault that was over at once took something, as a message or a write, from who lived on."""
    return any(one.bite.bit and not one.bite.lasting and not _ended(one, history) for one in history.struck())


def _ended(struck: FaultStruck, history: History) -> bool:
    """Whether a fault that is over at once ended anybody: by itself, or by what the driver made of it."""
    gone = any(isinstance(e, NodeGone) and e.stamp == struck.stamp for e in history.timeline)
    return bool(struck.bite.gone) or gone or _failed_of(struck, history) is not None


def _failed_of(struck: FaultStruck, history: History) -> IncarnationFailed | None:
    """The failure of the driver that a fault may have made fail, before a successor was there."""
    began = struck.stamp.at
    placed = (e.stamp.at for e in history.timeline if isinstance(e, Placed) and e.actor == DRIVER)
    successor = min((at for at in placed if at > began), default=inf)
    failures = (e for e in history.timeline if isinstance(e, IncarnationFailed) and e.disturbed)
    return next((e for e in failures if began <= e.stamp.at <= successor), None)


def _strike(struck: FaultStruck) -> tuple[int, int]:
    return struck.number, struck.stamp.at


def _replaced(struck: FaultStruck, ended: Sequence[FaultStruck], history: History) -> bool:
    """Whether the driver got a successor while a fault kept it from going on, and no crash ended it meanwhile."""
    if DRIVER not in struck.bite.actors:
        return False
    what = struck.number, struck.bite.target
    ends = (
        one.stamp.at for one in history.timeline if isinstance(one, FaultHealed) and (one.number, one.target) == what
    )
    began, until = struck.stamp.at, min(ends, default=inf)
    placed = (one.stamp.at for one in history.timeline if isinstance(one, Placed) and one.actor == DRIVER)
    successor = min((at for at in placed if began < at <= until), default=None)
    if successor is None:
        return False
    return not any(DRIVER in one.bite.actors and began <= one.stamp.at <= successor for one in ended)


def _which(strike: tuple[int, int], hit: Sequence[FaultStruck], history: History) -> tuple[str, int, int]:
    for one in hit:
        if one.address is not None and DRIVER in one.bite.actors:
            try:
                return DRIVER, Address.parse(one.address).incarnation, 0
            except InvalidScenario:
                continue
        failure = None if one.bite.gone else _failed_of(one, history)
        if failure is not None:
            return DRIVER, failure.incarnation, 0
    return "", *strike
