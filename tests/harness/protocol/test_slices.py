"""A slice by itself, inputs in and effects out: what it logs, acknowledges, checkpoints, replays and refuses."""

from __future__ import annotations

from streamproof.harness.core.events import Event
from streamproof.harness.core.quantities import events
from streamproof.harness.protocol.effects import (
    Durable,
    Effect,
    Fire,
    Gone,
    Note,
    Persist,
    Receive,
    Reroute,
    Send,
    SetTimer,
    Start,
)
from streamproof.harness.protocol.messages import (
    Acknowledge,
    Batch,
    CheckpointId,
    End,
    Open,
    Replay,
    Replayed,
    ReplayStop,
    Silence,
)
from streamproof.harness.protocol.operator import VECTOR, OperatorSlice, Vector
from streamproof.harness.recording.records import Ended, Opened, Refused
from streamproof.reference_impls.mechanisms.output_log import PART as LOG
from streamproof.reference_impls.mechanisms.silence import Idle
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.order import order
from streamproof.scenarios.word_count import word_count

SUBJECT = passive_replication(word_count(1), checkpoint_every=events(4))
SPECS = {spec.slice_id: spec for spec in SUBJECT.specs}


def started() -> OperatorSlice:
    """A counter that both neighbours have met."""
    counter = OperatorSlice(SPECS["count-0"])
    counter.on(Start(1, None))
    (opening,) = counter.on(Reroute("split-0", 1))
    assert opening == Send("split-0", 1, Open(1, 0))
    assert counter.on(Receive("split-0", Replayed(1))) == []
    assert counter.on(Receive("sink-0", Open(1, 0))) == [
        Note(Opened("count-0", 1, "sink-0", 1, 0, 1)),
        Send("sink-0", 1, Replayed(1)),
    ]
    return counter


def made(first: int, last: int) -> list[Event]:
    return [Event("split-0", seq, "word", 1, seq) for seq in range(first, last + 1)]


def batch(first: int, last: int, incarnation: int = 1) -> Receive:
    return Receive("split-0", Batch(incarnation, made(first, last)))


def replayed(first: int, last: int, incarnation: int = 1) -> Receive:
    return Receive("split-0", Replay(incarnation, made(first, last)))


def numbers(effects: list[Effect], kind: type) -> list[int]:
    return [event.seq for send in sent(effects, kind) for event in send.message.events]  # type: ignore[attr-defined]


def sent(effects: list[Effect], kind: type) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def persisted(effects: list[Effect]) -> Persist:
    (persist,) = [effect for effect in effects if isinstance(effect, Persist)]
    return persist


def test_it_acknowledges_what_a_checkpoint_covers_when_that_is_durable_and_not_before() -> None:
    counter = started()
    effects = counter.on(batch(1, 4))
    assert persisted(effects).checkpoint.parts[VECTOR] == Vector({"split-0": 4})
    assert sent(effects, Acknowledge) == []
    assert sent(counter.on(batch(5, 6)), Acknowledge) == []
    assert sent(counter.on(Durable(CheckpointId(1, 1))), Acknowledge) == [Send("split-0", 1, Acknowledge(1, 4))]


def test_its_log_holds_what_is_not_acknowledged_and_no_more() -> None:
    counter = started()
    first = persisted(counter.on(batch(1, 4)))
    assert [event.seq for event in first.checkpoint.parts[LOG].events["sink-0"]] == [1, 2, 3, 4]
    counter.on(Durable(CheckpointId(1, 1)))
    counter.on(Receive("sink-0", Acknowledge(1, 4)))
    second = persisted(counter.on(batch(5, 8)))
    assert [event.seq for event in second.checkpoint.parts[LOG].events["sink-0"]] == [5, 6, 7, 8]


def test_it_takes_no_second_interval_while_a_checkpoint_is_not_durable() -> None:
    counter = started()
    counter.on(batch(1, 4))
    counter.on(batch(5, 8))
    assert counter.on(batch(9, 10)) == []
    assert counter.taken == 8
    effects = counter.on(Durable(CheckpointId(1, 1)))
    assert persisted(effects).checkpoint.id == CheckpointId(1, 2)
    assert counter.taken == 10


def test_it_refuses_an_incarnation_that_was_replaced() -> None:
    counter = started()
    counter.on(Gone("split-0", 1))
    counter.on(Reroute("split-0", 2))
    (note,) = counter.on(batch(1, 2))
    assert note == Note(Refused("count-0", 1, "split-0", 1, "@1"))
    assert counter.taken == 0


