"""Timers of event time fire after all events up to their time and before any later, and epochs end once. Histories made
by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from handmade import Made, chain
from streamproof.harness.core.events import Event, Output
from streamproof.harness.core.guarantees import (
    AMNESIA,
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    EXACTLY_ONCE,
    PRECISE,
    ROLLBACK_DIVERGENT,
    ROLLBACK_REPEATING,
)
from streamproof.harness.core.operators import Operator
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.recording.records import Closed, Fired, Offered
from streamproof.reference_impls.mechanisms.epochs import Epochs
from streamproof.reference_impls.mechanisms.merges import ByTime
from streamproof.scenarios.in_time import SumByTime

Step = tuple[str, int]
"""What is taken, from a source and with which number; or when a timer fires."""


class Growing(Operator[list[int]]):
    """At the end of each epoch twice what it was, and what came; it depends on their order."""

    epoch = 20

    def initial_state(self) -> list[int]:
        return [0]

    def process(self, event: Event, state: list[int]) -> Iterable[Output]:
        state.append(event.value)
        return ()

    def close(self, upper: int, state: list[int]) -> Iterable[Output]:
        state[:] = [2 * state[0] + sum(number * value for number, value in enumerate(state[1:], 1))]
        return [("grown", state[0])]


class Quiet(Growing):
    """The same, and says nothing of it."""

    def close(self, upper: int, state: list[int]) -> Iterable[Output]:
        super().close(upper, state)
        return ()


IN_TIME: list[Step] = [("a", 1), ("b", 1), ("a", 2), ("at", 20), ("a", 3), ("b", 2), ("at", 40), ("b", 3)]
"""The events of `a` are of 10, 20 and 30 ms, those of `b` of 15, 30 and 45; windows are of 20 ms."""


def made(steps: Sequence[Step], *, for_ms: int = 0) -> Made:
    one = Made(chain(SumByTime(20), sources=("a", "b")), merge=ByTime())
    one.offer("a", 1, 2, 3, every=10)
    one.offer("b", 4, 5, 6, every=15)
    one.start("op0", 1)
    carry_out(one, steps, for_ms=for_ms)
    return one


def carry_out(one: Made, steps: Sequence[Step], incarnation: int = 1, *, for_ms: int = 0) -> None:
    for what, number in steps:
        if what == "at":
            one.note(Fired("op0-0", incarnation, number, number + for_ms, clock=False))
        else:
            one.take("op0", incarnation, what, 1, number, number)


def mistimed(one: Made) -> list[str]:
    return [piece.what for piece in one.case().collation.mistimed.sample]


def test_what_fires_where_the_events_put_it_is_in_time() -> None:
    assert mistimed(made(IN_TIME)) == []


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (["a1", "at20", "b1", "a2", "a3", "b2", "at40", "b3"], "took an event of 15 ms from b-0"),
        (["a1", "b1", "at20", "a2", "a3", "b2", "at40", "b3"], "took an event of 20 ms from a-0"),
        (["a1", "b1", "a2", "a3", "at20", "b2", "at40", "b3"], "took an event of 30 ms while a timer was due at 20 ms"),
        (["a1", "b1", "a2", "a3", "b2", "b3"], "took an event of 30 ms while a timer was due at 20 ms"),
    ],
)
def test_what_fires_elsewhere_is_told(steps: list[str], said: str) -> None:
    one = made(parsed(steps))
    assert said in mistimed(one)[0]
    for guarantee in (PRECISE, ROLLBACK_REPEATING, ROLLBACK_DIVERGENT, AMNESIA):
        verdict = one.verdict(guarantee)
        assert verdict.status is Status.VIOLATED
        assert Anomaly.REORDERED_OUTPUT in [tally.anomaly for tally in verdict.anomalies]


def parsed(steps: Sequence[str]) -> list[Step]:
    return [("at", int(step[2:])) if step.startswith("at") else (step[0], int(step[1:])) for step in steps]


@pytest.mark.parametrize(
    ("steps", "for_ms", "said"),
    [
        (["a1", "b1", "a2", "at20", "at25", "a3", "b2", "at40", "b3"], 0, "fired at 25 ms, for 25 ms, where the"),
        (["a1", "b1", "a2", "at20", "at20", "a3", "b2", "at40", "b3"], 0, "where the operator wants it at none"),
        (["a1", "b1", "a2", "at20", "a3", "b2", "at40", "b3"], 1, "fired at 20 ms, for 21 ms, where the operator"),
    ],
)
def test_what_a_timer_makes_that_nobody_asked_for_no_order_gives(steps: list[str], for_ms: int, said: str) -> None:
    one = made(parsed(steps), for_ms=for_ms)
    for guarantee in (PRECISE, ROLLBACK_DIVERGENT, EXACTLY_ONCE, AT_MOST_ONCE, AMNESIA):
        (tally, *_) = one.verdict(guarantee).anomalies
        assert tally.anomaly is Anomaly.PHANTOM_OUTPUT
        assert said in tally.sample[0].what


@pytest.mark.parametrize("guarantee", [PRECISE, ROLLBACK_REPEATING, EXACTLY_ONCE, AT_LEAST_ONCE, AMNESIA])
def test_what_is_due_by_the_end_has_fired_where_channels_meet_too(guarantee: str) -> None:
    assert to_the_end(["at60"]).verdict(guarantee).status is Status.HOLDS
    verdict = to_the_end([]).verdict(guarantee)
    assert verdict.status is Status.VIOLATED
    assert "due at 60 ms, and never fired" in verdict.anomalies[-1].sample[0].what


def to_the_end(last: list[str]) -> Made:
    """The events of `a` are of 10, 20 and 30 ms, those of `b` of 20, 40 and 60."""
    one = Made(chain(SumByTime(20), sources=("a", "b")), merge=ByTime())
    one.offer("a", 1, 2, 3, every=10)
    one.offer("b", 4, 5, 6, every=20)
    one.start("op0", 1)
    carry_out(one, parsed(["a1", "a2", "b1", "at20", "a3", "b2", "at40", "b3", *last]))
    one.deliver("op0", 1, *range(1, 3 + len(last)))
    one.keep("op0", 1)
    return one


@pytest.mark.parametrize("left_out", [False, True])
@pytest.mark.parametrize("guarantee", [PRECISE, EXACTLY_ONCE, AT_LEAST_ONCE, AMNESIA])
def test_an_epoch_that_is_left_out_loses_what_its_end_makes_of_it(guarantee: str, left_out: bool) -> None:
    one = Made(chain(Quiet(), sources=("a", "b")), merge=Epochs(20))
    one.offer("a", 1, 2, 3, every=20)
    one.offer("b", 4, every=10)
    one.start("op0", 1)
    one.take("op0", 1, "a", 1, 1, 1)
    one.take("op0", 1, "b", 1, 1, 1)
    for epoch in range(3):
        if epoch:
            one.take("op0", 1, "a", 1, epoch + 1, epoch + 1)
        if epoch != 1 or not left_out:
            one.note(Closed("op0-0", 1, epoch))
    one.keep("op0", 1)
    verdict = one.verdict(guarantee)
    assert (verdict.status is Status.VIOLATED) is left_out
    said = [piece.what for tally in verdict.anomalies for piece in tally.sample]
    assert "epoch 1 never ended for it, and 2 did" in said or not left_out


@pytest.mark.parametrize("twice", [False, True])
def test_an_epoch_that_ends_twice_counts_what_is_in_it_twice(twice: bool) -> None:
    one = Made(chain(Growing(), sources=("a", "b")), merge=Epochs(20))
    one.offer("a", 1, 2, every=20)
    one.offer("b", 3, 4, every=10)
    one.start("op0", 1)
    one.take("op0", 1, "a", 1, 1, 1)
    one.take("op0", 1, "b", 1, 1, 2)
    for _ in range(1 + twice):
        one.note(Closed("op0-0", 1, 0))
    one.take("op0", 1, "a", 1, 2, 2)
    one.note(Closed("op0-0", 1, 1))
    one.deliver("op0", 1, *range(1, 3 + twice))
    one.keep("op0", 1)
    for guarantee in (PRECISE, EXACTLY_ONCE, AT_MOST_ONCE, AMNESIA):
        verdict = one.verdict(guarantee)
        assert (verdict.status is Status.VIOLATED) is twice
        assert Anomaly.DUPLICATE_EFFECT in [tally.anomaly for tally in verdict.anomalies] or not twice


def test_whoever_goes_on_from_a_checkpoint_knows_what_fired_before_it() -> None:
    for again in (["b1", "a3"], ["a2", "a3"]):
        one = made([("a", 1), *([("b", 1)] if again[0] == "a2" else []), *([("a", 2)] if again[0] == "b1" else [])])
        carry_out(one, [("at", 20)])
        one.checkpoint("op0", 1, 1)
        one.durable("op0", 1, 1)
        one.lose("op0", 1)
        one.start("op0", 2, restored=(1, 1), next_seq=2)
        carry_out(one, [(again[0][0], int(again[0][1]))], 2)
        (said,) = mistimed(one)
        assert said.startswith("its timer fired at 20 ms, and after that it took an event of")


def test_a_blank_successor_owes_nothing_to_what_fired_before_it() -> None:
    one = made([("a", 1), ("b", 1), ("a", 2), ("at", 20)])
    one.lose("op0", 1)
    one.start("op0", 2)
    carry_out(one, IN_TIME, 2)
    assert mistimed(one) == []


def test_what_comes_late_on_its_own_channel_is_waited_for_by_nobody() -> None:
    one = Made(chain(SumByTime(20)))
    times = [10, 30, 20, 45]
    one.note(Offered("a-0", [Event("a-0", number, "k", number, time) for number, time in enumerate(times, 1)]))
    one.start("op0", 1)
    carry_out(one, [("a", 1), ("at", 20), ("a", 2), ("a", 3), ("at", 40), ("a", 4)])
    assert mistimed(one) == []


def test_what_is_taken_again_did_not_come_too_late_the_first_time() -> None:
    one = made([("a", 1), ("b", 1), ("a", 2), ("at", 20), ("b", 1)])
    assert mistimed(one) == []
    assert one.case().collation.duplicate_effects.count == 1
