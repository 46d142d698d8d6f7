"""An operator that does not forget when it says that it does is not believed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import AT_LEAST_ONCE, EXACTLY_ONCE
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.core.topology import Edge, Stage, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.reference_impls.source_replay import source_replay
from streamproof.reference_impls.upstream_backup import upstream_backup
from streamproof.scenarios.windows import WindowedCount
from streamproof.scenarios.workloads import numbered
from verdicts_of import run


class SaysOne(WindowedCount):
    """Counts over 20 ms, and says that 1 ms is enough."""

    def __init__(self) -> None:
        super().__init__(20)

    def process(self, event: Event, state: list[list[object]]) -> Iterable[Output]:
        self.window = 20
        try:
            return super().process(event, state)
        finally:
            self.window = 1


class SaysNothing(Operator[dict[str, int]]):
    """Counts for ever, and says that it forgets."""

    window = 5
    fan_out = 1

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        state[event.key] = state.get(event.key, 0) + 1
        return [(event.key, state[event.key])]


def topology_of(operator: Operator[object]) -> Topology:
    return Topology("counts", {"count": Stage(operator)}, (Edge("source", "count"), Edge("count", "sink")))


@pytest.mark.parametrize("operator", [SaysOne, SaysNothing])
@pytest.mark.parametrize("crashes", [True, False])
def test_a_window_that_is_longer_than_it_says(operator: type[Operator[object]], crashes: bool) -> None:
    one = operator()
    if operator is SaysOne:
        one.window = 1
    for subject in (upstream_backup(topology_of(one)), source_replay(topology_of(one), timeout=seconds(0.05))):
        scenario = Scenario(subject, numbered(events=64, keys=4, batch=4))
        judged = run(scenario, [crash("count-0").after(events(30))] if crashes else [])
        for guarantee in (AT_LEAST_ONCE, EXACTLY_ONCE):
            verdict = judged.verdict(guarantee)
            assert verdict.status is not Status.HOLDS
            if verdict.status is Status.UNKNOWN:
                assert "operator 'count' says that an event matters no more after" in verdict.reason


def test_one_that_forgets_in_time_is_believed() -> None:
    scenario = Scenario(upstream_backup(topology_of(WindowedCount(20))), numbered(events=64, keys=4, batch=4))
    assert run(scenario, [crash("count-0").after(events(30))]).verdict(EXACTLY_ONCE).status is Status.HOLDS