def test_what_was_refused_once_is_refused_for_good() -> None:
    counter = started()
    counter.on(Gone("split-0", 1))
    assert counter.on(Reroute("split-0", 1)) == [], "a link to it may come up late"
    counter.on(Gone("sink-0", 1))
    assert counter.on(Receive("sink-0", Open(1, 0))) == [Note(Refused("count-0", 1, "sink-0", 1, "open"))]
    assert counter.on(Receive("sink-0", Acknowledge(1, 3))) == [Note(Refused("count-0", 1, "sink-0", 1, "ack@3"))]


def receiving() -> OperatorSlice:
    """A counter to which a log is still being replayed."""
    counter = OperatorSlice(SPECS["count-0"])
    counter.on(Start(1, None))
    counter.on(Reroute("split-0", 1))
    return counter


def test_what_is_replayed_is_taken_at_once_and_what_is_new_waits_for_it() -> None:
    counter = receiving()
    counter.on(replayed(1, 2))
    assert counter.taken == 2
    assert counter.on(batch(5, 6)) == [Send("split-0", 1, ReplayStop(1, 5))]
    assert counter.on(batch(7, 7)) == [], "where to stop is said once"
    assert counter.taken == 2
    counter.on(replayed(3, 4))
    assert counter.taken == 4
    counter.on(Receive("split-0", Replayed(1)))
    assert counter.taken == 7


def test_a_log_that_was_through_before_it_heard_where_to_stop_repeats_nothing() -> None:
    counter = receiving()
    counter.on(batch(3, 6))
    counter.on(replayed(1, 4))
    counter.on(Receive("split-0", Replayed(1)))
    assert counter.taken == 6


def test_an_end_that_overtakes_a_replay_waits_for_it() -> None:
    counter = receiving()
    assert counter.on(Receive("split-0", End(1))) == []
    counter.on(replayed(1, 2))
    assert Note(Ended("count-0", 1, {"split-0": [1]})) in counter.on(Receive("split-0", Replayed(1)))
    assert counter.taken == 2


def test_a_channel_whose_link_broke_is_opened_after_what_has_come_in() -> None:
    counter = started()
    counter.on(batch(1, 4))
    counter.on(batch(5, 9))
    assert counter.taken == 8, "the ninth has come in, and waits"
    assert counter.on(Reroute("split-0", 1)) == [Send("split-0", 1, Open(1, 9))]
    assert counter.on(batch(12, 12)) == [Send("split-0", 1, ReplayStop(1, 12))]


def test_it_replays_its_log_batch_by_batch_and_stops_where_the_receiver_has_the_rest() -> None:
    counter = started()
    for seq in (1, 2, 3):
        counter.on(batch(seq, seq))
    effects = counter.on(Receive("sink-0", Open(1, 0)))
    assert numbers(effects, Replay) == [1]
    (timer,) = [effect for effect in effects if isinstance(effect, SetTimer)]
    effects = counter.on(Fire(timer.timer))
    assert numbers(effects, Replay) == [2]
    (timer,) = [effect for effect in effects if isinstance(effect, SetTimer)]
    assert counter.on(Receive("sink-0", ReplayStop(1, 3))) == []
    assert counter.on(Fire(timer.timer)) == [Send("sink-0", 1, Replayed(1))]


def test_a_timer_of_a_replay_to_who_is_gone_does_nothing() -> None:
    counter = started()
    counter.on(batch(1, 1))
    (timer,) = [e for e in counter.on(Receive("sink-0", Open(2, 0))) if isinstance(e, SetTimer)]
    counter.on(Gone("sink-0", 2))
    assert counter.on(Fire(timer.timer)) == []


def test_who_opens_a_channel_that_has_ended_hears_of_the_end_after_the_log() -> None:
    counter = started()
    counter.on(batch(1, 2))
    counter.on(Receive("split-0", End(1)))
    effects = counter.on(Receive("sink-0", Open(1, 0)))
    assert numbers(effects, Replay) == [1, 2]
    assert len(sent(effects, End)) == 1


def test_silence_does_not_promise_that_no_other_event_of_the_same_time_follows() -> None:
    """Two channels that merge upstream give events of one time, in batches of their own."""
    subject = passive_replication(order(), checkpoint_every=events(100))
    spec = next(spec for spec in subject.specs if spec.slice_id == "relay-0")
    relay = OperatorSlice(spec)
    relay.on(Start(1, None))
    relay.on(Reroute("source-0", 1))
    relay.on(Receive("source-0", Replayed(1)))
    relay.on(Receive("chain-0", Open(1, 0)))
    told = [
        send.message.time  # type: ignore[attr-defined]
        for given in (
            Receive("source-0", Batch(1, [Event("source-0", 1, "a", "x", 5)])),
            Fire(Idle(4)),
            Receive("source-0", Silence(1, 5)),
            Fire(Idle(5)),
        )
        for send in sent(relay.on(given), Silence)
    ]
    assert told[-1] == 5
    assert set(told[:-1]) <= {4}
