"""The exclusive or of all ids is zero exactly when nothing of an event is on its way."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from streamproof.harness.core.events import Event
from streamproof.harness.core.quantities import seconds
from streamproof.harness.protocol.effects import Effect, Fire, Gone, Note, Receive, Reroute, Send, SetTimer, Start
from streamproof.harness.protocol.messages import Batch, Open, Replayed, Silence
from streamproof.harness.protocol.operator import OperatorSlice
from streamproof.harness.protocol.source import EMIT, SourceSlice
from streamproof.harness.recording.records import Refused
from streamproof.reference_impls.mechanisms.tracking import Anchor, Followed, Ids, TimeOut, Tracked, mixed
from streamproof.reference_impls.source_replay import source_replay
from streamproof.scenarios.equi_join import equi_join
from streamproof.scenarios.stateless import stateless


def told(effects: list[Effect]) -> list[tuple[int, int]]:
    return [
        root
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, Tracked)
        for root in effect.message.roots
    ]


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(0, 3))
def test_it_is_zero_when_the_last_copy_is_taken_and_not_before(seed: int, copies: int, depth: int) -> None:
    """A random tree of copies, taken and told of in any order."""
    random = Random(seed)
    followed = Followed("source-0", Ids("source-0", 1))
    ids = Ids("split-0", 1)
    on_the_way = [(anchor, 0) for anchor in followed.send(1, copies)]
    messages: list[tuple[int, int]] = []
    while on_the_way or messages:
        assert followed, "something is still on its way"
        if messages and (not on_the_way or random.random() < 0.5):
            followed.told([messages.pop(random.randrange(len(messages)))])
            continue
        anchor, level = on_the_way.pop(random.randrange(len(on_the_way)))
        made = [next(ids) for _ in range(random.randrange(3) if level < depth else 0)]
        ids_of_all = anchor.id
        for one in made:
            ids_of_all ^= one
        messages.append((anchor.root, ids_of_all))
        on_the_way += [(Anchor("source-0", 1, one), level + 1) for one in made]
    assert not followed


@given(st.lists(st.integers(0, 2**64), max_size=4), st.lists(st.integers(0, 2**64), max_size=4))
def test_ids_are_of_64_bits_and_differ(one: list[int], other: list[int]) -> None:
    assert 0 < mixed(*one) < 1 << 64
    assert (mixed(*one) == mixed(*other)) == (one == other)


def source() -> SourceSlice:
    """It has sent one event, which one receiver listens for."""
    subject = source_replay(stateless(), timeout=seconds(1))
    (spec,) = (spec for spec in subject.specs if spec.slice_id == "source-0")
    slice_ = SourceSlice(spec, iter([[Event("source-0", 1, "a", 1, 1)]]), 1, 1)
    slice_.on(Start(1, None))
    slice_.on(Receive(spec.downstream[0], Open(1, 0)))
    return slice_


def anchors(effects: list[Effect]) -> list[Anchor]:
    return [
        Anchor(*tie)
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, Batch)
        for tie in effect.message.ties or ()
    ]


def ends(slice_: SourceSlice) -> bool:
    return any(isinstance(e, Note) and type(e.record).__name__ == "Ended" for e in slice_.on(Fire(EMIT)))


def test_an_event_that_is_not_taken_in_time_goes_out_again_under_new_ids() -> None:
    slice_ = source()
    effects = slice_.on(Fire(EMIT))
    (first,) = anchors(effects)
    timers = [effect.timer for effect in effects if isinstance(effect, SetTimer) and isinstance(effect.timer, TimeOut)]
    again = slice_.on(Fire(timers[0]))
    (second,) = anchors(again)
    assert (first.root, first.id) != (second.root, second.id)
    assert first.root != second.root
    peer = slice_.spec.downstream[0]
    slice_.on(Receive(peer, Tracked(1, [(first.root, first.id)])))
    assert not ends(slice_), "that an earlier attempt arrived after all does not complete this one"
    slice_.on(Receive(peer, Tracked(1, [(second.root, second.id)])))
    assert ends(slice_)


def test_a_source_refuses_what_a_slice_that_was_replaced_tells_it() -> None:
    slice_ = source()
    (anchor,) = anchors(slice_.on(Fire(EMIT)))
    peer = slice_.spec.downstream[0]
    slice_.on(Gone(peer, 1))
    (note,) = slice_.on(Receive(peer, Tracked(1, [(anchor.root, anchor.id)])))
    assert isinstance(note, Note)
    assert isinstance(note.record, Refused)
    assert not ends(slice_)


def test_a_join_tells_nothing_of_an_event_while_a_channel_that_lags_may_bring_its_partner() -> None:
    subject = source_replay(equi_join(1, window=10), timeout=seconds(1))
    (spec,) = (spec for spec in subject.specs if spec.slice_id == "join-0")
    join = OperatorSlice(spec)
    join.on(Start(1, None))
    for side in ("left-0", "right-0"):
        join.on(Reroute(side, 1))
        join.on(Receive(side, Replayed(1)))

    def left(seq: int, time: int) -> Receive:
        event = Event("left-0", seq, "k", seq, time)
        return Receive("left-0", Batch(1, [event], [Anchor("left-0", seq, seq)]))

    assert told(join.on(left(1, 1))) == []
    assert told(join.on(left(2, 50))) == [], "the right side has not come so far"
    assert told(join.on(Receive("right-0", Silence(1, 11)))) == [(1, 1)], "at 11 the first has left the window"
    assert told(join.on(Receive("right-0", Silence(1, 49)))) == []
    assert told(join.on(Receive("left-0", Silence(1, 70)))) == [], "the right side has not come so far"
    assert told(join.on(Receive("right-0", Silence(1, 60)))) == [(2, 2)]
