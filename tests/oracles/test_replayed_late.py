"""Where inputs come again after others that are later, what is made of them can be another, or nothing: that is no
loss."""

from __future__ import annotations

from collections.abc import Iterable

from simulation import history_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import AT_LEAST_ONCE
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.core.topology import Edge, Stage, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.reference_impls.source_replay import source_replay
from streamproof.scenarios.workloads import numbered
from verdicts_of import rejudged


class Recent(Operator[list[int]]):
    """How many came within the last twenty milliseconds."""

    window = 20
    fan_out = 1

    def initial_state(self) -> list[int]:
        return []

    def process(self, event: Event, state: list[int]) -> Iterable[Output]:
        state[:] = [time for time in (*state, event.time) if time > event.time - 20]
        return [(event.key, len(state))]


class Few(Operator[None]):
    """Passes on what is no multiple of three."""

    fan_out = 1

    def initial_state(self) -> None:
        """Keeps nothing."""

    def process(self, event: Event, state: None) -> Iterable[Output]:
        return [(event.key, event.value)] if event.value % 3 else ()


def test_what_an_operator_does_not_pass_on_in_the_order_of_the_run_is_not_lost() -> None:
    topology = Topology(
        "recent",
        {"recent": Stage(Recent()), "few": Stage(Few())},
        (Edge("source", "recent"), Edge("recent", "few"), Edge("few", "sink")),
    )
    scenario = Scenario(source_replay(topology, timeout=seconds(0.05)), numbered(events=32, keys=4, batch=2))
    history = history_of(scenario, [crash("recent-0").after(events(9))])
    judged = rejudged(scenario, history)
    assert judged.collation.lost_output.count
    assert judged.verdict(AT_LEAST_ONCE).status is Status.HOLDS
