"""The scenarios that come with streamproof. Each function makes one; its first sentence is what `list` shows."""

from __future__ import annotations

from ...harness.core.library import Entry
from . import (
    adjusted,
    approximating,
    disturbed_recoveries,
    five_algorithms,
    in_epochs,
    in_time,
    logged,
    lossy,
    queries,
    replicated,
    sinks_that_crash,
    standing_by,
    under_faults,
)

SCENARIOS: tuple[Entry, ...] = (
    *logged.SCENARIOS,
    *sinks_that_crash.SCENARIOS,
    *standing_by.SCENARIOS,
    *replicated.SCENARIOS,
    *in_epochs.SCENARIOS,
    *adjusted.SCENARIOS,
    *in_time.SCENARIOS,
    *lossy.SCENARIOS,
    *approximating.SCENARIOS,
    *five_algorithms.SCENARIOS,
    *queries.SCENARIOS,
    *disturbed_recoveries.SCENARIOS,
    *under_faults.SCENARIOS,
)
