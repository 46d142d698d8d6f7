"""A merge takes events in an order that follows from the events alone, and as soon as that order is certain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation import history_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.errors import InvalidTopology, UnknownName
from streamproof.harness.core.events import Event
from streamproof.harness.core.quantities import events as of
from streamproof.harness.core.topology import Edge, Partitioning, Stage, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.protocol.merging import ALWAYS, ChannelRun, Merge, Sequencer, end_of, epoch_of, sequencer
from streamproof.harness.recording.records import Taken
from streamproof.reference_impls.mechanisms.merges import ByTime, RoundRobin
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.order import Chain, Regroup, order
from streamproof.scenarios.workloads import numbered
from verdicts_of import run as judged_run

Key = tuple[int, int]
"""(channel, number): an event."""


@dataclass
class Streams:
    """What comes on each channel in the end, and what has come of it."""

    channels: list[list[Event]]
    arrived: list[int] = field(default_factory=list)
    silent: list[int] = field(default_factory=list)
    ended: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.arrived = [0] * len(self.channels)
        self.silent = [-1] * len(self.channels)
        self.ended = [False] * len(self.channels)

    def by_time(self) -> list[Key]:
        events = [(e.time, channel, e.seq) for channel, events in enumerate(self.channels) for e in events]
        return [(channel, seq) for _, channel, seq in sorted(events)]

    def by_turns(self, weights: tuple[int, ...]) -> list[Key]:
        left = [[(channel, e.seq) for e in events] for channel, events in enumerate(self.channels)]
        order: list[Key] = []
        while any(left):
            for channel, weight in enumerate(weights):
                order += left[channel][:weight]
                del left[channel][:weight]
        return order

    def ordered(self, merge: Merge) -> list[Key]:
        if isinstance(merge, RoundRobin):
            return self.by_turns(merge.weights or (1,) * len(self.channels))
        return self.by_time()


@st.composite
def streams(draw: st.DrawFn, least: int = 2) -> Streams:
    """Times rise weakly on each channel: an input can have several outputs, and channels may run at any pace."""
    channels = []
    for channel in range(draw(st.integers(least, 4))):
        time, events = 0, []
        for seq, step in enumerate(draw(st.lists(st.integers(0, 3), max_size=8)), start=1):
            time += step
            events.append(Event(f"up-{channel}", seq, "k", None, time))
        channels.append(events)
    return Streams(channels)


class Feeding:
    """Brings the streams to a merge in some interleaving, and holds what it takes against the order."""

    def __init__(self, merge: Merge, given_streams: Streams, data: st.DataObject) -> None:
        self.streams = given_streams
        self.data = data
        self.merge = merge
        self.order = given_streams.ordered(merge)
        self.taken: list[Key] = []
        self.waiting: Sequencer = sequencer(merge, "s-0", len(given_streams.channels))

    def bring(self) -> bool:
        """One thing happens on one channel; False: everything has."""
        streams = self.streams
        open_ones = [channel for channel, ended in enumerate(streams.ended) if not ended]
        if not open_ones:
            return False
        channel = self.data.draw(st.sampled_from(open_ones))
        events, arrived = streams.channels[channel], streams.arrived[channel]
        rest = events[arrived:]
        if self.data.draw(st.booleans()):
            until = rest[0].time - 1 if rest else 99
            if until > streams.silent[channel]:
                time = self.data.draw(st.integers(streams.silent[channel] + 1, until))
                streams.silent[channel] = time
                self.waiting.silence(channel, time)
        elif rest:
            count = self.data.draw(st.integers(1, len(rest)))
            streams.arrived[channel] += count
            self.waiting.put(ChannelRun(channel, 1, rest[:count]))
        else:
            streams.ended[channel] = True
            self.waiting.end(channel, True)
        return True

    def take(self) -> None:
        while True:
            run = self.waiting.next(self.data.draw(st.integers(1, 5)))
            if run is None:
                break
            assert run.events
            self.taken += [(run.channel, event.seq) for event in run.events]
            assert self.taken == self.order[: len(self.taken)], "the order follows from the events alone"
        assert not self.can_take(), "what is certain is not waited for"
        self.check_progress()

    def can_take(self) -> bool:
        if len(self.taken) == len(self.order):
            return False
        channel, seq = self.order[len(self.taken)]
        streams = self.streams
        if streams.arrived[channel] < seq:
            return False
        if isinstance(self.merge, RoundRobin):
            # Those that are passed over must be known to have ended.
            weights = self.merge.weights or (1,) * len(streams.channels)
            return all(
                ended or streams.arrived[other] > self.taken_of(other) or not self.passed_over(other, channel, weights)
                for other, ended in enumerate(streams.ended)
                if other != channel
            )
        time = streams.channels[channel][seq - 1].time
        return all((self.bound(other), other) > (time, channel) for other in range(len(streams.channels)))

    def passed_over(self, other: int, channel: int, weights: tuple[int, ...]) -> bool:
        at, count = self.waiting.turn
        turns = [(at + step) % len(weights) for step in range(len(weights))]
        if count >= weights[at]:
            turns = [*turns[1:], at]
        return turns.index(other) < turns.index(channel)

    def taken_of(self, channel: int) -> int:
        return max((seq for of, seq in self.taken if of == channel), default=0)

    def bound(self, channel: int) -> int:
        """The lowest time that it can still bring."""
        events, taken = self.streams.channels[channel], self.taken_of(channel)
        if self.streams.arrived[channel] > taken:
            return events[taken].time
        if self.streams.ended[channel]:
            return ALWAYS + 1
        return max(events[taken - 1].time if taken else 0, self.streams.silent[channel] + 1)

    def check_progress(self) -> None:
        to_come = [self.streams.channels[channel][seq - 1].time for channel, seq in self.order[len(self.taken) :]]
        assert self.waiting.progress < min(to_come, default=ALWAYS + 1), "progress promises what is over"

    def finish(self) -> None:
        self.take()
        while self.bring():
            self.take()
        assert self.taken == self.order
        assert self.waiting.empty
        assert self.waiting.progress == ALWAYS


@st.composite
def merges(draw: st.DrawFn, given_streams: Streams) -> Merge:
    weights = st.tuples(*(st.integers(1, 3) for _ in given_streams.channels))
    return draw(st.one_of(st.just(ByTime()), st.just(RoundRobin()), st.builds(RoundRobin, weights)))


@settings(deadline=None)
@given(streams(), st.data())
def test_the_order_depends_on_nothing_but_the_events_and_waits_for_nothing_else(
    given_streams: Streams, data: st.DataObject
) -> None:
    Feeding(data.draw(merges(given_streams)), given_streams, data).finish()


@settings(deadline=None)
@given(streams(), st.data())
def test_whoever_takes_over_goes_on_in_the_same_order(given_streams: Streams, data: st.DataObject) -> None:
    merge = data.draw(merges(given_streams))
    cut = data.draw(st.integers(0, 20))
    first = Feeding(merge, Streams(given_streams.channels), data)
    for _ in range(cut):
        first.bring()
        first.take()
    second = Feeding(merge, given_streams, data)
    for _ in range(data.draw(st.integers(0, 20))):
        # It is sent input before it has the state, and takes nothing.
        second.bring()
    second.taken = list(first.taken)
    second.waiting.turn = first.waiting.turn
    for channel in range(len(given_streams.channels)):
        mark = second.taken_of(channel)
        second.waiting.drop(channel, mark)
        # What comes later and was taken already is filtered.
        given_streams.arrived[channel] = max(given_streams.arrived[channel], mark)
    while True:
        run = second.waiting.next(data.draw(st.integers(1, 5)))
        if run is not None:
            second.taken += [(run.channel, event.seq) for event in run.events]
            assert second.taken == second.order[: len(second.taken)]
        elif not second.bring():
            break
    assert second.taken == second.order


@given(streams(least=1), st.data())
def test_without_a_merge_what_came_first_is_taken_first(given_streams: Streams, data: st.DataObject) -> None:
    waiting = sequencer(None, "s-0", len(given_streams.channels))
    came: list[Event] = []
    taken: list[Event] = []
    for channel, events in enumerate(given_streams.channels):
        while events:
            count = data.draw(st.integers(1, len(events)))
            came += events[:count]
            waiting.put(ChannelRun(channel, 1, events[:count]))
            del events[:count]
    while (run := waiting.next(data.draw(st.integers(1, 5)))) is not None:
        taken += run.events
        assert waiting.progress < min((e.time for e in came[len(taken) :]), default=ALWAYS)
    assert taken == came


def arrivals() -> list[tuple[int, int, int]]:
    """(arrival time, channel, event time) of table 4.1 of StreamMine3G."""
    return [(4, 0, 1), (5, 1, 3), (6, 1, 4), (7, 0, 2), (8, 1, 6), (9, 0, 5)]


@pytest.mark.parametrize(
    ("merge", "waited"),
    [(ByTime(), {1: 1, 3: 4, 4: 3, 2: 0, 5: 0}), (None, {1: 0, 3: 0, 4: 0, 2: 0, 6: 0, 5: 0})],
    ids=["deterministic", "no order"],
)
def test_the_waiting_times_of_table_4_1(merge: Merge | None, waited: dict[int, int]) -> None:
    """8 turns with a deterministic merge, none without order. The table leaves open how long the sixth event waits, of
    which nothing is known at its end."""
    waiting = sequencer(merge, "s-0", 2)
    came = {time: arrival for arrival, _, time in arrivals()}
    waits: dict[int, int] = {}
    for seq, (now, channel, time) in enumerate(arrivals(), start=1):
        waiting.put(ChannelRun(channel, 1, [Event(f"up-{channel}", seq, "k", None, time)]))
        while (run := waiting.next(1)) is not None:
            waits[run.events[0].time] = now - came[run.events[0].time]
    assert waits == waited
    assert sum(waits.values()) == (8 if merge else 0)


def event(time: int, seq: int = 1) -> Event:
    return Event("up-0", seq, "k", None, time)


def test_an_idle_channel_holds_nothing_up_once_it_says_that_it_is_silent() -> None:
    waiting = sequencer(ByTime(), "s-0", 2)
    waiting.put(ChannelRun(1, 1, [event(5), event(7, 2)]))
    assert waiting.next(9) is None
    waiting.silence(0, 4)
    assert waiting.next(9) is None, "one of time 5 on the first channel would come first"
    waiting.silence(0, 5)
    run = waiting.next(9)
    assert run is not None
    assert [e.time for e in run.events] == [5]


def test_that_an_event_was_taken_does_not_promise_that_no_other_of_its_time_follows() -> None:
    for merge, channels in ((None, 1), (RoundRobin(), 2), (ByTime(), 2)):
        waiting = sequencer(merge, "s-0", channels)
        waiting.put(ChannelRun(0, 1, [event(5)]))
        if channels == 2:
            waiting.end(1, True)
        assert waiting.next(9) is not None
        assert waiting.progress == 4
        waiting.silence(0, 5)
        assert waiting.progress == 5


def test_a_channel_that_has_another_active_sender_has_not_ended() -> None:
    waiting = sequencer(ByTime(), "s-0", 2)
    waiting.end(0, True)
    waiting.end(0, False)
    waiting.put(ChannelRun(1, 1, [event(5)]))
    assert waiting.next(9) is None


@pytest.mark.parametrize("weights", [(1,), (1, 2, 3), (0, 1)])
def test_weights_have_to_fit_the_channels(weights: tuple[int, ...]) -> None:
    with pytest.raises(InvalidTopology, match="weights"):
        sequencer(RoundRobin(weights), "s-0", 2)


def two_fan_ins() -> Topology:
    """Three relays meet in a chain, which meets a fourth in another: `first-0` has three channels, `last-0` two."""
    edges = (
        *(Edge("source", relay, Partitioning.FULL) for relay in ("relay", "late")),
        Edge("relay", "first", Partitioning.FULL),
        Edge("first", "last"),
        Edge("late", "last"),
        Edge("last", "sink"),
    )
    stages = {"relay": Stage(Regroup(5), 3), "late": Stage(Regroup(7)), "first": Stage(Chain()), "last": Stage(Chain())}
    return Topology("two-fan-ins", stages, edges)


def in_turn(weights: Mapping[str, tuple[int, ...]]) -> SchemeSubject:
    merge = RoundRobin(weights)
    return passive_replication(two_fan_ins(), checkpoint_every=of(500), sink_filter=True, merge=merge)


def test_fan_ins_of_different_width_have_weights_of_their_own() -> None:
    scenario = Scenario(in_turn({"first": (3, 1, 2), "last-0": (1, 4)}), numbered(events=120, batch=6))
    records = [one.record for one in history_of(scenario, ()).records]
    for name, weights in (("first-0", (3, 1, 2)), ("last-0", (1, 4))):
        ups = two_fan_ins().upstream(name)
        taken = [one for one in records if isinstance(one, Taken) and one.slice == name]
        turns = [(up, sum(one.count for one in same)) for up, same in groupby(taken, key=lambda one: one.upstream)]
        assert turns[: len(ups)] == list(zip(ups, weights, strict=True))
    judged = judged_run(scenario, (crash("first-0").after(of(30)),))
    assert judged.claim.status is Status.HOLDS


def test_whoever_has_no_weights_takes_one_of_each_channel() -> None:
    (last,) = (spec for spec in in_turn({"first": (3, 1, 2)}).specs if spec.slice_id == "last-0")
    waiting = sequencer(last.setup.merge, "last-0", 2)
    for channel in (0, 1):
        waiting.put(ChannelRun(channel, 1, [Event("s-0", seq, "k", None, seq) for seq in (1, 2)]))
    turns = [waiting.next(9) for _ in range(4)]
    assert [(run.channel, len(run.events)) for run in turns if run is not None] == [(0, 1), (1, 1)] * 2


@pytest.mark.parametrize("name", ["frist", "first-1"])
def test_weights_of_what_the_topology_has_not_are_refused(name: str) -> None:
    with pytest.raises(UnknownName, match=f"'{name}'; the nearest are: .*first.*relay, late, first, last, relay-0"):
        in_turn({name: (1, 1, 1)})


def test_weights_that_do_not_fit_their_slice_are_refused() -> None:
    with pytest.raises(InvalidTopology, match="3 input channels needs as many weights, not"):
        in_turn({"first": (1, 2)})


@pytest.mark.parametrize("weights", [(3, 2), {"chain": (3, 2)}])
def test_a_run_with_weights_is_described_as_its_record_gives_it_back(weights: Any) -> None:
    described = passive_replication(order(), merge=RoundRobin(weights)).describe()
    assert json.loads(json.dumps(described)) == described


def test_an_epoch_has_its_last_time_and_not_that_of_the_one_before() -> None:
    for epoch in range(3):
        last = end_of(epoch, 8)
        assert [epoch_of(time, 8) for time in (last - 7, last, last + 1)] == [epoch, epoch, epoch + 1]
    assert epoch_of(-5, 8) == epoch_of(0, 8) == 0
