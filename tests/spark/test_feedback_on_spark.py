"""A topology that leads back, on embedded Spark: it comes to its end, and a crash in the cycle is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.quantities import events
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.history import Drained
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.reference_impls.gap import gap
from streamproof.scenarios.logistic_regression import logistic_regression
from streamproof.scenarios.skewed_streams import points

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_a_worker_that_is_fed_back_to_crashes_and_the_cycle_comes_to_its_end(tmp_path: Path) -> None:
    subject = gap(logistic_regression(every=20), checkpoint_every=events(100))
    scenario = Scenario(subject, points(events=2_000, rate=1_000), [crash("local-0").after(events(300))])
    finished = run_named(
        Named("test", "test", "", scenario), EmbeddedCluster(), Registry(), seed=1, folder=tmp_path / "run"
    )
    (struck,) = finished.history.struck()
    assert struck.bite.bit, struck.bite.why_not
    assert any(isinstance(entry, Drained) for entry in finished.history.timeline)
    verdicts = {str(v.guarantee): (v.status, v.reason or v.summary) for v in finished.judgement.verdicts}
    assert {status for status, _ in verdicts.values()} == {Status.HOLDS}, verdicts
    rerun = finished.judgement.collation.reexecution
    assert rerun is not None
    assert not rerun.unexplained
    # What was fed back was taken before the crash, and after it.
    assert [any(len(d) > 2 for d in one.took) for _, one in sorted(rerun.reruns["local-0"].items())] == [True, True]
