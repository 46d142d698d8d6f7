"""Schemes with a secondary that stands by: passive standby, hot and cold, and active standby."""

from __future__ import annotations

from ...faults.crash import crash
from ...harness.contracts.scenario import Scenario
from ...harness.contracts.subject import SchemeSubject
from ...harness.core.guarantees import at_least_once
from ...harness.core.library import Entry
from ...harness.core.quantities import events
from ...reference_impls.active_standby import active_standby
from ...reference_impls.passive_standby import passive_standby
from ..word_count import word_count
from ..workloads import text


def hot() -> Scenario:
    """A counter crashes; its secondary holds the last state, and the input since then."""
    return _primary_crashes(passive_standby(word_count(), hot=True, synchronize_every=events(500)))


def hot_pair_lost() -> Scenario:
    """Primary and secondary crash together: the state was in their memory, and is gone."""
    return _pair_crashes(passive_standby(word_count(), hot=True, synchronize_every=events(500)))


def cold() -> Scenario:
    """A counter crashes; its secondary holds the last state, and has the input since then replayed."""
    return _primary_crashes(passive_standby(word_count(), hot=False, synchronize_every=events(500)))


def cold_pair_lost() -> Scenario:
    """Primary and secondary crash together: what was acknowledged on the strength of their memory is gone."""
    return _pair_crashes(passive_standby(word_count(), hot=False, synchronize_every=events(500)))


def silent() -> Scenario:
    """A counter crashes; its secondary has done the same all along, and only has to become active."""
    return _primary_crashes(active_standby(word_count(), acknowledge_every=events(100)))


def silent_pair_lost() -> Scenario:
    """Primary and secondary crash together: what they have acknowledged is gone."""
    return _pair_crashes(active_standby(word_count(), acknowledge_every=events(100)))


def _primary_crashes(subject: SchemeSubject) -> Scenario:
    return Scenario(
        subject=subject,
        workload=text(events=2_000, batch=50, rate=2_000),
        faults=[crash("count-0").after(events(4_700))],
    )


def _pair_crashes(subject: SchemeSubject) -> Scenario:
    return Scenario(
        subject=subject,
        workload=text(events=2_000, batch=50, rate=2_000),
        faults=[crash("count-0", "count-0/1").after(events(4_700))],
        claims=[],
        breaks=[at_least_once()],
    )


SCENARIOS = (
    Entry("word-count.passive-standby-hot", hot),
    Entry("word-count.passive-standby-hot-pair-lost", hot_pair_lost),
    Entry("word-count.passive-standby-cold", cold),
    Entry("word-count.passive-standby-cold-pair-lost", cold_pair_lost),
    Entry("word-count.active-standby", silent),
    Entry("word-count.active-standby-pair-lost", silent_pair_lost),
)
