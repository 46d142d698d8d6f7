"""Where inputs come again after others that are later, what is made of them can be another, or nothing: that is no
loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from simulation import history_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import AT_LEAST_ONCE
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.core.topology import Edge, Stage, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.reference_impls.passive_replication import passive_replication
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


class Alarm(Operator[dict[str, int]]):
    """Passes all on, and says at 30 ms how many had come. Its rows do not show when it wants to say that."""

    def initial_state(self) -> dict[str, int]:
        return {"came": 0, "due": 30}

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        state["came"] += 1
        return [(event.key, event.value)]

    def due(self, state: dict[str, int]) -> int | None:
        return state["due"] if state["came"] and state["due"] else None

    def on_time(self, time: int, state: dict[str, int]) -> Iterable[Output]:
        state["due"] = 0
        return [("came", state["came"])]

    def rows(self, state: dict[str, int]) -> Mapping[str, int]:
        return {"came": state["came"]}


class Forgetful(Alarm):
    """Wants to say nothing any more once it has been restored."""

    def restore(self, snapshot: bytes) -> dict[str, int]:
        return {**super().restore(snapshot), "due": 0}


@pytest.mark.parametrize(("operator", "status"), [(Alarm(), Status.HOLDS), (Forgetful(), Status.VIOLATED)])
def test_a_timer_that_never_fires_after_a_recovery_is_a_loss_in_any_order(operator: Alarm, status: Status) -> None:
    topology = Topology("alarm", {"alarm": Stage(operator)}, (Edge("source", "alarm"), Edge("alarm", "sink")))
    scenario = Scenario(passive_replication(topology, checkpoint_every=events(4)), numbered(events=32, batch=2))
    history = history_of(scenario, [crash("alarm-0").after(events(9))])
    found = rejudged(scenario, history).verdict(AT_LEAST_ONCE)
    assert found.status is status
    if status is Status.VIOLATED:
        assert "a timer was due at 30 ms, and never fired" in found.anomalies[0].sample[0].what
