"""The oracles: one guarantee, one file. A new one is registered here by one line."""

from __future__ import annotations

from ..harness.judging.oracle import Oracle
from . import (
    at_least_once,
    at_most_once,
    bounded_error_of_result,
    exactly_once,
    exactly_once_output,
    gap,
    k_safety,
    precise,
    recovers,
    recovers_within,
    replicas_agree,
    rollback,
    survives_power_loss,
)

_ON_THEIR_OWN: tuple[Oracle, ...] = (
    precise.ORACLE,
    *rollback.ORACLES,
    exactly_once_output.ORACLE,
    exactly_once.ORACLE,
    k_safety.ORACLE,
    *gap.ORACLES,
    at_least_once.ORACLE,
    at_most_once.ORACLE,
    bounded_error_of_result.ORACLE,
    replicas_agree.ORACLE,
    recovers.ORACLE,
    recovers_within.ORACLE,
)

ORACLES: tuple[Oracle, ...] = (*_ON_THEIR_OWN, survives_power_loss.oracle_of(_ON_THEIR_OWN))
