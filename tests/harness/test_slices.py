"""A slice by itself, inputs in and effects out: what it logs, acknowledges, checkpoints and refuses."""

from __future__ import annotations

from streamproof.harness.model import Event
from streamproof.harness.quantities import events
from streamproof.harness.recording.records import Refused
from streamproof.harness.slices.effects import (
    CheckpointId,
    Durable,
    Effect,
    Note,
    Persist,
    Receive,
    Reroute,
    Send,
    Start,
)
from streamproof.harness.slices.machine import OperatorSlice
from streamproof.harness.slices.messages import Acknowledge, Batch, Open
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.word_count import word_count

SUBJECT = passive_replication(word_count(1), checkpoint_every=events(4))
SPECS = {spec.slice_id: spec for spec in SUBJECT.specs}


def started() -> OperatorSlice:
    """A counter that both neighbours have met."""
    counter = OperatorSlice(SPECS["count-0"])
    counter.on(Start(1, None))
    (opening,) = counter.on(Reroute("split-0", 1))
    assert opening == Send("split-0", 1, Open(1, 0))
    assert counter.on(Receive("sink-0", Open(1, 0))) == []
    return counter


def batch(first: int, last: int) -> Receive:
    return Receive("split-0", Batch(1, [Event("split-0", seq, "word", 1, seq) for seq in range(first, last + 1)]))


def sent(effects: list[Effect], kind: type) -> list[Send]:
    return [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)]


def persisted(effects: list[Effect]) -> Persist:
    (persist,) = [effect for effect in effects if isinstance(effect, Persist)]
    return persist


def test_it_acknowledges_what_a_checkpoint_covers_when_that_is_durable_and_not_before() -> None:
    counter = started()
    effects = counter.on(batch(1, 4))
    assert persisted(effects).checkpoint.vector == {"split-0": 4}
    assert sent(effects, Acknowledge) == []
    assert sent(counter.on(batch(5, 6)), Acknowledge) == []
    assert sent(counter.on(Durable(CheckpointId(1, 1))), Acknowledge) == [Send("split-0", 1, Acknowledge(1, 4))]


def test_its_log_holds_what_is_not_acknowledged_and_no_more() -> None:
    counter = started()
    first = persisted(counter.on(batch(1, 4)))
    assert [event.seq for event in first.checkpoint.log["sink-0"]] == [1, 2, 3, 4]
    counter.on(Durable(CheckpointId(1, 1)))
    counter.on(Receive("sink-0", Acknowledge(1, 4)))
    second = persisted(counter.on(batch(5, 8)))
    assert [event.seq for event in second.checkpoint.log["sink-0"]] == [5, 6, 7, 8]


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
    counter.on(Reroute("split-0", 2))
    (note,) = counter.on(batch(1, 2))
    assert note == Note(Refused("count-0", 1, "split-0", 1, "@1"))
    assert counter.taken == 0
