"""Who goes on is started once more, as in every deployment: with a part of the same input it ends in order, and is then
started on what it has left itself, with all of it. Nothing is put back in between.

What is wrong then is the change's: with what it makes alone of all input, of which it has seen the same. A version that
makes a batch of its own where its input ends, as one that closes windows does, has other batches then than alone: where
its table is another one, too, it is compared with what it makes alone when it is stopped at the same place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ..certifying.attempts import Attempt
from ..certifying.recovery_worker import RecoveryWorker
from ..certifying.reference_runs import without_faults
from ..contracts.query import Query
from ..core.errors import InvalidOperator
from ..core.events import Event
from ..recording.records import BatchDone
from .outcomes import Switched, UpgradeOutcome
from .switching import WentOn, files_in, go_on_in

STARTED_AGAIN: Final = 2
"""From how many states with the same last batch committed a version is started again."""
_BEFORE_ITS_END: Final = 2
"""Batches that it takes before it ends in order, where the input has as many."""


def ends_after(committed: int, last_counting: int) -> int | None:
    """How many batches the input has when the version goes on for the first time, from a state with this last batch
    committed: at least one is left of those that count for when it is started again. None: there are too few."""
    end = min(committed + 1 + _BEFORE_ITS_END, last_counting)
    return end if end > committed + 1 else None


def next_started_again(switched: Sequence[Switched], places: Sequence[int], last_counting: int) -> int | None:
    """The place of the state that is to be tried next so, beside those that were; None: there is none left. Each last
    batch comes once before any comes again, and states of which nothing was committed come last."""
    done = Counter(switched[place].committed for place in places)
    waiting = [
        (done[one.committed], one.committed < 0, place)
        for place, one in enumerate(switched)
        if place not in places
        and one.outcome is UpgradeOutcome.CONTINUES
        and not one.once_more
        and done[one.committed] < STARTED_AGAIN
        and ends_after(one.committed, last_counting) is not None
    ]
    return min(waiting)[-1] if waiting else None


def go_on_twice_in(
    worker: RecoveryWorker, query: Query, number: int, part: Sequence[Sequence[Event]], contents: Path
) -> WentOn:
    """Start the version that lives in the recovery worker on what is in its folders, with a part of its input, and once
    more with all of it. Its attempt is the last, which has all others before it. Raises InvalidOperator where it does
    not come to the end of the part, and what went wrong with the recovery worker."""
    begun = files_in(worker)
    with worker.fed(query, part):
        first = go_on_in(worker, number, contents).attempt
    if first.failure is not None:
        error = without_faults(query, first.failure)
        if not isinstance(error, InvalidOperator):
            raise error
        raise InvalidOperator(f"with the first {len(part):,} batches alone it fails before that: {error}")
    lived = (*first.before, first)
    went = go_on_in(worker, number + len(lived), contents, begun=begun)
    went.attempt.before = (*lived, *went.attempt.before)
    return went


def cut_otherwise(attempt: Attempt, end: int) -> bool:
    """Whether one that was started again has made a batch of its own where the input ended after so many batches."""
    done = (stamped.record for one in attempt.before for stamped in one.records)
    return any(isinstance(record, BatchDone) and record.batch >= end for record in done)
