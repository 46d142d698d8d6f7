"""A scenario that the simulator and Spark both run, and the crash addresses at which it is tried on Spark."""

from __future__ import annotations

from streamproof.harness.contracts.scenario import Scenario
from streamproof.harness.core.quantities import events
from streamproof.reference_impls.passive_replication import passive_replication
from streamproof.scenarios.word_count import word_count
from streamproof.scenarios.workloads import words


def masked_word_count() -> Scenario:
    """Its input comes slowly enough that most of it is not there yet when the channels are opened: what is offered
    before comes through in one message, and no address lies within that."""
    subject = passive_replication(word_count(), checkpoint_every=events(60), sink_filter=True)
    return Scenario(subject, words(events=600, rate=1_000))


ADDRESSES = (
    "count-0/0#1 after checkpoint-durable 2",
    "split-0/0#1 before send-issued count-1#1 @301",
    "count-0/0#1 after send-delivered sink-0#1 @158",
    "count-0/0#1 before started",
    "count-1/0#1 after started",
    "split-0/0#1 after rerouted source-0#1",
    "count-1/0#1 before rerouted split-0#1",
    "split-0/0#1 before received source-0#1 @301",
    "split-0/0#1 after received source-0#1 @201",
    "split-0/0#1 after send-handed-over count-0#1 @11",
    "split-0/0#1 after send-delivered count-1#1 @301",
    "split-0/0#1 before checkpoint-issued 3",
    "split-0/0#1 before checkpoint-durable 4",
    "split-0/0#1 after checkpoint-told 5",
    "count-0/0#1 before received split-0#1 @303",
    "count-0/0#1 after received split-0#1 @11",
    "count-0/0#1 before send-issued sink-0#1 @8",
    "count-0/0#1 before checkpoint-durable 3",
    "count-1/0#1 after send-handed-over sink-0#1 @139",
    "count-1/0#1 after checkpoint-told 2",
)
"""Twenty of the addresses that a census of the scenario gives, of every kind of point."""
