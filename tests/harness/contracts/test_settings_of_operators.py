"""What a scheme says of some operators counts as what it says of all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamproof.faults.crash import crash
from streamproof.harness.contracts.registry import Registry
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.contracts.subject import SchemeSubject
from streamproof.harness.core.quantities import events
from streamproof.harness.core.topology import Role
from streamproof.harness.core.verdicts import Status
from streamproof.harness.exploration.bench import Bench
from streamproof.harness.protocol.manager import ActiveReplicas
from streamproof.harness.protocol.placement import Placement
from streamproof.reference_impls.active_replication import active_replication
from streamproof.reference_impls.active_standby import active_standby
from streamproof.reference_impls.passive_standby import passive_standby
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words


def mixed() -> SchemeSubject:
    """All replicas of the first operator are at work; those of the second stand by."""
    standby = active_standby(word_count()).setups[Role.OPERATOR]
    return replace(active_replication(word_count()), operators={"count": standby})


def test_where_some_replicas_stand_by_one_of_each_slice_is_active() -> None:
    assert active_replication(word_count()).active_replicas is ActiveReplicas.ALL
    assert not mixed().all_active
    assert mixed().active_replicas is ActiveReplicas.ONE


def test_settings_of_operators_that_no_slice_has_do_not_count() -> None:
    """Where every operator has settings of its own, those of the role are nobody's."""
    subject, standby = active_replication(word_count()), active_standby(word_count())
    own = standby.setups[Role.OPERATOR]
    assert replace(subject, operators=dict.fromkeys(subject.topology.stages, own)).active_replicas is ActiveReplicas.ONE


@pytest.mark.parametrize("crashed", ["count-0", "count-0/1"])
def test_one_that_stands_by_beside_others_that_are_active_takes_over(crashed: str) -> None:
    one = Bench(Scenario(mixed(), words(events=120, batch=10)), Registry(), seed=1)
    history = one.run((crash(crashed).after(events(40)),), 1)
    assert {verdict.status for verdict in one.judge(history)} == {Status.HOLDS}


def test_it_is_known_which_slices_have_their_checkpoints_at_their_peers() -> None:
    plain, kept = active_replication(word_count()), passive_standby(word_count())
    assert not plain.peers_keep_checkpoints
    assert kept.peers_keep_checkpoints == set(kept.topology.operator_slices)
    some = replace(plain, operators={"count": kept.setups[Role.OPERATOR]})
    assert some.peers_keep_checkpoints == {"count-0", "count-1"}


def test_where_replicas_stand_is_for_the_scheme_to_say() -> None:
    subject = replace(active_replication(word_count()), placed=Placement.CHAINED)
    nodes = ("node-0", "node-1", "node-2")
    assert subject.placement(nodes) == {
        "node-0": ("split-0", "count-1/1"),
        "node-1": ("split-0/1", "count-0"),
        "node-2": ("count-0/1", "count-1"),
    }
    assert subject.describe()["placed"] == "chained"
    assert "placed" not in active_replication(word_count()).describe()
