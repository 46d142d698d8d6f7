"""Every scheme on embedded Spark, under crashes at exact addresses that the simulator names."""

from __future__ import annotations

from pathlib import Path

import pytest

from every_scheme import CRASHES, SUBJECTS, addresses_of, scenario_of
from streamproof.faults.crash import crash
from streamproof.harness.addresses import Moment
from streamproof.harness.embedded.cluster import EmbeddedCluster
from streamproof.harness.embedded.reaping import labelled_processes
from streamproof.harness.judging.verdicts import Status
from streamproof.harness.registry import Named, Registry
from streamproof.harness.running import run_named
from streamproof.harness.scenario import Scenario

pytestmark = pytest.mark.spark

IN_EVERY_RUN = ("deployed", "upstream-backup", "passive-standby-cold", "source-replay")
"""The schemes that no other test runs on a real cluster, here or in containers."""


@pytest.mark.parametrize(
    ("scheme", "number"),
    [
        pytest.param(scheme, number, marks=[] if scheme in IN_EVERY_RUN and not number else [pytest.mark.long])
        for scheme in SUBJECTS
        for number in range(CRASHES)
    ],
)
def test_a_crash_at_an_exact_address_leaves_what_the_scheme_claims(scheme: str, number: int, tmp_path: Path) -> None:
    address = addresses_of(scheme)[number]
    scenario = scenario_of(scheme)
    fault = crash(address.name).at(Moment.exactly(address))
    named = Named("test", "test", "", Scenario(scenario.subject, scenario.workload, [fault]))
    finished = run_named(named, EmbeddedCluster(), Registry(), seed=1, folder=tmp_path / "run")

    (struck,) = finished.history.struck()
    assert (struck.address, struck.bite.bit) == (str(address), True), struck.bite.why_not
    verdicts = {str(v.guarantee): (v.status, v.reason or v.summary) for v in finished.judgement.verdicts}
    assert {status for status, _ in verdicts.values()} == {Status.HOLDS}, verdicts
    assert labelled_processes(finished.description.run) == []
