"""Rollback recovery told apart: repeating, convergent within a horizon, divergent. Histories made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handmade import Last, Log, Made, Pass, chain
from streamproof.harness.core.guarantees import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    ROLLBACK_CONVERGENT,
    ROLLBACK_DIVERGENT,
    ROLLBACK_REPEATING,
    Guarantee,
    rollback_recovery,
)
from streamproof.harness.core.quantities import Duration, Events
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.recording.records import Kept


def replayed(*orders: tuple[int, ...], offered: int = 6) -> Made:
    """Up to 4 is delivered by the first; the second, restored from where that had taken 2, delivers what is given."""
    made = Made(chain(Log()))
    made.offer("a", *range(1, offered + 1))
    made.start("op0", 1)
    made.open("op0", 1, "sink", 1, 1)
    made.take("op0", 1, "a", 1, 1, 2)
    made.checkpoint("op0", 1, 1)
    made.take("op0", 1, "a", 1, 3, 4)
    made.deliver("op0", 1, 1, 2, 3, 4)
    made.lose("op0", 1)
    made.start("op0", 2, restored=(1, 1), next_seq=3)
    made.open("op0", 2, "sink", 1, 3)
    made.take("op0", 2, "a", 1, 3, offered)
    for seqs in orders:
        made.deliver("op0", 2, *seqs)
    made.keep("op0", 2)
    return made


def test_outputs_again_in_their_order() -> None:
    made = replayed((3, 4), (5, 6))
    assert made.verdict(ROLLBACK_REPEATING).status is Status.HOLDS


def test_outputs_of_before_the_checkpoint_again_too() -> None:
    assert replayed((1, 2, 3, 4), (5, 6)).verdict(ROLLBACK_REPEATING).status is Status.HOLDS


@pytest.mark.parametrize("orders", [((4, 3), (5, 6)), ((4,), (3,), (5, 6)), ((5, 6), (3, 4)), ((3, 4, 5, 6), (4, 3))])
def test_outputs_again_in_another_order(orders: tuple[tuple[int, ...], ...]) -> None:
    made = replayed(*orders)
    verdict = made.verdict(ROLLBACK_REPEATING)
    assert [t.anomaly for t in verdict.anomalies] == [Anomaly.REORDERED_OUTPUT]
    for guarantee in (ROLLBACK_CONVERGENT, ROLLBACK_DIVERGENT, EXACTLY_ONCE):
        assert made.verdict(guarantee).status is Status.HOLDS


def test_a_channel_that_is_opened_again_brings_its_outputs_again() -> None:
    made = replayed((3, 4, 5, 6))
    made.open("op0", 2, "sink", 1, 7)
    made.deliver("op0", 2, 3, 4, 5, 6)
    made.open("op0", 2, "sink", 1, 7)
    made.deliver("op0", 2, 3, 4, 5, 6)
    assert made.verdict(ROLLBACK_REPEATING).status is Status.HOLDS
    made.deliver("op0", 2, 5)
    made.deliver("op0", 2, 4)
    made.deliver("op0", 2, 3)
    assert made.verdict(ROLLBACK_REPEATING).status is Status.VIOLATED


@given(st.permutations([3, 4, 5, 6]))
def test_one_replay_is_in_order_or_it_is_not(order: list[int]) -> None:
    assert (replayed(tuple(order)).verdict(ROLLBACK_REPEATING).status is Status.HOLDS) == (order == [3, 4, 5, 6])


# Convergent


def refilled(*, every: int = 2, offered: int = 14, lost: int = 4, from_: int = 4) -> Made:
    """A window of 10 ms, events 2 ms apart. The first took up to 6; the second begins blank, at `from_`."""
    made = Made(chain(Last()))
    made.offer("a", *[1] * offered, every=every)
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 6)
    made.deliver("op0", 1, *range(1, lost + 3))
    made.lose("op0", 1)
    made.start("op0", 2, next_seq=from_)
    made.take("op0", 2, "a", 1, from_, offered)
    made.deliver("op0", 2, *range(from_, offered + 1))
    made.keep("op0", 2)
    return made


def within(bound: Duration | Events) -> Guarantee:
    return rollback_recovery(converges_within=bound)


def test_a_window_that_is_filled_again_converges() -> None:
    made = refilled()
    lost = made.verdict(AT_LEAST_ONCE)
    assert lost.status is Status.VIOLATED, "what belongs to outputs of its window and nobody took again"
    assert "nobody took it again" in lost.anomalies[0].sample[0].what
    assert made.verdict(ROLLBACK_REPEATING).status is Status.VIOLATED
    assert made.verdict(ROLLBACK_DIVERGENT).status is Status.HOLDS
    held = made.verdict(within(Duration(10_000)))
    assert held.status is Status.HOLDS
    assert "outputs differ, each within 0.01 s of a recovery" in held.summary
    assert made.verdict(within(Events(5))).status is Status.HOLDS


@pytest.mark.parametrize("bound", [Duration(6_000), Events(3)])
def test_what_still_differs_past_the_horizon(bound: Duration | Events) -> None:
    verdict = refilled().verdict(within(bound))
    assert verdict.status is Status.VIOLATED
    assert "is past the horizon of every recovery" in verdict.anomalies[0].sample[0].what


@pytest.mark.parametrize("bound", [Duration(40_000), Events(50)])
def test_a_horizon_that_the_input_does_not_reach(bound: Duration | Events) -> None:
    verdict = refilled().verdict(within(bound))
    assert verdict.status is Status.UNKNOWN
    assert verdict.reason.startswith("the input ended ")


@pytest.mark.parametrize(
    ("bound", "beyond"), [(Duration(20_000), Duration(20_001)), (Events(10), Events(11))], ids=["time", "events"]
)
def test_a_horizon_that_the_last_event_of_the_input_is_past(
    bound: Duration | Events, beyond: Duration | Events
) -> None:
    assert refilled().verdict(within(bound)).status is Status.HOLDS
    assert refilled().verdict(within(beyond)).status is Status.UNKNOWN


@pytest.mark.parametrize("bound", [Duration(1_001), Events(4)], ids=["time", "events"])
def test_where_outputs_differ_to_the_last_nothing_has_converged(bound: Duration | Events) -> None:
    """The second takes two sources in another order than the first."""
    made = Made(chain(Log(), sources=("a", "b")))
    made.offer("a", 1, 2)
    made.offer("b", 1, 2)
    for number, sources in ((1, "ab"), (2, "ba")):
        made.start("op0", number)
        for seq in (1, 2):
            for source in sources:
                made.take("op0", number, source, 1, seq, seq)
        made.deliver("op0", number, 1, 2, 3, 4)
        if number == 1:
            made.lose("op0", 1)
    made.keep("op0", 2)
    assert "4 outputs differ" in made.verdict(ROLLBACK_CONVERGENT).reason
    assert made.verdict(within(bound)).status is Status.UNKNOWN


@pytest.mark.parametrize("bound", [Duration(10_000), Events(5)])
def test_who_was_replaced_before_its_horizon_need_not_reach_it(bound: Duration | Events) -> None:
    """The second took 4 events and was lost; the third converges."""
    made = Made(chain(Last()))
    made.offer("a", *[1] * 14, every=2)
    for number, (first, last) in enumerate([(1, 6), (4, 7), (5, 14)], start=1):
        made.start("op0", number, next_seq=first)
        made.take("op0", number, "a", 1, first, last)
        made.deliver("op0", number, *range(first, last + 1))
        if number < 3:
            made.lose("op0", number)
    made.keep("op0", 3)
    verdict = made.verdict(within(bound))
    assert verdict.status is Status.HOLDS
    assert "8 outputs differ" in verdict.summary


def test_without_a_horizon_a_difference_cannot_be_judged_and_none_needs_none() -> None:
    assert "states no horizon" in refilled().verdict(ROLLBACK_CONVERGENT).reason
    assert replayed((3, 4, 5, 6)).verdict(ROLLBACK_CONVERGENT).status is Status.HOLDS


def test_what_differs_without_any_recovery_before_it() -> None:
    """The first missed an input, and dies; the second takes everything after, and is right."""
    made = Made(chain(Last()))
    made.offer("a", *[1] * 14, every=2)
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 2)
    made.take("op0", 1, "a", 1, 4, 6)
    made.deliver("op0", 1, 1, 2, 3, 4, 5)
    made.lose("op0", 1)
    made.start("op0", 2, next_seq=3)
    made.take("op0", 2, "a", 1, 3, 14)
    made.deliver("op0", 2, *range(3, 15))
    made.keep("op0", 2)
    assert made.verdict(within(Duration(10_000))).status is Status.VIOLATED


def test_an_input_in_the_window_that_is_not_in_the_state_is_lost() -> None:
    made = refilled(offered=8, lost=4, from_=7)
    verdict = made.verdict(ROLLBACK_DIVERGENT)
    assert [t.anomaly for t in verdict.anomalies] == [Anomaly.LOST_INPUT]
    assert "input a-0 #4" in verdict.anomalies[0].sample[0].what
    assert any(isinstance(s.record, Kept) for s in made.records)


@pytest.mark.parametrize("sources", [("a",), ("a", "b")])
def test_outputs_that_lack_what_a_crash_took_differ_whatever_else_comes(sources: tuple[str, ...]) -> None:
    """A state is lost for good, so that the windows after it have too little in them. What comes on another channel at
    the very end makes the order matter, and excuses none of that."""
    made = Made(chain(Last(), sources=sources))
    made.offer("a", *[1] * 30)
    for source in sources[1:]:
        made.offer(source, 0)
    for source in sources:
        made.start(source, 1)
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 15)
    made.deliver("op0", 1, *range(1, 16))
    made.lose("op0", 1)
    made.start("op0", 2, next_seq=16)
    made.take("op0", 2, "a", 1, 16, 30)
    for source in sources[1:]:
        made.take("op0", 2, source, 1, 1, 1)
    made.deliver("op0", 2, *range(16, 30 + len(sources)))
    made.keep("op0", 2)
    short = made.verdict(rollback_recovery(converges_within=Events(2)))
    assert short.status is Status.VIOLATED
    assert [tally.count for tally in short.anomalies] == [7]
    assert made.verdict(rollback_recovery(converges_within=Events(9))).status is Status.HOLDS


def passed_on(*, again: bool) -> Made:
    """A window is lost, where order matters, and what lacks it is passed on by an operator without a state. `again`:
    the one that took over was given what is in the window, by a checkpoint."""
    made = Made(chain(Last(), Pass(), sources=("a", "b")))
    made.offer("a", *[1] * 30)
    made.offer("b", 0)
    for name in ("a", "b", "op0", "op1"):
        made.start(name, 1)
    made.take("op0", 1, "a", 1, 1, 15)
    if again:
        made.checkpoint("op0", 1, 1)
    made.take("op1", 1, "op0", 1, 1, 15)
    made.deliver("op1", 1, *range(1, 16))
    made.lose("op0", 1)
    made.start("op0", 2, restored=(1, 1) if again else None, next_seq=16)
    made.take("op0", 2, "a", 1, 16, 30)
    made.take("op0", 2, "b", 1, 1, 1)
    made.take("op1", 1, "op0", 2, 16, 31)
    made.deliver("op1", 1, *range(16, 32))
    made.keep("op0", 2)
    made.keep("op1", 1)
    return made


def test_outputs_that_lack_something_lack_it_when_they_were_passed_on() -> None:
    short = passed_on(again=False).verdict(rollback_recovery(converges_within=Events(2)))
    assert short.status is Status.VIOLATED
    assert [tally.count for tally in short.anomalies] == [7]
    assert passed_on(again=False).verdict(rollback_recovery(converges_within=Events(9))).status is Status.HOLDS
    whole = passed_on(again=True).verdict(rollback_recovery(converges_within=Events(2)))
    assert (whole.status, whole.summary.count("differ")) == (Status.HOLDS, 0)


def test_where_order_matters_and_nothing_is_lacking_nothing_differs() -> None:
    made = Made(chain(Last(), sources=("a", "b")))
    made.offer("a", *[1] * 20)
    made.offer("b", 0)
    for source in ("a", "b"):
        made.start(source, 1)
    made.start("op0", 1)
    made.take("op0", 1, "a", 1, 1, 8)
    made.checkpoint("op0", 1, 1)
    made.deliver("op0", 1, *range(1, 9))
    made.lose("op0", 1)
    made.start("op0", 2, restored=(1, 1), next_seq=9)
    made.take("op0", 2, "a", 1, 9, 20)
    made.take("op0", 2, "b", 1, 1, 1)
    made.deliver("op0", 2, *range(9, 22))
    made.keep("op0", 2)
    verdict = made.verdict(rollback_recovery(converges_within=Events(1)))
    assert (verdict.status, verdict.summary.count("differ")) == (Status.HOLDS, 0)
