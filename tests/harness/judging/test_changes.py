"""Which settings are in force where is what coordinators have put on record."""

from __future__ import annotations

import pytest

from streamproof.harness.core.errors import InvalidScenario
from streamproof.harness.core.model import Event
from streamproof.harness.judging.changes import checkpoint_interval, in_order
from streamproof.harness.protocol.merging import ChannelRun, sequencer
from streamproof.harness.recording.records import Changed
from streamproof.reference_impls.mechanisms.merges import RoundRobin


def change(number: int, since: int, every: int | None, by: int = 1) -> Changed:
    return Changed("adjuster", by, "a-0", number, since, {} if every is None else {"checkpoint_every": every})


def test_the_first_to_speak_of_a_change_says_what_it_is_and_not_whose_record_came_first() -> None:
    found = in_order([change(2, 90, 5), change(1, 70, 9, by=2), change(1, 50, 8)])
    assert found == {"a-0": [change(1, 50, 8), change(2, 90, 5)]}


@pytest.mark.parametrize(
    ("position", "every"),
    [(10, 30), (50, 30), (65, 30), (66, 8), (199, 8), (200, 30), (300, 30)],
)
def test_two_intervals_back_an_earlier_one_may_have_been_in_force(position: int, every: int) -> None:
    """30 at first, 8 from 50 on, 30 again from 200 on."""
    changes = [change(1, 50, 8), change(2, 200, None)]
    assert checkpoint_interval(changes, 30, position) == every


def run_of(channel: int, count: int) -> ChannelRun:
    return ChannelRun(channel, 1, [Event(f"up-{channel}", seq, "k", None, seq) for seq in range(1, count + 1)])


@pytest.mark.parametrize("asked_before", [False, True])
def test_a_turn_goes_on_by_other_weights_whether_or_not_it_was_asked_for_more_before(asked_before: bool) -> None:
    waiting = sequencer(RoundRobin((2, 1)), "s-0", 2)
    waiting.put(run_of(0, 6))
    first = waiting.next(2)
    assert first is not None
    assert len(first.events) == 2
    if asked_before:
        assert waiting.next(9) is None
    waiting.changed({"weights": [3, 1]})
    assert waiting.next(9) is None, "its turn was over"
    waiting.put(run_of(1, 2))
    taken = [(run.channel, len(run.events)) for run in iter(lambda: waiting.next(9), None)]
    assert taken == [(1, 1), (0, 3), (1, 1), (0, 1)]


@pytest.mark.parametrize("weights", [[1], [0, 1], ["a", 1], [1, 2, 3]])
def test_weights_that_do_not_fit_are_refused(weights: list[object]) -> None:
    with pytest.raises(InvalidScenario, match="2 channels"):
        sequencer(RoundRobin(), "s-0", 2).changed({"weights": weights})
