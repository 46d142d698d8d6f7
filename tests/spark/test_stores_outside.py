"""Sinks that write to real stores outside, certified by kills at their messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outside_sinks import in_one_transaction, in_two_transactions, postgres_query
from postgres_server import postgres_server, why_no_postgres
from streamproof.harness.addresses import Point, Side
from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign import Certified, certify
from streamproof.harness.certifying.plan import Victim
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.embedded.cluster import EmbeddedCluster
from streamproof.harness.judging.verdicts import Status
from streamproof.harness.query import Query
from streamproof.harness.registry import Registry
from streamproof.scenarios.workloads import words

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    if reason := why_no_postgres():
        pytest.skip(reason)
    with postgres_server() as port:
        yield port


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


def test_its_twin_holds(port: int, tmp_path: Path) -> None:
    found = certified(postgres_query(in_one_transaction, port), tmp_path, Victim.DRIVER)
    assert {verdict.status for verdict in found.certificate.verdicts} == {Status.HOLDS}, found.certificate.verdicts
