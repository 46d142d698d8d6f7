"""What is on its way to an incarnation when its node dies is for nobody: its successor, on the same node and under the
same name, never receives it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamproof.faults import FAULTS
from streamproof.faults.crash import crash
from streamproof.harness.contracts.cluster import Run
from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.quantities import ms
from streamproof.harness.core.topology import Topology
from streamproof.harness.recording.history import FaultStruck, History
from streamproof.harness.recording.recorder import MemoryRecorder
from streamproof.harness.recording.records import Offered, Opened, Taken
from streamproof.harness.worlds.simulated.cluster import SimulatedCluster
from streamproof.harness.worlds.simulated.options import SimulationOptions
from streamproof.reference_impls.amnesia import amnesia
from streamproof.scenarios.stateless import stateless
from streamproof.scenarios.workloads import numbered

BACK_AT_ONCE = SimulationOptions(
    nodes=1,
    offer_interval=1_000,
    link_delay=(10_000, 10_001),
    detection=0,
    redeployment=100,
    restart_node_after=100,
)
"""A node that is back long before what was sent to it arrives."""


def history_of(topology: Topology, at: int) -> History:
    recorder = MemoryRecorder()
    fault = crash(topology.operator_slices[0]).after(ms(at))
    scenario = Scenario(amnesia(topology), numbered(events=120, batch=2), [fault])
    run = Run("test", scenario, 1, recorder, {kind.name: kind for kind in FAULTS}, None)
    with SimulatedCluster(BACK_AT_ONCE).deploy(run) as deployment:
        deployment.prepare()
        deployment.start()
        assert deployment.drained(scenario.deadline)
        deployment.stop()
    return recorder.history()


def taken_by(history: History, slice_id: str, incarnation: int) -> Iterator[int]:
    for stamped in history.records:
        record = stamped.record
        if isinstance(record, Taken) and (record.slice, record.incarnation) == (slice_id, incarnation):
            yield from range(record.first, record.last + 1)


@pytest.mark.parametrize("at", [25, 40])
def test_what_was_sent_to_an_incarnation_that_died_reaches_no_other(at: int) -> None:
    topology = stateless()
    first = topology.operator_slices[0]
    history = history_of(topology, at)
    assert [entry.bite.bit for entry in history.timeline if isinstance(entry, FaultStruck)] == [True]
    opened = next(
        place
        for place, stamped in enumerate(history.records)
        if isinstance(stamped.record, Opened)
        and (stamped.record.downstream, stamped.record.downstream_incarnation) == (first, 2)
    )
    sent_before = {
        event.seq
        for stamped in history.records[:opened]
        if isinstance(stamped.record, Offered)
        for event in stamped.record.events
    }
    taken_before, taken_after = set(taken_by(history, first, 1)), set(taken_by(history, first, 2))
    assert sent_before - taken_before, "something was on its way"
    assert taken_after
    assert not taken_after & sent_before
