"""Structured Streaming queries."""

from __future__ import annotations

from ...faults.crash import crash
from ...harness.contracts.scenario import Scenario
from ...harness.core.guarantees import exactly_once, exactly_once_output, rollback_recovery
from ...harness.core.library import Entry
from ...harness.core.schedule import batch
from ..query_word_count import query_word_count
from ..workloads import text


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


SCENARIOS = (
    Entry("query.word-count", query_at_source_commit),
    Entry("query.word-count-after-write", query_after_write),
)
