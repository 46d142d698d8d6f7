"""Which settings are in force where is what coordinators have put on record."""

from __future__ import annotations

import pytest

from streamproof.harness.core.errors import InvalidScenario
from streamproof.harness.core.events import Event
from streamproof.harness.judging.changes import in_order, most_unprotected, raised
from streamproof.harness.protocol.merging import ChannelRun, sequencer
from streamproof.harness.recording.records import Changed
from streamproof.reference_impls.mechanisms.merges import RoundRobin


def change(number: int, since: int, every: int | None, by: int = 1) -> Changed:
    return Changed("adjuster", by, "a-0", number, since, {} if every is None else {"checkpoint_every": every})


def test_the_first_to_speak_of_a_change_says_what_it_is_and_not_whose_record_came_first() -> None:
    found = in_order([change(2, 90, 5), change(1, 70, 9, by=2), change(1, 50, 8)])
    assert found == {"a-0": [change(1, 50, 8), change(2, 90, 5)]}


CHANGES = [change(1, 50, 8), change(2, 200, None)]
"""30 at first, 8 from 50 on, 30 again from 200 on."""


@pytest.mark.parametrize(
    ("position", "most"),
    # Right after it was lengthened, what came before was still protected by the short one.
    [
        (10, 10),
        (50, 50),
        (58, 38),
        (59, 16),
        (199, 16),
        (200, 16),
        (210, 26),
        (222, 38),
        (230, 38),
        (231, 39),
        (300, 60),
    ],
)
def test_what_no_durable_checkpoint_holds_is_two_intervals_each_as_it_was_in_force(position: int, most: int) -> None:
    assert most_unprotected(CHANGES, 30, position) == most


def test_that_is_what_a_slice_comes_to_that_takes_one_input_after_the_other() -> None:
    def reach(checkpoint: int) -> int:
        place = checkpoint
        while place - checkpoint < (8 if 50 <= place < 200 else 30):
            place += 1
        return place

    for position in range(1, 330):
        assert most_unprotected(CHANGES, 30, position) == next(
            position - durable for durable in range(position + 1) if reach(reach(durable)) >= position
        )


def test_what_a_coordinator_made_longer_than_declared_is_said_and_what_it_made_shorter_is_not() -> None:
    longer = Changed("adjuster", 1, "b-0", 1, 20, {"checkpoint_every": 90})
    assert raised({"a-0": CHANGES, "b-0": [longer]}, 30) == "b-0 every 90 events"
    assert raised({"a-0": CHANGES}, 30) == ""


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
