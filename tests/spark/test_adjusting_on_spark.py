"""Settings that change while a run goes on, on Spark: with the loss of a replica, and of who changes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.addresses import Moment, Point, Side
from streamproof.harness.core.quantities import events
from streamproof.harness.core.verdicts import Status
from streamproof.harness.recording.records import Adopted, Changed
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.embedded.cluster import EmbeddedCluster
from streamproof.reference_impls.turns_by_load import turns_by_load
from streamproof.scenarios.order import order
from streamproof.scenarios.workloads import numbered

pytestmark = pytest.mark.spark


PLACE = "adjuster change chain-1@1"


@pytest.mark.long
def test_replicas_and_who_joins_them_take_changes_at_one_place_though_the_adjuster_dies_too(tmp_path: Path) -> None:
    """Where it has decided on a change, and that is not durable; with the slices on its node."""
    scenario = Scenario(
        turns_by_load(order(), acknowledge_every=events(50), consider_every=events(20)),
        numbered(events=600, batch=10, keys=6, rate=200),
        [crash("adjuster").at(Moment(Point.MECHANISM, Side.BEFORE, PLACE, "adjuster"))],
    )
    finished = run_named(
        Named("test", "test", "", scenario), EmbeddedCluster(), Registry(), seed=1, folder=tmp_path / "run"
    )
    (struck,) = finished.history.struck()
    assert struck.bite.bit, struck.bite.why_not
    assert len(struck.bite.actors) > 1
    (verdict,) = finished.judgement.verdicts
    assert verdict.status is Status.HOLDS, verdict
    since = {(one.member, one.number): one.since for one in finished.history.each(Changed)}
    adopted = list(finished.history.each(Adopted))
    assert all(one.position == since[one.slice, one.number] for one in adopted)
    assert len({one.incarnation for one in adopted if one.slice == "chain-1"}) == 2
    assert 2 in {one.incarnation for one in finished.history.each(Changed)}
