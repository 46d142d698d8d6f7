"""What a run of a query passes, made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from streamproof.harness.certifying.attempts import Attempt, Passed
from streamproof.harness.certifying.crash_states import CrashState
from streamproof.harness.core.addresses import DRIVER, TASK, Address, Point, Side
from streamproof.harness.judging.references import REFERENCES
from streamproof.harness.recording.records import BatchDone, Ended, Record, Stamped

HOME = Path("/data/sink/run")
"""What its sink and its checkpoint lie in: another folder may be called like them."""
STAGES = 17
"""The number of a task's stage counts all that its session has run before."""


def passed(point: Point, side: Side, key: str, actor: str = DRIVER, records: int = 0) -> Passed:
    return Passed(Address(actor, 1, point, key, side), 0, records, CrashState(()))


def both_sides(point: Point, key: str, actor: str = DRIVER) -> list[Passed]:
    return [passed(point, side, key, actor) for side in (Side.BEFORE, Side.AFTER)]


def of_batch(number: int, user: str = "") -> list[Passed]:
    """A batch of a query with state and a sink of the first interface."""
    found = both_sides(Point.OFFSET_LOG, f"{number}")
    found.append(passed(Point.ADD_BATCH, Side.BEFORE, f"{number}"))
    for partition in (0, 1):
        found += both_sides(Point.STATE_COMMIT, f"{number}/{partition}/0/default", TASK)
        found += both_sides(Point.TASK_END, f"{number}/{STAGES + number}/{partition}", TASK)
    if user:
        found.append(passed(Point.USER, Side.AFTER, f"{number}/{user}"))
    found.append(passed(Point.ADD_BATCH, Side.AFTER, f"{number}"))
    return [*found, *both_sides(Point.COMMIT_LOG, f"{number}")]


def done(
    batch: int,
    rows: int = 10,
    late: int = 0,
    evicted: int = 0,
    python: bool = False,
    at_end: bool = False,
    actor: str = REFERENCES[0],
) -> BatchDone:
    return BatchDone(actor, 1, batch, rows, late, evicted, 100, python, at_end)


def attempt_of(
    batches: Sequence[BatchDone], *, also: Iterable[Passed] = (), after: Iterable[Passed] = (), user: str = ""
) -> Attempt:
    """`also` is passed in the middle of the first batch, `after` when the last one is committed."""
    found = [one for batch in batches for one in of_batch(batch.batch, user)]
    records: list[Record] = [*batches, Ended(REFERENCES[0], 1, {"source": [1]})]
    points = [*found[:2], *also, *found[2:], *after]
    stamped = [Stamped(place, record) for place, record in enumerate(records)]
    return Attempt(REFERENCES[0], 1, points, stamped, home=HOME)


FIVE = (done(0), done(1), done(2, late=1), done(3, evicted=2), done(4), done(5, rows=0))
"""Batches of most kinds; the last is without data."""
