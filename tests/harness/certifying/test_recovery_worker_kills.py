"""In which sessions of a recovery worker the runs of a schedule live."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from certified import crash_at
from profiles import attempt_of, done
from streamproof.harness.certifying import recovery_worker_kills
from streamproof.harness.certifying.attempts import Attempt, Death
from streamproof.harness.certifying.conclusion import Planned
from streamproof.harness.certifying.profile import profile_of
from streamproof.harness.certifying.recovery_worker import RecoveryWorker
from streamproof.harness.certifying.recovery_worker_kills import RecoveryWorkerKiller, keeps_in_the_jvm
from streamproof.harness.certifying.request import CampaignRequest
from streamproof.harness.certifying.varying_names import VaryingNames
from streamproof.harness.contracts.query import Query, Store
from streamproof.harness.contracts.query_parts import as_it_comes
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.addresses import Address
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.judging.references import REFERENCES
from streamproof.harness.recording.records import Stamped
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
        self._before = 0

    @contextmanager
    def fed(self, query: Query, batches: object) -> Iterator[None]:
        yield

    def clear(self) -> None: ...

    def call_by(self, names: VaryingNames) -> None: ...

    def renew(self) -> None:
        self._before = 0

    def live(self, actor: str, sink: str, incarnation: int, watched: bool, fatal: Any = None) -> Attempt:
        self.lived.append((actor, self._before))
        self._before += 1
        attempt = Attempt(actor, incarnation)
        if fatal is not None:
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
    monkeypatch.setattr(recovery_worker_kills, "write_recovery_worker_run", lambda *_: None)
    return made


def kill_twice(worker: Worker, references: list[Stamped], anew: bool) -> list[tuple[str, int]]:
    killer = RecoveryWorkerKiller(cast("RecoveryWorker", worker), anew)
    for _ in range(2):
        killer(Path("run"), REQUEST, [CRASH], references)
    return worker.lived


def test_where_a_jvm_may_remember_each_run_is_the_first_of_its_session_its_references_too(worker: Worker) -> None:
    lived = [*((actor, 0) for actor in REFERENCES), ("driver", 0), ("driver", 0)]
    assert kill_twice(worker, [], anew=True) == [*lived, *lived]


def test_where_none_does_a_run_goes_on_where_the_one_before_has_ended(worker: Worker) -> None:
    lived = [*((actor, place) for place, actor in enumerate(REFERENCES)), ("driver", 2), ("driver", 0)]
    again = [*((actor, place) for place, actor in enumerate(REFERENCES, 1)), ("driver", 3), ("driver", 0)]
    assert kill_twice(worker, [], anew=False) == [*lived, *again]


def test_a_jvm_may_remember_where_the_query_calls_it_or_brings_a_library_whose_crashes_are_copied() -> None:
    plain, calls = profile_of(attempt_of([done(0)])), replace(profile_of(attempt_of([done(0)])), into_the_jvm=True)
    query, store = REQUEST.query, Store("orders", lambda _: None)
    library = replace(query, packages=("org.acme:table:1",))
    assert [keeps_in_the_jvm(one, plain) for one in (query, library, replace(query, jars=("a.jar",)))] == [0, 1, 1]
    assert [keeps_in_the_jvm(replace(one, stores=(store,)), plain) for one in (query, library)] == [0, 0]
    assert keeps_in_the_jvm(replace(query, stores=(store,)), calls)
