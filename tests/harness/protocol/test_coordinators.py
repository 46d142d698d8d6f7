"""Coordinators: a cut that one calls whole is whole, whenever it dies, and nobody starts from one that is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from coordinators_of_users import (
    NAME,
    Asking,
    Gathering,
    Part,
    TakePart,
    Whole,
    cutting,
    together,
)
from streamproof.faults.crash import crash
from streamproof.faults.partition import partition
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Moment, Point
from streamproof.harness.core.errors import InvalidScenario, UnknownName
from streamproof.harness.core.quantities import Duration
from streamproof.harness.core.slice_names import slice_of
from streamproof.harness.core.topology import Role
from streamproof.harness.core.verdicts import Status, Verdict
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.exploration.census import Reached
from streamproof.harness.protocol.coordinator import CoordinatorMachine, CoordinatorSpec
from streamproof.harness.protocol.directory import Directory, Told
from streamproof.harness.protocol.effects import (
    Durable,
    Effect,
    Gone,
    Note,
    Persist,
    Receive,
    Reroute,
    RestartAll,
    Send,
    Start,
    Stopped,
)
from streamproof.harness.protocol.messages import Checkpoint, CheckpointId
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import Decided, Refused, Started
from streamproof.harness.worlds.simulated.options import SimulationOptions
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered

ROOMY = SimulationOptions(nodes=4, step_limit=20_000)
"""A node for each slice, and one for the coordinator alone."""
NARROW = SimulationOptions(nodes=2, step_limit=20_000)
"""It shares a node with slices."""
UNEVEN = replace(ROOMY, disk_delay=(500, 30_000))
"""Parts of one cut become durable far apart."""
BUILDS = {"cutting": partial(cutting, every=1_500), "together": together}
Build = Callable[..., SchemeSubject]


def bench(subject: SchemeSubject, options: SimulationOptions = ROOMY) -> Bench:
    return Bench(Scenario(subject, numbered(events=80, batch=10)), Registry(), seed=1, options=options)


def crashed_at(one: Bench, *reached: Reached, seed: int = 1) -> tuple[History, Verdict]:
    schedule = tuple(crash(each.address.name).at(Moment.exactly(each.address)) for each in reached)
    history = one.run(schedule, seed)
    (verdict,) = one.judge(history)
    return history, verdict


def every_start_is_from_a_whole_cut(history: History) -> bool:
    """Every incarnation that started from a checkpoint did so from one of a cut that had been called whole, or that was
    being put on record as whole when the coordinator died."""
    whole = 0
    for record in (stamped.record for stamped in history.records):
        if (isinstance(record, Decided) and record.what == "whole") or (
            isinstance(record, Decided) and record.what == "restart"
        ):
            whole = max(whole, int(record.details["cut"]))
        elif isinstance(record, Started) and record.restored is not None and record.restored[1] > whole + 1:
            return False
    return True


@pytest.mark.parametrize("options", [ROOMY, NARROW], ids=["alone", "beside slices"])
@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_whenever_the_coordinator_dies_the_scheme_keeps_its_word(build: Build, options: SimulationOptions) -> None:
    one = bench(build(trace()), options)
    passed = [reached for reached in one.calm if reached.address.name == NAME]
    assert {reached.address.point for reached in passed} >= {
        Point.STARTED,
        Point.REROUTED,
        Point.RECEIVED,
        Point.MECHANISM,
        Point.CHECKPOINT_ISSUED,
        Point.CHECKPOINT_DURABLE,
        Point.CHECKPOINT_TOLD,
        Point.SEND_ISSUED,
    }
    held, passed = 0, passed if options is ROOMY else passed[::4]
    for reached in passed:
        history, verdict = crashed_at(one, reached)
        (struck,) = history.struck()
        assert verdict.status is Status.HOLDS or not struck.bite.bit, (str(reached.address), verdict)
        assert every_start_is_from_a_whole_cut(history), str(reached.address)
        held += verdict.status is Status.HOLDS
    assert held > len(passed) / 2


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_slices_die_beside_it_and_nothing_is_lost(build: Build) -> None:
    one = bench(build(trace()))
    passed = [reached for reached in one.calm if reached.address.name != NAME][::25]
    gathered = next(reached for reached in one.calm if reached.address.point is Point.MECHANISM)
    for reached in passed:
        for schedule in ((reached,), (gathered, reached)):
            history, verdict = crashed_at(one, *schedule)
            struck = list(history.struck())
            clear = len(struck) == len(schedule) and all(each.bite.bit for each in struck)
            assert verdict.status is Status.HOLDS or not clear, ([str(each.address) for each in schedule], verdict)
            assert every_start_is_from_a_whole_cut(history)


def test_one_that_calls_a_cut_whole_too_early_is_found_out() -> None:
    one = bench(together(trace(), hasty=True), UNEVEN)
    passed = [reached for reached in one.calm if slice_of(reached.address.name) != NAME]
    assert any(crashed_at(one, reached)[1].status is Status.VIOLATED for reached in passed)
    patient = bench(together(trace()), UNEVEN)
    assert crashed_at(patient)[1].status is Status.HOLDS


def test_the_loss_of_one_slice_takes_all_back_to_one_cut_and_none_where_it_is_the_coordinator() -> None:
    one = bench(together(trace()))
    late = [r for r in one.calm if r.address.name == "trace-1" and r.address.point is Point.CHECKPOINT_TOLD][2]
    history, verdict = crashed_at(one, late)
    assert verdict.status is Status.HOLDS
    again = [record for record in history.each(Started) if record.incarnation == 2]
    (restart,) = (record for record in history.each(Decided) if record.what == "restart")
    assert {record.slice for record in again} == set(one.subject.topology.operator_slices)
    assert {record.restored[1] for record in again if record.restored} == {restart.details["cut"]}
    own = next(r for r in one.calm if r.address.name == NAME and r.address.point is Point.CHECKPOINT_TOLD)
    history, _ = crashed_at(one, own)
    assert all(record.incarnation == 1 for record in history.each(Started))
    assert [r.incarnation for r in history.each(Decided) if r.what == "started"] == [1, 2]


def test_one_that_nobody_can_reach_for_a_while_calls_nothing_whole_meanwhile() -> None:
    one = bench(cutting(trace()))
    (cut_off,) = (partition(NAME, "trace-1").after(Duration(4_000)).lasting(Duration(12_000)),)
    history = one.run((cut_off,), 1)
    (verdict,) = one.judge(history)
    assert verdict.status is Status.HOLDS
    at = [s.at for s in history.records if isinstance(s.record, Decided) and s.record.what == "whole"]
    assert at
    assert min(at) > 16_000


def test_a_scheme_without_one_says_and_has_nothing_of_it() -> None:
    subject = passive_replication(trace())
    assert subject.coordinators == ()
    assert "coordinators" not in subject.describe()
    assert Point.STOPPED not in subject.points
    assert together(trace()).describe()["coordinators"][NAME]["members"] == list(trace().operator_slices)
    assert Point.STOPPED in together(trace()).points


def test_a_name_with_two_meanings_is_refused() -> None:
    subject = cutting(trace())
    other = replace(subject.setups[Role.SINK], coordinators=(Asking(every=1),))
    with pytest.raises(InvalidScenario, match="something else"):
        replace(subject, setups={**subject.setups, Role.SINK: other})
    with pytest.raises(UnknownName, match="no-such"):
        replace(subject, restarts_by="no-such")


# The machine by itself


def machine(coordinator: Gathering | None = None) -> CoordinatorMachine:
    made = CoordinatorMachine(CoordinatorSpec(coordinator or Gathering(), ("a-0", "b-0")))
    made.on(Start(1, None))
    return made


def kept(effects: list[Effect]) -> list[Checkpoint]:
    return [effect.checkpoint for effect in effects if isinstance(effect, Persist)]


def sent(effects: list[Effect]) -> list[tuple[str, int, object]]:
    return [(effect.to, effect.incarnation, effect.message) for effect in effects if isinstance(effect, Send)]


def test_what_it_kept_is_what_its_successor_begins_with() -> None:
    one = machine()
    for member in ("a-0", "b-0"):
        one.on(Reroute(member, 1))
    assert kept(one.on(Receive("a-0", Part(1, 1, False)))) == []
    (checkpoint,) = kept(one.on(Receive("b-0", Part(1, 1, False))))
    assert sent(one.on(Durable(checkpoint.id))) == [("a-0", 1, Whole(1, 1)), ("b-0", 1, Whole(1, 1))]
    successor = CoordinatorMachine(one.spec)
    successor.on(Start(2, checkpoint))
    assert sent(successor.on(Reroute("a-0", 1))) == [("a-0", 1, Whole(2, 1))]
    successor.on(Reroute("b-0", 1))
    successor.on(Receive("a-0", Part(1, 2, False)))
    (next_one,) = kept(successor.on(Receive("b-0", Part(1, 2, False))))
    assert next_one.id.number == checkpoint.id.number + 1


def test_what_one_that_is_gone_has_sent_is_refused() -> None:
    one = machine()
    one.on(Reroute("a-0", 1))
    one.on(Gone("a-0", 1))
    (note,) = one.on(Receive("a-0", Part(1, 1, False)))
    assert isinstance(note, Note)
    assert isinstance(note.record, Refused)
    assert not one.complete


def test_one_that_is_heard_before_it_is_heard_of_is_met() -> None:
    one = machine()
    one.on(Receive("a-0", Part(3, 1, False)))
    assert one.there["a-0"] == [3]


def test_a_cut_that_is_being_put_on_record_when_all_stop_is_the_one_to_go_on_from() -> None:
    one = machine()
    for member in ("a-0", "b-0"):
        one.on(Receive(member, Part(1, 1, False)))
    assert one.on(Stopped(4)) == []
    effects = one.on(Durable(CheckpointId(1, 1)))
    assert [effect for effect in effects if isinstance(effect, RestartAll)] == [RestartAll(4, 1)]
    assert sent(effects) == []


def test_it_may_tell_its_members_only_and_they_may_report_to_it_only() -> None:
    subject = cutting(trace())
    (leader,) = subject.coordinators
    assert leader.may_send("trace-0", TakePart(1, 1))
    assert not leader.may_send("sink-0", TakePart(1, 1))
    specs = {spec.slice_id: spec for spec in subject.specs}
    assert specs["trace-0"].may_send(NAME, Part(1, 1, False))
    assert not specs["sink-0"].may_send(NAME, Part(1, 1, False))
    assert not specs["trace-0"].may_send("trace-1", TakePart(1, 1))


def test_it_hears_of_every_incarnation_of_its_members_and_they_call_it() -> None:
    subject = cutting(trace())
    directory = Directory((*subject.specs, *subject.coordinators))
    directory.announce("trace-0", 1, active=False)
    told = directory.announce(NAME, 1, active=True)
    assert told == [Told(NAME, 1, "trace-0", 1), Told("trace-0", 1, NAME, 1)]
    assert [directory.calls(one) for one in told] == [False, True]
    assert Told("trace-0", 1, NAME, 1) in directory.withdraw(NAME, 1)
