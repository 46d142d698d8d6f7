"""The oracles: one guarantee, one file. A new one is registered here by one line."""

from __future__ import annotations

from ..harness.judging.oracle import Oracle
from . import at_least_once, at_most_once, exactly_once, exactly_once_output, gap, precise, recovers_within, rollback

ORACLES: tuple[Oracle, ...] = (
    precise.ORACLE,
    *rollback.ORACLES,
    exactly_once_output.ORACLE,
    exactly_once.ORACLE,
    *gap.ORACLES,
    at_least_once.ORACLE,
    at_most_once.ORACLE,
    recovers_within.ORACLE,
)
