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
    dead too, though it went on beside that; so does each that failed of writes that were refused, or of messages that
    were lost.
    """
    struck = list(history.struck())
    # What lasts and heals, as a slow disk or a pause, ends nobody by itself; nor does it have anybody replaced.
    ended = [one for one in struck if one.bite.bit and not one.bite.lasting and _ended(one, history)]
    replaced = [one for one in struck if one.bite.bit and one.bite.lasting and _replaced(one, ended, history)]
    # The record has an entry for each node that a fault hit.
    each = sorted((*ended, *replaced), key=_strike)
    return len({death for strike, hit in groupby(each, key=_strike) for death in _deaths(strike, list(hit), history)})


def spared(history: History) -> bool:
    """Whether a fault that was over at once took something, as a message or a write, from who lived on."""
    return any(one.bite.bit and not one.bite.lasting and not _ended(one, history) for one in history.struck())


def _ended(struck: FaultStruck, history: History) -> bool:
    """Whether a fault that is over at once ended anybody: by itself, or by what the driver made of it."""
    gone = any(isinstance(e, NodeGone) and e.stamp == struck.stamp for e in history.timeline)
    return bool(struck.bite.gone) or gone or bool(_failures_of(struck, history))


def _failures_of(struck: FaultStruck, history: History) -> Sequence[IncarnationFailed]:
    """The failures of drivers that a fault may have made fail: all until one was there that began after it was over."""
    began, until = struck.stamp.at, _until(struck, history)
    unhurt = min((at for at in _drivers_placed(history) if at > until), default=inf)
    failures = (e for e in history.timeline if isinstance(e, IncarnationFailed) and e.disturbed)
    return [e for e in failures if began <= e.stamp.at <= unhurt]


def _until(struck: FaultStruck, history: History) -> float:
    """When a fault was over."""
    if not struck.bite.lasting:
        return struck.stamp.at
    what = struck.number, struck.bite.target
    healed = (e.stamp.at for e in history.timeline if isinstance(e, FaultHealed) and (e.number, e.target) == what)
    return min(healed, default=inf)


def _drivers_placed(history: History) -> Sequence[int]:
    return [e.stamp.at for e in history.timeline if isinstance(e, Placed) and e.actor == DRIVER]


def _strike(struck: FaultStruck) -> tuple[int, int]:
    return struck.number, struck.stamp.at


def _replaced(struck: FaultStruck, ended: Sequence[FaultStruck], history: History) -> bool:
    """Whether a driver failed of a fault that lasts, or got a successor while it kept it from going on, and no crash
    ended it meanwhile."""
    if DRIVER not in struck.bite.actors:
        return False
    if _failures_of(struck, history):
        return True
    began, until = struck.stamp.at, _until(struck, history)
    successor = min((at for at in _drivers_placed(history) if began < at <= until), default=None)
    if successor is None:
        return False
    return not any(DRIVER in one.bite.actors and began <= one.stamp.at <= successor for one in ended)


def _deaths(strike: tuple[int, int], hit: Sequence[FaultStruck], history: History) -> set[tuple[str, int, int]]:
    """Who died of what struck at once: drivers by their incarnations, or else somebody."""
    named = [number for one in hit if (number := _incarnation_at(one)) is not None]
    failed = [entry.incarnation for one in hit if not one.bite.gone for entry in _failures_of(one, history)]
    # At a point one driver is hit; what lasts may be the end of more.
    if failed and (not named or any(one.bite.lasting for one in hit)):
        return {(DRIVER, number, 0) for number in failed}
    return {(DRIVER, named[0], 0)} if named else {("", *strike)}


def _incarnation_at(struck: FaultStruck) -> int | None:
    """Which driver a fault hit at a point; None where it hit none, or at no point."""
    if struck.address is None or DRIVER not in struck.bite.actors:
        return None
    try:
        return Address.parse(struck.address).incarnation
    except InvalidScenario:
        return None
