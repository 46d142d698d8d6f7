"""Every scheme in containers: a crash at an exact address, a partition, a pause that makes a zombie, two nodes at
once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from every_scheme import SUBJECTS, addresses_of
from streamproof.faults.crash import crash
from streamproof.faults.partition import partition
from streamproof.faults.pause import pause
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Moment
from streamproof.harness.core.quantities import events, seconds
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.verdicts import Status
from streamproof.harness.judging.tolerance import Tolerance
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.docker.cluster import DockerCluster
from streamproof.scenarios.workloads import numbered

pytestmark = pytest.mark.docker


def _crash(scheme: str) -> Fault:
    address = addresses_of(scheme)[0]
    return crash(address.name).at(Moment.exactly(address))


def _last(scheme: str) -> str:
    """A slice that feeds the sink."""
    return next(up for up, down in SUBJECTS[scheme].links if down == "sink-0")


FAULTS: dict[str, Callable[[str], Fault]] = {
    "crash": _crash,
    "partition": lambda scheme: partition(_last(scheme), "sink").after(seconds(0.8)).lasting(seconds(1)),
    "zombie": lambda scheme: pause(_last(scheme)).after(events(200)).lasting(seconds(4)),
    "correlated-crash": lambda scheme: crash("node-0", "node-1").after(seconds(0.8)),
}
IN_EVERY_RUN = (("active-replication", "zombie"),)


@pytest.mark.parametrize(
    ("scheme", "fault"),
    [
        pytest.param(scheme, fault, marks=[] if (scheme, fault) in IN_EVERY_RUN else [pytest.mark.long])
        for scheme in SUBJECTS
        for fault in FAULTS
    ],
)
def test_a_scheme_keeps_its_word(scheme: str, fault: str, tmp_path: Path) -> None:
    """Two of three nodes hold every replica of some slice: what needs one in sync claims nothing then."""
    subject = SUBJECTS[scheme]
    scenario = Scenario(subject, numbered(events=2_400, batch=10, rate=800), [FAULTS[fault](scheme)])
    finished = run_named(
        Named("test", "test", "", scenario), DockerCluster(), Registry(), seed=1, folder=tmp_path / "run"
    )

    assert [struck.bite.why_not for struck in finished.history.struck() if not struck.bite.bit] == []
    verdicts = {str(v.guarantee): (v.status, v.reason or v.summary) for v in finished.judgement.verdicts}
    beyond = fault == "correlated-crash" and _needs_one_in_sync(subject)
    assert {status for status, _ in verdicts.values()} == {Status.UNKNOWN if beyond else Status.HOLDS}, verdicts


def _needs_one_in_sync(subject: SchemeSubject) -> bool:
    return any(claim.tolerates is Tolerance.ONE_IN_SYNC for claim in subject.claims)
