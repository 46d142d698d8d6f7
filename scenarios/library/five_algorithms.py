"""AF-Stream's five algorithms under approximate fault tolerance, each with three failures, one of all slices at once;
and what a scheme without bounds makes of feedback."""

from __future__ import annotations

from collections.abc import Mapping

from ...faults.crash import crash
from ...harness.contracts.scenario import Scenario
from ...harness.core.addresses import Moment, Point, Side
from ...harness.core.library import Entry
from ...harness.core.quantities import events, seconds
from ...harness.core.topology import Topology
from ...harness.core.workload import Workload
from ...reference_impls.approximate import approximate
from ...reference_impls.gap import gap
from ..grep import grep
from ..logistic_regression import logistic_regression
from ..parameter_server import parameter_server
from ..partial_counts import partial_counts
from ..ripple_join import ripple_join
from ..skewed_streams import packets, points, visits_of_two_sites, zipf_words
from ..workloads import numbered, text


def _failing(
    topology: Topology,
    workload: Workload,
    theta: float,
    once: int,
    *,
    l: float = 20,  # noqa: E741  It is the paper's.
    gamma: float = 20,
    weights: Mapping[str, float] | None = None,
) -> Scenario:
    """One slice of the first stage, all, and one of the last, once it has recovered and taken so many events: more than
    it takes between the first failure and the second, where it shares a node with who fails first."""
    slices = topology.operator_slices
    return Scenario(
        subject=approximate(topology, theta=theta, l=l, gamma=gamma, weights=weights),
        workload=workload,
        faults=[
            crash(slices[0]).after(seconds(1)),
            crash(*slices).after(seconds(4)),
            crash(slices[-1]).at(Moment(Point.RECEIVED, Side.AFTER, recovering=True, taken=once)),
        ],
    )


def grep_scenario() -> Scenario:
    """Lines that match are lost, as many as were declared."""
    return _failing(grep(), text("unicode-names", events=1_000, rate=100), theta=0, once=20)


def partial_counts_scenario() -> Scenario:
    """Counts of words that follow Zipf's law are off by less than 60."""
    return _failing(partial_counts(), zipf_words(events=1_000, rate=100), theta=60, once=180)


def heavy_hitters_scenario() -> Scenario:
    """Sketches lose packets, and add what they may have lost to every counter: no heavy flow is missed."""
    from ..heavy_hitters import heavy_hitters  # with numpy, which the simulator does without

    topology = heavy_hitters(width=512, heavy=60_000, slack=50_000, compensated=True)
    fed = packets(window=249, events=1_004, rate=100)
    return _failing(topology, fed, theta=20_000, once=3, weights={"sketch": 1})


def ripple_join_scenario() -> Scenario:
    """Samples of two streams lose a few of their events, and the estimate is as good."""
    visits = visits_of_two_sites(events=1_000, every=20, rate=100)
    return _failing(ripple_join(most=10), visits, theta=20, once=400, l=100, gamma=200)


def logistic_regression_scenario() -> Scenario:
    """Models are averaged and fed back; what a crash takes of one of them is a short way for it."""
    return _failing(logistic_regression(), points(events=1_000, rate=100), theta=5, once=20, weights={"local": 1})


def parameter_server_scenario() -> Scenario:
    """A server that feeds its workers back crashes, and so does one of them: what was lost was in the gaps."""
    return Scenario(
        subject=gap(parameter_server(), checkpoint_every=events(100)),
        workload=numbered(events=1_000, rate=1_000),
        faults=[crash("server-0").after(events(100)), crash("worker-0").after(events(400))],
    )


SCENARIOS = (
    Entry("grep.approximate", grep_scenario),
    Entry("partial-counts.approximate", partial_counts_scenario),
    Entry("heavy-hitters.approximate", heavy_hitters_scenario),
    Entry("ripple-join.approximate", ripple_join_scenario),
    Entry("logistic-regression.approximate", logistic_regression_scenario),
    Entry("parameter-server.gap", parameter_server_scenario),
)
