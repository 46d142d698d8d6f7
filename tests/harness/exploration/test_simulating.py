"""One schedule that is simulated is judged by no more than a run that was kept: not by what operators keep outside of
their states, nor by what survives a crash in the simulator alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy
import pytest

import remembering
from streamproof.faults.crash import crash
from streamproof.faults.pause import pause
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.errors import InvalidOperator, InvalidScenario, UserMistake
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import exactly_once_output
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.quantities import events, ms
from streamproof.harness.core.reasons import Why
from streamproof.harness.core.topology import Edge, Role, Stage, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.largest_errors import LargestErrors
from streamproof.harness.exploration.simulating import all_bit, installed, largest_error, simulate
from streamproof.harness.protocol.channels import InputChannel
from streamproof.harness.protocol.effects import Durable, Persist
from streamproof.harness.protocol.mechanism import AtWork, Mechanism
from streamproof.harness.protocol.messages import Checkpoint, CheckpointId, Tie
from streamproof.harness.protocol.sink import SinkSlice
from streamproof.harness.protocol.spec import Setup
from streamproof.harness.recording.history import NodeGone
from streamproof.harness.recording.records import CheckpointDurable
from streamproof.harness.worlds.simulated.options import SimulationOptions
from streamproof.reference_impls.approximate import approximate
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.totals import Totals, one_total
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered, ones
from tokens import MEMORIES, Referring, referring


class Numbering(Operator[dict[str, int]]):
    """Numbers what it makes by what it keeps in itself."""

    def __init__(self) -> None:
        self.made = 0

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> list[tuple[str, int]]:
        self.made += 1
        state[event.key] = state.get(event.key, 0) + 1
        return [(event.key, self.made)]


class Knowing(Numbering):
    """Takes nothing twice that it was given before, whoever it was then."""

    def __init__(self) -> None:
        self.known: set[tuple[str, int]] = set()

    def process(self, event: Event, state: dict[str, int]) -> list[tuple[str, int]]:
        if (event.source, event.seq) in self.known:
            return []
        self.known.add((event.source, event.seq))
        state[event.key] = state.get(event.key, 0) + 1
        return [(event.key, state[event.key])]


def of_one(operator: Operator[Any]) -> Topology:
    return Topology("one", {"count": Stage(operator)}, (Edge("source", "count"), Edge("count", "sink")))


def crashed(subject: SchemeSubject) -> Scenario:
    (first, *_) = subject.actors
    return Scenario(subject, numbered(events=120, batch=10), [crash(first).after(events(70))])


@pytest.mark.parametrize("kind", [Numbering, Knowing])
def test_what_rests_on_operators_that_do_not_give_the_same_twice_is_not_judged(kind: type[Operator[Any]]) -> None:
    subject = passive_replication(of_one(kind()), checkpoint_every=events(20), sink_filter=True)
    with pytest.raises(InvalidOperator, match=rf"'count' \({kind.__name__}\) does not give the same every time"):
        simulate(crashed(subject))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seed": None}, "the seed of a simulated world cannot be None"),
        ({"seed": 1.5}, "the seed of a simulated world cannot be 1.5"),
        ({"schedule": crash("trace-0").after(events(3))}, r"faults=Fault\(.*must be a list of faults"),
        ({"scenario": passive_replication(trace())}, "what is simulated cannot be .*; it is a Scenario"),
    ],
)
def test_what_cannot_be_simulated_or_comes_to_something_else_each_time_is_refused(
    given: dict[str, Any], said: str
) -> None:
    usual = {"scenario": crashed(passive_replication(trace()))}
    with pytest.raises(InvalidScenario, match=said):
        simulate(**{**usual, **given})


def test_a_test_that_asserts_no_more_than_what_came_of_a_simulation_does_not_pass() -> None:
    came = simulate(crashed(passive_replication(trace())))
    with pytest.raises(UserMistake, match=r"ask whether it \.holds, or is \.violated\nHOLDS under seed 7"):
        assert came


@pytest.mark.parametrize(
    ("scenario", "schedules", "said"),
    [
        (crashed(passive_replication(trace())), 1, "trace claims no bound on an error that is measured here"),
        (crashed(passive_replication(trace())), 0, "how many schedules seek the largest error cannot be 0"),
        (crashed(passive_replication(trace())), 1.5, "how many schedules seek the largest error cannot be 1.5"),
    ],
)
def test_no_largest_error_is_sought_where_there_is_none(scenario: Scenario, schedules: Any, said: str) -> None:
    with pytest.raises(InvalidScenario, match=said):
        largest_error(scenario, schedules)


def test_where_nothing_was_measured_no_error_is_small() -> None:
    bench = Bench(crashed(passive_replication(trace())), installed(), seed=1)
    ratio = LargestErrors(bench, tried=1, calls=()).ratio
    assert not ratio <= 1
    assert not ratio >= 0


class NumberedTotals(Totals):
    """Tells a total with what it keeps in itself."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    def process(self, event: Event, state: dict[str, float]) -> tuple[Output]:
        self.made += 1
        ((key, total),) = super().process(event, state)
        return ((key, total + self.made),)


