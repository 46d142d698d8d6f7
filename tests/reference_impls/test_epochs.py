"""Epochs wait as the papers say, event by event, and hold what belongs to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest

from streamproof.harness.core.errors import InvalidTopology
from streamproof.harness.core.events import Event
from streamproof.harness.core.topology import Stage
from streamproof.harness.protocol.merging import ChannelRun, Merge, Sequencer, sequencer
from streamproof.reference_impls.epoch_based_processing import epoch_based_processing
from streamproof.reference_impls.mechanisms.epochs import EpochBags, Epochs
from streamproof.reference_impls.mechanisms.merges import ByTime
from streamproof.scenarios.equi_join import equi_join
from streamproof.scenarios.tumbling import TumblingCount, tumbling_count

ARRIVALS = ((4, 0, 1), (5, 1, 3), (6, 1, 4), (7, 0, 2), (8, 1, 6), (9, 0, 5))
"""Table 4.1 of StreamMine3G: when what came on which channel with which event time."""


@dataclass
class Probe:
    """Says when a sequencer lets each event through."""

    merge: Merge | None

    def __post_init__(self) -> None:
        self.waiting: Sequencer = sequencer(self.merge, "s-0", 2)
        self.taken: dict[int, int] = {}
        self.closed: list[int] = []

    def take(self, now: int) -> None:
        while True:
            run = self.waiting.next(1 << 62)
            if run is not None:
                self.taken.update({event.time: now for event in run.events})
            elif (epoch := self.waiting.closing()) is not None:
                self.closed.append(epoch)
                self.waiting.advance()
            else:
                return

    def feed(self, arrivals: Iterable[tuple[int, int, int]]) -> None:
        for now, channel, time in arrivals:
            self.waiting.put(ChannelRun(channel, 1, [Event(f"c-{channel}", now, "k", None, time)]))
            self.take(now)


def waited(merge: Merge | None) -> dict[int, int]:
    """Event time -> how long it was held; what still waits is not there."""
    probe = Probe(merge)
    probe.feed(ARRIVALS)
    arrived = {time: now for now, _, time in ARRIVALS}
    return {time: now - arrived[time] for time, now in probe.taken.items()}


@pytest.mark.parametrize(
    ("merge", "wanted"),
    [
        (ByTime(), {1: 1, 3: 4, 4: 3, 2: 0, 5: 0}),
        (None, {1: 0, 3: 0, 4: 0, 2: 0, 6: 0, 5: 0}),
        (Epochs(3), {1: 0, 3: 0, 4: 3, 2: 0, 6: 1, 5: 0}),
        (EpochBags(3), {1: 5, 3: 4, 2: 2}),
    ],
    ids=["by time", "as it comes", "epoch-based processing", "epoch-based merge"],
)
def test_events_wait_as_long_as_table_4_1_says(merge: Merge | None, wanted: dict[int, int]) -> None:
    assert waited(merge) == wanted
    assert sum(wanted.values()) == {ByTime: 8, type(None): 0, Epochs: 4, EpochBags: 11}[type(merge)]


@pytest.mark.parametrize("merge", [Epochs(3), EpochBags(3)])
class TestBoth:
    def test_silence_closes_epochs_in_order_those_without_events_too(self, merge: Merge) -> None:
        probe = Probe(merge)
        probe.feed([(1, 0, 1)])
        assert probe.closed == []
        for channel in (0, 1):
            probe.waiting.silence(channel, 9)
            probe.take(2)
        assert probe.closed == [0, 1, 2]
        assert probe.taken.keys() == {1}

    def test_an_epoch_is_not_over_on_a_channel_before_its_last_moment(self, merge: Merge) -> None:
        probe = Probe(merge)
        probe.feed([(1, 0, 4), (2, 1, 3)])
        probe.waiting.silence(1, 2)
        probe.take(3)
        assert probe.closed == []
        probe.waiting.silence(1, 3)
        probe.take(4)
        assert probe.closed == [0]

    def test_the_end_closes_all_epochs_in_which_there_was_time_and_no_more(self, merge: Merge) -> None:
        probe = Probe(merge)
        probe.feed([(1, 0, 1)])
        probe.waiting.end(0, True, 8)
        probe.waiting.end(1, True, 4)
        probe.take(2)
        assert probe.closed == [0, 1, 2]
        assert probe.waiting.empty

    def test_equal_times_are_of_one_epoch_and_one_at_its_end_is_of_no_other(self, merge: Merge) -> None:
        probe = Probe(merge)
        probe.feed([(1, 0, 3), (2, 1, 3), (3, 0, 4), (4, 1, 4)])
        assert probe.taken[3] == (2 if isinstance(merge, Epochs) and not isinstance(merge, EpochBags) else 4)
        assert probe.closed == [0]

    def test_what_was_taken_by_whoever_s_state_was_taken_over_is_dropped_and_the_epoch_is_theirs(
        self, merge: Merge
    ) -> None:
        probe = Probe(merge)
        for number, time in enumerate((1, 4, 7), start=1):
            probe.waiting.put(ChannelRun(0, 1, [Event("c-0", number, "k", None, time)]))
        probe.waiting.drop(0, 2)
        probe.waiting.turn = (2, 0)
        probe.waiting.silence(1, 9)
        probe.waiting.silence(0, 9)
        probe.take(1)
        assert probe.taken.keys() == {7}
        assert probe.closed == [2]


def test_bags_are_taken_in_the_order_of_their_channels_and_not_of_arrival() -> None:
    waiting = sequencer(EpochBags(3), "s-0", 2)
    waiting.put(ChannelRun(1, 1, [Event("c-1", 1, "k", None, 1)]))
    waiting.put(ChannelRun(0, 1, [Event("c-0", 1, "k", None, 2)]))
    waiting.silence(0, 3)
    waiting.silence(1, 3)
    taken = [run.channel for _ in range(2) if (run := waiting.next(9)) is not None]
    assert taken == [0, 1]


def test_operators_that_are_not_commutative_are_refused_where_channels_meet() -> None:
    with pytest.raises(InvalidTopology, match="is not commutative"):
        epoch_based_processing(equi_join())


def test_epochs_that_do_not_fit_into_one_another_are_refused() -> None:
    topology = tumbling_count(epoch=20)
    count = topology.stages["count"]
    with pytest.raises(InvalidTopology, match="does not consist of"):
        epoch_based_processing(replace(topology, stages={"split": Stage(TumblingCount(8)), "count": count}))


@pytest.mark.parametrize("size", [0, -1, True, 1.5])
def test_an_epoch_has_a_size(size: object) -> None:
    with pytest.raises(InvalidTopology, match="whole number from 1 up"):
        Epochs(size)  # type: ignore[arg-type]
