"""The claim that every certificate makes: after each crash the query is back by itself, in a stated time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ..core.guarantees import RECOVERS, Guarantee, recovers, stated_recovery
from ..core.quantities import Duration, seconds

LEAST: Final = 90.0
"""Seconds that a query is given to come back, at least, where nobody states a time."""
TIMES: Final = 10
"""How often the longest of its runs without failures it is given, where that is more."""


def with_recovers(claims: Sequence[Guarantee]) -> tuple[Guarantee, ...]:
    """The claims, with the one that the query recovers after those that somebody has made."""
    return tuple(claims) if any(claim.name == RECOVERS for claim in claims) else (*claims, recovers())


def with_stated_time(claims: Sequence[Guarantee], without_failures: Sequence[float]) -> tuple[Guarantee, ...]:
    """The claims, with the time written down in which the query must be back, by how long it takes for all of its input
    without failures, seconds: on a slow machine it is given more."""
    stated = seconds(max(LEAST, math.ceil(TIMES * max(without_failures, default=0.0) / 10) * 10))

    def with_time(claim: Guarantee) -> Guarantee:
        if claim.power is not None:
            return replace(claim, power=replace(claim.power, of=with_time(claim.power.of)))
        return recovers(stated) if claim == recovers() else claim

    return tuple(map(with_time, claims))


def stated_in(claims: Sequence[Guarantee]) -> Duration:
    """The time that claims state for a recovery, the shortest of them."""
    return stated_recovery(claims) or seconds(LEAST)
