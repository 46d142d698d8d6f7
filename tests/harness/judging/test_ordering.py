"""What should have come of a run whose order matters, and what an execution without failures cannot say of it."""

from __future__ import annotations

import pytest

from simulation import history_of
from streamproof.faults.crash import crash
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.quantities import events
from streamproof.harness.core.topology import Edge, Stage, Topology
from streamproof.harness.recording.history import History
from streamproof.harness.recording.records import Delivered
from streamproof.reference_impls.amnesia import amnesia
from streamproof.scenarios.equi_join import SIDES, EquiJoin
from streamproof.scenarios.stateless import Forward
from streamproof.scenarios.workloads import numbered


def delivered(history: History) -> int:
    return sum(len(record.rows) for record in history.each(Delivered))


@pytest.mark.parametrize("seed", range(3))
def test_all_that_a_relay_behind_a_join_loses_is_missed(seed: int) -> None:
    """Which input a pair is made of is for the order to say, so that another execution makes it of the other one."""
    topology = Topology(
        "behind-a-join",
        {"join": Stage(EquiJoin()), "relay": Stage(Forward())},
        (*(Edge(side, "join") for side in SIDES), Edge("join", "relay"), Edge("relay", "sink")),
        sources=SIDES,
    )
    subject, workload = amnesia(topology), numbered(events=48, batch=4)
    whole, struck = (
        history_of(Scenario(subject, workload, claims=[]), faults, seed=seed)
        for faults in ((), (crash("relay-0").after(events(6)),))
    )
    lost = delivered(whole) - delivered(struck)
    assert lost > 0
    assert subject.collate(struck).lost_output.count == lost
    assert subject.collate(whole).lost_output.count == 0
