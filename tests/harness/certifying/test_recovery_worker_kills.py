"""In which sessions of a recovery worker the runs of a schedule live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from certified import crash_at
from profiles import attempt_of, done
from streamproof.harness.certifying import recovery_worker_kills
from streamproof.harness.certifying.attempts import NOWHERE, Attempt, Death, LostMessage, RefusedOperation, StrikesAt
from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.certifying.killing import fault_of
from streamproof.harness.certifying.plan import Victim
from streamproof.harness.certifying.planning import in_other_order
from streamproof.harness.certifying.profile import profile_of
from streamproof.harness.certifying.recovering import RecoveryWorkerCrash, write_recovery_worker_run
from streamproof.harness.certifying.recovery_worker import RecoveryWorker
from streamproof.harness.certifying.recovery_worker_kills import (
    RecoveryWorkerKiller,
    by_where_it_dies,
    is_of_recovery_workers,
    is_replayed_here,
    keeps_in_the_jvm,
)
from streamproof.harness.certifying.request import CampaignRequest
from streamproof.harness.certifying.varying_names import VaryingNames
from streamproof.harness.contracts.query import Query, Store
from streamproof.harness.contracts.query_parts import as_it_comes
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import DRIVER, TASK, Address, Point, Side
from streamproof.harness.core.errors import DeadlinePassed, InvalidOperator, StreamproofError
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.judging.references import REFERENCES
from streamproof.harness.recording.folder import read_history
from streamproof.harness.recording.history import Bite, IncarnationFailed, NodeGone, Proof
from streamproof.harness.recording.records import Ended, Stamped
from streamproof.scenarios.workloads import words

REQUEST = CampaignRequest(Query(as_it_comes, name="q"), words(events=10), (exactly_once(),), Registry(), 7)
CRASH = Planned(crash_at(1))


class Worker:
    """Says of each attempt how many its session has lived before it."""

    name = "worker-0"

    def __init__(self) -> None:
        self.store = self
        self.names = VaryingNames()
        self.lived: list[tuple[str, int]] = []
        self.orders: list[bool] = []
        self.spares = 0
        self._before = 0

    def keep_spare(self) -> None:
        self.spares += 1

    @contextmanager
    def fed(self, query: Query, batches: object) -> Iterator[None]:
        yield

    def clear(self) -> None: ...

    def call_by(self, names: VaryingNames) -> None: ...

    def renew(self) -> None:
        self._before = 0

    def live(
        self,
        actor: str,
        sink: str,
        incarnation: int,
        watched: bool,
        struck: StrikesAt = NOWHERE,
        last_first: bool = False,
    ) -> Attempt:
        self.lived.append((actor, self._before))
        self.orders.append(last_first)
        self._before += 1
        attempt = Attempt(actor, incarnation)
        if struck.fatal is not None:
            crash = CRASH.crash
            attempt.death = Death(Address(crash.actor, incarnation, crash.point, crash.key, crash.side), 1, (1,), True)
            self._before = 0
        return attempt


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    made = Worker()

    def live_on(worker: Worker, incarnation: int) -> Attempt:
        return worker.live("driver", "sink", incarnation, False)

    monkeypatch.setattr(recovery_worker_kills, "live_on", live_on)
    monkeypatch.setattr(recovery_worker_kills, "write_recovery_worker_run", lambda *_, **__: None)
    return made


def kill_twice(worker: Worker, references: list[Stamped], anew: bool) -> list[tuple[str, int]]:
    killer = RecoveryWorkerKiller(cast("RecoveryWorker", worker), anew)
    for _ in range(2):
        killer(Path("run"), REQUEST, [CRASH], references)
    return worker.lived


def test_where_a_jvm_may_remember_each_run_is_the_first_of_its_session_its_references_too(worker: Worker) -> None:
    lived = [*((actor, 0) for actor in REFERENCES), ("driver", 0), ("driver", 0)]
    assert kill_twice(worker, [], anew=True) == [*lived, *lived]
    assert not worker.spares


def test_where_none_does_a_run_goes_on_where_the_one_before_has_ended(worker: Worker) -> None:
    lived = [*((actor, place) for place, actor in enumerate(REFERENCES)), ("driver", 2), ("driver", 0)]
    again = [*((actor, place) for place, actor in enumerate(REFERENCES, 1)), ("driver", 3), ("driver", 0)]
    assert kill_twice(worker, [], anew=False) == [*lived, *again]
    assert worker.spares == 2


def test_up_to_a_crash_of_the_other_order_tasks_come_in_that_and_after_it_as_ever(worker: Worker) -> None:
    turned = Planned(in_other_order(CRASH.crash))
    RecoveryWorkerKiller(cast("RecoveryWorker", worker))(Path("run"), REQUEST, [turned], [])
    assert worker.orders == [*(False for _ in REFERENCES), True, False]
    worker.orders.clear()
    RecoveryWorkerKiller(cast("RecoveryWorker", worker))(Path("run"), REQUEST, [CRASH], [])
    assert not any(worker.orders)


def test_a_crash_of_the_other_order_is_a_matter_of_recovery_workers_wherever_it_strikes() -> None:
    turned = Planned(in_other_order(CRASH.crash))
    assert by_where_it_dies(REQUEST.query, [turned, CRASH]) == ([turned], [CRASH])
    assert [is_of_recovery_workers(one) for one in (turned, CRASH)] == [True, False]


def test_a_jvm_may_remember_where_the_query_calls_it_or_brings_a_library_whose_crashes_are_copied() -> None:
    plain, calls = profile_of(attempt_of([done(0)])), replace(profile_of(attempt_of([done(0)])), into_the_jvm=True)
    query, store = REQUEST.query, Store("orders", lambda _: None)
    library = replace(query, packages=("org.acme:table:1",))
    assert [keeps_in_the_jvm(one, plain) for one in (query, library, replace(query, jars=("a.jar",)))] == [0, 1, 1]
    assert [keeps_in_the_jvm(replace(one, stores=(store,)), plain) for one in (query, library)] == [0, 0]
    assert keeps_in_the_jvm(replace(query, stores=(store,)), calls)


REFUSED = Planned(
    msgspec.structs.replace(
        crash_at(1), point=Point.FILE, side=Side.BEFORE, key="1/write sink/a#1", actor=TASK, victim=Victim.DISK
    )
)
AT = Address(TASK, 1, Point.FILE, "1/write sink/a#1", Side.BEFORE)
FAILED = InvalidOperator("query 'q' failed: an I/O error")


class RefusingWorker(Worker):
    def __init__(self, refused: bool, failure: StreamproofError | None) -> None:
        super().__init__()
        self._refused, self._failure = refused, failure

    def live(
        self,
        actor: str,
        sink: str,
        incarnation: int,
        watched: bool,
        struck: StrikesAt = NOWHERE,
        last_first: bool = False,
    ) -> Attempt:
        attempt = super().live(actor, sink, incarnation, watched, struck, last_first)
        if struck.refuses is not None:
            assert watched
            assert struck.refuses(AT)
            assert not struck.refuses(msgspec.structs.replace(AT, actor=DRIVER))
            attempt.refused = RefusedOperation(AT, 3, times=2) if self._refused else None
            attempt.failure = self._failure
        return attempt


@pytest.mark.parametrize(
    ("refused", "failure", "attempts", "strikes"),
    [
        # It has swallowed the error, or tried again.
        (True, None, 1, 1),
        (True, FAILED, 2, 1),
        # It waits for ever: nobody starts it again.
        (True, DeadlinePassed("the end", 30, "nothing"), 1, 1),
        (False, None, 1, 0),
        (False, FAILED, 1, 0),
    ],
)
def test_who_is_refused_an_operation_lives_on_and_is_started_again_where_it_fails(
    refused: bool, failure: StreamproofError | None, attempts: int, strikes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = RefusingWorker(refused, failure)
    written: list[Any] = []
    live_on = lambda made, number: made.live(DRIVER, "sink", number, False)  # noqa: E731
    monkeypatch.setattr(recovery_worker_kills, "live_on", live_on)
    monkeypatch.setattr(recovery_worker_kills, "write_recovery_worker_run", lambda *given, **_: written.append(given))
    RecoveryWorkerKiller(cast("RecoveryWorker", worker))(
        Path("run"), REQUEST, [REFUSED], [Stamped(0, Ended("a", 1, {}))]
    )
    ((_, _, _, faults, struck, _, numbered, _),) = written
    assert [fault.kind for fault in faults] == ["failed-write"]
    assert [number for number, _ in numbered] == list(range(1, attempts + 1))
    assert [(one.lives, one.address, one.at) for one in struck] == [(True, AT, 3)] * strikes
    for one in struck:
        assert (one.bite.target, one.bite.why_not, one.bite.gone) == (TASK, "", None)
        assert str(one.bite.proof) == "operations on files refused with an I/O error (1/write sink/a#1): 2"


def test_what_a_disk_refuses_is_tried_in_a_recovery_worker() -> None:
    assert by_where_it_dies(REQUEST.query, [REFUSED, CRASH]) == ([REFUSED], [CRASH])


@pytest.mark.parametrize("point", [Point.FILE, Point.LINE])
def test_who_dies_beside_the_driver_dies_on_a_cluster_where_it_is_tried_again_too(point: Point) -> None:
    key = "1/write sink/a#1" if point is Point.FILE else "1/a.f:3#1"
    crash = msgspec.structs.replace(crash_at(1, point=point, side=Side.AFTER, key=key), actor=TASK)
    for victim in (Victim.PYTHON, Victim.EXECUTOR, Victim.NODE):
        planned = [Planned(msgspec.structs.replace(crash, victim=victim))]
        assert not is_of_recovery_workers(planned[0])
        assert not is_replayed_here(REQUEST.query, planned)
    assert is_of_recovery_workers(Planned(crash))


def at_message(batch: int, victim: Victim, actor: str = DRIVER, side: Side = Side.AFTER) -> Planned:
    key = f"{batch}/db COMMIT#1"
    crash = crash_at(batch, point=Point.MESSAGE, side=side, key=key)
    return Planned(msgspec.structs.replace(crash, victim=victim, actor=actor))


def test_what_a_driver_sends_is_lost_in_a_recovery_worker_and_what_tasks_send_on_a_cluster() -> None:
    sent = [at_message(1, Victim.DRIVER), at_message(1, Victim.ANSWER), at_message(1, Victim.REQUEST)]
    by_tasks = [at_message(1, victim, TASK) for victim in (Victim.DRIVER, Victim.ANSWER, Victim.EXECUTOR)]
    split = Planned(sent[0].crash, split_brain=True)
    line = Planned(crash_at(1, point=Point.LINE, key="1/a.f:3#1"))
    in_task = Planned(msgspec.structs.replace(line.crash, actor=TASK))
    outside = replace(REQUEST.query, stores=(Store("db", lambda _: None),))
    assert by_where_it_dies(outside, [*sent, *by_tasks, split, line, in_task]) == (
        [*sent, line],
        [*by_tasks, split, in_task],
    )
    assert by_where_it_dies(REQUEST.query, [line, in_task]) == ([line, in_task], [])


class LosingWorker(Worker):
    """Each attempt passes a commit a batch, from that on at which the one before has died, or failed."""

    def __init__(self, fails_at: int = -1) -> None:
        super().__init__()
        self._fails_at = fails_at
        self._batch = 0

    def live(
        self,
        actor: str,
        sink: str,
        incarnation: int,
        watched: bool,
        struck: StrikesAt = NOWHERE,
        last_first: bool = False,
    ) -> Attempt:
        attempt = Attempt(actor, incarnation)
        assert struck.refuses is None
        for batch in range(self._batch, 4):
            self._batch = batch
            for side in Side:
                address = Address(DRIVER, incarnation, Point.MESSAGE, f"{batch}/db COMMIT#1", side)
                if struck.loses is not None and struck.loses(address):
                    attempt.lost.append(LostMessage(address, batch, 40 if side is Side.AFTER else 0))
                    if batch == self._fails_at:
                        attempt.failure = FAILED
                        return attempt
                if struck.fatal is not None and struck.fatal(address):
                    attempt.death = Death(address, batch, (1,), True)
                    return attempt
        return attempt


@pytest.mark.parametrize(("fails_at", "attempts"), [(-1, 2), (0, 3), (2, 3)])
def test_what_is_lost_up_to_the_next_death_is_lost_to_one_attempt_and_to_the_next_where_that_fails(
    fails_at: int, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []
    live_on = lambda made, number: made.live(DRIVER, "sink", number, False)  # noqa: E731
    monkeypatch.setattr(recovery_worker_kills, "live_on", live_on)
    monkeypatch.setattr(recovery_worker_kills, "write_recovery_worker_run", lambda *given, **_: written.append(given))
    planned = [
        at_message(0, Victim.ANSWER),
        at_message(1, Victim.DRIVER),
        at_message(2, Victim.REQUEST, side=Side.BEFORE),
    ]
    killer = RecoveryWorkerKiller(cast("RecoveryWorker", LosingWorker(fails_at)))
    killer(Path("run"), REQUEST, planned, [Stamped(0, Ended("a", 1, {}))])
    ((_, _, _, faults, struck, _, numbered, _),) = written
    assert [fault.kind for fault in faults] == ["lost-answer", "crash", "lost-request"]
    assert [number for number, _ in numbered] == list(range(1, attempts + 1))
    assert [(one.number, one.lives, one.bite.why_not) for one in struck] == [
        (0, True, ""),
        (1, False, ""),
        (2, True, ""),
    ]
    assert [str(one.bite.proof) for one in struck if one.lives] == [
        "bytes of an answer lost, and its connection reset: 40",
        "requests lost, and their connection reset: 1",
    ]


def test_of_what_was_not_sent_nothing_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Any] = []
    monkeypatch.setattr(recovery_worker_kills, "write_recovery_worker_run", lambda *given, **_: written.append(given))
    killer = RecoveryWorkerKiller(cast("RecoveryWorker", LosingWorker()))
    killer(Path("run"), REQUEST, [at_message(9, Victim.ANSWER)], [Stamped(0, Ended("a", 1, {}))])
    ((_, _, _, _, struck, _, numbered, _),) = written
    assert (struck, len(numbered)) == ([], 1)


@pytest.mark.parametrize("failure", [None, FAILED])
def test_the_record_says_that_who_was_refused_an_operation_lived(
    failure: InvalidOperator | None, tmp_path: Path
) -> None:
    class NoWorker:
        name = "worker-0"
        settings: Mapping[str, str] = {}
        ran = None

    first = Attempt(DRIVER, 1, failure=failure, failed_at=5, refused=RefusedOperation(AT, 3, 1))
    attempts = [(1, first)] if failure is None else [(1, first), (2, Attempt(DRIVER, 2))]
    bite = Bite(TASK, "worker-0", (TASK,), True, proof=Proof(1, "operations refused"))
    strike = RecoveryWorkerCrash(0, 3, AT, bite, lives=True)
    fault = fault_of(REFUSED)
    worker = cast("RecoveryWorker", NoWorker())
    write_recovery_worker_run(tmp_path / "run", REQUEST.named, worker, [fault], [strike], [], attempts, 7)
    history = read_history(tmp_path / "run")
    assert [one.bite.why_not for one in history.struck()] == [""]
    gone = [entry for entry in history.timeline if isinstance(entry, NodeGone)]
    failed = [entry.disturbed for entry in history.timeline if isinstance(entry, IncarnationFailed)]
    assert (len(gone), failed) == ((0, []) if failure is None else (1, [True]))
