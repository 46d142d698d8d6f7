"""Every source gets events of its own, the same whenever they are asked for."""

from collections.abc import Iterator
from itertools import count
from random import Random, random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproof.harness.core.errors import InvalidScenario, UnknownName
from streamproof.harness.core.events import Event
from streamproof.harness.core.workload import Workload
from streamproof.scenarios.workloads import numbered, text

LEFT, RIGHT = "left-0", "right-0"


def given_to(source: str, workload: Workload) -> list[Event]:
    return [event for batch in workload.batches(source) for event in batch]


def test_the_usual_source_draws_with_the_seed_of_the_workload() -> None:
    random = Random(7)
    expected = [Event("source-0", n, f"k{random.randrange(8)}", n - 1, n) for n in range(1, 201)]
    assert given_to("source-0", numbered()) == expected


def test_the_source_of_a_query_draws_the_same_as_that_of_a_topology() -> None:
    of_query, of_topology = (given_to(source, text(events=20)) for source in ("source", "source-0"))
    assert [(e.seq, e.key, e.value, e.time) for e in of_query] == [(e.seq, e.key, e.value, e.time) for e in of_topology]


def test_two_sources_draw_events_of_their_own_over_the_same_time() -> None:
    left, right = given_to(LEFT, numbered()), given_to(RIGHT, numbered())
    assert [e.key for e in left] != [e.key for e in right]
    assert [e.time for e in left] == [e.time for e in right] == list(range(1, 201))
    assert {e.source for e in left} == {LEFT}
    assert {e.source for e in right} == {RIGHT}


def test_what_a_source_draws_depends_on_the_seed_and_its_name_alone() -> None:
    assert given_to(LEFT, numbered()) == given_to(LEFT, numbered(spacing={RIGHT: 4}))
    assert [e.key for e in given_to(LEFT, numbered())][:4] == ["k6", "k1", "k2", "k1"]
    assert given_to(LEFT, numbered(seed=1)) != given_to(LEFT, numbered(seed=2))


@given(events=st.integers(1, 60), batch=st.integers(1, 20), spacing=st.integers(1, 80))
def test_a_spaced_source_keeps_in_step_with_the_others(events: int, batch: int, spacing: int) -> None:
    workload = numbered(events=events, batch=batch, spacing={RIGHT: spacing})
    dense, sparse = workload.batches(LEFT), workload.batches(RIGHT)
    assert len(dense) == len(sparse), "both come to their end at the same time"
    assert [e.time for e in given_to(RIGHT, workload)] == list(range(spacing, events + 1, spacing))
    assert [e.seq for e in given_to(RIGHT, workload)] == list(range(1, events // spacing + 1))
    for offered in (dense, sparse):
        for number, part in enumerate(offered):
            assert all(number * batch < event.time <= (number + 1) * batch for event in part)


def test_a_check_draws_for_every_source() -> None:
    def fails_for_the_second(count: int, seed: int) -> Iterator[tuple[str, object]]:
        if seed != 7:
            raise RuntimeError("no more")
        return iter([("k", 1)] * count)

    workload = Workload("half", 4, 2, fails_for_the_second)
    workload.check()
    workload.check(("source-0",))
    with pytest.raises(InvalidScenario, match="'half' cannot be drawn: RuntimeError: no more"):
        workload.check(("source-0", RIGHT))


def test_a_spacing_of_what_is_no_source_is_refused() -> None:
    with pytest.raises(UnknownName, match="'right'; there are: left-0, right-0"):
        numbered(spacing={"right": 2}).check((LEFT, RIGHT))


@pytest.mark.parametrize("value", [2**64, [{"n": -(2**63) - 1}]])
def test_a_number_that_no_record_can_hold_is_refused(value: object) -> None:
    workload = Workload("long numbers", 4, 2, lambda count, seed: (("k", value) for _ in range(count)))
    with pytest.raises(InvalidScenario, match="cannot be drawn: OverflowError"):
        workload.check()


@pytest.mark.parametrize("drawn", [("\ud800", 1), ("k", "\udfff")])
def test_what_is_no_text_is_refused(drawn: tuple[str, object]) -> None:
    workload = Workload("half characters", 4, 2, lambda count, seed: (drawn for _ in range(count)))
    with pytest.raises(InvalidScenario, match="cannot be drawn: UnicodeEncodeError"):
        workload.check()


def test_what_is_drawn_otherwise_each_time_is_refused() -> None:
    told, given = count(), iter([("k", 1)] * 4)
    again = "does not draw the same every time: event 1 was \\('k', 0\\), and \\('k', 4\\) another time"
    with pytest.raises(InvalidScenario, match=again):
        Workload("counted", 4, 2, lambda events, seed: (("k", next(told)) for _ in range(events))).check()
    with pytest.raises(InvalidScenario, match="it drew 4 events, and 0 another time"):
        Workload("given once", 4, 2, lambda events, seed: given).check()
    with pytest.raises(InvalidScenario, match="'by chance' does not draw the same every time"):
        Workload("by chance", 9, 2, lambda events, seed: (("k", random()) for _ in range(events))).check()
    Workload("no numbers", 4, 2, lambda events, seed: iter([("k", float("nan"))] * events)).check()
