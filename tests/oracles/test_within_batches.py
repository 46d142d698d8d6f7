"""What a mechanism does to events within a batch, where neither states nor outputs show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec.structs import replace as replaced

from streamproof import Operator, Scenario, Stage, Topology, crash, events, simulate
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.topology import Edge, Role
from streamproof.harness.core.verdicts import Anomaly
from streamproof.harness.protocol.channels import InputChannel
from streamproof.harness.protocol.effects import Send
from streamproof.harness.protocol.mechanism import NO_LIMIT, AtWork, Mechanism
from streamproof.harness.protocol.messages import Batch
from streamproof.reference_impls import approximate, gap, passive_replication
from streamproof.scenarios.totals import MarkedTotals, one_total
from streamproof.scenarios.workloads import ones

Change = Callable[[list[Event]], list[Event]]


class HowMany(Operator[dict[str, int]]):
    """Counts, and says nothing but at a mark, which comes last in its batch: in which order it took the others shows
    nowhere."""

    fan_out = 1

    def initial_state(self) -> dict[str, int]:
        return {"all": 0}

    def process(self, event: Event, state: dict[str, int]) -> list[Output]:
        state["all"] += 1
        return [("all", state["all"])] if event.key == "mark" else []


@dataclass(frozen=True)
class Changing(Mechanism):
    """Changes what comes in, or what goes out."""

    change: Change
    out: bool = False

    def attach(self, machine: Any) -> AtWork:
        return (_Outgoing if self.out else _Incoming)(machine, self.change)


class _Incoming(AtWork):
    def __init__(self, machine: Any, change: Change) -> None:
        super().__init__(machine)
        self._change = change

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        return self._change(events)


class _Outgoing(AtWork):
    def __init__(self, machine: Any, change: Change) -> None:
        super().__init__(machine)
        self._change = change

    def handled(self) -> None:
        effects = self.machine.effects
        for place, effect in enumerate(effects):
            if isinstance(effect, Send) and isinstance(effect.message, Batch):
                changed = replaced(effect.message, events=self._change(list(effect.message.events)))
                effects[place] = replaced(effect, message=changed)


@dataclass(frozen=True)
class ChangingLater(Mechanism):
    """Changes what it has let pass, when it is asked how much of that may be taken."""

    change: Change

    def attach(self, machine: Any) -> AtWork:
        return _Later(machine, self.change)


class _Later(AtWork):
    def __init__(self, machine: Any, change: Change) -> None:
        super().__init__(machine)
        self._change = change
        self._passed: list[Event] = []

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        self._passed = events
        return events

    def left(self) -> int:
        self._passed[:] = self._change(self._passed)
        return NO_LIMIT


def swapped(events: list[Event]) -> list[Event]:
    return [events[0], events[2], events[1], *events[3:]] if len(events) > 3 else events


def swapped_in_place(events: list[Event]) -> list[Event]:
    if len(events) > 3:
        events[1], events[2] = events[2], events[1]
    return events


def doubled(events: list[Event]) -> list[Event]:
    """One stands in the place of the next."""
    return [events[0], events[1], events[1], *events[3:]] if len(events) > 3 else events


def without_one(events: list[Event]) -> list[Event]:
    return [events[0], *events[2:]] if len(events) > 3 else events


def without_marks(events: list[Event]) -> list[Event]:
    return [event for event in events if event.key != "mark"]


def marks_first(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event.key != "mark")


def of(subject: SchemeSubject, mechanism: Mechanism, role: Role = Role.OPERATOR) -> Scenario:
    own = subject.setups[role]
    setups = {**subject.setups, role: replace(own, mechanisms=(mechanism, *own.mechanisms))}
    return Scenario(replace(subject, setups=setups), ones(events=120, batch=5, marks=10))


def found(scenario: Scenario, *schedule: Any) -> set[Anomaly]:
    (verdict,) = simulate(scenario, schedule).verdicts
    return {tally.anomaly for tally in verdict.anomalies}


COUNTED = Topology("counted", {"op": Stage(HowMany())}, (Edge("source", "op"), Edge("op", "sink")))
SCHEMES = {
    "gap": lambda: gap(COUNTED, checkpoint_every=events(10)),
    "passive replication": lambda: passive_replication(COUNTED, checkpoint_every=events(10), sink_filter=True),
}
STRUCK = crash("op-0").after(events(63))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("mechanism", "role"),
    [
        (Changing(swapped), Role.OPERATOR),
        (Changing(swapped_in_place), Role.OPERATOR),
        (Changing(swapped, out=True), Role.SOURCE),
    ],
)
def test_events_that_change_places_within_a_batch_come_out_of_order(
    mechanism: Mechanism, role: Role, scheme: str
) -> None:
    assert Anomaly.REORDERED_OUTPUT in found(of(SCHEMES[scheme](), mechanism, role), STRUCK)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_events_that_change_places_once_they_have_been_let_pass_come_out_of_order(scheme: str) -> None:
    """Without a fault: what is replayed waits, and is looked at when it is taken, whoever has changed it."""
    assert Anomaly.REORDERED_OUTPUT in found(of(SCHEMES[scheme](), ChangingLater(swapped)))


def test_one_that_comes_twice_in_the_place_of_the_next_is_told_as_both() -> None:
    scenario = of(SCHEMES["passive replication"](), Changing(doubled, out=True), Role.SOURCE)
    assert {Anomaly.LOST_INPUT, Anomaly.DUPLICATE_EFFECT} <= found(scenario, STRUCK)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_one_that_is_dropped_from_the_middle_is_lost(scheme: str) -> None:
    assert Anomaly.LOST_INPUT in found(of(SCHEMES[scheme](), Changing(without_one)), STRUCK)


def test_punctuations_that_are_dropped_alone_are_lost() -> None:
    subject = approximate(one_total(MarkedTotals()), theta=10.0, l=20, gamma=20)
    struck = crash("sum-0").after(events(63))
    assert found(of(subject, Changing(lambda events: events)), struck) == set()
    assert Anomaly.LOST_INPUT in found(of(subject, Changing(without_marks)), struck)
    assert Anomaly.BOUND_EXCEEDED in found(of(subject, Changing(marks_first)), struck)
