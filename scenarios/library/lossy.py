"""Schemes that lose: amnesia and gap recovery."""

from __future__ import annotations

from ...faults.crash import crash
from ...harness.contracts.scenario import Scenario
from ...harness.core.guarantees import at_least_once, gap_recovery
from ...harness.core.library import Entry
from ...harness.core.quantities import events
from ...harness.core.schedule import checkpoint
from ...reference_impls.amnesia import amnesia
from ...reference_impls.gap import gap
from ..word_count import word_count
from ..workloads import text


def gap_scenario() -> Scenario:
    """A counter crashes and nobody replays: what it loses is bounded by its checkpoint interval."""
    return Scenario(
        subject=gap(word_count(), checkpoint_every=events(500)),
        workload=text(events=2_000, batch=50, rate=2_000),
        faults=[crash("count-0").at(checkpoint(2).durable)],
        breaks=[at_least_once()],
    )


def amnesia_scenario() -> Scenario:
    """A counter crashes and starts blank: what it knew, and what came meanwhile, is gone."""
    return Scenario(
        subject=amnesia(word_count()),
        workload=text(events=2_000, batch=50, rate=2_000),
        faults=[crash("count-0").after(events(2_000))],
        breaks=[at_least_once()],
    )


def amnesia_is_no_gap() -> Scenario:
    """Without checkpoints a crash takes back everything, and not only a checkpoint interval."""
    return Scenario(
        subject=amnesia(word_count()),
        workload=text(events=2_000, batch=50, rate=2_000),
        faults=[crash("count-0").after(events(3_000))],
        claims=[],
        breaks=[gap_recovery(events(500))],
    )


SCENARIOS = (
    Entry("word-count.gap", gap_scenario),
    Entry("word-count.amnesia", amnesia_scenario),
    Entry("word-count.amnesia-is-no-gap", amnesia_is_no_gap),
)
