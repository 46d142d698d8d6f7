"""Tries crashes for real in a recovery worker: kills the session and the process of the user's code while a point is
held, or loses what a driver sends to a store outside, or is answered.

The query runs there as it did when its points were found, one task at a time, and so it comes to the same ones: file
operations and lines of code too, which no two runs on a cluster pass in one order. And a session is back in seconds,
where a cluster takes several times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Final

from ..contracts.query import Query
from ..core.addresses import DRIVER, Address, Point
from ..core.errors import InvalidOperator, OwnFailure
from ..core.workload import Workload
from ..crash_points.inside_spark.agent import fetch_agent
from ..crash_points.inside_spark.versions import supported
from ..crash_points.outside.relay import ANSWERS_LOST, REQUESTS_LOST
from ..install.spark_choice import chosen_spark, chosen_version
from ..judging.references import REFERENCES, SINK
from ..recording.history import Bite, Proof
from ..recording.records import Stamped
from ..worlds.embedded.options import EmbeddedOptions
from ..worlds.embedded.processes import SparkProcesses
from ..worlds.spark.queries.refusing import SAID
from .attempts import Attempt, Death, Passed, StrikesAt
from .coming_back import LEAST
from .conclusion import Planned
from .file_points import deed_of
from .killing import fault_of
from .plan import BESIDE_THE_DRIVER, Crash, Victim
from .profile import Profile
from .recovering import RecoveryWorkerCrash, live_on, offered, write_recovery_worker_run
from .recovery_worker import RecoveryWorker
from .request import CampaignRequest
from .task_order import come_last_first

IN_RECOVERY_WORKERS: Final = frozenset({Point.FILE, Point.LINE})
"""Points that no two runs on a cluster pass in one order."""
LOST_MESSAGES: Final = {Victim.ANSWER: ANSWERS_LOST, Victim.REQUEST: REQUESTS_LOST}
"""What the record says of them."""
_LIVES: Final = frozenset({Victim.DISK, *LOST_MESSAGES})
"""Victims of which nobody dies."""


def is_of_recovery_workers(planned: Planned) -> bool:
    """Whether only a recovery worker can carry it out; so it is where the power fails, and where tasks come in another
    order."""
    crash = planned.crash
    within_the_session = crash.point in IN_RECOVERY_WORKERS and crash.victim not in BESIDE_THE_DRIVER
    return within_the_session or crash.lost is not None or crash.last_first


def needs_journal(planned: Planned) -> bool:
    """Whether it strikes at an operation on files, or goes by what they were."""
    return planned.crash.point is Point.FILE or planned.crash.lost is not None


def _dies_in_recovery_worker(query: Query, planned: Planned) -> bool:
    """Whether a recovery worker carries it out in a campaign. Where tasks send messages to a store outside, the driver
    dies on a cluster, on which tasks outlive it and go on sending; and so do the tasks where a message is lost, since
    one that fails is tried again there."""
    crash = planned.crash
    if crash.victim is Victim.DISK or crash.last_first:
        return True
    if crash.victim not in (Victim.DRIVER, *LOST_MESSAGES) or planned.split_brain:
        return False
    by_driver = crash.actor == DRIVER
    if crash.point is Point.LINE:
        return by_driver or not query.stores
    return crash.point is Point.FILE or (crash.point is Point.MESSAGE and by_driver)


def by_where_it_dies(query: Query, kills: Sequence[Planned]) -> tuple[list[Planned], list[Planned]]:
    """Those that a recovery worker carries out, and those that a cluster does."""
    here: list[Planned] = []
    there: list[Planned] = []
    for one in kills:
        (here if _dies_in_recovery_worker(query, one) else there).append(one)
    return here, there


def is_replayed_here(query: Query, planned: Sequence[Planned]) -> bool:
    """Whether a recovery worker replays a schedule on this machine: what no cluster can carry out, or none has."""
    return any(map(is_of_recovery_workers, planned)) or not by_where_it_dies(query, planned)[1]


def keeps_in_the_jvm(query: Query, profile: Profile) -> bool:
    """Whether what a crash forgets may be kept in the memory of a JVM: by the query's own code, or by that of a library
    which it brings. Where each crash of the driver is a kill, there are too many for a new JVM each because of a
    library."""
    return profile.into_the_jvm or (query.copyable and bool(query.packages or query.jars))


@contextmanager
def recovery_worker_of_its_own(query: Query, workload: Workload, work: Path, name: str) -> Iterator[RecoveryWorker]:
    """For one schedule. Raises what is wrong with the machine or the query."""
    fetch_agent()
    spark = supported(chosen_version(query.spark))
    with (
        SparkProcesses(name, work, EmbeddedOptions(workers=0), chosen_spark(query.spark)) as processes,
        RecoveryWorker(0, processes, query, query.batches(workload), work, spark, LEAST) as worker,
    ):
        worker.await_ready()
        yield worker


class RecoveryWorkerKiller:
    """Carries out schedules of a campaign in one of its recovery workers."""

    def __init__(self, worker: RecoveryWorker, anew: bool = False) -> None:
        """`anew`: whether each run begins in a session that has lived nothing before, its reference runs too."""
        self._worker = worker
        self._anew = anew

    def __call__(
        self, folder: Path, request: CampaignRequest, planned: Sequence[Planned], references: Sequence[Stamped]
    ) -> None:
        """Run the query under these crashes of the driver, and write the run down. Without reference runs, it has its
        own. What it does not come to does not strike. Raises what went wrong with the recovery worker."""
        batches = request.query.batches(request.workload)
        with self._worker.fed(request.query, batches):
            before = [*offered(batches), *(references or self._run_references())]
            self._begin()
            attempts, strikes = self._live(planned)
            faults = [fault_of(one) for one in planned]
            numbered = list(enumerate(attempts, start=1))
            last_first = any(one.crash.last_first for one in planned)
            write_recovery_worker_run(
                folder,
                request.named,
                self._worker,
                faults,
                strikes,
                before,
                numbered,
                request.seed,
                last_first=last_first,
            )

    def _begin(self) -> None:
        if self._anew:
            self._worker.renew()

    def _live(self, planned: Sequence[Planned]) -> tuple[list[Attempt], list[RecoveryWorkerCrash]]:
        worker = self._worker
        worker.store.clear()
        call_as_in(worker, planned)
        attempts: list[Attempt] = []
        strikes: list[RecoveryWorkerCrash] = []
        left = list(enumerate(planned))
        while left:
            # What it lives on with, up to the next death, strikes in one attempt.
            passing = list(takewhile(lambda numbered: numbered[1].crash.victim in _LIVES, left))
            deadly = left[len(passing) : len(passing) + 1]
            attempt = self._attempt(
                len(attempts) + 1, [one.crash for _, one in passing], [one.crash for _, one in deadly]
            )
            attempts.append(attempt)
            struck = {number: _disturbed(worker, number, one.crash, attempt) for number, one in passing}
            found = [strike for strike in struck.values() if strike is not None]
            strikes += found
            if attempt.death is not None:
                strikes.append(_strike(worker, deadly[0][0], attempt.death))
                left = left[len(passing) + 1 :]
            elif found and isinstance(attempt.failure, InvalidOperator):
                left = [(number, one) for number, one in left if struck.get(number) is None]
            else:
                # It has come to its end, or has failed, without having passed what is left.
                return attempts, strikes
        last = live_on(worker, len(attempts) + 1)
        return [*attempts, *last.before, last], strikes

    def _attempt(self, number: int, passing: Sequence[Crash], deadly: Sequence[Crash]) -> Attempt:
        worker = self._worker
        if deadly and not self._anew:
            # Where a JVM may remember, the next one is to know nothing of what was before the death.
            worker.keep_spare()
        struck = StrikesAt(
            fatal=_at(deadly),
            refuses=_at([crash for crash in passing if crash.victim is Victim.DISK]),
            loses=_at([crash for crash in passing if crash.victim in LOST_MESSAGES]),
        )
        last_first = any(crash.last_first for crash in (*passing, *deadly))
        attempt = worker.live(DRIVER, SINK, number, watched=True, struck=struck, last_first=last_first)
        if last_first and (found := come_last_first(attempt)) and not any(found):
            raise OwnFailure(f"{worker.name}: the tasks of no stage have come in the other order, though they were to")
        return attempt

    def _run_references(self) -> list[Stamped]:
        found: list[Stamped] = []
        for actor in REFERENCES:
            self._begin()
            found += _without_failures(self._worker, actor, actor, watched=False).records
        return found


def call_as_in(worker: RecoveryWorker, planned: Sequence[Planned]) -> None:
    """Call files as a schedule does: of one that was saved, no runs here have shown what varies of their names."""
    of_files = (one.crash.key for one in planned if one.crash.point is Point.FILE)
    worker.call_by(worker.names.with_those_in(map(deed_of, of_files)))


def points_passed(worker: RecoveryWorker, request: CampaignRequest, last_first: bool) -> Sequence[Passed]:
    """By a run of the query without failures, whose tasks may come in the other order. Raises InvalidOperator where it
    fails all the same."""
    with worker.fed(request.query, request.query.batches(request.workload)):
        return _without_failures(worker, DRIVER, SINK, watched=True, last_first=last_first).passed


def _without_failures(
    worker: RecoveryWorker, actor: str, sink: str, *, watched: bool, last_first: bool = False
) -> Attempt:
    """From the beginning to the end. Raises InvalidOperator where the query fails by itself."""
    worker.store.clear()
    attempt = worker.live(actor, sink, 1, watched=watched, last_first=last_first)
    if attempt.failure is not None:
        raise InvalidOperator(f"without any fault: {attempt.failure}")
    return attempt


def _at(crashes: Sequence[Crash]) -> Callable[[Address], bool] | None:
    """Whether one of these strikes there; None where there are none."""
    return (lambda address: any(_strikes_at(crash, address) for crash in crashes)) if crashes else None


def _strikes_at(crash: Crash, address: Address) -> bool:
    here = (address.point, address.side, address.key, address.actor)
    return here == (crash.point, crash.side, crash.key, crash.actor)


def _disturbed(worker: RecoveryWorker, number: int, crash: Crash, attempt: Attempt) -> RecoveryWorkerCrash | None:
    """What was done to an attempt that lived on; None: it did not come to that."""
    if crash.victim is Victim.DISK:
        refused = attempt.refused
        if refused is None:
            return None
        proof = Proof(refused.times, f"{SAID} ({refused.address.key})")
        return _lived(worker, number, crash.actor, refused.at, refused.address, proof)
    for lost in attempt.lost:
        if _strikes_at(crash, lost.address):
            proof = Proof(lost.size or 1, LOST_MESSAGES[crash.victim])
            return _lived(worker, number, DRIVER, lost.at, lost.address, proof)
    return None


def _lived(
    worker: RecoveryWorker, number: int, actor: str, at: int, address: Address, proof: Proof
) -> RecoveryWorkerCrash:
    return RecoveryWorkerCrash(number, at, address, Bite(actor, worker.name, (actor,), True, proof=proof), lives=True)


def _strike(worker: RecoveryWorker, number: int, death: Death) -> RecoveryWorkerCrash:
    bite = Bite(DRIVER, worker.name, (DRIVER,), True, gone=death.gone, pids=death.pids)
    return RecoveryWorkerCrash(number, death.at, death.address, bite)
