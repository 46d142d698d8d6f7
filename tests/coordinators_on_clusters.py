"""A coordinator of a user's on a real cluster, which dies at its own crash point, or loses a slice."""

from __future__ import annotations

from pathlib import Path

from coordinators_of_users import NAME, cutting, together
from streamproof.faults.crash import crash
from streamproof.harness.contracts.cluster import Cluster
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Moment, Point, Side
from streamproof.harness.core.quantities import events
from streamproof.harness.core.schedule import Fault
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.records import Decided, Started
from streamproof.harness.running.run import Finished, run_named
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered

PLACE = f"{NAME} gathered@2"


def _run(subject: SchemeSubject, fault: Fault, cluster: Cluster, folder: Path) -> Finished:
    named = Named("test", "test", "", Scenario(subject, numbered(events=600, batch=10, rate=200), [fault]))
    finished = run_named(named, cluster, Registry(), seed=1, folder=folder)
    (struck,) = finished.history.struck()
    assert struck.bite.bit, struck.bite.why_not
    (verdict,) = finished.judgement.verdicts
    assert verdict.status is Status.HOLDS, verdict
    return finished


def dies_while_it_gathers(cluster: Cluster, folder: Path, kind: str) -> None:
    """Every part of a cut is durable, and it is not on record that the cut is whole."""
    subject = cutting(trace(), every=50_000) if kind == "cutting" else together(trace(), epoch=50)
    fault = crash(NAME).at(Moment(Point.MECHANISM, Side.BEFORE, PLACE, NAME))
    finished = _run(subject, fault, cluster, folder)
    (struck,) = finished.history.struck()
    assert struck.address is not None
    assert PLACE in struck.address
    decided = list(finished.history.each(Decided))
    assert [record.incarnation for record in decided if record.what == "started"] == [1, 2]
    cuts = [record.details["cut"] for record in decided if record.what == "whole"]
    assert cuts == list(range(1, len(cuts) + 1))
    assert len(cuts) >= 2


def dies_beside_its_slices(cluster: Cluster, folder: Path) -> None:
    """One slice dies, and all start from the same cut."""
    finished = _run(together(trace(), epoch=50), crash("trace-1").after(events(200)), cluster, folder)
    decided = list(finished.history.each(Decided))
    restarts = [record.details["cut"] for record in decided if record.what == "restart"]
    again = [record for record in finished.history.each(Started) if record.incarnation == 2]
    assert {record.slice for record in again} == set(trace().operator_slices)
    assert {record.restored[1] for record in again if record.restored is not None} == {restarts[0]}
