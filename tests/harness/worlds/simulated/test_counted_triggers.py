"""A fault that is to strike once a slice has taken so many events strikes then, whatever lets it take them."""

from __future__ import annotations

import pytest

from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Moment, Point, Side
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import amnesia_recovery
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events
from streamproof.harness.core.topology import Edge, Stage, Topology
from streamproof.harness.exploration.simulating import simulate
from streamproof.harness.recording.history import FaultStruck
from streamproof.reference_impls.gap import gap
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.workloads import numbered


class CountsAndTellsNothing(Operator[dict[str, int]]):
    """Nobody acknowledges anything to it: once all input is there, it hears of its checkpoints alone."""

    fan_out = 1

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> tuple[Output, ...]:
        state[event.key] = state.get(event.key, 0) + 1
        return ()


def silent() -> Topology:
    return Topology(
        "silent", {"count": Stage(CountsAndTellsNothing())}, (Edge("source", "count"), Edge("count", "sink"))
    )


@pytest.mark.parametrize(
    "subject",
    [passive_replication(silent(), checkpoint_every=events(5)), gap(silent(), checkpoint_every=events(5))],
    ids=lambda subject: subject.kind,
)
def test_who_waits_for_a_checkpoint_is_struck_when_it_has_taken_them(subject: SchemeSubject) -> None:
    faults = [crash("count-0").after(events(20))]
    history = simulate(Scenario(subject, numbered(events=40), faults, claims=[amnesia_recovery()])).history
    assert [type(entry) for entry in history.timeline].count(FaultStruck) == 1


def test_a_moment_that_names_a_message_comes_with_that_alone() -> None:
    assert Moment(Point.RECEIVED, Side.AFTER, taken=5).points > {Point.RECEIVED, Point.CHECKPOINT_TOLD}
    assert Moment(Point.RECEIVED, Side.AFTER, key="source-0#1 @5", taken=5).points == {Point.RECEIVED}
    assert Moment(Point.RECEIVED, Side.AFTER).points == {Point.RECEIVED}
