"""Tries a crash by its crash state: puts back what was durable, lets the query live on, and writes the run down.

The history of such a run is what the recorder outside would have: what the attempt had delivered by the time its point
was held, the crash, and what the next attempt delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ..contracts.query import SOURCE
from ..contracts.registry import Named
from ..contracts.scenario import Scenario
from ..core.addresses import DRIVER, Address, Moment
from ..core.errors import InvalidOperator, StreamproofError
from ..core.promises import Extent
from ..core.schedule import Fault
from ..judging.references import SINK
from ..judging.stalls import ATTEMPTS
from ..recording.folder import RunFolder
from ..recording.history import (
    Aborted,
    Bite,
    Drained,
    FaultStruck,
    IncarnationFailed,
    Lost,
    NodeGone,
    NodeUp,
    Placed,
    Proof,
    Stamp,
)
from ..recording.records import (
    BatchDone,
    Delivered,
    EmptyBatch,
    Ended,
    Kept,
    Offered,
    Record,
    Stamped,
    Started,
    Taken,
)
from ..running.run import describe
from .attempts import Attempt, Passed
from .crash_states import CrashState
from .plan import CRASH_STATES, IN_THE_OTHER_ORDER, KILLS_IN_A_RECOVERY_WORKER, ORDER, POWER_LOSSES, Crash, How
from .recovery_worker import RecoveryWorker

PROOF = "files and folders put back as they were at the point"


@dataclass(frozen=True)
class Crashed:
    """A moment at which the judged driver could have died: how it got there, and what was durable then."""

    crashes: tuple[Crash, ...]
    passed: tuple[Passed, ...]
    """Where each of them struck."""
    records: tuple[Stamped, ...]
    """What its attempts had made by then."""
    state: CrashState
    next_incarnation: int
    """Of the attempt that would recover from it."""
    began: tuple[tuple[int, int], ...] = ()
    """(its incarnation, when it began) of each attempt that has recovered before. A recovery worker tries other crashes
    between one attempt and the next, and that is no time that a recovery takes."""


def crashed_in_profile(attempt: Attempt, passed: Passed, crash: Crash) -> Crashed:
    """In the first attempt, which was watched as a run without faults."""
    assert passed.state is not None
    records = tuple(_judged(stamped) for stamped in attempt.records[: passed.records])
    return Crashed((crash,), (passed,), records, passed.state, 2)


def crashed_again(before: Crashed, attempt: Attempt, passed: Passed, crash: Crash) -> Crashed:
    """In an attempt that recovered from an earlier crash."""
    assert passed.state is not None
    records = (*before.records, *attempt.records[: passed.records])
    began = (*before.began, (before.next_incarnation, attempt.records[0].at if attempt.records else passed.at))
    following = before.next_incarnation + 1
    return Crashed((*before.crashes, crash), (*before.passed, passed), records, passed.state, following, began)


def mate_of(crashed: Crashed, crash: Crash, passed: Passed) -> Crashed:
    """Another crash that the recovery from one stands for, with what the record of that says of it."""
    crashes, places = (*crashed.crashes[:-1], crash), (*crashed.passed[:-1], passed)
    return Crashed(crashes, places, (), crashed.state, crashed.next_incarnation, crashed.began)


def recover(worker: RecoveryWorker, crashed: Crashed, watched: bool = False) -> Attempt:
    """The next attempt, from a crash state; one that is watched is the only one. Raises what went wrong with the
    recovery worker.
    """
    worker.store.restore(crashed.state)
    incarnation = crashed.next_incarnation
    return worker.live(DRIVER, SINK, incarnation, watched) if watched else live_on(worker, incarnation)


def live_on(worker: RecoveryWorker, number: int, is_in_vain: Callable[[Attempt], bool] = lambda one: False) -> Attempt:
    """The next attempt, from what is there; and where it fails by an error of its own, the next after that, as whoever
    runs the query would start it again, until it fails at one batch too often, or what an attempt has left says that
    another is in vain. Raises what went wrong with the recovery worker."""
    attempt = worker.live(DRIVER, SINK, number, watched=False)
    while isinstance(attempt.failure, InvalidOperator) and not is_in_vain(attempt) and not _loops(attempt):
        before = (*attempt.before, attempt)
        attempt = worker.live(DRIVER, SINK, number + len(before), watched=False)
        attempt.before = before
    return attempt


def _loops(attempt: Attempt) -> bool:
    """Whether it has failed at one batch too often, with the attempts before it."""
    last = [one.failed_in for one in (*attempt.before, attempt)][-ATTEMPTS:]
    return len(last) == ATTEMPTS and len(set(last)) == 1


@dataclass(frozen=True)
class RecoveryWorkerCrash:
    """A crash that struck in a recovery worker."""

    number: int
    """Which of the run's faults it is."""
    at: int
    """Microseconds since the recovery worker began."""
    address: Address
    bite: Bite
    lost: Lost | None = None
    """Where the power failed."""
    lives: bool = False
    """Whether nobody dies of it."""


