"""Sinks on nodes that crash: with transactions it is not seen; without, outputs are lost or come twice."""

from __future__ import annotations

from dataclasses import replace

from ...faults.crash import crash
from ...harness.contracts.claims import Claim
from ...harness.contracts.scenario import Scenario
from ...harness.contracts.subject import SchemeSubject
from ...harness.core.guarantees import at_least_once, exactly_once_output, precise_recovery
from ...harness.core.library import Entry
from ...harness.core.quantities import events
from ...harness.core.schedule import checkpoint
from ...harness.core.topology import Role
from ...harness.protocol.spec import Setup
from ...reference_impls.mechanisms.acknowledging import AcknowledgeEvery
from ...reference_impls.mechanisms.sink_delivery import DeliverAtOnce
from ...reference_impls.passive_replication import passive_replication
from ...reference_impls.transactional_sink import transactional_sink
from ..trace import trace
from ..word_count import word_count
from ..workloads import numbered, text


def sink_dies_after_commit() -> Scenario:
    """The sink's node dies when its third transaction is durable, and before it has heard so: nothing comes twice."""
    return Scenario(
        subject=transactional_sink(word_count(), checkpoint_every=events(500)),
        workload=text(events=2_000, batch=50, rate=2_000),
        faults=[crash("sink-0").at(checkpoint(3).durable)],
        claims=[precise_recovery(), exactly_once_output()],
    )


def sink_dies_twice() -> Scenario:
    """Transactions of the trace topology: the sink dies with half a transaction, then while it takes that again."""
    return Scenario(
        subject=transactional_sink(trace(), checkpoint_every=events(100)),
        workload=numbered(events=600, batch=10, rate=600),
        faults=[crash("sink-0").after(events(250)), crash("sink-0").after(events(300))],
        claims=[precise_recovery(), exactly_once_output()],
    )


def sink_remembers_nothing() -> Scenario:
    """A sink that delivers at once and remembers nothing: what is sent again after its crash is delivered again."""
    return Scenario(
        subject=_delivering_at_once(),
        workload=numbered(events=600, batch=10, rate=600),
        faults=[crash("sink-0").after(events(250))],
        claims=[at_least_once()],
        breaks=[exactly_once_output()],
    )


def _delivering_at_once() -> SchemeSubject:
    passive = passive_replication(trace(), checkpoint_every=events(100))
    sink = Setup((DeliverAtOnce(), AcknowledgeEvery(events(100))))
    claim = Claim(at_least_once(), needs=passive.claims[0].needs)
    return replace(passive, setups={**passive.setups, Role.SINK: sink}, claims=(claim,))


SCENARIOS = (
    Entry("word-count.transactional-sink", sink_dies_after_commit),
    Entry("trace.transactional-sink", sink_dies_twice),
    Entry("trace.sink-at-once", sink_remembers_nothing),
)
