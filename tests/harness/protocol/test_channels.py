"""An output channel loses nothing that may still be asked for, and replays exactly what is missing."""

from collections.abc import Collection
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from streamproof.harness.core.events import Event
from streamproof.harness.protocol.channels import OutputChannel
from streamproof.harness.protocol.effects import Gone
from streamproof.harness.protocol.machine import Machine
from streamproof.harness.protocol.messages import Checkpoint, CheckpointId, after
from streamproof.reference_impls.mechanisms.output_log import PART, Logged, OutputLog

steps = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), st.integers(1, 5), st.just(0)),
        st.tuples(st.sampled_from(["open", "acknowledge"]), st.integers(0, 40), st.integers(1, 3)),
        st.tuples(st.just("forget"), st.just(0), st.integers(1, 3)),
        st.tuples(st.just("replay"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.just("stop"), st.just(0), st.integers(1, 3)),
    ),
    max_size=40,
)


def event(seq: int) -> Event:
    return Event("s-0", seq, "k", None, seq)


def seqs(events: list[Event] | None) -> list[int]:
    return [one.seq for one in events or ()]


class Emitter:
    """The numbers have holes, as those of a channel of several do."""

    def __init__(self) -> None:
        self.emitted: list[int] = []

    def emit(self, count: int) -> list[Event]:
        start = self.emitted[-1] if self.emitted else 0
        made = [start + 2 * i + 1 for i in range(count)]
        self.emitted += made
        return [event(seq) for seq in made]

    def upto(self, amount: int) -> int:
        """A number that a receiver can have taken."""
        return self.emitted[min(amount, len(self.emitted)) - 1] if amount and self.emitted else 0


class LoggedChannel:
    """The channel to one receiver, of a slice that has an output log."""

    def __init__(self) -> None:
        self.outputs = {"to": OutputChannel()}
        self.log: Any = None
        self._hooks = OutputLog().attach(cast(Machine, self))
        self._channel = self.outputs["to"]
        self.listeners = self._channel.listeners

    def emit(self, events: list[Event]) -> Collection[int]:
        self.log.keep("to", events)
        return self._channel.emit(events)

    def open(self, receiver: int, seq: int) -> None:
        self.log.open("to", receiver, seq, self._channel.open(receiver))

    def acknowledge(self, receiver: int, upto: int) -> int:
        trimmed = self._channel.acknowledge(receiver, upto)
        self._hooks.acknowledged("to", trimmed)
        return trimmed

    def forget(self, receiver: int) -> None:
        self._channel.forget(receiver)
        self._hooks.lost(Gone("to", receiver))

    def stop(self, receiver: int, seq: int) -> None:
        self.log.stop("to", receiver, seq)

    def replaying(self, receiver: int) -> bool:
        return bool(self.log.replaying("to", receiver))

    def replay(self, receiver: int) -> list[Event] | None:
        events: list[Event] | None = self.log.next("to", receiver)
        return events

    def kept(self) -> list[Event]:
        saved = self._hooks.save()
        assert isinstance(saved, Logged)
        return saved.events["to"]

    def restore(self, events: list[Event]) -> None:
        self._hooks.restore(Checkpoint("s-0", CheckpointId(1, 1), {PART: Logged({"to": events})}))