def write_run(
    folder: Path,
    named: Named,
    worker: RecoveryWorker,
    crashed: Crashed,
    group: Sequence[Crashed],
    attempt: Attempt,
    before: Sequence[Stamped],
    seed: int,
) -> None:
    """Write down what a recovery showed. It stands for all of a group, between whose points nothing happened that
    outlives a crash: the record has each of them. `before` is what was offered, and the reference runs."""
    struck = [*crashed.passed[:-1], *(one.passed[-1] for one in group)]
    kind, how = ("crash", CRASH_STATES) if crashed.state.lost is None else (How.POWER_LOSS, POWER_LOSSES)
    faults = [Fault(kind, (DRIVER,), Moment.exactly(passed.address)) for passed in struck]
    strikes = [_put_back(worker, number, passed) for number, passed in enumerate(struck)]
    attempts = tuple(enumerate((*attempt.before, attempt), start=crashed.next_incarnation))
    records = (*before, *crashed.records)
    last_first = any(crash.last_first for crash in crashed.crashes)
    write_recovery_worker_run(
        folder, named, worker, faults, strikes, records, attempts, seed, how, began=crashed.began, last_first=last_first
    )


def _put_back(worker: RecoveryWorker, number: int, passed: Passed) -> RecoveryWorkerCrash:
    state = passed.state
    lost = None if state is None else state.lost
    said = "" if lost is None else f"; lost: {lost.what} ({lost.terms})"
    # Where the power takes all there was, nothing is left to be put back.
    took_all = lost is not None and lost.extent is Extent.EVERYTHING
    proof = Proof(0 if state is None else max(len(state.files), int(took_all)), PROOF + said)
    bite = Bite(DRIVER, worker.name, (DRIVER,), True, proof=proof)
    return RecoveryWorkerCrash(number, passed.at, passed.address, bite, lost)


def write_recovery_worker_run(
    folder: Path,
    named: Named,
    worker: RecoveryWorker,
    faults: Sequence[Fault],
    strikes: Sequence[RecoveryWorkerCrash],
    before: Sequence[Stamped],
    attempts: Sequence[tuple[int, Attempt]],
    seed: int,
    how: str = KILLS_IN_A_RECOVERY_WORKER,
    *,
    began: Sequence[tuple[int, int]] = (),
    last_first: bool = False,
) -> None:
    """Write down a run whose attempts were made in a recovery worker. `before` is all that is known from before
    `attempts`, each of which has its number; `began` says when those attempts began that are in it, but for the
    first. `last_first`: up to what struck, tasks have come in the other order."""
    scenario = replace(named.scenario, faults=faults)
    description = describe(
        replace(named, scenario=scenario), _RecoveryWorkers(worker, how, last_first), seed, folder.name
    )
    with RunFolder(folder, description) as recorder:
        for stamped in (*before, *(stamped for _, one in attempts for stamped in one.records)):
            recorder.note(stamped.at, stamped.record)
        for strike in strikes:
            stamp = Stamp(strike.at)
            fault = str(faults[strike.number])
            recorder.log(FaultStruck(stamp, strike.number, fault, str(strike.address), strike.bite, strike.lost))
            if not strike.lives:
                recorder.log(NodeGone(stamp, DRIVER))
        for number, born in began:
            recorder.log(NodeUp(Stamp(born), DRIVER))
            recorder.log(Placed(Stamp(born), DRIVER, number, DRIVER))
        for number, one in attempts:
            up = Stamp(one.records[0].at if one.records else recorder.latest.at)
            recorder.log(NodeUp(up, DRIVER))
            recorder.log(Placed(up, DRIVER, number, DRIVER))
            if isinstance(one.failure, InvalidOperator):
                failed_at, why = Stamp(one.failed_at), str(one.failure)
                recorder.log(IncarnationFailed(failed_at, DRIVER, number, one.failed_in, why, one.disturbed))
                recorder.log(NodeGone(Stamp(one.failed_at), DRIVER))
        last = attempts[-1][1]
        if last.failure is None:
            recorder.log(Drained(recorder.latest))
        else:
            at = Stamp(max(last.failed_at, recorder.latest.at))
            recorder.log(Aborted(at, f"stall: {_why(last.failure)}", last.silent))
        recorder.seal()


def offered(batches: Sequence[Sequence[object]]) -> list[Stamped]:
    return [Stamped(0, Offered(SOURCE, list(batch))) for batch in batches]  # type: ignore[arg-type]


def _why(error: StreamproofError) -> str:
    return f"the query did not recover: {error}"


def _judged(stamped: Stamped) -> Stamped:
    """What a reference run made, as the judged driver would have made it."""
    record: Record = stamped.record
    match record:
        case Started() | Taken() | Ended():
            record = msgspec.structs.replace(record, slice=DRIVER)
        case Kept() | BatchDone():
            record = msgspec.structs.replace(record, actor=DRIVER)
        case Delivered() | EmptyBatch():
            record = msgspec.structs.replace(record, sink=SINK)
    return Stamped(stamped.at, record)


class _RecoveryWorkers:
    """What the record of a run says of the recovery worker that it was run in."""

    def __init__(self, worker: RecoveryWorker, how: str, last_first: bool) -> None:
        self._worker = worker
        self._how = how
        self._order = {ORDER: IN_THE_OTHER_ORDER} if last_first else {}

    def describe(self, scenario: Scenario) -> Mapping[str, object]:
        ran = self._worker.ran
        what = {} if ran is None else {"spark": ran.version, "python": ran.python}
        return {"cluster": "embedded", "how": self._how, "settings": self._worker.settings, **what, **self._order}
