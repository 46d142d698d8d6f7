"""Every scheme on embedded Spark, under crashes at exact addresses that the simulator names."""

from __future__ import annotations

from pathlib import Path

import pytest

from every_scheme import CRASHES, SUBJECTS, addresses_of, scenario_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import Moment
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.history import FaultMissed, History
from streamproof.harness.recording.records import Taken
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.harness.worlds.embedded.reaping import labelled_processes

pytestmark = pytest.mark.spark

IN_EVERY_RUN = ("passive-standby-cold",)
"""The schemes that no other test runs on a real cluster, here or in containers."""


def timed_out(history: History) -> bool:
    """Whether an incarnation was given some input again that it had taken of the same source."""
    taken: dict[tuple[str, int, str, int], int] = {}
    for stamped in history.records:
        one = stamped.record
        if isinstance(one, Taken):
            who = one.slice, one.incarnation, one.upstream, one.upstream_incarnation
            if one.upstream.startswith("source") and one.first <= taken.get(who, 0):
                return True
            taken[who] = max(one.last, taken.get(who, 0))
    return False


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

    if any(isinstance(entry, FaultMissed) for entry in finished.history.timeline) and timed_out(finished.history):
        pytest.skip("input was replayed before the crash, since the machine was busy: its batches are cut otherwise")
    (struck,) = finished.history.struck()
    assert (struck.address, struck.bite.bit) == (str(address), True), struck.bite.why_not
    verdicts = {str(v.guarantee): (v.status, v.reason or v.summary) for v in finished.judgement.verdicts}
    assert {status for status, _ in verdicts.values()} == {Status.HOLDS}, verdicts
    assert labelled_processes(finished.description.run) == []
