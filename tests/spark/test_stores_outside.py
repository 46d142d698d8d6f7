"""Sinks that write to real stores outside, certified by kills at their messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from killed_queries import addresses, killed, starts, verdict
from outside_sinks import (
    adding_to_counts,
    counting_by_batch,
    from_tasks,
    in_one_transaction,
    in_two_transactions,
    postgres_query,
    read_counts,
    retrying_with_key,
    retrying_without_key,
    web_query,
)
from postgres_server import postgres_server, why_no_postgres
from streamproof.faults.crash import crash
from streamproof.faults.executor_crash import executor_crash
from streamproof.faults.lost_answer import lost_answer
from streamproof.harness.addresses import Moment, Point, Side
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign import Certified, certify
from streamproof.harness.certifying.plan import Victim
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.embedded.cluster import EmbeddedCluster
from streamproof.harness.embedded.reaping import labelled_processes
from streamproof.harness.judging.verdicts import Status
from streamproof.harness.query import Query
from streamproof.harness.registry import Registry
from streamproof.harness.running import Finished
from streamproof.harness.schedule import Fault
from streamproof.scenarios.workloads import words
from web_store import web_store

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def web() -> Iterator[int]:
    with web_store() as port:
        yield port


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    if reason := why_no_postgres():
        pytest.skip(reason)
    with postgres_server() as port:
        yield port


HOUR = Budget(minutes=60, kills=0)


def certified(query: Query, folder: Path, *victims: Victim, budget: Budget | None = None) -> Certified:
    return certify(
        query,
        (),
        every_crash_point(*victims, recovering=False, split_brain=False),
        workload=words(events=query.batch_events),
        cluster=EmbeddedCluster(),
        registry=Registry(),
        budget=budget or Budget(minutes=6, kills=0),
        folder=folder / "certificate",
    )


def test_a_sink_that_commits_in_two_transactions_is_refuted_between_them(port: int, tmp_path: Path) -> None:
    found = certified(postgres_query(in_two_transactions, port), tmp_path, Victim.DRIVER)
    verdicts = {verdict.claim: verdict for verdict in found.certificate.verdicts}
    assert verdicts["exactly-once"].status is Status.VIOLATED, verdicts
    shown = found.certificate.counterexample
    assert shown is not None
    (crash,) = shown.crashes
    assert crash.point is Point.MESSAGE
    assert (crash.side, crash.name) in BETWEEN
    assert crash.name in str(crash)


BETWEEN = {
    (Side.AFTER, "postgres COMMIT#1"),
    (Side.BEFORE, "postgres INSERT lines#1"),
    (Side.AFTER, "postgres INSERT lines#1"),
    (Side.BEFORE, "postgres COMMIT#2"),
}


def test_its_twin_holds_wherever_it_dies_between_messages(port: int, tmp_path: Path) -> None:
    moments = [
        message("0/postgres COMMIT#1", "driver", Side.BEFORE),
        message("1/postgres INSERT batches#1", "driver"),
        message("2/postgres INSERT lines#1", "driver", Side.BEFORE),
        message("3/postgres COMMIT#1", "driver"),
    ]
    faults = [crash("driver").at(moment) for moment in moments]
    _, found = under(tmp_path, postgres_query(in_one_transaction, port), *faults)
    assert found == "HOLDS"


@pytest.mark.long
def test_its_twin_is_certified(port: int, tmp_path: Path) -> None:
    found = certified(postgres_query(in_one_transaction, port), tmp_path, Victim.DRIVER, budget=HOUR)
    assert {verdict.status for verdict in found.certificate.verdicts} == {Status.HOLDS}, found.certificate.verdicts


def under(folder: Path, query: Query, *faults: Fault) -> tuple[Finished, str]:
    finished = killed(folder / "run", EmbeddedCluster(), query, *faults, batches=2)
    assert len(addresses(finished)) == len(faults)
    assert labelled_processes(finished.description.run) == []
    return finished, verdict(finished)


def message(key: str, actor: str, side: Side = Side.AFTER) -> Moment:
    return Moment(Point.MESSAGE, side, key, actor)


@pytest.mark.parametrize(("sink", "comes_to"), [(retrying_without_key, "VIOLATED"), (retrying_with_key, "HOLDS")])
def test_an_answer_is_lost_and_the_sink_that_asks_again_without_a_key_is_refuted(
    sink: Callable[..., None], comes_to: str, web: int, tmp_path: Path
) -> None:
    fault = lost_answer("driver").at(message("1/web POST /orders#1", "driver"))
    finished, found = under(tmp_path, web_query(sink, web), fault)
    assert found == comes_to
    (struck,) = finished.history.struck()
    assert struck.bite.proof is not None
    assert struck.bite.proof.what.startswith("bytes of an answer")
    # It lived on.
    assert len(starts(finished)) == 1


@pytest.mark.parametrize(("sink", "comes_to"), [(adding_to_counts, "VIOLATED"), (counting_by_batch, "HOLDS")])
def test_what_adds_is_refuted_by_a_death_after_its_commit(
    sink: Callable[..., None], comes_to: str, port: int, tmp_path: Path
) -> None:
    fault = crash("driver").at(message("1/postgres COMMIT#1", "driver"))
    _, found = under(tmp_path, postgres_query(sink, port, read_counts, ("word",)), fault)
    assert found == comes_to


@pytest.mark.parametrize(("side", "comes_to"), [(Side.BEFORE, "HOLDS"), (Side.AFTER, "VIOLATED")])
def test_what_a_task_sends_is_lost_with_its_executor_before_and_is_done_after(
    side: Side, comes_to: str, port: int, tmp_path: Path
) -> None:
    fault = executor_crash("task").at(message("1/postgres INSERT lines#1", "task", side))
    _, found = under(tmp_path, postgres_query(from_tasks, port), fault)
    assert found == comes_to
