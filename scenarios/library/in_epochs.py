"""Schemes whose slices wait for one another once an epoch."""

from __future__ import annotations

from dataclasses import replace

from ...faults.crash import crash
from ...harness.contracts.scenario import Scenario
from ...harness.core.guarantees import exactly_once_output, precise_recovery, rollback_recovery
from ...harness.core.library import Entry
from ...harness.core.quantities import events
from ...harness.core.schedule import checkpoint
from ...reference_impls.epoch_based_processing import epoch_based_processing
from ...reference_impls.epoch_merge import epoch_merge
from ..jumping_join import jumping_join
from ..tumbling import running_count, tumbling_count
from ..workloads import numbered, words


def tumbling() -> Scenario:
    """Two splitters feed counters that tell what came in each window; one crashes in the middle of an epoch."""
    return Scenario(
        subject=epoch_based_processing(tumbling_count(epoch=8)),
        workload=words(events=1_000, batch=10),
        faults=[crash("count-0").after(events(200))],
        claims=[rollback_recovery()],
    )


def tumbling_masked() -> Scenario:
    """As tumbling-count.epoch-based-processing, with the sink's filter on, and a crash as a checkpoint of a boundary
    becomes durable."""
    return Scenario(
        subject=epoch_based_processing(tumbling_count(epoch=20), sink_filter=True),
        workload=words(events=1_000, batch=10),
        faults=[crash("count-0").at(checkpoint(3).durable)],
        claims=[precise_recovery(), exactly_once_output()],
    )


def joining_in_epochs() -> Scenario:
    """Two sources meet at joins over a jumping window; one crashes, and what is replayed may come in another order."""
    return Scenario(
        subject=epoch_based_processing(jumping_join(epoch=8), sink_filter=True),
        workload=numbered(events=800, keys=16, batch=10),
        faults=[crash("join-0").after(events(300))],
        claims=[precise_recovery()],
    )


def without_events() -> Scenario:
    """Epochs of three times a millisecond, in most of which nothing comes; each of them is told all the same."""
    return Scenario(
        subject=epoch_merge(running_count(1, epoch=3)),
        workload=replace(words(events=600, batch=10), spacing={"source-0": 10}),
        faults=[crash("count-0").after(events(20))],
        claims=[precise_recovery()],
    )


def equal_times() -> Scenario:
    """Both sources have an event at every time, and an epoch is one time: those that are equal are one epoch."""
    return Scenario(
        subject=epoch_merge(jumping_join(epoch=1)),
        workload=numbered(events=400, keys=16, batch=10),
        faults=[crash("join-0").after(events(100))],
        claims=[precise_recovery()],
    )


def merging_in_epochs() -> Scenario:
    """Replicas of joins that tell each pair at once, in an order that is fixed; one crashes, and nothing pauses."""
    return Scenario(
        subject=epoch_merge(jumping_join(epoch=8, eager=True)),
        workload=numbered(events=800, keys=16, batch=10),
        faults=[crash("join-0").after(events(300))],
        claims=[precise_recovery()],
    )


def merging_idle() -> Scenario:
    """One of two sources is idle for most of the time: silence closes epochs, and a replica's crash is masked."""
    return Scenario(
        subject=epoch_merge(jumping_join(epoch=8)),
        workload=numbered(events=800, keys=16, batch=10, spacing={"right-0": 12}),
        faults=[crash("join-0").after(events(150))],
        claims=[precise_recovery()],
    )


SCENARIOS = (
    Entry("tumbling-count.epoch-based-processing", tumbling),
    Entry("tumbling-count.epoch-based-processing-masked", tumbling_masked),
    Entry("jumping-join.epoch-based-processing", joining_in_epochs),
    Entry("running-count.epoch-merge-without-events", without_events),
    Entry("jumping-join.epoch-merge-equal-times", equal_times),
    Entry("eager-jumping-join.epoch-merge", merging_in_epochs),
    Entry("jumping-join.epoch-merge-idle", merging_idle),
)
