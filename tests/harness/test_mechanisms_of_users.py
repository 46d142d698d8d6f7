"""A mechanism that the package does not know is put to work like its own, and can be killed in the middle of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mechanisms_of_users import Hurried, Hurry, hurrying
from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Named, Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.addresses import Moment, Point
from streamproof.harness.core.quantities import events
from streamproof.harness.core.verdicts import Anomaly, Status
from streamproof.harness.exploration.census import Reached, census
from streamproof.harness.protocol.messages import Checkpoint, CheckpointId, decoder, encode
from streamproof.harness.protocol.stores import FileStore
from streamproof.harness.running.run import run_named
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.reference_impls.mechanisms.tracking import Tracked
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.reference_impls.source_replay import source_replay
from streamproof.scenarios.stateless import stateless
from streamproof.scenarios.trace import trace
from streamproof.scenarios.workloads import numbered


def subject(*, careful: bool = False) -> SchemeSubject:
    return hurrying(passive_replication(trace(), checkpoint_every=events(40)), events(15), careful=careful)


def own_points(one: SchemeSubject) -> list[Reached]:
    passed = census(Scenario(one, numbered(events=120, batch=10)), Registry().faults, seed=1)
    return [r for r in passed if r.address.point is Point.MECHANISM and r.address.name in one.actors]


def judged(one: SchemeSubject, reached: Reached | None = None) -> dict[Status, set[Anomaly]]:
    """The verdict on its claim, with a crash at one address."""
    faults = [] if reached is None else [crash(reached.address.name).at(Moment.exactly(reached.address))]
    named = Named("test", "test", "", Scenario(one, numbered(events=120, batch=10), faults))
    finished = run_named(named, SimulatedCluster(), Registry(), seed=1, folder=None)
    (verdict,) = finished.judgement.verdicts
    assert all(struck.bite.bit for struck in finished.history.struck())
    return {verdict.status: {evidence.anomaly for evidence in verdict.anomalies}}


def test_a_crash_at_its_own_point_shows_what_it_breaks() -> None:
    hasty = subject()
    assert judged(hasty) == {Status.HOLDS: set()}
    found = [judged(hasty, reached) for reached in own_points(hasty)]
    assert {Status.VIOLATED: {Anomaly.LOST_INPUT}} in found


def test_one_that_breaks_nothing_holds_at_each_of_its_points() -> None:
    careful = subject(careful=True)
    passed = own_points(careful)
    assert {reached.address.key for reached in passed if reached.address.name == "relay-0"} >= {
        "hurry acknowledged@1",
        "hurry acknowledged@2",
    }
    assert all(judged(careful, reached) == {Status.HOLDS: set()} for reached in passed)


def test_its_messages_go_over_a_network_and_a_receiver_takes_them_from_nobody_else() -> None:
    message = Hurried(2, 7)
    assert decoder([Hurried]).decode(encode(message)) == message
    with pytest.raises(msgspec.ValidationError):
        decoder().decode(encode(message))
    specs = {spec.slice_id: spec for spec in subject().specs}
    relay = specs["relay-0"]
    up, down = relay.upstream[0], relay.downstream[0]
    assert specs[up].may_send("relay-0", message)
    assert not specs[down].may_send("relay-0", message)
    assert not relay.may_send("relay-0", message)


def test_what_goes_aside_goes_to_whom_its_mechanism_names() -> None:
    specs = {spec.slice_id: spec for spec in source_replay(stateless()).specs}
    told = Tracked(1, [(1, 1)])
    assert specs["sink-0"].may_send("source-0", told)
    assert not specs["sink-0"].may_send("tag-0", told)
    assert not specs["source-0"].may_send("sink-0", told)


def test_its_part_of_a_checkpoint_comes_back_out_of_a_store(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "checkpoints")
    store.fence("count-0", 1)
    assert store.write(Checkpoint("count-0", CheckpointId(1, 1), {"hurry": Hurry(3, {"split-0": 2})}))
    found = store.fence("count-0", 2)
    assert found is not None
    assert found.part("hurry", Hurry) == Hurry(3, {"split-0": 2})
