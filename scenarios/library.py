"""The scenarios that come with streamproof. Each function makes one; its first sentence is what `list` shows."""

from __future__ import annotations

from ..faults.crash import crash
from ..harness.judging.guarantees import (
    at_least_once,
    exactly_once,
    exactly_once_output,
    precise_recovery,
    recovers_within,
    rollback_recovery,
)
from ..harness.library import Entry
from ..harness.quantities import events, seconds
from ..harness.scenario import Scenario
from ..harness.schedule import batch, checkpoint, recovery
from ..reference_impls.amnesia import amnesia
from ..reference_impls.gap import gap
from ..reference_impls.passive_replication import passive_replication
from .query_word_count import query_word_count
from .trace import trace
from .word_count import word_count
from .workloads import numbered, text


def passive_replication_main() -> Scenario:
    """A counter crashes between two checkpoints; replay brings it back, and the outputs since the last one repeat."""
    return Scenario(
        subject=passive_replication(word_count(), checkpoint_every=events(5_000)),
        workload=text(events=8_000, batch=50, rate=2_000),
        faults=[crash("count-0").after(events(17_000))],
        claims=[rollback_recovery(), recovers_within(seconds(10))],
        breaks=[exactly_once_output()],
    )


def masked() -> Scenario:
    """As word-count.passive-replication, with the sink's filter on: the crash is masked."""
    return Scenario(
        subject=passive_replication(word_count(), checkpoint_every=events(500), sink_filter=True),
        workload=text(events=2_000, batch=50),
        faults=[crash("count-0").at(checkpoint(3).durable)],
        claims=[precise_recovery(), exactly_once_output()],
    )


def neighbours() -> Scenario:
    """The splitter and a counter crash at once; the source replays for one, the restored log for the other."""
    return Scenario(
        subject=passive_replication(word_count(), checkpoint_every=events(500), sink_filter=True),
        workload=text(events=2_000, batch=50),
        faults=[crash("count-0", "split-0").at(checkpoint(2).acknowledged)],
        claims=[precise_recovery()],
    )


def during_recovery() -> Scenario:
    """The splitter crashes just when the counter that it must replay for comes back."""
    return Scenario(
        subject=passive_replication(word_count(), checkpoint_every=events(500), sink_filter=True),
        workload=text(events=2_000, batch=50),
        faults=[
            crash("count-0").at(checkpoint(2).durable),
            crash("split-0").at(recovery("count-0").started),
        ],
        claims=[precise_recovery()],
    )


def gap_scenario() -> Scenario:
    """A counter crashes and nobody replays: what it loses is bounded by its checkpoint interval."""
    return Scenario(
        subject=gap(word_count(), checkpoint_every=events(500)),
        workload=text(events=2_000, batch=50, rate=2_000),
        faults=[crash("count-0").at(checkpoint(2).durable)],
        breaks=[at_least_once()],
    )


def amnesia_scenario() -> Scenario:
    """A counter crashes and starts blank: what it knew, and what came meanwhile, is gone."""
    return Scenario(
        subject=amnesia(word_count()),
        workload=text(events=2_000, batch=50, rate=2_000),
        faults=[crash("count-0").after(events(2_000))],
        breaks=[at_least_once()],
    )


def trace_masked() -> Scenario:
    """A tracer crashes under passive replication with the sink's filter; every output says which inputs made it."""
    return Scenario(
        subject=passive_replication(trace(), checkpoint_every=events(20), sink_filter=True),
        workload=numbered(),
        faults=[crash("trace-0").at(checkpoint(2).durable)],
    )


def query_at_source_commit() -> Scenario:
    """A query's driver dies when Spark commits the third batch to the source: the failure shows nowhere.

    By then that batch is in the commit log, and the fourth is only planned, in the offset log. Nothing of it has been
    given to the sink, so the driver's successor gives it for the first time.
    """
    return Scenario(
        subject=query_word_count(),
        workload=text(events=600, batch=50),
        faults=[crash("driver").at(batch(2).source_commit)],
        claims=[exactly_once(), exactly_once_output()],
    )


def query_after_write() -> Scenario:
    """A query's driver dies when the sink has taken the third batch, and Spark does not know: the batch comes again.

    It is in the offset log and not in the commit log, so the driver's successor runs it again, on the same input and
    from the state before it. Counts are right, and the sink, which takes whatever it is given, has the rows twice.
    """
    return Scenario(
        subject=query_word_count(),
        workload=text(events=600, batch=50),
        faults=[crash("driver").at(batch(2).written)],
        claims=[exactly_once(), rollback_recovery()],
        breaks=[exactly_once_output()],
    )


SCENARIOS: tuple[Entry, ...] = (
    Entry("word-count.passive-replication", passive_replication_main),
    Entry("word-count.passive-replication-masked", masked),
    Entry("word-count.neighbours-crash", neighbours),
    Entry("word-count.crash-during-recovery", during_recovery),
    Entry("word-count.gap", gap_scenario),
    Entry("word-count.amnesia", amnesia_scenario),
    Entry("trace.passive-replication", trace_masked),
    Entry("query.word-count", query_at_source_commit),
    Entry("query.word-count-after-write", query_after_write),
)
