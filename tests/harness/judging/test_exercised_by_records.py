"""What counts as at work, by single records."""

from __future__ import annotations

import pytest

from streamproof.harness.core.events import Event
from streamproof.harness.judging.exercised import Activity, SubjectShape, exercised, killed_somebody
from streamproof.harness.recording.history import Bite, FaultStruck, History, Placed, Stamp
from streamproof.harness.recording.records import (
    Adopted,
    Changed,
    CheckpointDurable,
    InSync,
    Offered,
    Opened,
    Promoted,
    Record,
    Restored,
    Stamped,
    Started,
    Taken,
    Worked,
)

M = Activity
ENDS = frozenset({"source-0", "sink-0"})
SHAPE = SubjectShape(2, False, frozenset({"source-0"}), ENDS, ENDS)


def taken(first: int, last: int, upstream: str = "a-0", sender: int = 1, receiver: int = 1) -> Taken:
    return Taken("b-0", receiver, upstream, sender, first, last, last - first + 1)


def opened(after: int, next_seq: int, sender: int = 1, receiver: int = 1) -> Opened:
    return Opened("a-0", sender, "b-0", receiver, after, next_seq)


@pytest.mark.parametrize(
    ("activity", "count", "records"),
    [
        (M.RESTART, 0, [Started("a-0", 2, None, 1)]),
        (M.RESTART, 1, [Started("a-0", 3, None, 1)]),
        (
            M.CHECKPOINT,
            2,
            [CheckpointDurable("a-0", 1, 1), CheckpointDurable("a-0", 1, 1), Started("a-0", 3, (2, 1), 1)],
        ),
        (M.RESTORE, 1, [Started("a-0", 3, (2, 1), 1)]),
        (M.RESTORE, 0, [Restored("a-0", 2, (1, 1), 1)]),
        (M.RESTORE, 1, [Restored("a-0", 3, (1, 1), 1)]),
        (M.RESTORE, 1, [Promoted("a-0", 2), Restored("a-0", 2, (1, 1), 1)]),
        (M.TAKE_OVER, 1, [Promoted("a-0", 2), Promoted("a-0", 2)]),
        (M.FILTER, 7, [Worked("a-0", 1, 2, 0, 0), Worked("a-0", 1, 3, 0, 0), Worked("a-0", 2, 4, 0, 0)]),
        (M.MERGE, 3, [Worked("a-0", 1, 0, 3, 0)]),
        (M.TRIM, 4, [Worked("a-0", 1, 0, 0, 4)]),
        (M.CHANGE, 1, [Adopted("a-0", 1, 1, 8), Changed("adjuster", 1, "a-0", 1, 8, {})]),
        # Of another slice, or nobody's.
        (M.CHANGE, 0, [Adopted("a-0", 1, 1, 8), Changed("adjuster", 1, "b-0", 1, 8, {})]),
        (M.CHANGE, 0, [Adopted("a-0", 1, 2, 8), Changed("adjuster", 1, "a-0", 1, 8, {})]),
        # Of a connection that was opened later than the first ones: what had been made before it.
        (M.REPLAY, 1, [opened(0, 6, receiver=3), taken(5, 6, receiver=3)]),
        (M.REPLAY, 0, [opened(0, 6, receiver=3), taken(6, 7, receiver=3)]),
        (M.REPLAY, 0, [opened(0, 6), taken(1, 6)]),
        (M.REPLAY, 1, [opened(3, 6), taken(4, 6)]),
        (M.REPLAY, 1, [opened(0, 1), opened(0, 6), taken(4, 6)]),
        (M.REPLAY, 1, [Promoted("b-0", 1), opened(0, 6), taken(4, 6)]),
        (M.REPLAY, 1, [opened(0, 6, sender=3), taken(4, 6, sender=3)]),
        # Of a source that sends again what it does not hear of.
        (M.REPLAY, 0, [taken(1, 3, "source-0"), taken(4, 6, "source-0")]),
        (M.REPLAY, 1, [taken(1, 3, "source-0"), taken(3, 3, "source-0")]),
    ],
)
def test_how_often_something_was_at_work(activity: Activity, count: int, records: list[Record]) -> None:
    offered = Offered("source-0", [Event("source-0", seq, "k", seq, seq) for seq in range(1, 8)])
    history = History([Stamped(at, record) for at, record in enumerate([offered, *records])], [])
    assert exercised(history, SHAPE)[activity] == count


def struck(*actors: str, gone: bool = True) -> FaultStruck:
    return FaultStruck(Stamp(5), 0, "crash node-1", None, Bite("node-1", "node-1", actors, True, gone))


@pytest.mark.parametrize(("in_sync_at", "count"), [(3, 1), (7, 0)])
def test_a_replica_takes_over_that_was_in_sync_when_the_other_was_lost(in_sync_at: int, count: int) -> None:
    shape = SubjectShape(2, True, frozenset(), ENDS, ENDS)
    placed = [Placed(Stamp(0), "a-0", 1, "node-1"), Placed(Stamp(0), "a-0/1", 2, "node-2")]
    records = [Stamped(1, InSync("a-0", 1)), Stamped(in_sync_at, InSync("a-0", 2))]
    assert exercised(History(records, [*placed, struck("a-0")]), shape)[M.TAKE_OVER] == count


@pytest.mark.parametrize(
    ("entry", "killed"), [(struck("a-0"), True), (struck(), False), (struck("a-0", gone=False), False)]
)
def test_a_node_on_which_nobody_ran_kills_nobody(entry: FaultStruck, killed: bool) -> None:
    assert killed_somebody(History([], [entry])) == killed
