"""The bar of each recovery on a run's page: its parts, and what it did not come to."""

from __future__ import annotations

import pytest

from streamproof.harness.judging.recovery import Recovery
from streamproof.harness.recording.history import Bite, Drained, FaultStruck, History, Stamp
from streamproof.harness.reporting.html.faults_drawn import RecoveryBar, recovery_bars


def bar(recovery: Recovery) -> RecoveryBar:
    bite = Bite("count-0", "node-1", ("count-0",), outstanding=True, gone=True)
    timeline = [FaultStruck(Stamp(100), 0, "crash count-0", None, bite), Drained(Stamp(9_000_000))]
    (found,) = recovery_bars(History([], timeline), [recovery], [])
    return found


def test_the_last_part_is_until_the_slice_was_heard_again() -> None:
    drawn = bar(Recovery(0, "count-0", 2, 310_000, 840_000, 50_000, 220_000, heard=600_000))
    assert [(part.name, part.micros) for part in drawn.parts] == [
        ("detected", 310_000),
        ("redeployed", 840_000),
        ("restored", 50_000),
        ("caught up", 220_000),
        ("heard again", 600_000),
    ]
    assert (drawn.total, drawn.whole) == (2_020_000, True)


@pytest.mark.parametrize(
    ("recovery", "missed"),
    [
        (Recovery(0, "count-0", 2, 1, 1, 1, 1, heard=None), "not heard again"),
        (Recovery(0, "count-0", 2, 1, 1, 1, None), "not where it was"),
        (Recovery(0, "count-0", 2, 1, 1, None, None), "not back"),
        (Recovery(0, "count-0", 2, None, 0, None, 5), "not back"),
    ],
    ids=["unheard", "behind", "not started", "a replica whose loss nobody noticed"],
)
def test_what_did_not_end_says_what_it_did_not_come_to(recovery: Recovery, missed: str) -> None:
    drawn = bar(recovery)
    assert (drawn.whole, drawn.missed) == (False, missed)
