"""The topologies carry something on every channel, and their operators are what they say they are."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation import history_of
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.events import Event, Output, carried
from streamproof.harness.core.operators import Operator, processor_of, rows_of
from streamproof.harness.core.slice_names import channel_name, operator_of
from streamproof.harness.core.topology import Role, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.core.workload import Workload
from streamproof.harness.recording.records import Offered, Taken
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.equi_join import EquiJoin, equi_join
from streamproof.scenarios.order import Chain, FirstWord, Regroup, order, two_splitters
from streamproof.scenarios.random_draws import DrawNumber, random_draws
from streamproof.scenarios.stateless import Forward, Normalise, Tag, stateless
from streamproof.scenarios.trace import Relay, Trace, trace
from streamproof.scenarios.windows import WindowedCount, windows
from streamproof.scenarios.word_count import Count, Split, word_count
from streamproof.scenarios.word_stream import tagged_words, word_stream
from streamproof.scenarios.workloads import numbered, single_words, text, words
from verdicts_of import run

WINDOW = 20
TOPOLOGIES: dict[str, tuple[Topology, Workload]] = {
    "word-count": (word_count(), text(events=100)),
    "trace": (trace(), numbered()),
    "stateless": (stateless(), text(events=100)),
    "word-stream": (word_stream(), single_words()),
    "tagged-words": (tagged_words(), single_words()),
    "windows": (windows(), numbered()),
    "equi-join": (equi_join(), numbered()),
    "equi-join within a window": (equi_join(3, WINDOW), numbered(spacing={"right-0": 15})),
    "random-draws": (random_draws(), numbered()),
    "order": (order(), numbered()),
    "order, three wide": (order(3, 3, 9), numbered()),
    "two-splitters": (two_splitters(), words()),
    "two-splitters, two counters": (two_splitters(2), words()),
}


def carried_by(topology: Topology, workload: Workload) -> dict[str, list[Event]]:
    """Channel -> what it carries without failures, each slice taking its input by event time."""
    channels: dict[str, list[Event]] = {}
    for name in topology.slices:
        if topology.role(name) is Role.SOURCE:
            made = [event for batch in workload.batches(name) for event in batch]
        elif topology.role(name) is Role.SINK:
            continue
        else:
            operator = topology.stages[operator_of(name)].operator
            state, take = operator.initial_state(), processor_of(operator, 1)
            inputs = [event for up in topology.upstream(name) for event in channels[channel_name(up, name)]]
            made = []
            for event in sorted(inputs, key=lambda event: event.time):
                outputs = list(take(event, state))
                assert operator.fan_out is None or len(outputs) <= operator.fan_out
                made += [Event(name, len(made) + n, key, carried(v), event.time) for n, (key, v) in enumerate(outputs)]
        for to in topology.downstream(name):
            channels[channel_name(name, to)] = [event for event in made if to in topology.receivers(name, event.key)]
    return channels


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_channel_of_a_topology_carries_something(name: str) -> None:
    for channel, events in carried_by(*TOPOLOGIES[name]).items():
        assert len(events) > 2, channel


@pytest.mark.parametrize("name", [name for name in TOPOLOGIES if name != "random-draws"])
def test_a_topology_runs_and_is_judged_without_a_false_alarm(name: str) -> None:
    topology, workload = TOPOLOGIES[name]
    judged = run(Scenario(amnesia(topology), workload), ())
    assert [verdict.status for verdict in judged.verdicts] == [Status.HOLDS] * len(judged.verdicts)


OPERATORS: dict[str, Callable[[], Operator[Any]]] = {
    operator.__name__: operator
    for operator in (Relay, Trace, Count, Forward, Normalise, Tag, DrawNumber, Chain, FirstWord, Split)
} | {
    "Regroup": lambda: Regroup(3),
    "WindowedCount": lambda: WindowedCount(WINDOW),
    "EquiJoin": EquiJoin,
    "EquiJoin within a window": lambda: EquiJoin(WINDOW),
}
_OF_TEXT = ("FirstWord", "Split")


@st.composite
def streams(draw: st.DrawFn, of_text: bool = False) -> list[Event]:
    """What comes over two channels, each in the order of its times, interleaved at random."""
    lines = st.sampled_from(["", "One two", " three\tONE "])
    value: st.SearchStrategy[object] = lines if of_text else st.integers(0, 9)
    channels = []
    for source in ("left-0", "right-0"):
        times = sorted(draw(st.sets(st.integers(0, 100), max_size=12)))
        channels.append(
            [Event(source, n, draw(st.sampled_from("abc")), draw(value), time) for n, time in enumerate(times, start=1)]
        )
    return interleaved(channels, draw(st.randoms(use_true_random=False)))


def interleaved(channels: Sequence[Sequence[Event]], random: Random) -> list[Event]:
    left = [list(channel) for channel in channels if channel]
    taken: list[Event] = []
    while left:
        channel = random.choice(left)
        taken.append(channel.pop(0))
        left = [channel for channel in left if channel]
    return taken


def taken_in(operator: Operator[Any], events: Iterable[Event], state: Any, seed: int = 1) -> list[Output]:
    take = processor_of(operator, seed)
    return [(key, carried(value)) for event in events for key, value in take(event, state)]


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
def test_a_restored_operator_goes_on_as_one_that_never_stopped(name: str, data: st.DataObject) -> None:
    operator = OPERATORS[name]()
    events = data.draw(streams(of_text=name in _OF_TEXT))
    cut = data.draw(st.integers(0, len(events)))
    state = operator.initial_state()
    taken_in(operator, events[:cut], state)
    snapshot = operator.snapshot(state)
    restored = operator.restore(snapshot)
    assert operator.snapshot(restored) == snapshot
    assert rows_of(operator, restored) == rows_of(operator, state)
    assert taken_in(operator, events[cut:], state) == taken_in(operator, events[cut:], restored)
    assert rows_of(operator, restored) == rows_of(operator, state)
    assert operator.snapshot(operator.restore(snapshot)) == snapshot, "what goes on changes no snapshot"


@pytest.mark.parametrize("name", OPERATORS)
@given(data=st.data())
def test_an_operator_keeps_what_it_declares(name: str, data: st.DataObject) -> None:
    operator = OPERATORS[name]()
    events = data.draw(streams(of_text=name in _OF_TEXT))
    state = operator.initial_state()
    take = processor_of(operator, 1)
    for event in events:
        before = msgspec.msgpack.encode(event)
        made = len(list(take(event, state)))
        assert operator.fan_out is None or made <= operator.fan_out
        assert msgspec.msgpack.encode(event) == before
    if not operator.order_sensitive:
        channels = [[event for event in events if event.source == source] for source in ("left-0", "right-0")]
        other = operator.initial_state()
        taken_in(operator, interleaved(channels, data.draw(st.randoms(use_true_random=False))), other)
        assert rows_of(operator, other) == rows_of(operator, state)


@pytest.mark.parametrize("name", [name for name in OPERATORS if OPERATORS[name]().window is not None])
@given(data=st.data())
def test_an_event_older_than_the_window_matters_no_more(name: str, data: st.DataObject) -> None:
    """Once both channels have come so far, an operator that never took it has the same state, and gives the same."""
    operator = OPERATORS[name]()
    assert operator.window is not None
    old, new = data.draw(streams()), data.draw(streams())
    later = [Event(e.source, e.seq + 100, e.key, e.value, e.time + 200) for e in new]
    progress = [Event(source, 50, "a", 0, 100 + operator.window) for source in ("left-0", "right-0")]
    state, blank = operator.initial_state(), operator.initial_state()
    taken_in(operator, [*old, *progress], state)
    taken_in(operator, progress, blank)
    assert rows_of(operator, state) == rows_of(operator, blank)
    assert taken_in(operator, later, state) == taken_in(operator, later, blank)


@given(streams())
def test_a_windowed_count_is_that_of_the_events_of_the_last_window(events: list[Event]) -> None:
    events = sorted(events, key=lambda event: event.time)
    operator = WindowedCount(WINDOW)
    outputs = taken_in(operator, events, operator.initial_state())
    assert outputs == [
        (e.key, sum(o.key == e.key and e.time - WINDOW < o.time <= e.time for o in events[: n + 1]))
        for n, e in enumerate(events)
    ]


def test_an_event_that_is_too_late_for_its_window_counts_for_itself_and_is_not_kept() -> None:
    operator = WindowedCount(WINDOW)
    state = operator.initial_state()
    assert taken_in(operator, [Event("s-0", 1, "a", 1, 100), Event("s-0", 2, "a", 1, 80)], state) == [("a", 1)] * 2
    assert operator.rows(state) == {"a": [100]}


@pytest.mark.parametrize("window", [None, WINDOW])
@given(events=streams())
def test_a_join_gives_every_pair_of_its_window_once(window: int | None, events: list[Event]) -> None:
    operator = EquiJoin(window)
    outputs = taken_in(operator, events, operator.initial_state())
    left, right = ([e for e in events if e.source == source] for source in ("left-0", "right-0"))
    expected = [
        (one.key, [one.value, two.value])
        for one in left
        for two in right
        if one.key == two.key and (window is None or abs(one.time - two.time) < window)
    ]
    assert Counter(map(repr, outputs)) == Counter(map(repr, expected))


def test_a_join_says_which_names_its_sides_have() -> None:
    with pytest.raises(ValueError, match="source-0 is on neither side of the join; name its operator left or right"):
        EquiJoin().process(Event("source-0", 1, "a", 1, 1), EquiJoin().initial_state())


def test_draws_are_those_of_the_seed() -> None:
    events = [Event("s-0", n, "a", n, n) for n in range(1, 20)]
    states: list[dict[str, int]] = [{}, {}, {}]
    first, again, other = (
        taken_in(DrawNumber(), events, state, seed) for state, seed in zip(states, (1, 1, 2), strict=True)
    )
    assert first == again != other
    assert states[0] == states[1] == {"a": sum(draw for _, (_, draw) in first)}


@pytest.mark.parametrize("operator", [Trace, Chain])
def test_another_order_of_one_key_shows_in_the_state(operator: Callable[[], Operator[Any]]) -> None:
    events = [Event("s-0", n, "a", [f"s-{n % 2}", n], n) for n in range(1, 8)]
    seen = set()
    for n in range(len(events)):
        state = operator().initial_state()
        taken_in(operator(), [*events[n:], *events[:n]], state)
        seen.add(repr(state))
    assert len(seen) == len(events)


def test_merged_channels_carry_the_same_keys() -> None:
    """So that the order in which a chain takes its channels decides what it computes."""
    topology, workload = TOPOLOGIES["order"]
    channels = carried_by(topology, workload)
    for chain in ("chain-0", "chain-1"):
        first, second = ({e.key for e in channels[channel_name(relay, chain)]} for relay in ("relay-0", "relay-1"))
        assert first == second


@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_word_comes_to_its_counter_by_either_splitter(parallelism: int) -> None:
    channels = carried_by(two_splitters(parallelism), words())
    for n in range(parallelism):
        first, second = ({e.key for e in channels[f"split-{i}>count-{n}"]} for i in (0, 1))
        assert len(first & second) > 5


def test_a_source_that_is_idle_for_batches_on_end_does_not_run_ahead_of_the_other() -> None:
    scenario = Scenario(amnesia(equi_join()), numbered(events=60, batch=5, spacing={"right-0": 20}))
    offered = [s.record for s in history_of(scenario, ()).records if isinstance(s.record, Offered)]
    upto = {"left-0": 0, "right-0": 0}
    for record in offered:
        for event in record.events:
            upto[record.source] = event.time
            if record.source == "right-0":
                assert abs(upto["left-0"] - event.time) <= 5
    assert upto == {"left-0": 60, "right-0": 60}


def test_a_source_that_is_idle_holds_up_no_merge() -> None:
    """It has one event, at the end, and says meanwhile that there is none."""
    subject = passive_replication(equi_join())
    scenario = Scenario(subject, numbered(events=60, batch=5, spacing={"right-0": 60}))
    history = history_of(scenario, ())
    (came,) = (s.at for s in history.records if isinstance(s.record, Offered) and s.record.source == "right-0")
    taken = sum(s.record.count for s in history.records if isinstance(s.record, Taken) and s.at < came)
    assert taken > 40


def test_tags_do_not_depend_on_how_a_slice_upstream_numbers() -> None:
    made = [Tag().process(Event("relay-0", seq, "a", "x", 5), None) for seq in (1, 1_000_000_001)]
    assert made[0] == made[1] == (("a", [5, "x"]),)


def test_normalised_text_is_in_lower_case_with_single_spaces() -> None:
    assert Normalise().process(Event("s-0", 1, "a", " One\t TWO ", 5), None) == (("a", "one two"),)


def test_times_at_a_slice_with_one_channel_rise() -> None:
    channels = carried_by(*TOPOLOGIES["windows"])
    for events in channels.values():
        assert all(one.time <= two.time for one, two in pairwise(events))
