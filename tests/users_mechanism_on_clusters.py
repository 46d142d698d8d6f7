"""A mechanism of a user's own on a real cluster, which dies at its own crash point."""

from __future__ import annotations

from pathlib import Path

from mechanisms_of_users import hurrying
from streamproof.faults.crash import crash
from streamproof.harness.contracts.cluster import Cluster
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import Moment, Point, Side
from streamproof.harness.core.quantities import events
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.running.run import run_named
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered

PLACE = "hurry acknowledged@2"


def dies_where_the_mechanism_says(cluster: Cluster, folder: Path, *, careful: bool) -> None:
    """One that acknowledges what no checkpoint covers loses input, and one that only says so loses nothing."""
    subject = hurrying(passive_replication(trace(), checkpoint_every=events(200)), events(50), careful=careful)
    fault = crash("relay-0").at(Moment(Point.MECHANISM, Side.BEFORE, PLACE, "relay-0"))
    named = Named("test", "test", "", Scenario(subject, numbered(events=600, batch=10, rate=600), [fault]))
    finished = run_named(named, cluster, Registry(), seed=1, folder=folder)
    (struck,) = finished.history.struck()
    assert struck.bite.bit, struck.bite.why_not
    assert struck.address is not None
    assert PLACE in struck.address
    (verdict,) = finished.judgement.verdicts
    found = {tally.anomaly for tally in verdict.anomalies}
    assert (verdict.status, found) == ((Status.HOLDS, set()) if careful else (Status.VIOLATED, {Anomaly.LOST_INPUT}))
