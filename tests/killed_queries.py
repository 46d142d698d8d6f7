"""Runs of queries on a real cluster in which somebody is killed, or frozen, at a point inside Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from streamproof.harness.contracts.cluster import Cluster
from streamproof.harness.contracts.query import Query
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import Address
from streamproof.harness.core.guarantees import exactly_once
from streamproof.harness.core.quantities import seconds
from streamproof.harness.core.schedule import Fault
from streamproof.harness.recording.records import Stamped, Started
from streamproof.harness.running.run import Finished, run_named
from streamproof.scenarios.workloads import words


def killed(
    folder: Path,
    cluster: Cluster,
    query: Query,
    *faults: Fault,
    batches: int = 6,
    references: Sequence[Stamped] = (),
    passed: Callable[[Address], None] | None = None,
) -> Finished:
    workload = words(events=batches * query.batch_events)
    scenario = Scenario(query, workload, faults, claims=[exactly_once()], deadline=seconds(300))
    named = Named("test", "test", "", scenario)
    return run_named(named, cluster, Registry(), seed=1, folder=folder, references=references, passed=passed)


def verdict(finished: Finished) -> str:
    (found,) = finished.judgement.verdicts
    return found.status.value


def addresses(finished: Finished) -> list[str | None]:
    """Where each fault struck, all of which bit."""
    struck = list(finished.history.struck())
    assert [one.bite.why_not for one in struck] == [""] * len(struck)
    return [one.address for one in struck]


def starts(finished: Finished) -> list[tuple[int, tuple[int, int] | None]]:
    records = (stamped.record for stamped in finished.history.records)
    return [
        (record.incarnation, record.restored)
        for record in records
        if isinstance(record, Started) and record.slice == "driver"
    ]