def test_no_largest_error_is_sought_of_operators_that_do_not_give_the_same_twice() -> None:
    subject = approximate(one_total(NumberedTotals()), theta=8, l=4, gamma=8)
    with pytest.raises(InvalidOperator, match="does not give the same every time"):
        largest_error(Scenario(subject, ones(keys=6, events=32, batch=4)), 1)


@dataclass(frozen=True)
class KnowingSink(Mechanism):
    """A sink on a node, which delivers at once, and passes over what it knows that it has delivered."""

    @property
    def in_fault_domain(self) -> bool:
        return True

    def attach(self, machine: Any) -> AtWork:
        return _KnowingSink(machine)


class _KnowingSink(AtWork):
    machine: SinkSlice
    part = "delivered"

    def __init__(self, machine: Any) -> None:
        super().__init__(machine)
        self._delivered: list[tuple[str, int]] = []
        self._pending: CheckpointId | None = None

    def save(self) -> list[tuple[str, int]]:
        return self._delivered  # It goes on changing.

    def restore(self, checkpoint: Checkpoint) -> None:
        self._delivered = [(source, seq) for source, seq in checkpoint.parts[self.part]]

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        return [event for event in events if (event.source, event.seq) not in self._delivered]

    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        self._delivered += [(event.source, event.seq) for event in events]
        if self._pending is None:
            checkpoint = self.machine.snapshot()
            self._pending = checkpoint.id
            self.machine.effects.append(Persist(checkpoint))

    def durable(self, given: Durable) -> None:
        self._pending = None
        self.machine.note(CheckpointDurable(self.machine.spec.slice_id, given.id.incarnation, given.id.number))


def test_a_checkpoint_holds_no_more_than_was_written() -> None:
    """In the memory of one process what was saved goes on changing, which no disk does."""
    base = passive_replication(trace(), checkpoint_every=events(20))
    subject = replace(base, setups={**base.setups, Role.SINK: Setup((KnowingSink(),))})
    scenario = Scenario(subject, numbered(events=120, batch=10), claims=[exactly_once_output()])
    assert simulate(scenario, [crash("sink-0").after(ms(12))]).violated


class _Unwritable(AtWork):
    part = "own"

    def save(self) -> Any:
        return object()


@dataclass(frozen=True)
class Unwritable(Mechanism):
    def attach(self, machine: Any) -> AtWork:
        return _Unwritable(machine)


def test_a_checkpoint_that_no_disk_takes_is_refused() -> None:
    base = passive_replication(trace(), checkpoint_every=events(20), sink_filter=True)
    operators = base.setups[Role.OPERATOR]
    setup = replace(operators, mechanisms=(*operators.mechanisms, Unwritable()))
    with pytest.raises(InvalidScenario, match="a checkpoint of relay-0 cannot be written"):
        simulate(crashed(replace(base, setups={**base.setups, Role.OPERATOR: setup})))


_TAKEN: dict[str, list[int]] = {}


class _Outside(AtWork):
    """Drops what was taken before, by numbers that it keeps in a variable of this module."""

    def __init__(self, machine: Any) -> None:
        super().__init__(machine)
        self._taken = _TAKEN.setdefault(machine.spec.slice_id, [])

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        return [event for event in events if event.seq not in self._taken]

    def took(self, up: str, channel: InputChannel, events: list[Event], ties: list[Tie] | None) -> None:
        self._taken += [event.seq for event in events]


@dataclass(frozen=True)
class Outside(Mechanism):
    def attach(self, machine: Any) -> AtWork:
        return _Outside(machine)


def test_a_crash_takes_what_is_kept_in_variables() -> None:
    """And so does the end of a run: who has forgotten what was taken, takes it again; who has not, loses it."""
    base = passive_replication(trace(), checkpoint_every=events(20), sink_filter=True)
    operators = base.setups[Role.OPERATOR]
    setup = replace(operators, mechanisms=(Outside(), *operators.mechanisms))
    subject = replace(base, setups={**base.setups, Role.OPERATOR: setup})
    assert [simulate(crashed(subject)).holds for _ in range(2)] == [True, True]