class Receiver:
    """What one incarnation must get: the log after what it has, up to where it has it live, and all that is live."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.asked = 0
        self.replayed: list[int] | None = None
        self.live: list[int] = []
        self.stop: int | None = None


class Model:
    """A sender with several receivers that all may open, re-open, acknowledge and go at any moment."""

    def __init__(self, restored: int) -> None:
        self.emitter = Emitter()
        self.channel = LoggedChannel()
        self.channel.restore(self.emitter.emit(restored))
        self.receivers: dict[int, Receiver] = {}
        self.trimmed = 0
        self.unsent: list[int] | None = []

    def emit(self, amount: int, _: int) -> None:
        events = self.emitter.emit(amount)
        assert list(self.channel.emit(events)) == list(self.receivers)
        for receiver in self.receivers.values():
            receiver.live += seqs(events)
        if self.unsent is not None:
            self.unsent += seqs(events)

    def open(self, amount: int, number: int) -> None:
        has = self.emitter.upto(amount)
        self.channel.open(number, has)
        receiver = self.receivers.setdefault(number, Receiver())
        receiver.asked = min(has, self.unsent[0] - 1) if self.unsent else has
        receiver.replayed, receiver.live, receiver.stop = [], [], None
        self.unsent = None

    def acknowledge(self, amount: int, number: int) -> None:
        if number not in self.receivers:
            return
        upto = self.emitter.upto(amount)
        self.receivers[number].acknowledged = max(self.receivers[number].acknowledged, upto)
        least = min(receiver.acknowledged for receiver in self.receivers.values())
        assert self.channel.acknowledge(number, upto) == least
        self.trimmed = max(self.trimmed, least)

    def forget(self, _: int, number: int) -> None:
        self.receivers.pop(number, None)
        self.channel.forget(number)

    def stop(self, _: int, number: int) -> None:
        receiver = self.receivers.get(number)
        if receiver is not None and receiver.live and receiver.stop is None:
            receiver.stop = receiver.live[0]
            self.channel.stop(number, receiver.stop)

    def replay(self, batches: int, number: int) -> None:
        for _ in range(batches):
            receiver = self.receivers.get(number)
            replaying = receiver is not None and receiver.replayed is not None
            assert self.channel.replaying(number) is replaying
            events = self.channel.replay(number)
            if receiver is None or receiver.replayed is None:
                assert events is None
            elif events is None:
                self.check_complete(receiver)
                receiver.replayed = None
            else:
                receiver.replayed += seqs(events)
                assert events, "a batch of a replay is never empty"
                assert receiver.stop is None or receiver.replayed[-1] < receiver.stop

    def check_complete(self, receiver: Receiver) -> None:
        assert receiver.replayed is not None
        got = sorted({*receiver.replayed, *receiver.live})
        wanted = [seq for seq in self.emitter.emitted if seq > max(receiver.asked, self.trimmed)]
        assert [seq for seq in got if seq > self.trimmed] == wanted
        assert receiver.replayed == sorted(set(receiver.replayed)), "in order, and nothing twice"
        assert all(seq > receiver.asked for seq in receiver.replayed)

    def check(self) -> None:
        kept = seqs(self.channel.kept())
        assert kept == self.emitter.emitted[len(self.emitter.emitted) - len(kept) :], "what is kept is a suffix"
        assert set(kept) >= {seq for seq in self.emitter.emitted if seq > self.trimmed}
        assert list(self.channel.listeners) == list(self.receivers)


@given(st.integers(0, 5), steps)
def test_whoever_listens_gets_all_that_it_asks_for_and_not_all_have_acknowledged(
    restored: int, given_steps: list[tuple[str, int, int]]
) -> None:
    model = Model(restored)
    for step, amount, number in given_steps:
        getattr(model, step)(amount, number)
        model.check()
    for number in list(model.receivers):
        model.replay(100, number)
        assert not model.channel.replaying(number)


@given(st.lists(st.integers(1, 5), max_size=8), st.lists(st.integers(1, 5), max_size=8))
def test_a_channel_without_a_log_loses_nothing_before_it_is_first_opened_and_repeats_nothing(
    before: list[int], later: list[int]
) -> None:
    channel, emitter = OutputChannel(), Emitter()
    ties = [("source-0", 1, 1)]
    assert not any(channel.emit(emitter.emit(count), ties) for count in before)
    waiting = channel.open(1)
    assert [seq for events, _ in waiting for seq in seqs(events)] == emitter.emitted
    assert all(tied is ties for _, tied in waiting)
    assert all(list(channel.emit(emitter.emit(count))) == [1] for count in later)
    assert channel.open(2) == []


@given(st.lists(st.integers(1, 5), max_size=8), st.integers(0, 40))
def test_a_restored_channel_is_the_one_that_was_saved(sizes: list[int], amount: int) -> None:
    channel, emitter = LoggedChannel(), Emitter()
    for size in sizes:
        channel.emit(emitter.emit(size))
    channel.open(1, 0)
    channel.acknowledge(1, emitter.upto(amount))
    restored = LoggedChannel()
    restored.restore(channel.kept())
    assert list(restored.listeners) == []
    assert restored.kept() == channel.kept()


def test_what_was_made_before_anybody_listened_goes_out_whole_although_the_receiver_has_it_already() -> None:
    channel = LoggedChannel()
    channel.restore([event(3), event(4)])
    channel.emit([event(5), event(6)])
    channel.open(1, 6)
    assert seqs(channel.replay(1)) == [5, 6]
    assert channel.replay(1) is None
    channel.open(2, 6)
    assert channel.replay(2) is None, "that held for the first opening only"


def test_what_was_acknowledged_stays_so_when_an_older_acknowledgement_comes_later() -> None:
    channel = OutputChannel()
    channel.open(1)
    assert [channel.acknowledge(1, upto) for upto in (2, 5, 3, 6)] == [2, 5, 5, 6]


def test_a_batch_that_is_acknowledged_in_part_stays() -> None:
    channel = LoggedChannel()
    channel.emit([event(1), event(2), event(3)])
    channel.emit([event(4)])
    channel.open(1, 0)
    channel.acknowledge(1, 2)
    assert seqs(channel.kept()) == [1, 2, 3, 4]
    channel.acknowledge(1, 3)
    assert seqs(channel.kept()) == [4]


@given(st.sets(st.integers(1, 60)), st.integers(0, 61))
def test_after_keeps_what_is_numbered_higher(numbers: set[int], mark: int) -> None:
    assert seqs(after([event(seq) for seq in sorted(numbers)], mark)) == [s for s in sorted(numbers) if s > mark]


@given(st.lists(st.integers(1, 30)), st.integers(0, 31))
def test_after_lets_pass_what_raises_the_mark_where_numbers_do_not_rise(numbers: list[int], mark: int) -> None:
    passed, expected = seqs(after([event(seq) for seq in numbers], mark)), []
    for seq in numbers:
        if seq > mark:
            expected.append(seq)
            mark = seq
    assert passed == expected
