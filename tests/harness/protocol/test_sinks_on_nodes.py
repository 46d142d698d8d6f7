"""Sinks in a fault domain: who places them, what they deliver, and who says what was delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from simulation import EVERY, addresses, history_of, scenario_of
from streamproof import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Moment, Point
from streamproof.harness.core.errors import InvalidScenario
from streamproof.harness.core.events import Event
from streamproof.harness.core.quantities import events
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.topology import Role
from streamproof.harness.judging.exercised import Activity
from streamproof.harness.protocol.effects import Durable, Effect, Note, Persist, Receive, Reroute, Send, Start
from streamproof.harness.protocol.making import make_machine
from streamproof.harness.protocol.messages import Acknowledge, Batch, Checkpoint, CheckpointId, End, Open, Replayed
from streamproof.harness.protocol.outside import Outside
from streamproof.harness.protocol.sink import SinkSlice
from streamproof.harness.protocol.spec import Setup
from streamproof.harness.protocol.stores import FileStore
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import Delivered, Ended, Taken
from streamproof.harness.worlds.spark.schemes.outside import Committed
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.mechanisms.acknowledging import AcknowledgeEvery
from streamproof.reference_impls.mechanisms.sink_delivery import DeliverAtOnce, DeliverInTransactions
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.transactional_sink import transactional_sink
from streamproof.scenarios.trace import trace
from streamproof.scenarios.word_count import word_count
from verdicts_of import run

NODES = ("node-0", "node-1", "node-2")
IN_TRANSACTIONS = scenario_of("transactional-sink/trace-numbered")
_PASSIVE = passive_replication(trace(), checkpoint_every=EVERY)
AT_ONCE = replace(
    IN_TRANSACTIONS,
    subject=replace(_PASSIVE, setups={**_PASSIVE.setups, Role.SINK: Setup((DeliverAtOnce(), AcknowledgeEvery(EVERY)))}),
)


def delivered(history: History) -> list[Delivered]:
    return list(history.each(Delivered))


def of_the_sink(scenario: Scenario) -> list[Fault]:
    """A crash at each address that the sink passes without failures."""
    passed = [one.address for one in addresses(scenario) if one.address.actor == "sink-0"]
    return [crash("sink-0").at(Moment.exactly(address)) for address in passed]


# Who places them


def test_a_sink_whose_mechanisms_say_so_is_placed_and_no_other() -> None:
    assert IN_TRANSACTIONS.subject.actors == ("relay-0", "trace-0", "trace-1", "sink-0")
    assert _PASSIVE.actors == ("relay-0", "trace-0", "trace-1")


def test_it_dies_with_those_beside_it_and_there_is_one_of_it_however_many_replicas_others_have() -> None:
    replicated = active_replication(trace())
    subject = replace(replicated, setups={**replicated.setups, Role.SINK: Setup((DeliverAtOnce(),))})
    assert subject.actors == ("relay-0", "trace-0", "trace-1", "sink-0", "relay-0/1", "trace-0/1", "trace-1/1")
    placed = [actor for actors in subject.placement(NODES).values() for actor in actors]
    assert sorted(placed) == sorted(subject.actors)


@pytest.mark.parametrize("role", [Role.SOURCE, Role.OPERATOR])
def test_what_is_a_sinks_is_refused_for_others_by_name(role: Role) -> None:
    with pytest.raises(InvalidScenario, match=r"DeliverInTransactions, which puts a sink .*setups\[Role.SINK\]"):
        replace(_PASSIVE, setups={**_PASSIVE.setups, role: Setup((DeliverInTransactions(EVERY),))})


# What they deliver, and when


def at_work() -> SinkSlice:
    subject = transactional_sink(word_count(1), checkpoint_every=events(4))
    (spec,) = [spec for spec in subject.specs if spec.slice_id == "sink-0"]
    sink = make_machine(spec)
    assert isinstance(sink, SinkSlice)
    sink.on(Start(1, None))
    sink.on(Reroute("count-0", 1))
    sink.on(Receive("count-0", Replayed(1)))
    return sink


def made(first: int, last: int) -> list[Event]:
    return [Event("count-0", seq, "word", seq, seq) for seq in range(first, last + 1)]


def saved(effects: Sequence[Effect]) -> Checkpoint:
    (found,) = [effect.checkpoint for effect in effects if isinstance(effect, Persist)]
    return found


def test_outputs_and_vector_are_one_checkpoint_and_nothing_is_delivered_beside_it() -> None:
    sink = at_work()
    assert sink.on(Receive("count-0", Batch(1, made(1, 3)))) == [Note(Taken("sink-0", 1, "count-0", 1, 1, 3, 3))]
    effects = sink.on(Receive("count-0", Batch(1, made(4, 5))))
    assert not any(isinstance(effect, Note) and isinstance(effect.record, Delivered) for effect in effects)
    assert [row.seq for one in saved(effects).delivers for row in one.rows] == [1, 2, 3, 4, 5]
    assert not any(isinstance(effect, Send) for effect in effects), "acknowledged before it is durable"
    assert Send("count-0", 1, Acknowledge(1, 5)) in sink.on(Durable(saved(effects).id))


def test_it_goes_on_from_the_vector_and_asks_for_what_follows() -> None:
    sink = at_work()
    checkpoint = saved(sink.on(Receive("count-0", Batch(1, made(1, 5)))))
    successor = make_machine(sink.spec)
    successor.on(Start(2, checkpoint))
    assert successor.on(Reroute("count-0", 1)) == [Send("count-0", 1, Open(2, 5))]


def test_the_end_is_told_once_the_rest_is_durable() -> None:
    sink = at_work()
    sink.on(Receive("count-0", Batch(1, made(1, 2))))
    effects = sink.on(Receive("count-0", End(1)))
    rest = saved(effects)
    ends = [effect for effect in effects if isinstance(effect, Note) and isinstance(effect.record, Ended)]
    assert not ends
    assert Note(Ended("sink-0", 1, {"count-0": [1]})) in sink.on(Durable(rest.id))


# Who says what was delivered


def subject_of(scenario: Scenario) -> SchemeSubject:
    assert isinstance(scenario.subject, SchemeSubject)
    return scenario.subject


def test_the_outside_counts_what_it_takes_whatever_an_incarnation_says() -> None:
    outside = Outside(subject_of(AT_ONCE).specs)
    said = [Delivered("sink-0", "trace-0>sink-0", 1, 0, made(1, 3)), Delivered("sink-0", "trace-0>sink-0", 1, 0, [])]
    assert [outside.numbered(one).position for one in said] == [0, 3]


@pytest.mark.parametrize("scenario", [IN_TRANSACTIONS, AT_ONCE], ids=["in transactions", "at once"])
def test_positions_have_no_gap_and_none_comes_twice_wherever_the_sink_dies(scenario: Scenario) -> None:
    for fault in of_the_sink(scenario)[::3]:
        for channel in ("trace-0>sink-0", "trace-1>sink-0"):
            on_it = [one for one in delivered(history_of(scenario, [fault])) if one.channel == channel]
            counts = [0, *accumulate(len(one.rows) for one in on_it)]
            assert [one.position for one in on_it] == counts[:-1], fault


def test_a_transaction_is_delivered_by_becoming_durable_though_its_sink_dies_before_it_hears_so() -> None:
    durable = [a.address for a in addresses(IN_TRANSACTIONS) if a.address.point is Point.CHECKPOINT_DURABLE]
    before, after = [a for a in durable if a.actor == "sink-0" and a.key == "1"]

    def first_of(history: History) -> list[int]:
        """Of the first incarnation of the sink: nothing of its second is delivered before that was started."""
        again = next(entry.stamp.at for entry in history.timeline if getattr(entry, "incarnation", 0) == 2)
        return [row.seq for s in history.of(Delivered) if s.at < again for row in s.record.rows]  # type: ignore[union-attr]

    assert first_of(history_of(IN_TRANSACTIONS, [crash("sink-0").at(Moment.exactly(before))])) == []
    assert first_of(history_of(IN_TRANSACTIONS, [crash("sink-0").at(Moment.exactly(after))])) != []


def test_on_a_real_cluster_the_store_says_what_was_committed_also_after_a_fence(tmp_path: Path) -> None:
    """The first incarnation dies with its second transaction durable, before it has told anybody."""
    store, outside = FileStore(tmp_path), Committed(subject_of(IN_TRANSACTIONS).specs, tmp_path)

    def committed() -> list[int]:
        return [row.seq for one in outside.committed("sink-0") for row in one.rows]

    def commit(incarnation: int, number: int, first: int, last: int) -> bool:
        rows = [Delivered("sink-0", "trace-0>sink-0", 1, 0, made(first, last))]
        return store.write(Checkpoint("sink-0", CheckpointId(incarnation, number), {}, beside=True, delivers=rows))

    store.fence("sink-0", 1)
    assert commit(1, 1, 1, 3)
    assert committed() == [1, 2, 3]
    assert commit(1, 2, 4, 5)
    newest = store.fence("sink-0", 2)
    assert newest is not None
    assert newest.id == CheckpointId(1, 2)
    assert not commit(1, 3, 6, 7), "an incarnation that was replaced commits nothing"
    assert commit(2, 3, 6, 6)
    assert committed() == [4, 5, 6]
    assert committed() == []


# What is judged


def test_planning_finds_the_addresses_of_a_sink_about_taking_saving_and_committing() -> None:
    points = {one.address.point for one in addresses(IN_TRANSACTIONS) if one.address.actor == "sink-0"}
    assert {Point.RECEIVED, Point.CHECKPOINT_ISSUED, Point.CHECKPOINT_DURABLE, Point.CHECKPOINT_TOLD} <= points
    assert {Point.SEND_ISSUED, Point.STARTED, Point.REROUTED} <= points


def test_no_crash_of_a_transactional_sink_shows() -> None:
    for fault in of_the_sink(IN_TRANSACTIONS)[::3]:
        judged = run(IN_TRANSACTIONS, [fault])
        assert judged.claim.status == "HOLDS", fault
        assert not judged.alarms()


def test_a_sink_that_remembers_nothing_repeats_itself_and_never_holds_more_than_at_least_once() -> None:
    outcomes = [run(AT_ONCE, [fault]) for fault in of_the_sink(AT_ONCE)]
    assert all(one.verdict("at-least-once").status == "HOLDS" for one in outcomes)
    assert sum(one.verdict("exactly-once-output").status == "VIOLATED" for one in outcomes) > len(outcomes) // 3


def test_a_sink_that_is_started_again_is_exercised_like_others() -> None:
    judged = run(IN_TRANSACTIONS, [of_the_sink(IN_TRANSACTIONS)[20]])
    subject = IN_TRANSACTIONS.subject
    assert isinstance(subject, SchemeSubject)
    counts = subject.exercised(judged.history)
    assert counts[Activity.RESTART] == sum(len(struck.bite.actors) for struck in judged.history.struck())
    assert counts[Activity.REPLAY] > 0
