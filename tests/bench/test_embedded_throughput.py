"""Events per second that reach the counters on embedded Spark, recorder on, without protection and with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.harness.embedded.cluster import EmbeddedCluster
from streamproof.harness.judging.verdicts import Status
from streamproof.harness.quantities import events, seconds
from streamproof.harness.recording.records import Delivered, Taken
from streamproof.harness.registry import Named, Registry
from streamproof.harness.running import run_named
from streamproof.harness.scenario import Scenario
from streamproof.reference_impls.amnesia import amnesia
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import text

pytestmark = [pytest.mark.bench]

LINES = 120_000
SUBJECTS = {
    "without protection": amnesia(word_count()),
    "passive replication": passive_replication(word_count(), checkpoint_every=events(50_000), sink_filter=True),
}


@pytest.mark.parametrize("protection", SUBJECTS)
def test_events_per_second_that_reach_the_counters(protection: str, tmp_path: Path) -> None:
    scenario = Scenario(SUBJECTS[protection], text(events=LINES, batch=100), deadline=seconds(300))
    finished = run_named(
        Named("throughput", "bench", "", scenario), EmbeddedCluster(), Registry(), seed=1, folder=tmp_path / "run"
    )
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


def _rate(seen: list[tuple[int, int]]) -> str:
    span = (seen[-1][0] - seen[0][0]) / 1e6
    count = sum(amount for _, amount in seen)
    return f"{count:,} events in {span:.2f} s, {count / span:,.0f} events/s,"
