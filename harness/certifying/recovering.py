"""Tries a crash by its crash state: puts back what was durable, lets the query live on, and writes the run down.

The history of such a run is what the recorder outside would have: what the life had delivered by the time its point was
held, the crash, and what the next life delivered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ..addresses import DRIVER, Moment
from ..errors import InvalidOperator, StreamproofError
from ..judging.references import SINK
from ..judging.stalls import ATTEMPTS
from ..query import SOURCE
from ..recording.folder import RunFolder
from ..recording.history import (
    Aborted,
    Bite,
    Drained,
    FaultStruck,
    LifeFailed,
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
from ..registry import Named
from ..running import describe
from ..scenario import Scenario
from ..schedule import Fault
from .crash_states import CrashState
from .lane import Lane, Life, Passed
from .plan import Crash

PROOF = "files and folders put back as they were at the point"


@dataclass(frozen=True)
class Crashed:
    """A moment at which the judged driver could have died: how it got there, and what was durable then."""

    crashes: tuple[Crash, ...]
    passed: tuple[Passed, ...]
    """Where each of them struck."""
    records: tuple[Stamped, ...]
    """What its lives had made by then."""
    state: CrashState
    life: int
    """The number of the life that would recover from it."""

    @property
    def same(self) -> tuple[str, int, int]:
        """Equal for two moments between which nothing happened that outlives a crash."""
        delivered = sum(isinstance(stamped.record, Delivered | EmptyBatch) for stamped in self.records)
        return self.state.digest, delivered, self.life


def crashed_in_profile(life: Life, passed: Passed, crash: Crash) -> Crashed:
    """In the first life, which was watched as a run without faults."""
    assert passed.state is not None
    records = tuple(_judged(stamped) for stamped in life.records[: passed.records])
    return Crashed((crash,), (passed,), records, passed.state, 2)


def crashed_again(before: Crashed, life: Life, passed: Passed, crash: Crash) -> Crashed:
    """In a life that recovered from an earlier crash."""
    assert passed.state is not None
    records = (*before.records, *life.records[: passed.records])
    return Crashed((*before.crashes, crash), (*before.passed, passed), records, passed.state, before.life + 1)


def recover(lane: Lane, crashed: Crashed, watched: bool = False) -> Life:
    """The next life; and where it fails by an error of its own, the next after that, as whoever runs the query would
    start it again, until it fails at one batch too often. One that is watched is the only one.

    Raises what went wrong with the lane.
    """
    lane.store.restore(crashed.state)
    life = lane.live(DRIVER, SINK, crashed.life, watched)
    while not watched and isinstance(life.failure, InvalidOperator) and not _loops(life):
        before = (*life.before, life)
        life = lane.live(DRIVER, SINK, crashed.life + len(before), watched)
        life.before = before
    return life


def _loops(life: Life) -> bool:
    last = [one.failed_in for one in (*life.before, life)][-ATTEMPTS:]
    return len(last) == ATTEMPTS and len(set(last)) == 1


def write_run(
    folder: Path,
    named: Named,
    lane: Lane,
    crashed: Crashed,
    group: Sequence[Crashed],
    life: Life,
    before: Sequence[Stamped],
    seed: int,
) -> None:
    """Write down what a recovery showed. It stands for all of a group, between whose points nothing happened that
    outlives a crash: the record has each of them. `before` is what was offered, and the reference runs."""
    struck = [*crashed.passed[:-1], *(one.passed[-1] for one in group)]
    faults = [Fault("crash", (DRIVER,), Moment.exactly(passed.address)) for passed in struck]
    scenario = replace(named.scenario, faults=faults)
    description = describe(replace(named, scenario=scenario), _Lanes(lane), seed, folder.name)
    with RunFolder(folder, description) as recorder:
        lives = (*life.before, life)
        for stamped in (*before, *crashed.records, *(stamped for one in lives for stamped in one.records)):
            recorder.note(stamped.at, stamped.record)
        for number, (fault, passed) in enumerate(zip(faults, struck, strict=True)):
            stamp = Stamp(passed.at)
            proof = Proof(0 if passed.state is None else len(passed.state.files), PROOF)
            bite = Bite(DRIVER, lane.name, (DRIVER,), True, proof=proof)
            recorder.log(FaultStruck(stamp, number, str(fault), str(passed.address), bite))
            recorder.log(NodeGone(stamp, DRIVER))
        for number, one in enumerate(lives, start=crashed.life):
            began = Stamp(one.records[0].at if one.records else recorder.latest.at)
            recorder.log(NodeUp(began, DRIVER))
            recorder.log(Placed(began, DRIVER, number, DRIVER))
            if isinstance(one.failure, InvalidOperator):
                recorder.log(LifeFailed(Stamp(one.failed_at), DRIVER, number, one.failed_in, str(one.failure)))
                recorder.log(NodeGone(Stamp(one.failed_at), DRIVER))
        if life.failure is None:
            recorder.log(Drained(recorder.latest))
        else:
            at = Stamp(max(life.failed_at, recorder.latest.at))
            recorder.log(Aborted(at, f"stall: {_why(life.failure)}", life.silent))
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


class _Lanes:
    """What the record of a run says of the lane that it was run in."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def describe(self, scenario: Scenario) -> Mapping[str, object]:
        return {"cluster": "embedded", "how": "crash states in a warm session", "settings": self._lane.settings}
