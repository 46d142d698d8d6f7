"""Schemes whose slices wait for one another once an epoch."""

from __future__ import annotations

from ...faults.crash import crash
from ...harness.judging.guarantees import exactly_once_output, precise_recovery, rollback_recovery
from ...harness.library import Entry
from ...harness.quantities import events
from ...harness.scenario import Scenario
from ...harness.schedule import checkpoint
from ...reference_impls.epoch_based_processing import epoch_based_processing
from ..jumping_join import jumping_join
from ..tumbling import tumbling_count
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


def joining() -> Scenario:
    """Two sources meet at joins over a jumping window; one crashes, and what is replayed may come in another order."""
    return Scenario(
        subject=epoch_based_processing(jumping_join(epoch=8), sink_filter=True),
        workload=numbered(events=800, keys=16, batch=10),
        faults=[crash("join-0").after(events(300))],
        claims=[precise_recovery()],
    )


SCENARIOS = (
    Entry("tumbling-count.epoch-based-processing", tumbling),
    Entry("tumbling-count.epoch-based-processing-masked", tumbling_masked),
    Entry("jumping-join.epoch-based-processing", joining),
)
