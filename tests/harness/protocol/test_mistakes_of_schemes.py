"""What is wrong with a mechanism, a coordinator or the way in which they are put together is said of them, and is never
taken for a mistake of streamproof's, nor passed over."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec.structs import replace as replaced

from coordinators_of_users import Gathering, Known, _Gathering, cutting, together
from simulation import KINDS
from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.errors import (
    ExitStatus,
    InvalidOperator,
    InvalidScenario,
    InvalidScheme,
    InvalidTopology,
    OwnFailure,
    UsersCodeFailed,
)
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import exactly_once_output
from streamproof.harness.core.quantities import events, ms
from streamproof.harness.core.topology import Role
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.core.workload import Workload
from streamproof.harness.exploration.bench import Bench, Trial
from streamproof.harness.protocol.channels import InputChannel
from streamproof.harness.protocol.coordinator import Coordinating, Coordinator, CoordinatorMachine
from streamproof.harness.protocol.effects import (
    Durable,
    Effect,
    Forget,
    Input,
    Note,
    Persist,
    PersistItems,
    Send,
    SetTimer,
    Start,
    Timer,
)
from streamproof.harness.protocol.machine import Slice
from streamproof.harness.protocol.mechanism import AtWork, Mechanism
from streamproof.harness.protocol.merging import ChannelRun, Sequencer
from streamproof.harness.protocol.messages import (
    Acknowledge,
    Batch,
    Checkpoint,
    CheckpointId,
    Flow,
    Items,
    Message,
    Open,
)
from streamproof.harness.protocol.operator import STATE
from streamproof.harness.protocol.spec import Setup
from streamproof.harness.protocol.stores import CheckpointStore
from streamproof.harness.recording.records import (
    Changed,
    CheckpointDurable,
    CheckpointTaken,
    Closed,
    Decided,
    Delivered,
    Ended,
    Fired,
    InSync,
    Kept,
    Offered,
    Opened,
    Promoted,
    Record,
    Refused,
    Restored,
    Started,
    Taken,
    Worked,
)
from streamproof.harness.running.run import run_in_memory
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.approximate import approximate
from streamproof.reference_impls.mechanisms.checkpointing import Checkpointing, Taking
from streamproof.reference_impls.mechanisms.duplicate_filter import DuplicateFilter
from streamproof.reference_impls.mechanisms.merges import ByTime, _ByTimes
from streamproof.reference_impls.mechanisms.output_log import OutputLog, _OutputLog
from streamproof.reference_impls.mutants.twists import twisted
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.source_replay import source_replay
from streamproof.scenarios.order import order
from streamproof.scenarios.stateless import stateless
from streamproof.scenarios.totals import Totals, one_total
from streamproof.scenarios.trace import trace
from streamproof.scenarios.windows import windows
from streamproof.scenarios.workloads import numbered, ones

HERE = re.escape(__file__)


@dataclass(frozen=True)
class Wrong(Mechanism):
    """Puts a class to work."""

    kind: Callable[[Any], AtWork]

    def attach(self, machine: Any) -> AtWork:
        return self.kind(machine)


def made_of(*mechanisms: Mechanism, role: Role = Role.OPERATOR) -> SchemeSubject:
    """Passive replication, and these."""
    base = passive_replication(trace(), checkpoint_every=events(20), sink_filter=True)
    setup = base.setups[role]
    return replace(base, setups={**base.setups, role: replace(setup, mechanisms=(*setup.mechanisms, *mechanisms))})


def scenario(subject: SchemeSubject) -> Scenario:
    return Scenario(subject, numbered(events=120, batch=10), [crash("relay-0").after(events(70))])


def ran(subject: SchemeSubject) -> None:
    run_in_memory(scenario(subject), SimulatedCluster(), KINDS, Registry().oracles, seed=1)


def raising(hook: str) -> type[AtWork]:
    def fails(self: AtWork, *given: object) -> None:
        raise LookupError(f"nothing in {hook}")

    return type("Raises", (AtWork,), {hook: fails, "part": "own"})


@pytest.mark.parametrize(
    "hook",
    [
        *("timers", "readers", "begin", "started", "save", "restore", "durable", "handled", "opened", "acknowledged"),
        *("replayed", "came_in", "left", "room", "took", "rested", "emitted"),
    ],
)
def test_what_a_mechanism_raises_is_its_own_mistake_and_says_where(hook: str) -> None:
    with pytest.raises(InvalidScheme, match=rf"made of Wrong, failed: LookupError: nothing in {hook} \({HERE}, line"):
        ran(made_of(Wrong(raising(hook))))


class Odd(Message, frozen=True, tag="odd", array_like=True, gc=False):
    flow = Flow.DOWNSTREAM

    @property
    def identity(self) -> str:
        return "odd"


class Ring(Timer, frozen=True, gc=False):
    def __str__(self) -> str:
        return "ring"


class Notes(AtWork):
    def started(self, given: Start) -> None:
        self.machine.note("I was here")  # type: ignore[arg-type]


class Asks(AtWork):
    def started(self, given: Start) -> None:
        self.machine.effects.append("go home")  # type: ignore[arg-type]


class RingsForNobody(AtWork):
    def started(self, given: Start) -> None:
        self.machine.set_timer(Ring(), 0)


class SaysToNobody(AtWork):
    def started(self, given: Start) -> None:
        self.machine.send("elsewhere-0", 1, Acknowledge(self.machine.incarnation, 1))


class SaysOdd(AtWork):
    def emitted(self) -> None:
        for to, outputs in self.machine.outputs.items():
            for receiver in outputs.listeners:
                self.machine.send(to, receiver, Odd(self.machine.incarnation))


@dataclass(frozen=True)
class SaysWhatIsNotRead(Mechanism):
    messages = (Odd,)

    def attach(self, machine: Any) -> AtWork:
        return SaysOdd(machine)


class HasMany(AtWork):
    def room(self) -> int:
        return "many"  # type: ignore[return-value]


class Unready(Mechanism):
    """Does not say what it does."""


@dataclass(frozen=True)
class CallsNothing(Mechanism):
    def attach(self, machine: Any) -> AtWork:
        return None  # type: ignore[return-value]


class Persists(AtWork):
    """Puts a checkpoint into the store that another mechanism does not wait for."""

    def started(self, given: Start) -> None:
        self.machine.effects.append(Persist(self.machine.snapshot()))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (Wrong(Notes), "'I was here' on record"),
        (Wrong(Asks), "asks for 'go home', which is no effect"),
        (Wrong(RingsForNobody), r"has nothing that takes its timer Ring\(\)"),
        (Wrong(SaysToNobody), r"cannot send Acknowledge\(.*\) to elsewhere-0"),
        (Wrong(SaysOdd), r"cannot send Odd\(.*\) to .*: a mechanism sends what its `messages` name"),
        (SaysWhatIsNotRead(), "has no mechanism for what .* sent: odd"),
        (Wrong(HasMany), "made of Wrong, failed: TypeError"),
        (Unready(), "made of Unready, failed: .*does not say what it does"),
        (CallsNothing(), "made of CallsNothing, failed"),
        (Wrong(Persists), "made of Wrong, failed: .* did not wait for"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_cannot_be_asked_for_is_refused_by_name(mechanism: Mechanism, said: str) -> None:
    with pytest.raises(InvalidScheme, match=said) as raised:
        ran(made_of(mechanism))
    assert raised.value.exit_status is ExitStatus.USER_MISTAKE


def test_replicas_without_a_mechanism_for_them_are_refused() -> None:
    with pytest.raises(InvalidScheme, match="no mechanism by which a replica"):
        ran(replace(made_of(), replicas=2))


@dataclass(frozen=True)
class Losing(Gathering):
    """Fails when it meets somebody."""

    def attach(self, machine: CoordinatorMachine) -> Coordinating:
        return _Losing(machine)


class _Losing(Coordinating):
    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        return {}

    def met(self, member: str, incarnation: int) -> None:
        raise LookupError(f"whoever is {member}?")


class _Writing(_Losing):
    def met(self, member: str, incarnation: int) -> None:
        self.machine.note("I was here")  # type: ignore[arg-type]


@dataclass(frozen=True)
class Writing(Gathering):
    def attach(self, machine: CoordinatorMachine) -> Coordinating:
        return _Writing(machine)


@dataclass(frozen=True)
class Vague(Gathering):
    def cut(self, kept: Known | None) -> int | None:
        return "as far as it goes"  # type: ignore[return-value]


@dataclass(frozen=True)
class Forgetful(Gathering):
    def cut(self, kept: Known | None) -> int | None:
        raise LookupError("which cut?")


def led_by(leader: Coordinator, subject: SchemeSubject) -> SchemeSubject:
    setups = {
        role: replace(setup, coordinators=tuple(leader for _ in setup.coordinators))
        for role, setup in subject.setups.items()
    }
    return replace(subject, setups=setups)


@pytest.mark.parametrize(
    ("leader", "said"),
    [
        (Losing(), "made of Losing, failed: LookupError: whoever is"),
        (Writing(), "'I was here' on record"),
        (Vague(), "returned 'as far as it goes'; it returns a number"),
        (Forgetful(), "made of Forgetful, failed: LookupError: which cut"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_is_wrong_with_a_coordinator_is_its_own_mistake(leader: Coordinator, said: str) -> None:
    with pytest.raises(InvalidScheme, match=said):
        ran(led_by(leader, cutting(trace())))


class _Silent(_Gathering):
    def stopped(self) -> None:
        """Says from no cut."""


@dataclass(frozen=True)
class Silent(Gathering):
    def attach(self, machine: CoordinatorMachine) -> Coordinating:
        return _Silent(machine, False)


def test_who_never_says_from_where_all_slices_start_has_stalled_them() -> None:
    silent = led_by(Silent(), together(trace()))
    _, judgement = run_in_memory(scenario(silent), SimulatedCluster(), KINDS, Registry().oracles, seed=1)
    (verdict,) = judgement.verdicts
    assert verdict.status is Status.VIOLATED
    assert "cuts has not said from where all slices start together" in verdict.anomalies[0].sample[0].what


class SavesTheState(AtWork):
    part = STATE


def test_what_would_be_written_over_in_a_checkpoint_is_refused() -> None:
    with pytest.raises(InvalidScheme, match="two parts of a checkpoint that are called 'state'"):
        ran(made_of(Wrong(SavesTheState)))
    with pytest.raises(InvalidScheme, match="two parts of a checkpoint that are called 'log'"):
        ran(made_of(OutputLog()))


def test_a_slice_takes_checkpoints_in_one_way() -> None:
    with pytest.raises(InvalidScenario, match="Checkpointing and Checkpointing each take checkpoints of one slice"):
        made_of(Checkpointing(events(20)))
    with pytest.raises(InvalidScenario, match="gives sinks Checkpointing, which takes checkpoints of operators"):
        made_of(Checkpointing(events(20)), role=Role.SINK)


class Unsure(Totals):
    """Does not know what must not be lost."""

    def punctuation(self, event: Event) -> bool:
        raise LookupError("who knows?")


def test_what_an_operator_tells_a_mechanism_of_ours_is_the_operators_mistake() -> None:
    subject = approximate(one_total(Unsure()), theta=8, l=4, gamma=8)
    planned = Scenario(subject, ones(keys=6, events=32, batch=4), [crash(subject.actors[0]).after(events(9))])
    with pytest.raises(
        InvalidOperator, match=r"operator of .* \(Unsure\), or what it returned: LookupError: who knows"
    ):
        run_in_memory(planned, SimulatedCluster(), KINDS, Registry().oracles, seed=1)


class FailsLater(AtWork):
    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        if self.machine.incarnation > 1:
            raise LookupError("not again")
        return events


def test_a_search_says_under_which_schedule() -> None:
    subject = made_of(Wrong(FailsLater))
    bench = Bench(scenario(subject), Registry(), seed=1)
    with pytest.raises(InvalidScheme, match=r"not again \(.*\)\nThis was under seed 1 and the schedule: crash relay-0"):
        bench.attempt(Trial(tuple(scenario(subject).faults), 1))


class Spoils(AtWork):
    """Changes what came in where it lies, the first time that it comes."""

    def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
        for event in events:
            if event.seq == 50:
                event.value[0] = -1
        return events


def test_who_changes_an_event_that_was_offered_is_not_judged_by_what_it_is_since() -> None:
    workload = Workload("lists", 120, 10, lambda count, seed: (("all", [number]) for number in range(count)))
    spoilt = replace(scenario(made_of(Wrong(Spoils))), workload=workload)
    with pytest.raises(UsersCodeFailed, match=r"event \(source-0, 50\) was \[49\], and is \[-1\] since"):
        run_in_memory(spoilt, SimulatedCluster(), KINDS, Registry().oracles, seed=1)
    # What is read is what was written: there it has spoilt its own copy.
    _, judgement = run_in_memory(spoilt, SimulatedCluster(thorough=True), KINDS, Registry().oracles, seed=1)
    assert [verdict.status for verdict in judgement.verdicts] == [Status.VIOLATED]
    honest = replace(spoilt, subject=made_of())
    _, judgement = run_in_memory(honest, SimulatedCluster(), KINDS, Registry().oracles, seed=1)
    assert [verdict.status for verdict in judgement.verdicts] == [Status.HOLDS]


def test_a_mistake_of_ours_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Taking, count: int) -> None:
        raise OwnFailure("ours")

    monkeypatch.setattr(Taking, "count", fails)
    with pytest.raises(OwnFailure, match="ours"):
        ran(made_of())


def fails(given: Any) -> Any:
    raise LookupError("no room")


def no_slice(machine: Any) -> Any:
    return None


class Says:
    """A slice that says for itself what goes on record."""

    own: tuple[Effect, ...] = ()

    def __init__(self, machine: Slice) -> None:
        self._machine = machine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"wrap_store": fails}, r"wrap_store \(fails\) failed: LookupError: no room"),
        ({"wrap_store": no_slice}, r"wrap_store \(no_slice\) returned None, which has no quiesce\(\)"),
        ({"wraps": {Role.OPERATOR: fails}}, "made of fails, failed: LookupError: no room"),
        ({"wraps": {Role.OPERATOR: no_slice}}, r"put around relay-0 \(no_slice\) returned None, and no slice"),
        ({"wraps": {Role.OPERATOR: Says}}, r"put around relay-0 \(Says\) returned .*Says.*, and no slice"),
    ],
)
def test_what_is_put_around_a_slice_or_a_store_has_to_be_one(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidScheme, match=said):
        ran(replace(made_of(), **given))


class TurningOdd:
    """A store of which one method is another once it has been asked a few times."""

    def __init__(self, store: CheckpointStore, method: str, odd: Callable[..., Any], after: int) -> None:
        self._store, self._method, self._odd, self._left = store, method, odd, after

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name != self._method:
            return getattr(self._store, name)
        self._left -= 1
        return self._odd if self._left < 0 else getattr(self._store, name)


def full(*given: Any) -> Any:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("method", "odd", "said"),
    [
        ("write", full, r"write\(\) failed: OSError: \[Errno 28\] No space left on device"),
        ("write", lambda *given: None, r"write\(\) returned None; return True, or False where"),
        ("fence", full, r"fence\(\) failed: OSError"),
        ("fence", lambda *given: True, r"fence\(\) returned True; return a Checkpoint, or None"),
        ("items", full, r"items\(\) failed: OSError"),
        ("items", lambda *given: None, r"items\(\) returned None; return a list of Items"),
    ],
)
def test_a_store_that_breaks_its_contract_at_work_is_a_mistake_of_who_put_it_there(
    method: str, odd: Callable[..., Any], said: str
) -> None:
    # Each of three slices asks once as it starts.
    wrapped = replace(made_of(), wrap_store=lambda store: TurningOdd(store, method, odd, 3))
    with pytest.raises(InvalidScheme, match=rf"wrap_store .*: {said}"):
        ran(wrapped)


def test_whoever_puts_another_list_of_effects_in_place_of_the_machines_decides_what_is_done() -> None:
    class Replacing(AtWork):
        def took(self, *given: Any) -> None:
            self.machine.effects = [*self.machine.effects]

    subject = made_of(Wrong(Replacing))
    _, judgement = run_in_memory(scenario(subject), SimulatedCluster(), KINDS, Registry().oracles, seed=1)
    assert judgement.verdicts[0].status is Status.HOLDS, judgement.verdicts[0].reason


def test_a_checkpoint_is_not_noted_as_durable_before_its_store_says_so() -> None:
    """Else a claim that rests on durable checkpoints would hold where none was ever written."""

    class Early(AtWork):
        def took(self, *given: Any) -> None:
            machine: Any = self.machine
            id_ = machine.snapshot().id
            machine.note(CheckpointDurable(machine.spec.slice_id, id_.incarnation, id_.number))

    with pytest.raises(InvalidScheme, match=r"puts CheckpointDurable\(.*number=1\) on record, and was not told so"):
        ran(made_of(Wrong(Early)))


def test_what_was_at_work_is_not_for_a_mechanism_to_say() -> None:
    """Else a claim that rests on a filter would hold in a search in which no duplicate ever came."""

    class Boasts(AtWork):
        def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
            machine: Any = self.machine
            machine.dropped += 1
            machine.waited += 1
            return events

    with pytest.raises(InvalidScheme, match=r"made of Wrong, failed: AttributeError: .* no attribute 'dropped'"):
        ran(made_of(Wrong(Boasts)))


def test_no_mechanism_ends_the_input_before_all_of_it_is_offered() -> None:
    """What a source never offers nobody misses: every guarantee would hold of half of the input."""

    class EndsEarly(AtWork):
        def room(self) -> int:
            machine: Any = self.machine
            if machine.taken < 60:
                return 10
            machine.end({})
            return 0

    with pytest.raises(InvalidScheme, match=r"made of Wrong, failed: AttributeError: .* no attribute 'end'"):
        ran(made_of(Wrong(EndsEarly), role=Role.SOURCE))


def test_no_mechanism_has_the_input_end_past_its_machine() -> None:
    class Exhausts(AtWork):
        def sends(self, events: list[Event]) -> bool:
            machine: Any = self.machine
            if machine.taken > 60:
                machine._batches = iter(())
            return False

    with pytest.raises(InvalidScheme, match=r"source-0 offered 70 events, of 120, and said that there are no more"):
        ran(made_of(Wrong(Exhausts), role=Role.SOURCE))


def test_what_was_offered_stays_so_whatever_a_mechanism_does_to_the_list() -> None:
    """Precise recovery held of the rest."""

    class Swallows(AtWork):
        def sends(self, events: list[Event]) -> bool:
            if self.machine.taken > 60:
                del events[-1]
            return False

    subject = made_of(Wrong(Swallows), role=Role.SOURCE)
    _, judgement = run_in_memory(scenario(subject), SimulatedCluster(), KINDS, Registry().oracles, seed=1)
    assert judgement.verdicts[0].status is Status.VIOLATED
    assert {one.anomaly for one in judgement.verdicts[0].anomalies} == {Anomaly.LOST_INPUT}


def test_what_was_delivered_stays_so_whatever_a_mechanism_does_to_the_list() -> None:
    class Hides(AtWork):
        def __init__(self, machine: Any) -> None:
            super().__init__(machine)
            self.known: set[tuple[str, int]] = set()

        def took(self, up: str, channel: InputChannel, events: list[Event], ties: Any) -> None:
            events[:] = [event for event in events if (up, event.seq) not in self.known]
            self.known |= {(up, event.seq) for event in events}

    subject = made_of(Wrong(Hides), role=Role.SINK)
    sink = subject.setups[Role.SINK]
    unmasked = replace(sink, mechanisms=tuple(m for m in sink.mechanisms if not isinstance(m, DuplicateFilter)))
    subject = replace(subject, setups={**subject.setups, Role.SINK: unmasked})
    faults = [crash("trace-0").after(events(30))]
    repeated = Scenario(subject, numbered(events=120, batch=10), faults, claims=[exactly_once_output()])
    _, judgement = run_in_memory(repeated, SimulatedCluster(), KINDS, Registry().oracles, seed=1)
    assert {one.anomaly for one in judgement.verdicts[0].anomalies} == {Anomaly.DUPLICATE_OUTPUT}


@pytest.mark.parametrize(
    "record",
    [
        Ended("relay-0", 1, {"source-0": [1]}),
        Taken("relay-0", 1, "source-0", 1, 1, 3, 3),
        Opened("relay-0", 1, "trace-0", 1, 0, 9),
        InSync("relay-0", 1),
        CheckpointTaken("relay-0", 1, 1),
        Fired("relay-0", 1, 5, 5, False),
        Kept("relay-0", 1, {}),
        Changed("adjuster", 1, "relay-0", 1, 0, {"checkpoint_every": 1_000}),
        Promoted("relay-0", 7),
        Restored("trace-0", 1, (1, 1), 1),
        Delivered("sink-0", "trace-0>sink-0", 1, 0, []),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_mechanism_puts_nothing_on_record_in_the_name_of_others(record: Record) -> None:
    """A gap would be as long as a change of settings allows that nobody made, and a channel opened when it suits."""

    class Forges(AtWork):
        def started(self, given: Start) -> None:
            if self.machine.spec.slice_id == "relay-0":
                self.machine.note(record)

    with pytest.raises(
        InvalidScheme, match=r"relay-0 cannot put .* on record: a mechanism says what it has done itself"
    ):
        ran(made_of(Wrong(Forges)))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (Promoted("relay-0", 1), r"puts Promoted\(.*\) on record, and was not promoted, or has said so"),
        (Restored("relay-0", 1, (1, 1), 1), r"notes Restored\(.*\), and has not just gone on from that checkpoint"),
    ],
)
def test_what_did_not_happen_to_a_slice_is_not_put_on_record(record: Record, said: str) -> None:
    """A claim that rests on take-overs or on states restored would hold where there were none."""

    class Boasts(AtWork):
        def started(self, given: Start) -> None:
            if self.machine.spec.slice_id == "relay-0":
                self.machine.note(record)

    with pytest.raises(InvalidScheme, match=said):
        ran(made_of(Wrong(Boasts)))


def test_a_state_that_was_taken_over_is_put_on_record_once_and_as_it_was() -> None:
    """Else what was taken since could be made to count no more."""

    class Again(AtWork):
        def took(self, *given: Any) -> None:
            machine: Any = self.machine
            checkpoint = machine.snapshot()
            machine.restore(checkpoint)
            taken = (checkpoint.id.incarnation, checkpoint.id.number)
            record = Restored(machine.spec.slice_id, machine.incarnation, taken, machine.seq + 1)
            with pytest.raises(InvalidScheme, match="its next output being number"):
                machine.note(replaced(record, next_seq=machine.seq + 2))
            machine.note(record)
            machine.note(record)

    with pytest.raises(InvalidScheme, match=r"note it once, after restore\(\)"):
        ran(made_of(Wrong(Again)))


@pytest.mark.parametrize(
    "of",
    [("nobody-0", "trace-0>sink-0"), ("sink-0", "trace-0>nobody-0"), ("sink-0", "relay-0>sink-0")],
)
def test_a_sink_delivers_in_its_own_name_and_what_came_on_its_channels(of: tuple[str, str]) -> None:
    class Misnames(AtWork):
        def delivers(self, up: str, sender: int, events: list[Event]) -> bool:
            self.machine.note(Delivered(*of, sender, 0, events))
            return True

    with pytest.raises(InvalidScheme, match=r"sink-0 cannot put Delivered\(.*\) on record"):
        ran(made_of(Wrong(Misnames), role=Role.SINK))


def test_what_is_refused_does_not_stay_among_the_effects() -> None:
    class Insists(AtWork):
        def started(self, given: Start) -> None:
            with suppress(InvalidScheme):
                self.machine.note(Changed("adjuster", 1, self.machine.spec.slice_id, 1, 0, {"checkpoint_every": 1_000}))

    history, _ = run_in_memory(scenario(made_of(Wrong(Insists))), SimulatedCluster(), KINDS, Registry().oracles, seed=1)
    assert not list(history.each(Changed))


@pytest.mark.parametrize(
    "record",
    [
        CheckpointDurable("relay-0", 1, 99),
        Changed("adjuster", 1, "relay-0", 1, 0, {}),
        InSync("relay-0", 1),
        Opened("relay-0", 1, "trace-0", 1, 0, 9),
        Refused("relay-0", 1, "trace-0", 1, "@1"),
        Taken("relay-0", 1, "source-0", 1, 1, 10, 10),
        Worked("relay-0", 1, 1, 1, 1),
    ],
    ids=lambda record: type(record).__name__,
)
def test_nothing_is_put_on_record_among_the_effects(record: Record) -> None:
    class Slips(AtWork):
        def took(self, *given: Any) -> None:
            self.machine.effects.append(Note(record))

    with pytest.raises(InvalidScheme, match=r"cannot put .* on record: .* nothing among the effects"):
        ran(made_of(Wrong(Slips)))


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (Started("relay-0", 1, None, 1), "was not started, or has said so"),
        (Restored("relay-0", 1, (1, 1), 1), "nobody has given it a state"),
        (CheckpointDurable("relay-0", 1, 99), "has taken no such checkpoint"),
        (CheckpointDurable("relay-0", 7, 1), "that is not for it to say"),
        (Promoted("relay-0", 1), "was not promoted"),
        (Opened("relay-0", 1, "trace-0", 1, 0, 9), "nobody has asked for that, or it is on record"),
        (Opened("relay-0", 1, "trace-0", 2, 0, 9), "nobody has asked for that, or it is on record"),
        (Refused("relay-0", 1, "source-0", 1, "@1"), "its sender was not replaced"),
        (Ended("relay-0", 1, {"source-0": [1]}), "has not heard these ends"),
        (Worked("relay-0", 1, 1, 0, 0), "nothing has come that had come before"),
        (Worked("relay-0", 1, 0, 1, 0), "merges nothing"),
        (Worked("relay-0", 1, 0, 0, 1), "nobody has acknowledged anything"),
        (Kept("relay-0", 1, {}), "was not asked"),
        (InSync("relay-0", 1), "that is not for a slice to say"),
        (Changed("relay-0", 1, "relay-0", 1, 0, {}), "that is not for a slice to say"),
        (Taken("trace-0", 1, "relay-0", 1, 1, 1, 1), "that is not for it to say"),
        (Closed("trace-0", 1, 1), "that is not for it to say"),
        (Delivered("sink-0", "trace-0>sink-0", 1, 0, []), "that is not for it to say"),
        (Delivered("relay-0", "source-0>relay-0", 1, 0, []), "that is not for it to say"),
        (Offered("source-0", []), "that is not for it to say"),
        (Offered("relay-0", []), "that is not for it to say"),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, str) else "",
)
@pytest.mark.parametrize("way", ["by its machine", "past its machine"])
def test_what_did_not_come_to_a_slice_is_on_record_by_nobody_s_word(record: Record, why: str, way: str) -> None:
    """Else a claim would hold that rests on it, though it was never at work, and gaps would be excused."""

    class Forges(AtWork):
        def took(self, *given: Any) -> None:
            machine = self.machine
            if machine.spec.slice_id != "relay-0":
                return
            if way == "by its machine":
                machine.put_on_record(record)
            else:
                machine.own.append(Note(record))
                machine.effects.append(Note(record))

    with pytest.raises(InvalidScheme, match=rf"relay-0 puts {type(record).__name__}\(.*\) on record, and {why}"):
        ran(made_of(Wrong(Forges)))


@pytest.mark.parametrize("way", ["emptied", "cut", "another in its place"])
def test_no_mechanism_takes_back_what_its_slice_puts_on_record(way: str) -> None:
    """With the effects, nothing would be left that tells of it."""

    class TakesBack(AtWork):
        def handled(self) -> None:
            machine: Any = self.machine
            if machine.spec.slice_id != "relay-0" or machine.taken < 20:
                return
            if way == "emptied":
                machine.own.clear()
            elif way == "cut":
                machine.own[:] = []
            else:
                machine.own = []
            machine.effects.clear()

    with pytest.raises(InvalidScheme, match=r"relay-0(, made of .*, failed:| was to do )"):
        ran(made_of(Wrong(TakesBack)))


def test_what_a_log_of_inputs_made_durable_is_no_checkpoint() -> None:
    class Logs(AtWork):
        def took(self, *given: Any) -> None:
            machine: Any = self.machine
            if machine.taken < 20:
                items = Items(machine.spec.slice_id, machine.next_id(), 1, [])
                machine.effects.append(PersistItems(items))

        def durable(self, given: Durable) -> None:
            machine = self.machine
            machine.note(CheckpointDurable(machine.spec.slice_id, given.id.incarnation, given.id.number))

    with pytest.raises(
        InvalidScheme, match=r"puts CheckpointDurable\(.*\) on record, and has taken no such checkpoint"
    ):
        ran(replace(amnesia(trace()), setups={**amnesia(trace()).setups, Role.OPERATOR: Setup((Wrong(Logs),))}))


def test_a_slice_says_of_its_state_in_the_end_what_it_keeps_and_says_it_once() -> None:
    """A state that is wrong would be said to be right, and the last word would count."""

    class Says(AtWork):
        def handled(self) -> None:
            machine: Any = self.machine
            if any(isinstance(one, Note) and isinstance(one.record, Kept) for one in machine.effects):
                machine.put_on_record(Kept(machine.spec.slice_id, machine.incarnation, {}))

    with pytest.raises(InvalidScheme, match=r"puts Kept\(.*\) on record, and was not asked, or has said so"):
        ran(made_of(Wrong(Says)))


def test_what_its_counters_are_made_to_say_is_no_duplicate() -> None:
    class Boasts(AtWork):
        def took(self, *given: Any) -> None:
            machine: Any = self.machine
            machine._dropped += 1

    with pytest.raises(InvalidScheme, match=r"puts Worked\(.*\) on record, and nothing has come that had come before"):
        ran(replace(amnesia(trace()), setups={**amnesia(trace()).setups, Role.OPERATOR: Setup((Wrong(Boasts),))}))


def test_what_stands_around_a_slice_puts_nothing_on_record_either() -> None:
    def forges(machine: Slice, given: Input) -> list[Effect]:
        return [*machine.on(given), Note(InSync(machine.spec.slice_id, machine.incarnation))]

    subject = replace(made_of(), wraps={Role.OPERATOR: twisted(forges)})
    with pytest.raises(InvalidScheme, match=r"cannot put InSync.* nothing among the effects"):
        ran(subject)


def test_what_was_taken_is_not_kept_off_the_record() -> None:
    class Hides(AtWork):
        def took(self, *given: Any) -> None:
            self.machine.effects = [one for one in self.machine.effects if not isinstance(one, Note)]

    with pytest.raises(InvalidScheme, match=r"was to do .*Taken\(.*, and what is left of it is \[\]"):
        ran(made_of(Wrong(Hides)))


def test_no_channel_is_opened_once_more_among_the_effects() -> None:
    """Gap recovery would take what a mechanism has passed over for what a link that broke has lost."""

    class Asks(AtWork):
        def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
            machine = self.machine
            for up, given in machine.inputs.items():
                for incarnation in given.links:
                    machine.effects.append(Send(up, incarnation, Open(machine.incarnation, events[-1].seq)))
            return []

    with pytest.raises(InvalidScheme, match=r"a channel is opened by open_at\(\)"):
        ran(made_of(Wrong(Asks)))


@dataclass(frozen=True)
class Whispers(Mechanism):
    """Says something to those that it feeds, which they refuse to hear though nobody has replaced the sender."""

    messages = (Odd,)

    def attach(self, machine: Any) -> AtWork:
        return _Whispers(machine)


class _Whispers(SaysOdd):
    def emitted(self) -> None:
        if self.machine.spec.slice_id == "relay-0":
            super().emitted()

    def readers(self) -> Mapping[type[Message], Callable[[str, Any], None]]:
        return {Odd: self.machine.refuse}


def test_nobody_refuses_a_message_of_who_was_not_replaced() -> None:
    """A claim that rests on fencing would hold where nothing came from anybody who was replaced."""
    with pytest.raises(InvalidScheme, match=r"trace-0 refuses Odd\(.*\) of relay-0, .* whose sender was not replaced"):
        ran(made_of(Whispers()))


def test_a_log_that_keeps_all_has_trimmed_nothing() -> None:
    """A claim that rests on trimming would hold where no log ever forgot anything."""

    class Hoards(_OutputLog):
        @property
        def trimmed(self) -> int:
            return 1

        def trim(self, to: str, upto: int) -> None:
            """Says so, and does not."""

    base = made_of()
    operators = base.setups[Role.OPERATOR]
    hoarding = tuple(Wrong(Hoards) if isinstance(one, OutputLog) else one for one in operators.mechanisms)
    setups = {**base.setups, Role.OPERATOR: replace(operators, mechanisms=hoarding)}
    with pytest.raises(InvalidScheme, match=r"says that it has trimmed 1 batches, and keeps all [1-9]"):
        ran(replace(base, setups=setups))


@pytest.mark.parametrize(
    "record",
    [
        CheckpointDurable("relay-0", 1, 1),
        Refused("cuts", 1, "relay-0", 1, "odd"),
        Decided("cuts", 7, "complete"),
        Changed("cuts", 1, "nobody-0", 1, 0, {"checkpoint_every": 1_000}),
        Changed("other", 1, "relay-0", 1, 0, {"checkpoint_every": 1_000}),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_coordinator_puts_on_record_what_it_has_decided_and_changed_alone(record: Record) -> None:
    class Forges(_Gathering):
        def met(self, member: str, incarnation: int) -> None:
            self.machine.note(record)

    @dataclass(frozen=True)
    class Forging(Gathering):
        def attach(self, machine: CoordinatorMachine) -> Coordinating:
            return Forges(machine, False)

    with pytest.raises(InvalidScheme, match=r"cuts cannot put .* on record: a coordinator says what it has decided"):
        ran(led_by(Forging(), cutting(trace())))


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (CheckpointDurable("relay-0", 1, 1), "that is not for it to say"),
        (Opened("relay-0", 1, "trace-0", 1, 0, 9), "that is not for it to say"),
        (Delivered("sink-0", "trace-0>sink-0", 1, 0, []), "that is not for it to say"),
        (Decided("cuts", 7, "complete"), "that is not for it to say"),
        (Kept("cuts", 1, {}), "that is not for a coordinator to say"),
        (Refused("cuts", 1, "relay-0", 1, "odd"), "no such message has come"),
        (Changed("cuts", 1, "nobody-0", 1, 0, {"checkpoint_every": 1_000}), "does not lead it"),
        (Changed("cuts", 1, "relay-0", 1, 0, {"checkpoint_every": 1_000}), "nothing of it is durable"),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, str) else "",
)
def test_what_did_not_come_to_a_coordinator_is_on_record_by_nobody_s_word(record: Record, why: str) -> None:
    """Else checkpoints would be at work that nobody took, and a gap as long as a change allows that nobody made."""

    class Forges(_Gathering):
        def met(self, member: str, incarnation: int) -> None:
            self.machine.own.append(Note(record))
            self.machine.effects.append(Note(record))

    @dataclass(frozen=True)
    class Forging(Gathering):
        def attach(self, machine: CoordinatorMachine) -> Coordinating:
            return Forges(machine, False)

    with pytest.raises(InvalidScheme, match=rf"cuts puts {type(record).__name__}\(.*\) on record, and {why}"):
        ran(led_by(Forging(), cutting(trace())))


def test_nothing_is_delivered_with_a_checkpoint_but_by_its_sink() -> None:
    """Outputs that no sink has had would not be missed."""

    class Delivers(AtWork):
        def took(self, *given: Any) -> None:
            machine: Any = self.machine
            if machine.spec.slice_id == "trace-0":
                output = Event("trace-0", 1, "k", 1, 1)
                delivers = [Delivered("sink-0", "trace-0>sink-0", 1, 0, [output])]
                machine.effects.append(Persist(replaced(machine.snapshot(), delivers=delivers)))

    with pytest.raises(InvalidScheme, match=r"trace-0 cannot have Delivered\(.*\) delivered with its checkpoint"):
        ran(made_of(Wrong(Delivers)))


def test_no_mechanism_tells_the_others_that_a_checkpoint_is_durable_which_no_store_has() -> None:
    class Tells(AtWork):
        def took(self, *given: Any) -> None:
            machine: Any = self.machine
            machine.became_durable(Durable(machine.snapshot().id))

    with pytest.raises(InvalidScheme, match=r"nobody keeps its checkpoints but the store"):
        ran(made_of(Wrong(Tells)))


def test_no_mechanism_opens_a_channel_once_more_after_it_has_passed_over_what_came() -> None:
    """Only what a link that broke has lost is excused."""

    class Skips(AtWork):
        def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
            if self.machine.taken < 20:
                return events
            for up, given in self.machine.inputs.items():
                for incarnation in given.links:
                    self.machine.open_at(up, incarnation)
            return []

    with pytest.raises(InvalidScheme, match=r"from incarnation 1 of .*, which has been asked to send already"):
        ran(made_of(Wrong(Skips)))


def test_no_mechanism_asks_those_upstream_to_send_but_by_opening_the_channel() -> None:
    class Asks(AtWork):
        def came_in(self, channel: InputChannel, events: list[Event]) -> list[Event]:
            machine = self.machine
            for up, given in machine.inputs.items():
                for incarnation in given.links:
                    machine.send(up, incarnation, Open(machine.incarnation, channel.seen))
            return events

    with pytest.raises(InvalidScheme, match=r"cannot send Open\(.*\) to"):
        ran(made_of(Wrong(Asks)))


def test_no_mechanism_opens_a_channel_from_who_is_not_active() -> None:
    class Guesses(AtWork):
        def took(self, *given: Any) -> None:
            for up in self.machine.inputs:
                self.machine.open_at(up, 99)

    with pytest.raises(InvalidScheme, match=r"from incarnation 99 of .*, which is not active"):
        ran(made_of(Wrong(Guesses)))


@pytest.mark.parametrize(
    ("upto", "said"),
    [(None, "Expected `int`, got `None`"), ("12", "Expected `int`, got `str`"), (object(), "object is unsupported")],
    ids=["None", "a text", "an object"],
)
def test_what_is_no_message_is_the_mistake_of_who_sends_it(upto: Any, said: str) -> None:
    class Acknowledges(AtWork):
        def took(self, *given: Any) -> None:
            for up in self.machine.inputs:
                self.machine.acknowledge(up, upto)

    with pytest.raises(InvalidScheme, match=r"sent .*-0 Acknowledge\(.*\), which is no such message: ") as raised:
        ran(made_of(Wrong(Acknowledges), role=Role.SINK))
    assert said in str(raised.value)


def test_a_batch_of_nothing_is_no_message() -> None:
    class Empties(AtWork):
        def emitted(self) -> None:
            self.machine.effects = [self._emptied(effect) for effect in self.machine.effects]

        def _emptied(self, effect: Effect) -> Effect:
            if isinstance(effect, Send) and isinstance(effect.message, Batch):
                return Send(effect.to, effect.incarnation, Batch(effect.message.incarnation, []))
            return effect

    subject = made_of(Wrong(Empties), role=Role.SOURCE)
    with pytest.raises(
        InvalidScheme, match=r"source-0 sent relay-0 Batch\(.*\), which is no such message: .*length >= 1"
    ):
        run_in_memory(replace(scenario(subject), faults=()), SimulatedCluster(), KINDS, Registry().oracles, seed=1)
    # Where crash points are watched, each has to have a name.
    with pytest.raises(InvalidScheme, match=r"source-0 sends Batch\(.*\), which has no identity: IndexError"):
        ran(subject)


def test_what_a_slice_of_ours_raises_at_a_whole_message_stays_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: _OutputLog, to: str, upto: int) -> None:
        raise LookupError("ours")

    monkeypatch.setattr(_OutputLog, "trim", fails)
    with pytest.raises(LookupError, match="ours"):
        ran(made_of())


class Nameless(Message, frozen=True, tag="nameless", array_like=True, gc=False):
    flow = Flow.DOWNSTREAM

    @property
    def identity(self) -> str:
        raise LookupError("who am I?")


class Untold(Timer, frozen=True, gc=False):
    def __str__(self) -> str:
        raise LookupError("what am I?")


def _whole(machine: Any) -> Checkpoint:
    return Checkpoint(machine.spec.slice_id, CheckpointId(machine.incarnation, 1))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda machine: Persist(None), r"cannot have a store keep None: that is a checkpoint"),
        (lambda machine: Persist(_whole(machine).id), r"cannot have a store keep CheckpointId"),
        (lambda machine: Persist(replaced(_whole(machine), id=None)), r"cannot have a store keep Checkpoint\("),
        (
            lambda machine: Persist(replaced(_whole(machine), slice="nobody-0")),
            r"cannot have a store keep Checkpoint\(",
        ),
        (lambda machine: Persist(replaced(_whole(machine), id=CheckpointId(9, 1))), r"checkpoint of its incarnation 1"),
        (lambda machine: PersistItems(None), r"cannot have a store keep None"),
        (lambda machine: SetTimer(Ring(), ms(5)), r"sets its timer Ring\(\) for Duration.*as in ms\(5\)\.micros"),
        (lambda machine: SetTimer(Ring(), 0.5), r"sets its timer Ring\(\) for 0\.5"),
        (lambda machine: SetTimer(Ring(), -1), r"sets its timer Ring\(\) for -1"),
        (lambda machine: SetTimer(Untold(), 1), r"the timer Untold\(\) has no text: LookupError: what am I\?"),
        (lambda machine: Forget(None), r"drop checkpoints below None"),
        (lambda machine: Send("sink-0", 1, "hello"), r"'hello' is to be sent to sink-0, and is no Message"),
        (lambda machine: Send("sink-0", 1, Nameless(1)), r"sends Nameless\(.*\), which has no identity: LookupError"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_an_effect_cannot_hold_is_refused_when_it_is_asked_for(asked: Callable[[Any], Effect], said: str) -> None:
    class Asks(AtWork):
        def timers(self) -> Mapping[type[Timer], Callable[[Any], None]]:
            return {Ring: self._rung, Untold: self._rung}

        def _rung(self, timer: Timer) -> None:
            """Nothing comes of it."""

        def took(self, *given: Any) -> None:
            if self.machine.spec.slice_id == "relay-0":
                self.machine.effects.append(asked(self.machine))

    with pytest.raises(InvalidScheme, match=said):
        ran(made_of(Wrong(Asks)))


def test_who_takes_all_effects_away_is_named() -> None:
    class Clears(AtWork):
        def took(self, *given: Any) -> None:
            self.machine.effects = None  # type: ignore[assignment]

    with pytest.raises(InvalidScheme, match=r"made of Wrong, failed: "):
        ran(made_of(Wrong(Clears)))


@pytest.mark.parametrize("watched", [True, False])
def test_a_message_that_nobody_reads_and_that_has_no_name_is_refused(watched: bool) -> None:
    @dataclass(frozen=True)
    class Says(Mechanism):
        messages = (Nameless,)

        def attach(self, machine: Any) -> AtWork:
            return SaysNothing(machine)

    class SaysNothing(AtWork):
        def emitted(self) -> None:
            for to, outputs in self.machine.outputs.items():
                for receiver in outputs.listeners:
                    self.machine.send(to, receiver, Nameless(self.machine.incarnation))

    planned = scenario(made_of(Says()))
    with pytest.raises(InvalidScheme, match=r"sends Nameless\(.*\), which has no identity: LookupError: who am I\?"):
        run_in_memory(
            planned if watched else replace(planned, faults=()),
            SimulatedCluster(),
            KINDS,
            Registry().oracles,
            seed=1,
        )


class AsksTooMuch(_ByTimes):
    """Holds no more than so many of a channel: as many as come while a run goes on, and not all of the input."""

    def put(self, run: ChannelRun) -> None:
        if len(run.events) > 20:
            raise LookupError("no room")
        super().put(run)


class EndsWhatIsNone(_ByTimes):
    def closing(self) -> int | None:
        return 3


@dataclass(frozen=True)
class Merging(ByTime):
    kind: type[_ByTimes]

    def sequencer(self, slice_id: str, channels: int) -> Sequencer:
        return self.kind(channels)


def merged_by(kind: type[_ByTimes]) -> SchemeSubject:
    return passive_replication(order(), checkpoint_every=events(20), sink_filter=True, merge=Merging(kind))


def test_a_merge_that_fails_where_its_order_is_judged_is_to_blame() -> None:
    with pytest.raises(
        InvalidScheme, match=rf"the merge of chain-0 \(Merging\) failed .*LookupError: no room \({HERE}"
    ):
        ran(merged_by(AsksTooMuch))


def test_a_merge_that_knows_no_epochs_is_asked_for_none() -> None:
    faults = [crash("relay-0").after(events(30))]
    planned = Scenario(merged_by(EndsWhatIsNone), numbered(events=120, batch=10), faults)
    _, judgement = run_in_memory(planned, SimulatedCluster(), KINDS, Registry().oracles, seed=1)
    assert judgement.verdicts[0].status is Status.HOLDS


def test_states_that_nobody_would_look_at_are_those_of_operators_that_forget() -> None:
    """At-least-once held of replays to a slice that had lost its counts, and nobody looked at these."""
    blind = source_replay(stateless())
    assert replace(blind, topology=windows(window=20)).observables == ("outputs",)
    with pytest.raises(InvalidTopology, match="'trace' keeps one for ever: nobody would look"):
        replace(blind, topology=trace())
