"""The recovery workers of a campaign, and what the query does in them without any failure."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from ..contracts.query import Query
from ..core.errors import DeadlinePassed, InvalidOperator, StreamproofError
from ..core.wording import counted
from ..core.workload import Workload
from ..crash_points.inside_spark.versions import supported
from ..install.machine import Spark
from ..install.spark_choice import chosen_spark, chosen_version
from ..judging.references import BATCH_JOB, REFERENCES, collate_references
from ..recording.history import History
from ..recording.records import Kept
from ..worlds.embedded.options import EmbeddedOptions
from ..worlds.embedded.processes import SparkProcesses
from ..worlds.spark.queries.driver_plan import RunKind
from .attempts import Attempt
from .campaign_state import CampaignState
from .file_points import called_alike, varying_in
from .plan import IN_THE_OTHER_ORDER
from .recovery_worker import RecoveryWorker
from .seen_outside import shared_of
from .task_order import come_last_first
from .threads import results_of

SHARED: Final = (
    "\nThe query runs twice, with folders of its own each time, and does this outside of them, where one run may be in "
    "the way of the other: {effects}. Keep it in the folders that the run hands over (folders.sink), or declare it as "
    "a Store with a reset"
)
NOT_APART: Final = (
    "query {query!r}: its runs are not kept apart in its stores: {what}. Each run needs tables, topics or paths of its "
    "own there: name them after folders.label, let reset make those as new and touch no others, and let read give no "
    "more than what is in them"
)
NOTHING_OF_THE_RUN: Final = (
    "query {query!r}: its read gives the same {rows} for a run that has done nothing yet, so that nothing that is lost "
    "could show in them. Let it read what the run itself has left, in the folders that it is given (folders.sink)"
)
FAILS_IN_OTHER_ORDER: Final = (
    "without any failure, the query fails where the tasks of a stage come in the other order, that of the last "
    "partition first, and Spark promises no order: {why}"
)
ELSE_IN_OTHER_ORDER: Final = (
    "without any failure, the query gives something else where the tasks of a stage come in the other order, that of "
    "the last partition first, and Spark promises no order: {why}"
)
ENDED_IN_OTHER_ORDER: Final = (
    "what the query leaves where the tasks of a stage come in the other order was not seen, so that nothing was tried "
    "in it: {times} times out of {times} its run there came to no end, the last time by what is no error of its own: "
    "{why}"
)
NOT_TURNED: Final = (
    "the tasks of a stage do not come in the other order by the rule for that on Spark {version}, so that nothing was "
    "tried in it"
)
STORES: Final = "stores"
"""The actor of an attempt that looks into them, and at a run that has done nothing."""
TIMES_IN_OTHER_ORDER: Final = 2
"""How often a run that fails there is made, before it is said to be for the order: once, a machine may be to blame."""
MOST_NAMED: Final = 5
"""Of such effects, so many are said."""
ATTEMPT_SECONDS = 120.0
"""How long an attempt without failures may give no sign of work."""


def open_recovery_workers(
    stack: ExitStack, name: str, query: Query, workload: Workload, work: Path, watches_inside: bool
) -> list[RecoveryWorker]:
    """One for each reference run, where there are cores for it. `stack` closes them."""
    spark = supported(chosen_version(query.spark))
    batches = query.batches(workload)
    options = EmbeddedOptions(workers=0)
    processes = stack.enter_context(SparkProcesses(f"{name}-workers", work, options, other_spark(query)))
    workers = (
        RecoveryWorker(number, processes, query, batches, work, spark, ATTEMPT_SECONDS, watches_inside)
        for number in range(how_many())
    )
    return [stack.enter_context(worker) for worker in workers]


def how_many() -> int:
    """Two, where there are cores for it: each reference run has its own."""
    return min(2, os.cpu_count() or 1)


def run_references(state: CampaignState, query: Query, workers: Sequence[RecoveryWorker]) -> list[Attempt]:
    """One attempt in each of two recovery workers, or two in one; of what the harness's sink is given, a batch job's
    opinion too. What varies of the names of files is known from then on. Raises what the query does wrong without any
    fault."""
    state.begin("runs without failures", len(REFERENCES))

    def live(worker: RecoveryWorker, actor: str) -> Attempt:
        worker.await_ready()
        worker.store.clear()
        attempt = worker.live(actor, actor, 1, watched=True)
        if attempt.failure is not None:
            raise _beside_another(query, attempt, attempt.failure)
        state.advance()
        return attempt

    if len(workers) == 1:
        # The states that are recovered from are those of the first.
        attempts = [live(workers[0], actor) for actor in REFERENCES]
    else:
        attempts = at_once([partial(live, *one) for one in zip(workers, REFERENCES, strict=True)], workers)
    names = varying_in(*(attempt.passed for attempt in attempts))
    for attempt in attempts:
        attempt.passed = called_alike(attempt.passed, names)
    for worker in workers:
        worker.call_by(names)
    if query.read is None and query.source is None:
        attempts.append(workers[0].live(BATCH_JOB, BATCH_JOB, 1, watched=False, kind=RunKind.BATCH_JOB))
    if query.read is not None:
        require_apart(query, workers[0], attempts[-1 if len(workers) == 1 else 0])
    return attempts


def at_once(lives: Sequence[Callable[[], Attempt]], workers: Sequence[RecoveryWorker]) -> list[Attempt]:
    """An attempt of each recovery worker. Raises what one of them does."""
    with ThreadPoolExecutor(len(workers)) as pool:
        try:
            return results_of([pool.submit(live) for live in lives])
        except BaseException:
            # Whoever interrupts this waits for none of them.
            for worker in workers:
                worker.give_up()
            raise


def run_in_other_order(
    state: CampaignState, query: Query, workers: Sequence[RecoveryWorker], references: Sequence[Attempt]
) -> tuple[list[Attempt], str]:
    """One attempt in each recovery worker in which the tasks of each stage come in the other order; and why what these
    leave could not be judged by the runs without failures, where it could not. One that fails is made again before
    that is said. Raises what goes wrong with a recovery worker."""
    state.begin(IN_THE_OTHER_ORDER, len(workers))

    def live(worker: RecoveryWorker) -> Attempt:
        for _ in range(TIMES_IN_OTHER_ORDER):
            worker.store.clear()
            attempt = worker.live(REFERENCES[1], REFERENCES[1], 1, watched=True, last_first=True)
            if attempt.failure is None:
                break
        state.advance()
        return attempt

    attempts = at_once([partial(live, worker) for worker in workers], workers)
    return attempts, next((why for attempt in attempts if (why := _why_not(query, references[0], attempt))), "")


def _why_not(query: Query, first: Attempt, other: Attempt) -> str:
    if other.ended_by_others:
        return ENDED_IN_OTHER_ORDER.format(times=TIMES_IN_OTHER_ORDER, why=other.failure)
    if other.failure is not None:
        return FAILS_IN_OTHER_ORDER.format(why=without_faults(query, other.failure))
    if not any(come_last_first(other)):
        return NOT_TURNED.format(version=supported(chosen_version(query.spark)).number)
    differs = collate_references(History([*first.records, *other.records], ()), query.shape).unjudgeable
    return ELSE_IN_OTHER_ORDER.format(why=differs) if differs else ""


def require_apart(query: Query, worker: RecoveryWorker, before: Attempt) -> None:
    """That what is read is of the run: not what another one gives that has done nothing yet. And that runs are kept
    apart in stores outside: another one that begins finds nothing there, and takes nothing away of what a run has left.
    Otherwise each sees what others do, and what comes of it says nothing. `before` is the last attempt that the
    recovery worker has made. Raises InvalidOperator."""
    looked = worker.live(STORES, STORES, before.incarnation + 1, watched=False, kind=RunKind.STORES)
    (left,) = _tables(before)
    if not query.stores:
        # Of what is not there yet, a consumer need not come to an end.
        if left and looked.failure is None and _tables(looked) == [left]:
            rows = counted(len(left), "row")
            raise InvalidOperator(NOTHING_OF_THE_RUN.format(query=query.name, rows=rows))
        return
    if looked.failure is not None:
        raise looked.failure
    others, now = _tables(looked)
    if others:
        what = f"{counted(len(others), 'row')} could be read right after a reset for a run of its own"
    elif now != left:
        what = f"of {counted(len(left), 'row')} that a run had left, others had been made once another was reset"
    else:
        return
    raise InvalidOperator(NOT_APART.format(query=query.name, what=what))


def _tables(attempt: Attempt) -> list[Mapping[str, object]]:
    return [stamped.record.rows for stamped in attempt.records if isinstance(stamped.record, Kept)]


def other_spark(query: Query) -> Spark | None:
    """None: that of this interpreter."""
    return chosen_spark(query.spark) if query.spark else None


def without_faults(query: Query, error: StreamproofError) -> StreamproofError:
    """What an attempt without any fault failed by, as the user is told it: one that never ends is the query's, too."""
    if not isinstance(error, DeadlinePassed):
        return error
    return InvalidOperator(
        f"query {query.name!r} does not come to the end of its input without any fault: waited {error.seconds:g} s; "
        f"{error.seen}"
    )


def _beside_another(query: Query, attempt: Attempt, error: StreamproofError) -> StreamproofError:
    """The same, where another attempt goes on at once, which may be in the way."""
    error = without_faults(query, error)
    shared = shared_of(attempt)
    if not isinstance(error, InvalidOperator) or not shared:
        return error
    return InvalidOperator(f"{error}{SHARED.format(effects='; '.join(shared[:MOST_NAMED]))}")
