"""A sink that may lose a little, on embedded Spark: what a crash takes of it is measured, and judged again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamproof.harness.certifying.budget import Budget
from streamproof.harness.certifying.campaign import certify
from streamproof.harness.certifying.plan import How, Victim
from streamproof.harness.certifying.planning import every_crash_point
from streamproof.harness.certifying.rejudging import judge_certificate
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.result_bounds import bounded_error_of_result
from streamproof.harness.core.verdicts import Status
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.scenarios.subjects import loses_its_tail
from streamproof.scenarios.workloads import words

pytestmark = [pytest.mark.spark, pytest.mark.long]

FIFTY, TEN = bounded_error_of_result(rows=50), bounded_error_of_result(rows=10)


def test_a_sink_that_drops_the_last_50_rows_holds_at_50_and_is_refuted_at_10(tmp_path: Path) -> None:
    registry = Registry()
    found = certify(
        replace(loses_its_tail, batch_events=60),
        (FIFTY, TEN),
        every_crash_point(Victim.DRIVER, recovering=False, split_brain=False),
        workload=words(events=60),
        cluster=EmbeddedCluster(),
        registry=registry,
        budget=Budget(kills=0, minutes=30),
        folder=tmp_path / "certificate",
    )
    fifty, ten = found.certificate.verdicts[:2]
    assert (fifty.status, ten.status) == (Status.HOLDS, Status.VIOLATED), (fifty.reasons, ten.reasons)
    assert fifty.errors is not None
    assert (fifty.errors.largest, fifty.errors.unmeasured) == (50, 0)
    assert 0 < fifty.errors.without < fifty.errors.crashes
    shown = found.certificate.counterexample
    assert shown is not None
    assert (shown.claim, shown.how, shown.anomaly) == (str(TEN), How.KILL, "bound-exceeded")
    assert "50 rows" in (found.folder / "certificate.md").read_text()
    assert judge_certificate(found.folder, registry.oracles).differences == ()
