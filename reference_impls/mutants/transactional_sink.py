"""The mutants of the transactional sink. A new one is an entry here."""

from __future__ import annotations

from ...harness.contracts.subject import SchemeSubject
from ...harness.core.quantities import Events, events
from ...harness.core.topology import Role, Topology
from ...harness.core.verdicts import Anomaly
from ..mechanisms.acknowledging import AcknowledgeEvery
from ..mechanisms.duplicate_filter import DuplicateFilter
from ..mechanisms.sink_delivery import DeliverAtOnce
from ..transactional_sink import transactional_sink
from .broken_transactions import Tear, TornTransactions, delivering, torn
from .mutant import BrokenScheme, unfenced, without

_ON = "trace.transactional-sink"


def _transactional(topology: Topology, every: Events) -> SchemeSubject:
    return transactional_sink(topology, checkpoint_every=every)


MUTANTS = (
    BrokenScheme(
        "transactional-sink-delivering-at-once",
        "a sink that can crash delivers what it remembers to have delivered, and nothing else",
        Anomaly.DUPLICATE_OUTPUT,
        delivering(_transactional, DeliverAtOnce(), AcknowledgeEvery(events(8))),
        on=_ON,
    ),
    BrokenScheme(
        "transactional-sink-saving-its-vector-first",
        "outputs are written in one step with the vector that says so, not after it",
        Anomaly.LOST_INPUT,
        torn(_transactional, Tear.VECTOR_FIRST),
        on=_ON,
    ),
    BrokenScheme(
        "transactional-sink-delivering-first",
        "outputs are written in one step with the vector that says so, not before it",
        Anomaly.DUPLICATE_OUTPUT,
        torn(_transactional, Tear.OUTPUTS_FIRST),
        on=_ON,
    ),
    BrokenScheme(
        "transactional-sink-with-one-channel-less",
        "the vector of a transaction has all channels of its sink",
        Anomaly.DUPLICATE_OUTPUT,
        torn(_transactional, Tear.ONE_CHANNEL_LESS),
        on=_ON,
    ),
    BrokenScheme(
        "transactional-sink-acknowledging-before-commit",
        "upstream trims its log only by what a durable transaction holds",
        Anomaly.LOST_INPUT,
        torn(_transactional, Tear.ACKNOWLEDGED_EARLY),
        on=_ON,
    ),
    BrokenScheme(
        "transactional-sink-leaving-the-rest",
        "at the end of the input the rest is committed too, before the sink says that it is over",
        Anomaly.LOST_INPUT,
        # With the rest as all that there is.
        delivering(_transactional, TornTransactions(events(1_000), Tear.REST_LEFT)),
        on=_ON,
        without_faults=True,
    ),
    BrokenScheme(
        "transactional-sink-without-filter",
        "what a crashed operator makes again is dropped by the vector of what was taken",
        Anomaly.DUPLICATE_OUTPUT,
        without(_transactional, DuplicateFilter, Role.SINK),
        on=_ON,
    ),
    BrokenScheme(
        "transactional-sink-without-fenced-store",
        "a store takes no transaction from a sink that was replaced",
        Anomaly.DUPLICATE_OUTPUT,
        unfenced(_transactional),
        on=_ON,
        kinds=("crash", "pause"),
    ),
)
