"""Operators that emit by timers."""

from __future__ import annotations

from dataclasses import replace

from ...faults.crash import crash
from ...harness.contracts.scenario import Scenario
from ...harness.core.guarantees import exactly_once_output, precise_recovery, replicas_agree
from ...harness.core.library import Entry
from ...harness.core.quantities import events
from ...harness.core.schedule import checkpoint
from ...reference_impls.active_replication import active_replication
from ...reference_impls.passive_replication import passive_replication
from ..in_time import sum_by_clock, sum_by_time, trace_by_time
from ..workloads import numbered


def by_time() -> Scenario:
    """Replicas of sums that emit by the times of events; one crashes, and nothing shows."""
    return Scenario(
        subject=active_replication(sum_by_time(), acknowledge_every=events(100)),
        workload=numbered(events=800, batch=10),
        faults=[crash("sum-0").after(events(150))],
        claims=[precise_recovery(), replicas_agree()],
    )


def by_clock() -> Scenario:
    """Replicas of sums that emit by their own clocks: they take the same, and tell other sums, without any fault.

    The scheme refuses such an operator; here it is put in all the same, to show why.
    """
    return Scenario(
        subject=replace(
            active_replication(sum_by_time(), acknowledge_every=events(100)),
            topology=replace(sum_by_clock(every=20), name="sum-by-time"),
        ),
        workload=numbered(events=800, batch=10, rate=4_000),
        claims=[],
        breaks=[replicas_agree()],
    )


def traced() -> Scenario:
    """A tracer tells the inputs of each window by a timer, crashes between two checkpoints, and tells them again."""
    return Scenario(
        subject=passive_replication(trace_by_time(), checkpoint_every=events(40), sink_filter=True),
        workload=numbered(events=800, batch=10),
        faults=[crash("trace-0").at(checkpoint(3).durable)],
        claims=[precise_recovery(), exactly_once_output()],
    )


SCENARIOS = (
    Entry("sum-by-time.active-replication", by_time),
    Entry("sum-by-clock.active-replication", by_clock),
    Entry("trace-by-time.passive-replication-masked", traced),
)
