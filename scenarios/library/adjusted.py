"""Schemes whose settings follow the load while a run goes on."""

from __future__ import annotations

from ...faults.crash import crash
from ...harness.contracts.scenario import Scenario
from ...harness.core.library import Entry
from ...harness.core.quantities import events, ms
from ...reference_impls.gap_by_load import gap_by_load
from ...reference_impls.turns_by_load import turns_by_load
from ..order import order
from ..trace import trace
from ..workloads import numbered


def turns() -> Scenario:
    """A replica crashes when the weights of its merge have changed; who joins its peer goes by theirs."""
    return Scenario(
        subject=turns_by_load(order(), acknowledge_every=events(50), consider_every=events(40)),
        workload=numbered(events=1_000, batch=20, rate=2_000),
        faults=[crash("chain-0").after(events(200))],
    )


def adjuster_lost() -> Scenario:
    """The coordinator that changes weights crashes; its successor changes nothing that it had changed before."""
    return Scenario(
        subject=turns_by_load(order(), acknowledge_every=events(50), consider_every=events(40)),
        workload=numbered(events=1_000, keys=6, batch=20, rate=2_000),
        faults=[crash("adjuster").after(ms(200))],
    )


def rarer_while_busy() -> Scenario:
    """A counter crashes: what it loses is what its checkpoint interval allowed there, by the load."""
    return Scenario(
        subject=gap_by_load(
            trace(), checkpoint_every=events(200), while_quiet=events(20), busy_from=events(60), each=ms(50)
        ),
        workload=numbered(events=1_000, batch=10, rate=1_000),
        faults=[crash("trace-0").after(events(300))],
    )


SCENARIOS = (
    Entry("order.turns-by-load", turns),
    Entry("order.turns-by-load-adjuster-lost", adjuster_lost),
    Entry("trace.gap-by-load", rarer_while_busy),
)
