"""A share is as small as what is lost with it is large: what goes round in a cycle takes all its further turns along,
and what goes to several sinks is missing at each of them."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.errors import InvalidTopology
from streamproof.harness.core.quantities import ms
from streamproof.harness.core.topology import Topology
from streamproof.harness.core.verdicts import Measured, Status, Verdict
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.worlds.simulated.options import SimulationOptions
from streamproof.reference_impls.approximate import Spread, approximate, shares
from streamproof.reference_impls.mechanisms.thresholds import Thresholds
from streamproof.scenarios.countdown import countdown
from streamproof.scenarios.logistic_regression import logistic_regression
from streamproof.scenarios.parameter_server import parameter_server
from streamproof.scenarios.totals import relays
from streamproof.scenarios.workloads import numbered

TOGETHER = SimulationOptions(nodes=1, offer_interval=10, disk_delay=(5_000, 20_000))
"""All slices die in one instant, when much of what they made is not acknowledged, since it waits for a disk."""
GAMMA = 24


TOPOLOGIES: dict[str, tuple[Callable[[], Topology], str]] = {
    "a cycle": (countdown, "count-0"),
    "several sinks": (lambda: relays(3, sinks=2), "relay1-0"),
}
"""And an actor of each, on the one node that there is."""


def gammas(topology: Topology) -> dict[str, float]:
    return {name: one.gamma for name, one in shares(topology, Thresholds(0, 0, GAMMA), Spread.SOUND).items()}


def test_a_share_in_a_cycle_is_divided_by_the_turns_that_are_lost() -> None:
    assert gammas(countdown(turns=1)) == {"count": 12, "return": 12}
    assert gammas(countdown(turns=4)) == {"count": 4, "return": 4}
    assert gammas(countdown(parallelism=2, turns=3)) == {"count": 3, "return": 3}


def test_feedback_that_nothing_answers_makes_no_share_smaller() -> None:
    """What a worker tells becomes as many outputs of the server as there are workers; what comes back becomes none."""
    for topology in (logistic_regression(), parameter_server()):
        assert sorted(gammas(topology).values()) == [GAMMA / 2 / 2 / 2, GAMMA / 2]


def test_what_several_sinks_miss_is_added_up_upstream_of_who_feeds_them() -> None:
    assert gammas(relays(3)) == {"relay1": 8, "relay2": 8, "relay3": 8}
    assert gammas(relays(3, sinks=4)) == {"relay1": 2, "relay2": 2, "relay3": 8}


def judged(make: Callable[[], Topology], node_of: str) -> Iterator[Verdict]:
    """What is said of one crash of all slices, at many times in several worlds, some of them after the end."""
    scenario = Scenario(approximate(make(), theta=0, l=0, gamma=GAMMA), numbered(events=24, batch=4))
    bench = Bench(scenario, Registry(), seed=1, options=TOGETHER)
    for seed in range(3):
        for time in range(4, 26, 2):
            yield from bench.judge(bench.run([crash(node_of).after(ms(time))], seed))


def at_the_sinks(verdict: Verdict) -> Measured:
    return next(one for one in verdict.measured if one.what == "outputs lost")


@pytest.mark.parametrize("case", TOPOLOGIES)
def test_all_that_is_lost_at_once_stays_within_the_bound(case: str) -> None:
    verdicts = list(judged(*TOPOLOGIES[case]))
    statuses = Counter(one.status for one in verdicts)
    assert statuses[Status.VIOLATED] == 0, verdicts
    assert statuses[Status.HOLDS] > 20
    assert max(at_the_sinks(one).ratio for one in verdicts if one.status is Status.HOLDS) > 0.6


@pytest.mark.parametrize("case", TOPOLOGIES)
def test_shares_that_leave_out_what_becomes_of_an_output_are_found(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scheme = importlib.import_module("streamproof.reference_impls.approximate")
    monkeypatch.setattr(scheme, "_becomes", lambda topology, edge: 1.0)
    violated = [one for one in judged(*TOPOLOGIES[case]) if one.status is Status.VIOLATED]
    assert violated
    assert all(at_the_sinks(one).ratio > 1 for one in violated)


def saying(leads_to: int | None) -> Topology:
    """The same cycle, and another word of what an event on its way back leads to."""
    topology = countdown()
    edges = tuple(replace(one, leads_to=leads_to) if one.feedback else one for one in topology.edges)
    return replace(topology, edges=edges)


def test_a_cycle_that_says_too_little_of_what_it_leads_to_is_found() -> None:
    found = Counter(one.status for one in judged(lambda: saying(0), "count-0"))
    assert found[Status.VIOLATED] > 0, found


def test_a_cycle_that_does_not_say_what_it_leads_to_is_refused() -> None:
    with pytest.raises(InvalidTopology, match=r"return feeds count back in 'countdown', .*leads_to=2\), 0 where"):
        approximate(saying(None))
