"""Recoveries from crash states are written down as runs, and judged from what they recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from certified import CLAIMS, JUDGES, ONCE, ONCE_OUTPUT
from streamproof.harness.certifying.attempts import Attempt, Passed
from streamproof.harness.certifying.crash_states import CrashState, StateEntry
from streamproof.harness.certifying.plan import Crash, Victim
from streamproof.harness.certifying.recovering import (
    Crashed,
    crashed_again,
    crashed_in_profile,
    offered,
    recover,
    write_run,
)
from streamproof.harness.certifying.recovery_worker import RecoveryWorker
from streamproof.harness.certifying.rejudging import JudgedRun, judge_run
from streamproof.harness.certifying.waiting import AttemptStates
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Named
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import DRIVER, TASK, Address, Point, Side
from streamproof.harness.core.errors import DeadlinePassed, InvalidOperator, ProcessDied, StreamproofError
from streamproof.harness.core.events import Event
from streamproof.harness.core.guarantees import recovers
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.verdicts import Anomaly, Status, Verdict
from streamproof.harness.judging.references import REFERENCES, SINK, row_number
from streamproof.harness.recording.folder import read_history
from streamproof.harness.recording.history import Aborted, NodeGone, Placed
from streamproof.harness.recording.records import BatchDone, Delivered, Ended, Kept, Record, Stamped, Started, Taken
from streamproof.harness.worlds.spark.control.run_messages import SparkRuns
from streamproof.scenarios.query_word_count import query_word_count
from streamproof.scenarios.workloads import words

BATCHES: Sequence[Mapping[str, int]] = ({"a": 1, "b": 1}, {"a": 2, "c": 1}, {"b": 2, "c": 2})
QUERY = query_word_count(batch_events=2)
EVERY = 100
"""Microseconds from one batch to the next."""
STATE = CrashState((StateEntry("/sink", None),))


class NoRecoveryWorker:
    """As much of a recovery worker as a record says."""

    name = "worker-0"
    settings: Mapping[str, str] = {}
    ran = SparkRuns("4.3.0", {"python": "3.11.7"})


def named(query: Query = QUERY) -> Named:
    return Named(query.name, query.name, "", Scenario(query, words(events=6), claims=CLAIMS))


def delivered(sink: str, batch: int, rows: Mapping[str, Any], incarnation: int) -> Delivered:
    events = [Event(QUERY.name, row_number(batch, n), key, rows[key], 0) for n, key in enumerate(sorted(rows))]
    return Delivered(sink, QUERY.name, incarnation, 0, events)


def lived(
    actor: str,
    sink: str,
    incarnation: int,
    batches: Mapping[int, Mapping[str, int]],
    *,
    read: Mapping[str, int] | None = None,
    ends: bool = True,
) -> Attempt:
    """Passes two points a batch, before and after its rows are given."""
    attempt = Attempt(actor, incarnation)

    def note(record: Record) -> None:
        attempt.records.append(Stamped(EVERY * (1 + len(attempt.records)), record))

    def pass_point(point: Point, side: Side, key: str, actor: str = DRIVER) -> None:
        address = Address(actor, incarnation, point, key, side)
        attempt.passed.append(Passed(address, EVERY * len(attempt.records) + 10, len(attempt.records), STATE))

    first = min(batches, default=len(BATCHES))
    note(Started(actor, incarnation, None if incarnation == 1 else (1, first - 1), row_number(first, 0)))
    for number, rows in batches.items():
        pass_point(Point.OFFSET_LOG, Side.AFTER, str(number))
        pass_point(Point.TASK_END, Side.AFTER, f"{number}/9/0", TASK)
        note(Taken(actor, incarnation, "source", 1, 2 * number + 1, 2 * number + 2, 2))
        if read is None:
            note(delivered(sink, number, rows, incarnation))
        pass_point(Point.COMMIT_LOG, Side.BEFORE, str(number))
    if ends:
        note(BatchDone(actor, incarnation, 0, 2, 0, 0, 10))
        if read is not None:
            note(Kept(actor, incarnation, dict(read)))
        note(Ended(actor, incarnation, {"source": [1]}))
    return attempt


REFERENCE_ATTEMPTS = [lived(name, name, 1, dict(enumerate(BATCHES))) for name in REFERENCES]
BEFORE = [
    *offered([[Event("source", 2 * n + 1, "k", "v", n), Event("source", 2 * n + 2, "k", "v", n)] for n in range(3)]),
    *(stamped for attempt in REFERENCE_ATTEMPTS for stamped in attempt.records),
]


def crash_of(passed: Passed, recovering: bool = False) -> Crash:
    address = passed.address
    batch = int(address.key.partition("/")[0])
    kinds = ("steady",)
    return Crash(address.point, address.side, address.key, address.actor, Victim.DRIVER, batch, kinds, recovering)


def died_at(point: Point, side: Side, batch: int, attempt: Attempt = REFERENCE_ATTEMPTS[0]) -> Crashed:
    passed = next(
        one
        for one in attempt.passed
        if (one.address.point, one.address.side) == (point, side) and one.address.key.startswith(str(batch))
    )
    return crashed_in_profile(attempt, passed, crash_of(passed))


def written(
    folder: Path,
    crashed: Crashed,
    attempt: Attempt,
    group: Sequence[Crashed] = (),
    query: Query = QUERY,
    before: Sequence[Stamped] = BEFORE,
) -> None:
    worker = cast(RecoveryWorker, NoRecoveryWorker())
    write_run(folder, named(query), worker, crashed, group or [crashed], attempt, before, 7)


def judged(folder: Path, crashed: Crashed, attempt: Attempt, **more: Any) -> JudgedRun:
    written(folder, crashed, attempt, **more)
    return judge_run(folder, crashed.crashes, CLAIMS, JUDGES)


AFTER_SINK = died_at(Point.COMMIT_LOG, Side.BEFORE, 1)
BEFORE_SINK = died_at(Point.OFFSET_LOG, Side.AFTER, 1)


def anomalies(run: JudgedRun) -> set[Anomaly]:
    return {tally.anomaly for verdict in run.verdicts for tally in verdict.anomalies}


def recovered(batches: Mapping[int, Mapping[str, int]], incarnation: int = 2, **more: Any) -> Attempt:
    return lived(DRIVER, SINK, incarnation, batches, **more)


# Verdicts


@pytest.mark.parametrize("crashed", [AFTER_SINK, BEFORE_SINK])
def test_who_does_the_rest_once_more_keeps_exactly_once(crashed: Crashed, tmp_path: Path) -> None:
    run = judged(tmp_path / "run", crashed, recovered({1: BATCHES[1], 2: BATCHES[2]}))
    assert run.statuses[ONCE] is Status.HOLDS, run.reason


def test_what_was_given_before_the_crash_is_there_when_it_is_given_again(tmp_path: Path) -> None:
    again = recovered({1: BATCHES[1], 2: BATCHES[2]})
    run = judged(tmp_path / "after", AFTER_SINK, again)
    assert run.statuses == {ONCE: Status.HOLDS, ONCE_OUTPUT: Status.VIOLATED}
    assert anomalies(run) == {Anomaly.DUPLICATE_OUTPUT}
    assert judged(tmp_path / "before", BEFORE_SINK, again).statuses == {ONCE: Status.HOLDS, ONCE_OUTPUT: Status.HOLDS}


def test_an_attempt_that_passes_over_a_batch_has_lost_it(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", BEFORE_SINK, recovered({2: BATCHES[2]}))
    assert run.statuses == {ONCE: Status.VIOLATED, ONCE_OUTPUT: Status.VIOLATED}
    assert Anomaly.LOST_INPUT in anomalies(run)


def test_an_attempt_that_counts_wrong_is_found_out(tmp_path: Path) -> None:
    run = judged(tmp_path / "run", AFTER_SINK, recovered({1: BATCHES[1], 2: {"b": 4, "c": 2}}))
    assert run.statuses[ONCE] is Status.VIOLATED


def test_rows_of_a_table_that_are_there_twice_are_duplicate_effects(tmp_path: Path) -> None:
    query = Query(str, write=lambda frame, folders: frame.writeStream, read=lambda spark, folders: spark.range(1))
    a, b = '{"seq":1}', '{"seq":2}'
    table = {a: 1, b: 1}
    attempts = [lived(name, name, 1, dict(enumerate(BATCHES)), read=table) for name in REFERENCES]
    before = [stamped for attempt in attempts for stamped in attempt.records]
    crashed = died_at(Point.COMMIT_LOG, Side.BEFORE, 1, attempts[0])
    for number, (rows, wrong) in enumerate(
        [(table, set()), ({a: 2, b: 1}, {Anomaly.DUPLICATE_EFFECT}), ({a: 1}, {Anomaly.LOST_INPUT})]
    ):
        attempt = recovered({1: BATCHES[1]}, read=rows)
        run = judged(tmp_path / f"run-{number}", crashed, attempt, query=query, before=before)
        assert run.statuses[ONCE] is (Status.VIOLATED if wrong else Status.HOLDS), run.reason
        assert anomalies(run) == wrong


# No verdict


@pytest.mark.parametrize(
    "failure",
    [
        InvalidOperator("query 'q' failed: ValueError: not twice"),
        ProcessDied("an attempt of the query ended with status -9"),
        DeadlinePassed("the query to end", 3, "it had come to nothing"),
    ],
)
def test_a_recovery_that_failed_is_unknown_and_says_why(failure: Any, tmp_path: Path) -> None:
    attempt = recovered({1: BATCHES[1]}, ends=False)
    attempt.failure = failure
    run = judged(tmp_path / "run", BEFORE_SINK, attempt)
    assert set(run.statuses.values()) == {Status.UNKNOWN}
    assert f"the query did not recover: {failure}" in run.reason
    (aborted,) = (entry for entry in run.history.timeline if isinstance(entry, Aborted))
    assert aborted.why.startswith("stall: ")


RECOVERS = recovers(seconds(90))
BOO = InvalidOperator("query 'q' failed: FileExistsError: part-0")


def coming_back(folder: Path, attempt: Attempt) -> Verdict:
    written(folder, BEFORE_SINK, attempt)
    (verdict,) = judge_run(folder, BEFORE_SINK.crashes, [RECOVERS], JUDGES).verdicts
    return verdict


def failing(incarnation: int, failed_in: int = 1, failure: StreamproofError = BOO) -> Attempt:
    attempt = recovered({1: BATCHES[1]}, incarnation=incarnation, ends=False)
    attempt.failure, attempt.failed_in, attempt.failed_at = failure, failed_in, attempt.records[-1].at + 1
    return attempt


def test_who_fails_at_one_batch_three_times_is_in_a_crash_loop(tmp_path: Path) -> None:
    last = failing(4)
    last.before = failing(2), failing(3)
    found = coming_back(tmp_path / "run", last)
    assert found.status is Status.VIOLATED
    (loop,) = found.anomalies
    assert loop.anomaly is Anomaly.CRASH_LOOP
    assert loop.sample[0].what == f"started again, it failed at batch 1 3 times in a row: {BOO}"
    placed = [entry for entry in read_history(tmp_path / "run").timeline if isinstance(entry, Placed)]
    assert [one.incarnation for one in placed] == [2, 3, 4]


def test_who_fails_and_comes_to_the_end_the_next_time_is_back(tmp_path: Path) -> None:
    last = recovered({1: BATCHES[1], 2: BATCHES[2]}, incarnation=3)
    last.before = (failing(2),)
    assert coming_back(tmp_path / "run", last).status is Status.HOLDS
    run = judge_run(tmp_path / "run", BEFORE_SINK.crashes, CLAIMS, JUDGES)
    # What it had given before it failed, it gave again.
    assert run.statuses == {ONCE: Status.HOLDS, ONCE_OUTPUT: Status.VIOLATED}


@pytest.mark.parametrize(("silent", "status"), [(90, Status.VIOLATED), (89, Status.UNKNOWN), (None, Status.UNKNOWN)])
def test_who_gives_no_sign_for_the_stated_time_has_stalled(silent: int | None, status: Status, tmp_path: Path) -> None:
    attempt = failing(2, failure=DeadlinePassed("the query to end", 90, "it had come to nothing"))
    attempt.silent = None if silent is None else silent * 1_000_000
    found = coming_back(tmp_path / "run", attempt)
    assert (found.status, [tally.anomaly for tally in found.anomalies]) == (
        status,
        [Anomaly.STALL] if status is Status.VIOLATED else [],
    )


def test_whose_process_the_machine_has_ended_is_not_known_to_be_away(tmp_path: Path) -> None:
    found = coming_back(
        tmp_path / "run", failing(2, failure=ProcessDied("an attempt of the query ended with status -9"))
    )
    assert found.status is Status.UNKNOWN
    assert "status -9" in found.reason


class RecoveryWorkerOfFailures:
    """Its attempts fail at these batches, one after the other, and then no more."""

    def __init__(self, *at: int) -> None:
        self.at = list(at)
        self.lived: list[int] = []
        self.store = self

    def restore(self, state: CrashState) -> None: ...

    def live(self, actor: str, sink: str, incarnation: int, watched: bool) -> Attempt:
        self.lived.append(incarnation)
        return failing(incarnation, self.at.pop(0)) if self.at else recovered({1: BATCHES[1]}, incarnation=incarnation)


@pytest.mark.parametrize(
    ("at", "attempts"),
    [((), 1), ((1,), 2), ((1, 1), 3), ((1, 1, 1, 1), 3), ((1, 2, 2, 2, 2), 4), ((1, 2, 1, 2), 5)],
)
def test_who_fails_is_started_again_until_it_fails_at_one_batch_too_often(at: tuple[int, ...], attempts: int) -> None:
    worker = RecoveryWorkerOfFailures(*at)
    attempt = recover(cast(RecoveryWorker, worker), BEFORE_SINK)
    assert worker.lived == list(range(2, 2 + attempts))
    assert (len(attempt.before), attempt.failure is None) == (attempts - 1, attempts > len(at))


def test_who_is_watched_lives_once() -> None:
    worker = RecoveryWorkerOfFailures(1)
    assert recover(cast(RecoveryWorker, worker), BEFORE_SINK, watched=True).failure is not None
    assert worker.lived == [2]


def test_an_attempt_that_failed_before_it_said_anything_is_unknown_too(tmp_path: Path) -> None:
    attempt = Attempt(DRIVER, 2, failure=InvalidOperator("query 'q' failed: it cannot be read"))
    run = judged(tmp_path / "run", BEFORE_SINK, attempt)
    assert set(run.statuses.values()) == {Status.UNKNOWN}
    assert "it cannot be read" in run.reason


def test_an_attempt_that_repeats_and_then_fails_has_still_repeated(tmp_path: Path) -> None:
    attempt = recovered({1: BATCHES[1]}, ends=False)
    attempt.failure = InvalidOperator("query 'q' failed: later")
    run = judged(tmp_path / "run", AFTER_SINK, attempt)
    assert run.statuses == {ONCE: Status.UNKNOWN, ONCE_OUTPUT: Status.VIOLATED}


def test_references_that_disagree_say_nothing_of_a_recovery(tmp_path: Path) -> None:
    other = lived(REFERENCES[1], REFERENCES[1], 1, {0: BATCHES[0], 1: {"a": 3, "c": 1}, 2: BATCHES[2]})
    before = [*REFERENCE_ATTEMPTS[0].records, *other.records]
    run = judged(tmp_path / "run", BEFORE_SINK, recovered({1: BATCHES[1], 2: BATCHES[2]}), before=before)
    assert set(run.statuses.values()) == {Status.UNKNOWN}
    assert "disagree" in run.reason


# Groups


def test_one_recovery_is_judged_for_each_crash_between_which_nothing_outlives_one(tmp_path: Path) -> None:
    group = [BEFORE_SINK, died_at(Point.TASK_END, Side.AFTER, 1)]
    one, other = (crashed.passed[0] for crashed in group)
    assert AttemptStates(REFERENCE_ATTEMPTS[0]).same(one, other)
    attempt = recovered({1: BATCHES[1], 2: BATCHES[2]})
    written(tmp_path / "run", group[0], attempt, group)
    for crashed in group:
        assert judge_run(tmp_path / "run", crashed.crashes, CLAIMS, JUDGES).statuses[ONCE] is Status.HOLDS
    untried = judge_run(tmp_path / "run", AFTER_SINK.crashes, CLAIMS, JUDGES)
    assert set(untried.statuses.values()) == {Status.UNKNOWN}
    assert "does not show" in untried.reason


def test_what_the_sink_was_given_in_between_or_what_is_durable_makes_another_group() -> None:
    states = AttemptStates(REFERENCE_ATTEMPTS[0])
    (passed,), (after,) = BEFORE_SINK.passed, AFTER_SINK.passed
    assert not states.same(passed, after)
    later = replace(passed, state=CrashState((StateEntry("/sink", None), StateEntry("/sink/part-0", "abc"))))
    assert not states.same(passed, later)
    marked = replace(passed, state=CrashState((StateEntry("/sink", None), StateEntry("/sink/part-0", "abc", 5))))
    assert not states.same(later, marked)


# A crash while it recovers


def test_who_crashes_again_while_it_recovers_lives_a_third_time(tmp_path: Path) -> None:
    second = recovered({1: BATCHES[1], 2: BATCHES[2]})
    passed = next(one for one in second.passed if one.address.point is Point.COMMIT_LOG)
    twice = crashed_again(BEFORE_SINK, second, passed, crash_of(passed, recovering=True))
    assert (twice.next_incarnation, len(twice.crashes), len(twice.passed)) == (3, 2, 2)

    run = judged(tmp_path / "run", twice, recovered({1: BATCHES[1], 2: BATCHES[2]}, incarnation=3))
    assert run.statuses == {ONCE: Status.HOLDS, ONCE_OUTPUT: Status.VIOLATED}
    assert [one.address for one in run.history.struck()] == [str(one.address) for one in twice.passed]
    assert [entry.incarnation for entry in run.history.timeline if isinstance(entry, Placed)] == [2, 3]
    # In the other order they are another schedule.
    turned = judge_run(tmp_path / "run", twice.crashes[::-1], CLAIMS, JUDGES)
    assert turned.statuses[ONCE] is Status.UNKNOWN


# The record


def later(attempt: Attempt, by: int) -> Attempt:
    """The same, microseconds later."""
    moved = Attempt(attempt.actor, attempt.incarnation)
    moved.records += [Stamped(stamped.at + by, stamped.record) for stamped in attempt.records]
    moved.passed += [replace(passed, at=passed.at + by) for passed in attempt.passed]
    return moved


def test_what_a_recovery_worker_tries_between_two_attempts_is_no_time_that_a_recovery_takes(tmp_path: Path) -> None:
    """The recovery worker has tried others for ten minutes before each of them."""
    second = later(recovered({1: BATCHES[1]}, ends=False), 600_000_000)
    passed = second.passed[0]
    twice = crashed_again(BEFORE_SINK, second, passed, crash_of(passed, recovering=True))
    third = later(recovered({1: BATCHES[1], 2: BATCHES[2]}, incarnation=3), 1_200_000_000)
    written(tmp_path / "run", twice, third)
    placed = [entry for entry in read_history(tmp_path / "run").timeline if isinstance(entry, Placed)]
    assert [one.incarnation for one in placed] == [2, 3]
    (verdict,) = judge_run(tmp_path / "run", twice.crashes, (recovers(seconds(150)),), JUDGES).verdicts
    assert verdict.status is Status.HOLDS, verdict.summary


def test_an_attempt_of_a_reference_run_is_told_as_the_judged_drivers(tmp_path: Path) -> None:
    attempt = recovered({1: BATCHES[1], 2: BATCHES[2]})
    written(tmp_path / "run", AFTER_SINK, attempt)
    history = read_history(tmp_path / "run")
    judged_ones = [one for one in history.records if isinstance(one.record, Delivered) and one.record.sink == SINK]
    given = [(one.record.incarnation, row.seq) for one in judged_ones for row in one.record.rows]  # type: ignore[union-attr]
    assert [incarnation for incarnation, _ in given] == [1] * 4 + [2] * 4
    for reference in REFERENCES:
        assert sum(isinstance(s.record, Delivered) and s.record.sink == reference for s in history.records) == 3
    starts = [s.record for s in history.records if isinstance(s.record, Started) and s.record.slice == DRIVER]
    assert [start.incarnation for start in starts] == [1, 2]


def test_a_recovery_says_what_struck_where_and_by_what_that_is_proven(tmp_path: Path) -> None:
    written(tmp_path / "run", BEFORE_SINK, recovered({1: BATCHES[1], 2: BATCHES[2]}))
    history = read_history(tmp_path / "run")
    (struck,) = history.struck()
    assert struck.bite.bit, struck.bite.why_not
    assert str(struck.bite.proof) == "files and folders put back as they were at the point: 1"
    assert struck.address == "driver/0#1 after offset-log 1"
    kinds = [type(entry).__name__ for entry in history.timeline]
    assert kinds == ["FaultStruck", "NodeGone", "NodeUp", "Placed", "Drained"]
    assert sum(isinstance(entry, NodeGone) for entry in history.timeline) == 1


def test_equal_recoveries_have_equal_histories(tmp_path: Path) -> None:
    attempt = recovered({1: BATCHES[1], 2: BATCHES[2]})
    digests = {judged(tmp_path / name, BEFORE_SINK, attempt).digest for name in ("one", "other")}
    assert len(digests) == 1
