"""An operator that does not forget when it says that it does is not believed."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from handmade import Made, chain
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    ROLLBACK_DIVERGENT,
    gap_recovery,
)
from streamproof.harness.core.operators import Operator, RandomOperator
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.core.topology import Edge, Stage, Topology
from streamproof.harness.core.verdicts import Status
from streamproof.harness.judging.forgetting import find_false_window
from streamproof.reference_impls.source_replay import source_replay
from streamproof.reference_impls.upstream_backup import upstream_backup
from streamproof.scenarios.windows import WindowedCount
from streamproof.scenarios.workloads import numbered
from verdicts_of import run


class SaysOne(WindowedCount):
    """Counts over 20 ms, and says that 1 ms is enough."""

    def __init__(self) -> None:
        super().__init__(20)

    def process(self, event: Event, state: list[list[object]]) -> Iterable[Output]:
        self.window = 20
        try:
            return super().process(event, state)
        finally:
            self.window = 1


class SaysNothing(Operator[dict[str, int]]):
    """Counts for ever, and says that it forgets."""

    window = 5
    fan_out = 1

    def initial_state(self) -> dict[str, int]:
        return {}

    def process(self, event: Event, state: dict[str, int]) -> Iterable[Output]:
        state[event.key] = state.get(event.key, 0) + 1
        return [(event.key, state[event.key])]


def topology_of(operator: Operator[object]) -> Topology:
    return Topology("counts", {"count": Stage(operator)}, (Edge("source", "count"), Edge("count", "sink")))


@pytest.mark.parametrize("operator", [SaysOne, SaysNothing])
@pytest.mark.parametrize("crashes", [True, False])
def test_a_window_that_is_longer_than_it_says(operator: type[Operator[object]], crashes: bool) -> None:
    one = operator()
    if operator is SaysOne:
        one.window = 1
    for subject in (upstream_backup(topology_of(one)), source_replay(topology_of(one), timeout=seconds(0.05))):
        scenario = Scenario(subject, numbered(events=64, keys=4, batch=4))
        judged = run(scenario, [crash("count-0").after(events(30))] if crashes else [])
        for guarantee in (AT_LEAST_ONCE, EXACTLY_ONCE):
            verdict = judged.verdict(guarantee)
            assert verdict.status is not Status.HOLDS
            if verdict.status is Status.UNKNOWN:
                assert "operator 'count' says that an event matters no more after" in verdict.reason


def test_one_that_forgets_in_time_is_believed() -> None:
    scenario = Scenario(upstream_backup(topology_of(WindowedCount(20))), numbered(events=64, keys=4, batch=4))
    assert run(scenario, [crash("count-0").after(events(30))]).verdict(EXACTLY_ONCE).status is Status.HOLDS


class Seldom(Operator[dict[str, Any]]):
    """Keeps the times of the last `kept` ms, or of all, and tells of a few events how many these are."""

    fan_out = 1
    window = 10

    def __init__(self, kept: int | None) -> None:
        self._kept = kept

    def initial_state(self) -> dict[str, Any]:
        return {"times": [], "due": None}

    def process(self, event: Event, state: dict[str, Any]) -> list[Output]:
        state["times"].append(event.time)
        return self._total(event.time, state) if event.value in (77, 150) else []

    def _total(self, time: int, state: dict[str, Any]) -> list[Output]:
        if self._kept is not None:
            state["times"] = [one for one in state["times"] if one > time - self._kept]
        return [("total", len(state["times"]))]


class Timed(Seldom):
    """Tells it by a timer, every 20 ms."""

    def process(self, event: Event, state: dict[str, Any]) -> list[Output]:
        state["times"].append(event.time)
        state["due"] = state["due"] or (event.time // 20 + 1) * 20
        return []

    def due(self, state: dict[str, Any]) -> int | None:
        due: int | None = state["due"]
        return due

    def on_time(self, time: int, state: dict[str, Any]) -> list[Output]:
        state["due"] = time + 20
        return self._total(time, state)


class Closed(Seldom):
    """Tells it at the ends of epochs."""

    epoch = 20

    def process(self, event: Event, state: dict[str, Any]) -> list[Output]:
        state["times"].append(event.time)
        return []

    def close(self, upper: int, state: dict[str, Any]) -> list[Output]:
        return self._total(upper, state)


@pytest.mark.parametrize("tells", [Seldom, Timed, Closed])
def test_what_is_told_seldom_and_at_ends_is_tried_too(tells: type[Seldom]) -> None:
    fed = {"count-0": [Event("source-0", seq, "k", seq - 1, seq) for seq in range(1, 201)]}
    assert "count" in find_false_window(topology_of(tells(None)), fed)
    assert "count" in find_false_window(topology_of(tells(18)), fed), "a little too short"
    assert find_false_window(topology_of(tells(10)), fed) == ""


class Telling(Closed):
    """Tells it at the end of each epoch, and 0 where nothing came."""

    window = 20


@pytest.mark.parametrize("kept", [20, 25, None])
def test_epochs_that_end_in_a_gap_of_the_input_end_for_who_has_forgotten_too(kept: int | None) -> None:
    times = [*range(20), *range(100, 120)]
    fed = {"count-0": [Event("source-0", seq, "k", seq, time) for seq, time in enumerate(times, start=1)]}
    said = find_false_window(topology_of(Telling(kept)), fed)
    assert ("at the end of the epoch" in said) == (kept != 20), said


def test_a_window_up_to_a_timer_may_have_its_first_moment_in_it() -> None:
    class Jumping(Timed):
        def _total(self, time: int, state: dict[str, Any]) -> list[Output]:
            count = len([one for one in state["times"] if time - 20 <= one < time])
            state["times"] = [one for one in state["times"] if one >= time]
            return [("total", count)]

    operator = Jumping(None)
    operator.window = 20
    fed = {"count-0": [Event("source-0", seq, "k", seq, seq) for seq in range(1, 201)]}
    assert find_false_window(topology_of(operator), fed) == ""


@pytest.mark.parametrize("kept", [None, 10])
def test_channels_are_tried_in_the_order_of_their_times(kept: int | None) -> None:
    edges = Edge("a", "count"), Edge("b", "count"), Edge("count", "sink")
    topology = Topology("counts", {"count": Stage(Seldom(kept))}, edges, ("a", "b"))
    scenario = Scenario(source_replay(topology, timeout=seconds(0.05)), numbered(events=160, keys=2, batch=4))
    verdict = run(scenario, []).verdict(AT_LEAST_ONCE)
    assert verdict.status is (Status.UNKNOWN if kept is None else Status.HOLDS)


class Drawn(RandomOperator[list[int]]):
    window = 10

    def initial_state(self) -> list[int]:
        return []

    def process_with(self, event: Event, state: list[int], random: Random) -> list[Output]:
        return []


def test_what_nobody_can_try_is_not_believed_once_events_have_left_the_window() -> None:
    events = [Event("source-0", seq, "k", seq, seq) for seq in range(1, 31)]
    assert "nobody can try it" in find_false_window(topology_of(Drawn()), {"count-0": events})
    assert find_false_window(topology_of(Drawn()), {"count-0": events[:10]}) == ""


class Totals(Seldom):
    """Tells how many came in 10 ms, and keeps the total of all for who reads its state."""

    def initial_state(self) -> dict[str, Any]:
        return {"times": [], "total": 0}

    def process(self, event: Event, state: dict[str, Any]) -> list[Output]:
        state["times"].append(event.time)
        state["total"] += 1
        return self._total(event.time, state)


@pytest.mark.parametrize("crashes", [True, False])
def test_rows_that_hold_more_than_the_window_are_no_excuse_for_what_was_lost(crashes: bool) -> None:
    """Where nothing was lost, nobody is harmed."""
    subject = upstream_backup(topology_of(Totals(10)), acknowledge_every=events(8))
    scenario = Scenario(subject, numbered(events=160, keys=2, batch=4))
    judged = run(scenario, [crash("count-0").after(events(80))] if crashes else [])
    for guarantee in (AT_LEAST_ONCE, ROLLBACK_DIVERGENT):
        verdict = judged.verdict(guarantee)
        assert verdict.status is (Status.UNKNOWN if crashes else Status.HOLDS), verdict
        assert not crashes or verdict.reason.endswith("up to 150 ms, and such events were lost"), verdict.reason
    assert judged.verdict(AT_MOST_ONCE).status is Status.HOLDS


def counted(operator: Operator[Any], before: int, again: int) -> Made:
    """Two sources in free order; a crash after so many inputs of each, after which the operator takes them up `again`
    from there on, with a blank state."""
    made = Made(chain(operator, sources=("a", "b")))
    for source in ("a", "b"):
        made.start(source, 1)
        made.offer(source, *range(40))
    made.start("op0", 1)
    made.start("sink", 1)
    made.open("op0", 1, "sink", 1, 1)
    take_in_turn(made, 1, 1, before)
    made.deliver("op0", 1, *range(1, 2 * before + 1))
    made.lose("op0", 1)
    made.start("op0", 2)
    made.open("op0", 2, "sink", 1, 1)
    take_in_turn(made, 2, again, 40)
    made.deliver("op0", 2, *range(1, 2 * (41 - again) + 1))
    made.keep("op0", 2)
    return made


def take_in_turn(made: Made, incarnation: int, first: int, last: int) -> None:
    for source in ("a", "b"):
        made.open(source, 1, "op0", incarnation, first)
    for seq in range(first, last + 1):
        for source in ("a", "b"):
            made.take("op0", incarnation, source, 1, seq, seq)


def test_nor_are_they_where_the_order_of_inputs_is_free() -> None:
    """Then no execution without failures says what the rows should be."""
    verdict = counted(Totals(10), 30, 21).verdict(EXACTLY_ONCE)
    assert verdict.status is Status.UNKNOWN, verdict
    assert "the state of key 'total' is 80, and 20 where it was never given the events" in verdict.reason


class Balances(Totals):
    """What comes in goes out again: the total is 0, and what all before the last window makes of it is, too."""

    def process(self, event: Event, state: dict[str, Any]) -> list[Output]:
        state["times"].append(event.time)
        state["total"] += 1 if event.seq % 2 else -1
        return self._total(event.time, state)


def test_nor_are_they_where_what_has_left_the_window_is_in_balance() -> None:
    verdict = counted(Balances(10), 30, 22).verdict(EXACTLY_ONCE)
    assert verdict.status is Status.UNKNOWN, verdict
    assert "the state of key 'total' is 0, and " in verdict.reason


def test_a_gap_is_as_long_as_what_was_taken_back_whatever_has_left_the_window() -> None:
    """A checkpoint every 10 events lets 20 go."""
    claim = gap_recovery(events(10))
    assert counted(Totals(10), 10, 11).verdict(claim).status is Status.HOLDS
    verdict = counted(Totals(10), 30, 31).verdict(claim)
    assert verdict.status is Status.UNKNOWN, verdict
    assert "were lost; 60 events that incarnation 1 had taken are not in the final state" in verdict.reason
