"""Events per second that reach the counters on embedded Spark, recorder on, without protection and with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.core.verdicts import Status
from streamproof.harness.core.workload import Workload
from streamproof.harness.recording.records import Delivered, Taken
from streamproof.harness.running.run import Finished, run_named
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.k_safe_grouping import k_safe_grouping
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.word_stream import word_stream
from streamproof.scenarios.workloads import single_words, text

pytestmark = [pytest.mark.bench]

LINES = 120_000
SUBJECTS = {
    "without protection": amnesia(word_count()),
    "passive replication": passive_replication(word_count(), checkpoint_every=events(50_000), sink_filter=True),
}


WORDS = 300_000
REPLICAS = {
    "k = 0": amnesia(word_stream()),
    "k = 1": k_safe_grouping(word_stream(), k=1, acknowledge_every=events(5_000)),
    "k = 2": k_safe_grouping(word_stream(), k=2, acknowledge_every=events(5_000)),
}
"""As in the evaluation of k-safety on Storm (section 5): 65,000 tuples/s at k = 1 beside 100,000 without."""


@pytest.mark.parametrize("protection", SUBJECTS)
def test_events_per_second_that_reach_the_counters(protection: str, tmp_path: Path) -> None:
    finished = _run(SUBJECTS[protection], text(events=LINES, batch=100), tmp_path / "run")
    reached = [
        (stamped.at, stamped.record.count)
        for stamped in finished.history.records
        if isinstance(stamped.record, Taken) and stamped.record.slice.startswith("count-")
    ]
    delivered = [
        (stamped.at, len(stamped.record.rows))
        for stamped in finished.history.records
        if isinstance(stamped.record, Delivered)
    ]
    print(f"\n{protection}: {_rate(reached)} reached the counters; {_rate(delivered)} were delivered to the recorder")
    assert finished.judgement.verdicts[0].status is Status.HOLDS


@pytest.mark.parametrize("k", REPLICAS)
def test_events_per_second_that_are_delivered_with_workers_beside_workers(k: str, tmp_path: Path) -> None:
    finished = _run(REPLICAS[k], single_words(vocabulary=2_000, events=WORDS, batch=100), tmp_path / "run")
    delivered = [
        (stamped.at, len(stamped.record.rows))
        for stamped in finished.history.records
        if isinstance(stamped.record, Delivered)
    ]
    print(f"\n{k}: {_rate(delivered)} were delivered to the recorder")
    assert finished.judgement.verdicts[0].status is Status.HOLDS


def _run(subject: SchemeSubject, workload: Workload, folder: Path) -> Finished:
    scenario = Scenario(subject, workload, deadline=seconds(300))
    return run_named(Named("throughput", "bench", "", scenario), EmbeddedCluster(), Registry(), seed=1, folder=folder)


def _rate(seen: list[tuple[int, int]]) -> str:
    span = (seen[-1][0] - seen[0][0]) / 1e6
    count = sum(amount for _, amount in seen)
    return f"{count:,} events in {span:.2f} s, {count / span:,.0f} events/s,"
