"""An output channel loses nothing that may still be asked for."""

from hypothesis import given
from hypothesis import strategies as st

from streamproof.harness.model import Event
from streamproof.harness.slices.channels import OutputChannel
from streamproof.harness.slices.messages import after

steps = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), st.integers(1, 5)),
        st.tuples(st.just("acknowledge"), st.integers(0, 40)),
        st.tuples(st.just("open"), st.integers(0, 40)),
    ),
    max_size=30,
)


def event(seq: int) -> Event:
    return Event("s-0", seq, "k", None, seq)


class Model:
    """What was emitted and acknowledged; the numbers have holes, as those of a channel of several do."""

    def __init__(self) -> None:
        self.emitted: list[int] = []
        self.acknowledged = 0

    def emit(self, count: int) -> list[Event]:
        start = self.emitted[-1] if self.emitted else 0
        seqs = [start + 2 * i + 1 for i in range(count)]
        self.emitted += seqs
        return [event(seq) for seq in seqs]

    def upto(self, amount: int) -> int:
        """A number that a receiver can have taken."""
        return self.emitted[min(amount, len(self.emitted)) - 1] if amount and self.emitted else 0


@given(st.integers(0, 5), steps)
def test_a_logged_channel_replays_exactly_what_came_after_what_the_receiver_has(
    restored: int, given_steps: list[tuple[str, int]]
) -> None:
    channel, model = OutputChannel(logged=True), Model()
    channel.restore(model.emit(restored))
    waiting: set[int] = set()
    for step, amount in given_steps:
        if step == "emit":
            emitted = model.emit(amount)
            assert channel.emit(emitted) == channel.receiver
            waiting |= {e.seq for e in emitted} if channel.receiver is None else set()
        elif step == "open":
            has = max(model.upto(amount), model.acknowledged)
            replayed = [e.seq for batch in channel.open(1, has) for e in batch]
            assert replayed == [seq for seq in model.emitted if seq > has or seq in waiting]
            waiting.clear()
        elif channel.receiver is not None:
            upto = model.upto(amount)
            channel.acknowledge(upto)
            model.acknowledged = max(model.acknowledged, upto)
        kept = [e.seq for e in channel.kept()]
        assert kept == model.emitted[len(model.emitted) - len(kept) :], "what is kept is a suffix"
        assert set(kept) >= {seq for seq in model.emitted if seq > model.acknowledged}


@given(st.lists(st.integers(1, 5), max_size=8), st.lists(st.integers(1, 5), max_size=8))
def test_a_channel_without_a_log_loses_nothing_before_it_is_first_opened_and_repeats_nothing(
    before: list[int], later: list[int]
) -> None:
    channel, model = OutputChannel(logged=False), Model()
    assert not any(channel.emit(model.emit(count)) for count in before)
    assert [e.seq for batch in channel.open(1, 0) for e in batch] == model.emitted
    assert all(channel.emit(model.emit(count)) for count in later)
    assert channel.open(2, 0) == []
    assert channel.kept() == []


@given(st.lists(st.integers(1, 5), max_size=8), st.integers(0, 40))
def test_a_restored_channel_is_the_one_that_was_saved(sizes: list[int], amount: int) -> None:
    channel, model = OutputChannel(logged=True), Model()
    for size in sizes:
        channel.emit(model.emit(size))
    channel.acknowledge(model.upto(amount))
    restored = OutputChannel(logged=True)
    restored.restore(channel.kept())
    assert restored.receiver is None
    assert restored.kept() == channel.kept()


@given(st.sets(st.integers(1, 60)), st.integers(0, 61))
def test_after_keeps_what_is_numbered_higher(seqs: set[int], mark: int) -> None:
    assert [e.seq for e in after([event(seq) for seq in sorted(seqs)], mark)] == [s for s in sorted(seqs) if s > mark]
