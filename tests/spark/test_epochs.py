"""Slices that wait for one another once an epoch, on embedded Spark, and a crash."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from streamproof.harness.contracts.registry import Registry
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.records import Closed
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.reaping import labelled_processes

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.mark.parametrize(
    "name",
    ["tumbling-count.epoch-based-processing", "eager-jumping-join.epoch-merge"],
)
def test_a_crash_within_an_epoch_leaves_what_the_scheme_claims(name: str, tmp_path: Path) -> None:
    named = Registry().scenario(name)
    scenario = replace(named.scenario, workload=replace(named.scenario.workload, rate=400))
    finished = run_named(
        replace(named, scenario=scenario), EmbeddedCluster(), Registry(), seed=1, folder=tmp_path / "run"
    )
    (struck,) = finished.history.struck()
    assert struck.bite.bit, struck.bite.why_not
    verdicts = {str(v.guarantee): (v.status, v.reason or v.summary) for v in finished.judgement.verdicts}
    assert {status for status, _ in verdicts.values()} == {Status.HOLDS}, verdicts
    closed = {(r.slice, r.incarnation) for s in finished.history.of(Closed) if isinstance(r := s.record, Closed)}
    assert len({incarnation for _, incarnation in closed}) > 1
    assert labelled_processes(finished.description.run) == []