CRASHED = crash("count-0").after(events(20))


@pytest.mark.parametrize("where", MEMORIES)
def test_a_crash_takes_it_wherever_it_is_kept_in_variables(where: str) -> None:
    assert simulate(referring(CRASHED, Referring(where))).violated


@pytest.mark.parametrize("early", [False, True])
def test_a_run_finds_nothing_of_the_one_before_it_nor_of_who_judged_or_examined_that(early: bool) -> None:
    scenario = referring(CRASHED, Referring(early=early))
    assert [simulate(scenario).violated for _ in range(2)] == [True, True]
    assert not MEMORIES["dict"]()


def test_who_comes_in_the_place_of_a_frozen_one_finds_nothing_of_its_memory() -> None:
    frozen = pause("count-0").after(events(20)).lasting(ms(50))
    assert simulate(referring(frozen, Referring())).violated
    soon = pause("count-0").after(events(20)).lasting(ms(1))
    assert simulate(referring(soon, Referring())).holds, "it goes on by itself"


def test_a_crash_where_nobody_has_begun_is_no_proof_of_anything() -> None:
    """It takes place: who was to begin there begins elsewhere, or later."""
    scenario = Scenario(passive_replication(trace(), checkpoint_every=events(4)), numbered(events=60, batch=2))
    for target in ("trace-0", "node-1"):
        early = simulate(scenario, [crash(target).after(ms(0))])
        (verdict,) = early.verdicts
        assert (verdict.status, verdict.why) == (Status.UNKNOWN, Why.UNPROVEN)
        assert verdict.reason.endswith("it got in the way of nothing (slices that had begun there: 0)")
        assert any(isinstance(entry, NodeGone) for entry in early.history.timeline)
    both = simulate(scenario, [crash("trace-0", "node-5").after(ms(10))], options=SimulationOptions(nodes=6))
    assert both.holds, "that one of the nodes was idle makes the other's death none"
    lost, placed_anew = crash("trace-0").after(ms(10)), crash("trace-0").after(ms(16))
    again = simulate(scenario, [lost, placed_anew])
    assert again.holds
    assert all_bit(again.history), "it is about to be started there"


ROWS = numpy.empty(2, dtype=object)
ROWS[0], ROWS[1] = ["a"], ["b"]
TIMES = numpy.zeros(2, dtype="M8[s]")
ACROSS = numpy.zeros((2, 2), order="F")


class KeepingRows(Numbering):
    """Changes tables of numpy's, and goes by none of them."""

    def process(self, event: Event, state: dict[str, int]) -> list[tuple[str, int]]:
        for place in range(2):
            ROWS[place] = [event.key] * event.seq
        TIMES[0] = event.seq
        ACROSS[1, 0] = event.seq
        state[event.key] = state.get(event.key, 0) + 1
        return [(event.key, state[event.key])]


def test_arrays_of_numpys_are_put_back_whatever_they_hold() -> None:
    for _ in range(3):
        assert simulate(referring(CRASHED, KeepingRows())).holds
        assert [ROWS.tolist(), TIMES.astype(int).tolist(), ACROSS.tolist()] == [
            [["a"], ["b"]],
            [0, 0],
            [[0.0, 0.0], [0.0, 0.0]],
        ]


def test_nothing_holds_of_who_writes_what_it_can_read_again_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def of(mechanism: Mechanism) -> Scenario:
        subject = passive_replication(trace(), checkpoint_every=events(20))
        own = subject.setups[Role.OPERATOR]
        setups = {**subject.setups, Role.OPERATOR: replace(own, mechanisms=(mechanism, *own.mechanisms))}
        return Scenario(replace(subject, setups=setups), numbered(events=60))

    struck = [crash("trace-0").after(events(10))]
    found = simulate(of(remembering.ReadingLater("some")), struck)
    (verdict,) = found.verdicts
    assert verdict.why is Why.REMEMBERED
    assert f"(the file {tmp_path / 'some'})" in verdict.reason
    found = simulate(of(remembering.ReadingLater("mark", marks=True)), struck)
    assert found.holds
    assert str(tmp_path / "mark") in repr(found)
    assert simulate(of(remembering.ReadingLater("some")), []).holds, "nobody was crashed"
    assert simulate(of(remembering.Noting()), struck).not_looked_at == ""
